package native

import (
	"strconv"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// question is a check as it is sent.
type question struct {
	ostiary.CheckRequest
	present
	// own says that it brings something besides itself.
	own bool
}

// member reads a member of a question; false is another one.
func (q *question) member(r *jsonread.Reader) bool {
	switch string(r.Name()) {
	case "object":
		q.Object, q.present.object = readObject(r), true
	case "relation":
		q.Relation, q.present.relation = r.String(), true
	case "subject":
		q.Subject, q.present.subject = readSubject(r), true
	default:
		q.own = true
		return readAsk(r, &q.QueryOptions)
	}
	return true
}

func (c *call) check() error {
	var q question
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if !q.member(r) {
			r.Unknown()
		}
	}
	q.all(r)
	if err := r.End(); err != nil {
		return err
	}
	result, err := c.store.Check(c.ctx, q.CheckRequest)
	if err != nil {
		return err
	}
	if why := result.Reasons; why != nil && why.Bound != "" {
		return reached(why.Bound)
	}
	c.out = make([]byte, 0, 128)
	c.out = append(c.out, '{')
	c.out = appendDecision(c.out, result.Decision, result.Reasons)
	c.out = append(appendRevision(c.out, result.Revision), '}')
	return nil
}

// appendDecision writes the members of a decision. What is not true is denied.
func appendDecision(out []byte, truth expr.Tristate, why *eval.Reasons) []byte {
	switch truth {
	case expr.True:
		return append(out, `"allowed":true,"truth":"true"`...)
	case expr.False:
		return append(out, `"allowed":false,"truth":"false"`...)
	}
	out = append(out, `"allowed":false,"truth":"unknown","reasons":`...)
	return appendReasons(out, why)
}

func appendRevision(out []byte, r storage.Revision) []byte {
	return strconv.AppendUint(append(out, `,"revision":`...), uint64(r), 10)
}

func appendReasons(out []byte, why *eval.Reasons) []byte {
	if why == nil {
		return append(out, "{}"...)
	}
	return appendJSON(out, reasonsOf(why))
}

func appendStrings(out []byte, list []string) []byte {
	out = append(out, '[')
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonread.AppendString(out, s)
	}
	return append(out, ']')
}

// batchMax bounds the questions that are read; the engine's own bound may be
// lower.
const batchMax = 100_000

// batch answers several questions at one revision. What stands at the top is
// for those that do not say it themselves.
func (c *call) batch() error {
	var top question
	var items []question
	own := false
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if string(r.Name()) != "questions" {
			if !readAsk(r, &top.QueryOptions) {
				r.Unknown()
			}
			continue
		}
		for r.Array(); r.Item(); {
			if len(items) == batchMax {
				r.Fail("more than " + strconv.Itoa(batchMax) + " questions")
				break
			}
			var q question
			for r.Object(); r.Field(); {
				if string(r.Name()) == "at" || !q.member(r) {
					r.Unknown()
				}
			}
			q.all(r)
			items, own = append(items, q), own || q.own
		}
	}
	if items == nil {
		r.Fail("questions are wanted")
	}
	if err := r.End(); err != nil {
		return err
	}
	results, err := c.ask(&top, items, own)
	if err != nil {
		return err
	}
	revision := storage.Revision(0)
	c.out = append(make([]byte, 0, 48*len(items)+64), `{"results":[`...)
	for i := range results {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		revision = results[i].Revision
		c.out = appendResult(c.out, &results[i])
	}
	c.out = append(appendRevision(append(c.out, ']'), revision), '}')
	return nil
}

// ask asks a batch, in the cheaper way where no item brings anything.
func (c *call) ask(top *question, items []question, own bool) ([]ostiary.CheckResult, error) {
	if !own {
		questions := make([]eval.Question, len(items))
		for i := range items {
			questions[i] = eval.Question{Object: items[i].Object, Relation: items[i].Relation, Subject: items[i].Subject}
		}
		return c.store.Batch(c.ctx, questions, top.QueryOptions)
	}
	requests := make([]ostiary.CheckRequest, len(items))
	for i := range items {
		q := &items[i]
		if q.SchemaID == "" {
			q.SchemaID = top.SchemaID
		}
		if q.Context == nil {
			q.Context = top.Context
		}
		if q.Tuples == nil {
			q.Tuples = top.Tuples
		}
		if q.Attributes == nil {
			q.Attributes = top.Attributes
		}
		if q.Bounds == (eval.Bounds{}) {
			q.Bounds = top.Bounds
		}
		requests[i] = q.CheckRequest
	}
	return c.store.CheckMany(c.ctx, requests, top.Consistency)
}

// appendResult writes one result of several: a decision or an error.
func appendResult(out []byte, r *ostiary.CheckResult) []byte {
	err := r.Err
	if err == nil && r.Reasons != nil && r.Reasons.Bound != "" {
		err = reached(r.Reasons.Bound)
	}
	if err != nil {
		out = append(out, `{"allowed":false,"error":`...)
		return append(appendJSON(out, describe(err)), '}')
	}
	return append(appendDecision(append(out, '{'), r.Decision, r.Reasons), '}')
}

// entitlements answers objects × relations for one subject.
func (c *call) entitlements() error {
	var q ostiary.EntitlementsRequest
	subject := false
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "subject":
			q.Subject, subject = readSubject(r), true
		case "objects":
			q.Objects = readObjects(r)
		case "relations":
			q.Relations = r.Strings()
		case "permissions":
			q.Permissions = r.Bool()
		default:
			if !readAsk(r, &q.QueryOptions) {
				r.Unknown()
			}
		}
	}
	if !subject || q.Objects == nil {
		r.Fail("subject and objects are wanted")
	}
	if err := r.End(); err != nil {
		return err
	}
	got, err := c.store.Entitlements(c.ctx, q)
	if err != nil {
		return err
	}
	c.out = append(make([]byte, 0, 64*len(got.Objects)+1024), `{"objects":[`...)
	for i := range got.Objects {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendEntitlements(c.out, &got.Objects[i])
	}
	c.out = appendRevision(append(c.out, ']'), got.Revision)
	c.out = append(c.out, `,"token":`...)
	c.out = append(jsonread.AppendString(c.out, string(got.Token)), '}')
	return nil
}

func appendEntitlements(out []byte, o *ostiary.ObjectEntitlements) []byte {
	out = append(out, `{"object":`...)
	out = jsonread.AppendString(out, o.Object.String())
	if o.Err != nil {
		out = append(out, `,"relations":[],"error":`...)
		return append(appendJSON(out, describe(o.Err)), '}')
	}
	out = append(out, `,"relations":`...)
	out = appendStrings(out, o.Relations)
	for i, u := range o.Unknown {
		if i == 0 {
			out = append(out, `,"undecided":[`...)
		} else {
			out = append(out, ',')
		}
		out = append(out, `{"relation":`...)
		out = jsonread.AppendString(out, u.Relation)
		out = append(out, `,"reasons":`...)
		out = append(appendReasons(out, u.Reasons), '}')
	}
	if len(o.Unknown) > 0 {
		out = append(out, ']')
	}
	return append(out, '}')
}

// lists are what both lists may say besides their question.
type listed struct {
	Next      string         `json:"next"`
	Undecided *undecidedJSON `json:"undecided,omitempty"`
	// Cut names the bound that cut the search short.
	Cut      string `json:"cut,omitempty"`
	Revision uint64 `json:"revision"`
}

func undecidedOf(typ, relation string, some []string, count int, why *eval.Reasons) *undecidedJSON {
	if count == 0 {
		return nil
	}
	return &undecidedJSON{Count: count, Some: named(typ, relation, some), Reasons: reasonsOf(why)}
}

// named makes texts of ids.
func named(typ, relation string, ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = rel.Subject{Type: typ, ID: id, Relation: relation}.String()
	}
	return out
}

func (c *call) listObjects() error {
	var q ostiary.ListObjectsRequest
	var p present
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "type":
			q.Type, p.object = r.String(), true
		case "relation":
			q.Relation, p.relation = r.String(), true
		case "subject":
			q.Subject, p.subject = readSubject(r), true
		case "limit":
			q.Limit = int(r.Int(1, 1<<30))
		case "cursor":
			q.Cursor = r.String()
		default:
			if !readAsk(r, &q.QueryOptions) {
				r.Unknown()
			}
		}
	}
	if p != (present{true, true, true}) {
		r.Fail("type, relation and subject are wanted")
	}
	if err := r.End(); err != nil {
		return err
	}
	l, err := c.store.ListObjects(c.ctx, q)
	if err != nil {
		return err
	}
	return c.json(struct {
		Objects []string `json:"objects"`
		listed
	}{named(q.Type, "", l.IDs), listed{l.Next, undecidedOf(q.Type, "", l.Unknown, l.UnknownCount, l.Reasons), l.Bound, uint64(l.Revision)}})
}

func (c *call) listSubjects() error {
	var q ostiary.ListSubjectsRequest
	var p present
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "object":
			q.Object, p.object = readObject(r), true
		case "relation":
			q.Relation, p.relation = r.String(), true
		case "subject_type":
			q.SubjectType, p.subject = r.String(), true
		case "subject_relation":
			q.SubjectRelation = r.String()
		case "limit":
			q.Limit = int(r.Int(1, 1<<30))
		case "cursor":
			q.Cursor = r.String()
		default:
			if !readAsk(r, &q.QueryOptions) {
				r.Unknown()
			}
		}
	}
	if p != (present{true, true, true}) {
		r.Fail("object, relation and subject_type are wanted")
	}
	if err := r.End(); err != nil {
		return err
	}
	l, err := c.store.ListSubjects(c.ctx, q)
	if err != nil {
		return err
	}
	return c.json(struct {
		Subjects  []string `json:"subjects"`
		Everybody string   `json:"everybody"`
		Except    []string `json:"except,omitempty"`
		listed
	}{named(q.SubjectType, q.SubjectRelation, l.IDs), truthOf(l.Wildcard), named(q.SubjectType, q.SubjectRelation, l.Excluded),
		listed{l.Next, undecidedOf(q.SubjectType, q.SubjectRelation, l.Unknown, l.UnknownCount, l.Reasons), l.Bound, uint64(l.Revision)}})
}
