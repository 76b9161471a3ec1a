package authzen

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// search is a search as it was sent.
type search struct {
	evaluation
	token string
	limit int
	paged bool
	// digest is of everything but the token: a token goes on with its own search.
	digest string
}

// limitDefault is how many results a page has that asks for no other number,
// limitMax the most it may ask for.
const (
	limitDefault = 1000
	limitMax     = 10_000
)

func (c *call) search(n needs) (q search, err error) {
	digest := sha256.New()
	r := jsonread.New(c.body)
	q.limit = limitDefault
	for r.Object(); r.Field(); {
		switch name := string(r.Name()); name {
		case "page":
			q.page(r)
		default:
			raw := r.Raw()
			digest.Write(strconv.AppendInt(nil, int64(len(raw)), 10))
			digest.Write([]byte(name))
			digest.Write(raw)
			in := jsonread.New(raw)
			q.part(in, name)
			if err := in.End(); err != nil {
				r.Fail(err.Error())
			}
		}
	}
	if err := r.End(); err != nil {
		return q, err
	}
	digest.Write(strconv.AppendInt(nil, int64(q.limit), 10))
	q.digest = base64.RawURLEncoding.EncodeToString(digest.Sum(nil)[:9])
	return q, q.complete(n)
}

// part reads a member whose text was taken out already.
func (q *search) part(r *jsonread.Reader, name string) {
	switch name {
	case "subject":
		q.subject = readEntity(r)
	case "resource":
		q.resource = readEntity(r)
	case "action":
		q.action = readAction(r)
	case "context":
		q.context = r.Values()
	default:
		r.Skip()
	}
}

func (q *search) page(r *jsonread.Reader) {
	q.paged = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "token":
			q.token = r.String()
		case "limit":
			if q.limit = int(r.Int(0, 1<<31)); q.limit == 0 {
				q.limit = limitDefault
			}
			q.limit = min(q.limit, limitMax)
		default:
			r.Skip()
		}
	}
}

// cursor takes the engine's cursor out of a token, which must be one of this
// search.
func (q *search) cursor() (string, error) {
	if q.token == "" {
		return "", nil
	}
	digest, cursor, ok := strings.Cut(q.token, ".")
	if !ok || digest != q.digest || cursor == "" {
		return "", &refusal{http.StatusBadRequest, "page.token is not one of this search"}
	}
	return cursor, nil
}

func (q *search) next(cursor string) string {
	if cursor == "" {
		return ""
	}
	return q.digest + "." + cursor
}

// start writes what stands before the results: the page, where one was asked
// for or the results go on.
func (c *call) start(q *search, next string, count int) {
	c.out = append(c.out, '{')
	if q.paged || next != "" {
		c.out = append(c.out, `"page":{"next_token":`...)
		c.out = jsonread.AppendString(c.out, q.next(next))
		c.out = append(c.out, `,"count":`...)
		c.out = strconv.AppendInt(c.out, int64(count), 10)
		c.out = append(c.out, "},"...)
	}
	c.out = append(c.out, `"results":[`...)
}

func (c *call) entities(typ string, ids []string) {
	for i, id := range ids {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `{"type":`...)
		c.out = jsonread.AppendString(c.out, typ)
		c.out = append(c.out, `,"id":`...)
		c.out = append(jsonread.AppendString(c.out, id), '}')
	}
	c.out = append(c.out, ']')
}

// notes are what a list could not say in its results, as the answer's context.
type notes struct {
	everybody bool
	except    []string
	undecided int
	reasons   *eval.Reasons
}

// finish writes the notes, if there are any, and ends the answer.
func (c *call) finish(n notes) {
	if !n.everybody && n.undecided == 0 {
		c.out = append(c.out, '}')
		return
	}
	c.out = append(c.out, `,"context":{`...)
	if n.everybody {
		c.out = append(c.out, `"everybody":true,"except":[`...)
		for i, id := range n.except {
			if i > 0 {
				c.out = append(c.out, ',')
			}
			c.out = jsonread.AppendString(c.out, id)
		}
		c.out = append(c.out, ']')
	}
	if n.undecided > 0 {
		if n.everybody {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `"undecided":`...)
		c.out = strconv.AppendInt(c.out, int64(n.undecided), 10)
		c.out = append(c.out, `,"why":`...)
		c.out = appendReasons(c.out, n.reasons)
	}
	c.out = append(c.out, "}}"...)
}

// unknown answers a search for what the schema does not know: nothing is
// allowed.
func (c *call) unknown(err error) error {
	if !unknownName(err) {
		return err
	}
	c.out = append(c.out, `{"results":[],"context":{"error":{"status":404,"message":`...)
	c.out = append(jsonread.AppendString(c.out, text(err)), "}}}"...)
	return nil
}

func cut(bound string) error {
	if bound == "" {
		return nil
	}
	return &refusal{http.StatusInternalServerError, "the search was cut: the bound on " + bound + " was reached"}
}

// searchSubject lists who may do something.
func (c *call) searchSubject() error {
	q, err := c.search(needs{resourceID: true, action: true})
	if err != nil {
		return err
	}
	cursor, err := q.cursor()
	if err != nil {
		return err
	}
	l, err := c.store.ListSubjects(c.ctx, ostiary.ListSubjectsRequest{Object: rel.Object{Type: q.resource.Type, ID: q.resource.ID},
		Relation: q.action.name, SubjectType: q.subject.Type, Limit: q.limit, Cursor: cursor, QueryOptions: ostiary.QueryOptions{Context: q.values(c.unsent)}})
	if err != nil {
		return c.unknown(err)
	}
	if err := cut(l.Bound); err != nil {
		return err
	}
	c.start(&q, l.Next, len(l.IDs))
	c.entities(q.subject.Type, l.IDs)
	n := notes{everybody: l.Wildcard == expr.True, except: l.Excluded, undecided: l.UnknownCount, reasons: l.Reasons}
	if l.Wildcard == expr.Unknown {
		n.undecided++
	}
	c.finish(n)
	return nil
}

// searchResource lists what something may be done to.
func (c *call) searchResource() error {
	q, err := c.search(needs{subjectID: true, action: true})
	if err != nil {
		return err
	}
	cursor, err := q.cursor()
	if err != nil {
		return err
	}
	l, err := c.store.ListObjects(c.ctx, ostiary.ListObjectsRequest{Type: q.resource.Type, Relation: q.action.name,
		Subject: rel.Subject{Type: q.subject.Type, ID: q.subject.ID}, Limit: q.limit, Cursor: cursor, QueryOptions: ostiary.QueryOptions{Context: q.values(c.unsent)}})
	if err != nil {
		return c.unknown(err)
	}
	if err := cut(l.Bound); err != nil {
		return err
	}
	c.start(&q, l.Next, len(l.IDs))
	c.entities(q.resource.Type, l.IDs)
	c.finish(notes{undecided: l.UnknownCount, reasons: l.Reasons})
	return nil
}

// searchAction lists what may be done: the permissions of the resource's type
// (the relations that are computed; all of them where none is).
func (c *call) searchAction() error {
	q, err := c.search(needs{subjectID: true, resourceID: true})
	if err != nil {
		return err
	}
	position, err := q.cursor()
	if err != nil {
		return err
	}
	from, at, err := actionPosition(position)
	if err != nil {
		return err
	}
	got, err := c.store.Entitlements(c.ctx, ostiary.EntitlementsRequest{Subject: rel.Subject{Type: q.subject.Type, ID: q.subject.ID},
		Objects: []rel.Object{{Type: q.resource.Type, ID: q.resource.ID}}, Permissions: true, QueryOptions: ostiary.QueryOptions{Context: q.values(c.unsent), Consistency: at}})
	if err != nil {
		return c.unknown(err)
	}
	o := &got.Objects[0]
	if o.Err != nil {
		return c.unknown(o.Err)
	}
	var n notes
	for _, u := range o.Unknown {
		if u.Reasons != nil {
			if err := cut(u.Reasons.Bound); err != nil {
				return err
			}
		}
		n.undecided, n.reasons = n.undecided+1, u.Reasons
	}
	names := o.Relations[min(from, len(o.Relations)):]
	next := ""
	if len(names) > q.limit {
		names = names[:q.limit]
		next = strconv.Itoa(from+q.limit) + "." + string(got.Token)
	}
	c.start(&q, next, len(names))
	for i, name := range names {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `{"name":`...)
		c.out = append(jsonread.AppendString(c.out, name), '}')
	}
	c.out = append(c.out, ']')
	c.finish(n)
	return nil
}

// actionPosition reads where a page of actions begins, and at which revision:
// later pages are of the first one's.
func actionPosition(s string) (from int, at ostiary.Consistency, err error) {
	if s == "" {
		return 0, at, nil
	}
	place, token, ok := strings.Cut(s, ".")
	if from, err = strconv.Atoi(place); !ok || err != nil || from < 0 {
		return 0, at, &refusal{http.StatusBadRequest, "page.token is malformed"}
	}
	return from, ostiary.AtExactly(ostiary.Token(token)), nil
}
