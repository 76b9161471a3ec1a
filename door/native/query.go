package native

import (
	"strconv"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// question is a check as a client sends it.
type question struct {
	authz.CheckRequest
	presentFields
}

// readMember reads one member of a question. It returns false if a question has
// no such member.
func (q *question) readMember(r *jsonread.Reader) bool {
	switch string(r.Name()) {
	case "object":
		q.Object, q.presentFields.object = readObject(r), true
	case "relation":
		q.Relation, q.presentFields.relation = r.String(), true
	case "subject":
		q.Subject, q.presentFields.subject = readSubject(r), true
	default:
		return readQueryOptions(r, &q.QueryOptions)
	}
	return true
}

// check serves Check.
func (c *call) check() error {
	var q question
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if !q.readMember(r) {
			r.Unknown()
		}
	}
	q.require(r)
	if err := r.End(); err != nil {
		return err
	}
	result, err := c.store.Check(c.Context(), q.CheckRequest)
	if err != nil {
		return err
	}
	if reasons := result.Reasons; reasons != nil && reasons.Bound != "" {
		return boundReached(reasons.Bound)
	}
	c.out = make([]byte, 0, 128)
	c.out = append(c.out, '{')
	c.out = appendDecision(c.out, result.Decision, result.Reasons)
	c.out = append(appendRevision(c.out, result.Revision), '}')
	return nil
}

// appendDecision appends the members of a decision. An unknown decision is
// denied, with its reasons.
func appendDecision(out []byte, d expr.Tristate, reasons *authz.Reasons) []byte {
	switch d {
	case expr.True:
		return append(out, `"allowed":true,"truth":"true"`...)
	case expr.False:
		return append(out, `"allowed":false,"truth":"false"`...)
	}
	out = append(out, `"allowed":false,"truth":"unknown","reasons":`...)
	return appendReasons(out, reasons)
}

// appendRevision appends the member "revision".
func appendRevision(out []byte, r storage.Revision) []byte {
	return strconv.AppendUint(append(out, `,"revision":`...), uint64(r), 10)
}

// appendReasons appends the reasons of an undecided check as a JSON object.
func appendReasons(out []byte, reasons *authz.Reasons) []byte {
	if reasons == nil {
		return append(out, "{}"...)
	}
	return appendJSON(out, reasonsOf(reasons))
}

// appendStrings appends a JSON array of strings.
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

// batchMax bounds the questions of a request. The engine's own bound may be
// lower.
const batchMax = 100_000

// batch serves Batch: several questions at one revision. Options at the top
// level are defaults for all questions.
func (c *call) batch() error {
	var top question
	var items []question
	most := c.service.engine.Bounds().BatchItems
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if string(r.Name()) != "questions" {
			if !readQueryOptions(r, &top.QueryOptions) {
				r.Unknown()
			}
			continue
		}
		for r.Array(); r.Item(); {
			if len(items) == most { // the rest is not read
				return &authz.BoundError{Name: "BatchItems", Max: int64(most), Got: int64(most + 1)}
			}
			var q question
			for r.Object(); r.Field(); {
				if string(r.Name()) == "at" || !q.readMember(r) {
					r.Unknown()
				}
			}
			q.require(r)
			items = append(items, q)
		}
	}
	if items == nil {
		r.Fail("questions is missing")
	}
	if err := r.End(); err != nil {
		return err
	}
	results, err := c.checkItems(&top, items)
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

// checkItems evaluates the questions of a batch. Options that a question lacks
// are those of the request.
func (c *call) checkItems(top *question, items []question) ([]authz.CheckResult, error) {
	requests := make([]authz.CheckRequest, len(items))
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
		if q.Bounds == (authz.QuestionBounds{}) {
			q.Bounds = top.Bounds
		}
		requests[i] = q.CheckRequest
	}
	return c.store.CheckBatch(c.Context(), requests, top.Consistency)
}

// appendResult appends one result of several: a decision or an error.
func appendResult(out []byte, r *authz.CheckResult) []byte {
	err := r.Err
	if err == nil && r.Reasons != nil && r.Reasons.Bound != "" {
		err = boundReached(r.Reasons.Bound)
	}
	if err != nil {
		out = append(out, `{"allowed":false,"error":`...)
		return append(appendJSON(out, describe(err)), '}')
	}
	return append(appendDecision(append(out, '{'), r.Decision, r.Reasons), '}')
}

// entitlements serves Entitlements: which relations one subject has on each of
// several objects.
func (c *call) entitlements() error {
	var q authz.EntitlementsRequest
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
			if !readQueryOptions(r, &q.QueryOptions) {
				r.Unknown()
			}
		}
	}
	if !subject || q.Objects == nil {
		r.Fail("expected subject and objects")
	}
	if err := r.End(); err != nil {
		return err
	}
	result, err := c.store.Entitlements(c.Context(), q)
	if err != nil {
		return err
	}
	c.out = append(make([]byte, 0, 64*len(result.Objects)+1024), `{"objects":[`...)
	for i := range result.Objects {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendEntitlements(c.out, &result.Objects[i])
	}
	c.out = appendRevision(append(c.out, ']'), result.Revision)
	c.out = append(c.out, `,"token":`...)
	c.out = append(jsonread.AppendString(c.out, string(result.Token)), '}')
	return nil
}

// appendEntitlements appends the result for one object.
func appendEntitlements(out []byte, o *authz.ObjectEntitlements) []byte {
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

// listJSON is the part that the responses of both lists share.
type listJSON struct {
	// Next is the cursor of the next page; "" after the last one.
	Next string `json:"next"`
	// Undecided is nil if everything was decided.
	Undecided *undecidedJSON `json:"undecided,omitempty"`
	// Cut is the bound that ended the search early; "" if none did.
	Cut      string `json:"cut,omitempty"`
	Revision uint64 `json:"revision"`
}

// undecidedOf describes the candidates that a list could not decide.
func undecidedOf(typ, relation string, ids []string, count int, reasons *authz.Reasons) *undecidedJSON {
	if count == 0 {
		return nil
	}
	return &undecidedJSON{Count: count, Some: subjectTexts(typ, relation, ids), Reasons: reasonsOf(reasons)}
}

// subjectTexts returns the texts of subjects with the given ids.
func subjectTexts(typ, relation string, ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = rel.Subject{Type: typ, ID: id, Relation: relation}.String()
	}
	return out
}

// listObjects serves ListObjects.
func (c *call) listObjects() error {
	var q authz.ListObjectsRequest
	var p presentFields
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "type":
			q.Type, p.object = r.String(), true
		case "relation":
			q.Relation, p.relation = r.String(), true
		case "subject":
			q.Subject, p.subject = readSubject(r), true
		default:
			if !readPage(r, &q.Limit, &q.Cursor) && !readQueryOptions(r, &q.QueryOptions) {
				r.Unknown()
			}
		}
	}
	if err := p.end(r, "expected type, relation and subject"); err != nil {
		return err
	}
	l, err := c.store.ListObjects(c.Context(), q)
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Objects []string `json:"objects"`
		listJSON
	}{subjectTexts(q.Type, "", l.IDs), listJSON{l.Next, undecidedOf(q.Type, "", l.Unknown, l.UnknownCount, l.Reasons), l.Bound, uint64(l.Revision)}})
}

// listSubjects serves ListSubjects.
func (c *call) listSubjects() error {
	var q authz.ListSubjectsRequest
	var p presentFields
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
		default:
			if !readPage(r, &q.Limit, &q.Cursor) && !readQueryOptions(r, &q.QueryOptions) {
				r.Unknown()
			}
		}
	}
	if err := p.end(r, "expected object, relation and subject_type"); err != nil {
		return err
	}
	l, err := c.store.ListSubjects(c.Context(), q)
	if err != nil {
		return err
	}
	return c.setJSON(struct {
		Subjects  []string `json:"subjects"`
		Everybody string   `json:"everybody"`
		Except    []string `json:"except,omitempty"`
		listJSON
	}{subjectTexts(q.SubjectType, q.SubjectRelation, l.IDs), truthText(l.Wildcard), subjectTexts(q.SubjectType, q.SubjectRelation, l.Excluded),
		listJSON{l.Next, undecidedOf(q.SubjectType, q.SubjectRelation, l.Unknown, l.UnknownCount, l.Reasons), l.Bound, uint64(l.Revision)}})
}
