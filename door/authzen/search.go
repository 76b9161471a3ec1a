package authzen

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/rel"
)

// search is a decoded search.
type search struct {
	evaluation
	// cursor is the engine's cursor from page.token; "" starts at the beginning.
	cursor string
	// limit bounds the results of the page.
	limit int
	// paged is true if the request has a page.
	paged bool
	// digest identifies the request without its token. A token contains it, so
	// that a token of another search is rejected.
	digest string
}

const (
	// limitDefault is the page size if the request sets none.
	limitDefault = 1000
	// limitMax is the largest page size. A larger one is reduced to it.
	limitMax = 10_000
)

// readSearch decodes a search and checks that it has the required parts.
func (c *call) readSearch(n requiredParts) (q search, err error) {
	digest := sha256.New()
	r := jsonread.New(c.body)
	q.limit = limitDefault
	token := ""
	for r.Object(); r.Field(); {
		switch name := string(r.Name()); name {
		case "page":
			token = q.readPage(r)
		default:
			raw := r.Raw()
			digest.Write(strconv.AppendInt(nil, int64(len(raw)), 10))
			digest.Write([]byte(name))
			digest.Write(raw)
			in := jsonread.New(raw)
			if !q.readMember([]byte(name), in) {
				in.Skip()
			}
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
	if err := q.checkParts(n); err != nil {
		return q, err
	}
	return q, q.setCursor(token)
}

// readPage reads the page of a request and returns its token.
func (q *search) readPage(r *jsonread.Reader) (token string) {
	q.paged = true
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "token":
			token = r.String()
		case "limit":
			if q.limit = int(r.Int(0, 1<<31)); q.limit == 0 {
				q.limit = limitDefault
			}
			q.limit = min(q.limit, limitMax)
		default:
			r.Skip()
		}
	}
	return token
}

// setCursor sets the cursor from a token. It fails if the token belongs to
// another search.
func (q *search) setCursor(token string) error {
	if token == "" {
		return nil
	}
	digest, cursor, ok := strings.Cut(token, ".")
	if !ok || digest != q.digest || cursor == "" {
		return &requestError{http.StatusBadRequest, "page.token does not belong to this search"}
	}
	q.cursor = cursor
	return nil
}

// nextToken returns the token for the engine's cursor of the next page; "" for
// "".
func (q *search) nextToken(cursor string) string {
	if cursor == "" {
		return ""
	}
	return q.digest + "." + cursor
}

// writeStart writes the response up to the results. It includes the page if the
// request has one or if more results follow.
func (c *call) writeStart(q *search, next string, count int) {
	c.out = append(c.out, '{')
	if q.paged || next != "" {
		c.out = append(c.out, `"page":{"next_token":`...)
		c.out = jsonread.AppendString(c.out, q.nextToken(next))
		c.out = append(c.out, `,"count":`...)
		c.out = strconv.AppendInt(c.out, int64(count), 10)
		c.out = append(c.out, "},"...)
	}
	c.out = append(c.out, `"results":[`...)
}

// writeEntities writes the results of a search for subjects or resources.
func (c *call) writeEntities(typ string, ids []string) {
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

// searchContext is the context of a search's response.
type searchContext struct {
	// everyone is true if all subjects of the type are allowed, except for those
	// in except.
	everyone bool
	except   []string
	// undecided is the number of candidates that could not be decided, and
	// reasons the reasons for one of them.
	undecided int
	reasons   *authz.Reasons
}

// writeEnd writes the context, unless it is empty, and ends the response.
func (c *call) writeEnd(n searchContext) {
	if !n.everyone && n.undecided == 0 {
		c.out = append(c.out, '}')
		return
	}
	c.out = append(c.out, `,"context":{`...)
	if n.everyone {
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
		if n.everyone {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `"undecided":`...)
		c.out = strconv.AppendInt(c.out, int64(n.undecided), 10)
		c.out = append(c.out, `,"why":`...)
		c.out = appendReasons(c.out, n.reasons)
	}
	c.out = append(c.out, "}}"...)
}

// writeUnknownName writes an empty response with an error in the context if the
// schema lacks the request's type or action. It returns any other error.
func (c *call) writeUnknownName(err error) error {
	if !isUnknownName(err) {
		return err
	}
	c.out = append(c.out, `{"results":[],"context":{"error":{"status":404,"message":`...)
	c.out = append(jsonread.AppendString(c.out, door.ShortText(errorText(err))), "}}}"...)
	return nil
}

// boundError returns an error if a search reached a bound.
func boundError(bound string) error {
	if bound == "" {
		return nil
	}
	return &requestError{http.StatusInternalServerError, "the search is incomplete: it reached the bound on " + bound}
}

// serveSearchSubject serves the subject search API: who may perform an action on
// a resource?
func (c *call) serveSearchSubject() error {
	q, err := c.readSearch(requiredParts{resourceID: true, action: true})
	if err != nil {
		return err
	}
	if c.domain != nil {
		return c.searchByPolicy(&q, policy.CategorySubject)
	}
	l, err := c.store.ListSubjects(c.Context(), authz.ListSubjectsRequest{Object: rel.Object{Type: q.resource.Type, ID: q.resource.ID},
		Relation: q.action.name, SubjectType: q.subject.Type, Limit: q.limit, Cursor: q.cursor, QueryOptions: authz.QueryOptions{Context: q.params(c.emptyParams)}})
	if err != nil {
		return c.writeUnknownName(err)
	}
	if err := boundError(l.Bound); err != nil {
		return err
	}
	c.writeStart(&q, l.Next, len(l.IDs))
	c.writeEntities(q.subject.Type, l.IDs)
	n := searchContext{everyone: l.Wildcard == expr.True, except: l.Excluded, undecided: l.UnknownCount, reasons: l.Reasons}
	if l.Wildcard == expr.Unknown {
		n.undecided++
	}
	c.writeEnd(n)
	return nil
}

// serveSearchResource serves the resource search API: on which resources may a
// subject perform an action?
func (c *call) serveSearchResource() error {
	q, err := c.readSearch(requiredParts{subjectID: true, action: true})
	if err != nil {
		return err
	}
	if c.domain != nil {
		return c.searchByPolicy(&q, policy.CategoryResource)
	}
	l, err := c.store.ListObjects(c.Context(), authz.ListObjectsRequest{Type: q.resource.Type, Relation: q.action.name,
		Subject: rel.Subject{Type: q.subject.Type, ID: q.subject.ID}, Limit: q.limit, Cursor: q.cursor, QueryOptions: authz.QueryOptions{Context: q.params(c.emptyParams)}})
	if err != nil {
		return c.writeUnknownName(err)
	}
	if err := boundError(l.Bound); err != nil {
		return err
	}
	c.writeStart(&q, l.Next, len(l.IDs))
	c.writeEntities(q.resource.Type, l.IDs)
	c.writeEnd(searchContext{undecided: l.UnknownCount, reasons: l.Reasons})
	return nil
}

// serveSearchAction serves the action search API: which actions may a subject
// perform on a resource? The actions of a type are its computed relations, or
// all its relations if none is computed.
func (c *call) serveSearchAction() error {
	q, err := c.readSearch(requiredParts{subjectID: true, resourceID: true})
	if err != nil {
		return err
	}
	if c.domain != nil {
		return c.searchByPolicy(&q, policy.CategoryAction)
	}
	start, consistency, err := actionPosition(q.cursor)
	if err != nil {
		return err
	}
	result, err := c.store.Entitlements(c.Context(), authz.EntitlementsRequest{Subject: rel.Subject{Type: q.subject.Type, ID: q.subject.ID},
		Objects: []rel.Object{{Type: q.resource.Type, ID: q.resource.ID}}, Permissions: true, QueryOptions: authz.QueryOptions{Context: q.params(c.emptyParams), Consistency: consistency}})
	if err != nil {
		return c.writeUnknownName(err)
	}
	o := &result.Objects[0]
	if o.Err != nil {
		return c.writeUnknownName(o.Err)
	}
	var n searchContext
	for _, u := range o.Unknown {
		if u.Reasons != nil {
			if err := boundError(u.Reasons.Bound); err != nil {
				return err
			}
		}
		n.undecided, n.reasons = n.undecided+1, u.Reasons
	}
	names := o.Relations[min(start, len(o.Relations)):]
	next := ""
	if len(names) > q.limit {
		names = names[:q.limit]
		next = strconv.Itoa(start+q.limit) + "." + string(result.Token)
	}
	c.writeStart(&q, next, len(names))
	c.writeActions(names)
	c.writeEnd(n)
	return nil
}

// actionPosition parses the cursor of a search for actions: the index of the
// page's first action, and the revision of the first page.
func actionPosition(cursor string) (start int, consistency authz.Consistency, err error) {
	if cursor == "" {
		return 0, consistency, nil
	}
	index, token, ok := strings.Cut(cursor, ".")
	if start, err = strconv.Atoi(index); !ok || err != nil || start < 0 {
		return 0, consistency, &requestError{http.StatusBadRequest, "page.token is malformed"}
	}
	return start, authz.AtExactly(authz.Token(token)), nil
}
