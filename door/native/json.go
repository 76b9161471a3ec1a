package native

import (
	"encoding/json"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// In JSON, objects and subjects are strings, such as "document:1" and
// "group:eng#member", with the syntax of package rel.

// readObject reads an object.
func readObject(r *jsonread.Reader) rel.Object {
	o, err := rel.ParseObject(r.String())
	if err != nil {
		r.Fail(err.Error())
	}
	return o
}

// readSubject reads a subject.
func readSubject(r *jsonread.Reader) rel.Subject {
	s, err := rel.ParseSubject(r.String())
	if err != nil {
		r.Fail(err.Error())
	}
	return s
}

// readObjects reads a list of objects.
func readObjects(r *jsonread.Reader) (out []rel.Object) {
	for r.Array(); r.Item(); {
		out = append(out, readObject(r))
	}
	return out
}

// readTime reads a time in RFC 3339.
func readTime(r *jsonread.Reader) time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.String())
	if err != nil {
		r.Fail("invalid time: expected RFC 3339, for example 2026-01-02T15:04:05Z")
	}
	return t
}

// readExpiry reads the time when a tuple expires.
func readExpiry(r *jsonread.Reader) rel.Time {
	t, err := rel.ParseExpiry(r.String())
	if err != nil {
		r.Fail(err.Error())
	}
	return t
}

// presentFields records which required members a request has.
type presentFields struct{ object, relation, subject bool }

// require fails if one of the members is missing.
func (p presentFields) require(r *jsonread.Reader) {
	switch {
	case !p.object:
		r.Fail("object is missing")
	case !p.relation:
		r.Fail("relation is missing")
	case !p.subject:
		r.Fail("subject is missing")
	}
}

// end ends a request's body. It fails with why if one of the members is missing.
func (p presentFields) end(r *jsonread.Reader, why string) error {
	if p != (presentFields{true, true, true}) {
		r.Fail(why)
	}
	return r.End()
}

// readTuple reads a tuple. If keyOnly is true, it may only have object,
// relation and subject.
func readTuple(r *jsonread.Reader, keyOnly bool) (t rel.Tuple) {
	var p presentFields
	for r.Object(); r.Field(); {
		name := string(r.Name())
		switch {
		case name == "object":
			t.Object, p.object = readObject(r), true
		case name == "relation":
			t.Relation, p.relation = r.String(), true
		case name == "subject":
			t.Subject, p.subject = readSubject(r), true
		case name == "condition" && !keyOnly:
			t.Condition = r.String()
		case name == "context" && !keyOnly:
			t.Context = canonicalText(r, r.Values())
		case name == "expires" && !keyOnly:
			t.Expires = readExpiry(r)
		default:
			r.Unknown()
		}
	}
	if p.require(r); r.Err() == nil {
		if err := t.Validate(); err != nil {
			r.Fail(err.Error())
		}
	}
	return t
}

// canonicalText returns a value as canonical JSON.
func canonicalText(r *jsonread.Reader, v any) string {
	if r.Err() != nil {
		return ""
	}
	text, err := rel.CanonicalValue(v)
	if err != nil {
		r.Fail(err.Error())
	}
	return text
}

// readTuples reads a list of tuples. An empty list is not nil: it replaces the
// default of a batch.
func readTuples(r *jsonread.Reader) []rel.Tuple {
	out := []rel.Tuple{}
	for r.Array(); r.Item(); {
		out = append(out, readTuple(r, false))
	}
	return out
}

// readAttribute reads an attribute. If withValue is false, it must not have a
// value.
func readAttribute(r *jsonread.Reader, withValue bool) (a rel.Attribute) {
	var hasObject, hasName, hasValue bool
	for r.Object(); r.Field(); {
		switch n := string(r.Name()); {
		case n == "object":
			a.Object, hasObject = readObject(r), true
		case n == "name":
			a.Name, hasName = r.String(), true
		case n == "value" && withValue:
			a.Value, hasValue = readCanonicalValue(r), true
		default:
			r.Unknown()
		}
	}
	if !hasObject || !hasName || withValue && !hasValue {
		r.Fail("expected " + map[bool]string{true: "object, name and value", false: "object and name"}[withValue])
	}
	return a
}

// readCanonicalValue reads a value as canonical JSON. An empty object stays
// "{}".
func readCanonicalValue(r *jsonread.Reader) string {
	v := r.Value()
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return "{}"
	}
	return canonicalText(r, v)
}

// readAttributes reads a list of attributes; see readAttribute.
func readAttributes(r *jsonread.Reader, withValue bool) []rel.Attribute {
	out := []rel.Attribute{}
	for r.Array(); r.Item(); {
		out = append(out, readAttribute(r, withValue))
	}
	return out
}

// readFilter reads a filter for tuples.
func readFilter(r *jsonread.Reader) (f rel.Filter) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "object_type":
			f.ObjectType = r.String()
		case "object_id":
			f.ObjectID = r.String()
		case "relation":
			f.Relation = r.String()
		case "subject_type":
			f.SubjectType = r.String()
		case "subject_id":
			f.SubjectID = r.String()
		case "subject_relation":
			f.SubjectRelation = r.String()
		case "subject_plain":
			f.SubjectPlain = r.Bool()
		default:
			r.Unknown()
		}
	}
	if f.SubjectPlain && f.SubjectRelation != "" {
		r.Fail("expected either subject_plain or subject_relation")
	}
	return f
}

// readAt reads the revision to use: an object with exactly one member.
func readAt(r *jsonread.Reader) (a authz.Consistency) {
	n := 0
	for r.Object(); r.Field(); n++ {
		switch string(r.Name()) {
		case "minimize_latency":
			if !r.Bool() {
				r.Fail("expected true")
			}
			a = authz.MinimizeLatency()
		case "fully_consistent":
			if !r.Bool() {
				r.Fail("expected true")
			}
			a = authz.FullyConsistent()
		case "at_least":
			a = authz.AtLeast(authz.Token(r.String()))
		case "exactly":
			a = authz.AtExactly(authz.Token(r.String()))
		case "revision":
			a = authz.AtRevision(storage.Revision(r.Int(0, 1<<62)))
		case "time":
			a = authz.AtTime(readTime(r))
		default:
			r.Unknown()
		}
	}
	if n != 1 {
		r.Fail("expected one of minimize_latency, at_least, exactly, fully_consistent, revision, time")
	}
	return a
}

// readPage reads one member of a page: its limit or its cursor. It returns false
// if a page has no such member.
func readPage(r *jsonread.Reader, limit *int, cursor *string) bool {
	switch string(r.Name()) {
	case "limit":
		*limit = int(r.Int(1, 1<<30))
	case "cursor":
		*cursor = r.String()
	default:
		return false
	}
	return true
}

// readQueryOptions reads one member of the options that every query has. It
// returns false if there is no such option.
func readQueryOptions(r *jsonread.Reader, a *authz.QueryOptions) bool {
	switch string(r.Name()) {
	case "at":
		a.Consistency = readAt(r)
	case "schema":
		a.SchemaID = r.String()
	case "context":
		a.Context = r.Values()
	case "tuples":
		a.Tuples = readTuples(r)
	case "attributes":
		a.Attributes = readAttributes(r, true)
	case "bounds":
		for r.Object(); r.Field(); {
			switch string(r.Name()) {
			case "depth":
				a.Bounds.Depth = int(r.Int(1, 1<<30))
			case "nodes":
				a.Bounds.Nodes = int(r.Int(1, 1<<30))
			default:
				r.Unknown()
			}
		}
	default:
		return false
	}
	return true
}

// tupleJSON is a tuple in a response.
type tupleJSON struct {
	Object    string          `json:"object"`
	Relation  string          `json:"relation"`
	Subject   string          `json:"subject"`
	Condition string          `json:"condition,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
	Expires   *time.Time      `json:"expires,omitempty"`
	Created   *time.Time      `json:"created,omitempty"`
}

// tupleOf translates a tuple.
func tupleOf(t *rel.Tuple) tupleJSON {
	out := tupleJSON{Object: t.Object.String(), Relation: t.Relation, Subject: t.Subject.String(), Condition: t.Condition}
	if t.Context != "" {
		out.Context = json.RawMessage(t.Context)
	}
	if t.Expires != 0 {
		at := t.Expires.Time()
		out.Expires = &at
	}
	return out
}

// attributeJSON is an attribute in a response.
type attributeJSON struct {
	Object string          `json:"object"`
	Name   string          `json:"name"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// attributeOf translates an attribute.
func attributeOf(a *rel.Attribute) attributeJSON {
	out := attributeJSON{Object: a.Object.String(), Name: a.Name}
	if a.Value != "" {
		out.Value = json.RawMessage(a.Value)
	}
	return out
}

// filterJSON is a filter for tuples. An empty field matches everything.
type filterJSON struct {
	ObjectType      string `json:"object_type,omitempty"`
	ObjectID        string `json:"object_id,omitempty"`
	Relation        string `json:"relation,omitempty"`
	SubjectType     string `json:"subject_type,omitempty"`
	SubjectID       string `json:"subject_id,omitempty"`
	SubjectRelation string `json:"subject_relation,omitempty"`
	SubjectPlain    bool   `json:"subject_plain,omitempty"`
}

// reasonsJSON is why a decision is unknown.
type reasonsJSON struct {
	Missing []string `json:"missing,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Cycle   bool     `json:"cycle,omitempty"`
	Bound   string   `json:"bound,omitempty"`
}

// reasonsOf translates reasons; nil for nil.
func reasonsOf(reasons *authz.Reasons) *reasonsJSON {
	if reasons == nil {
		return nil
	}
	out := &reasonsJSON{Missing: reasons.Missing, Cycle: reasons.Cycle, Bound: reasons.Bound}
	for _, e := range reasons.Errors {
		out.Errors = append(out.Errors, e.Error())
	}
	return out
}

// undecidedJSON describes the candidates that a list could not decide.
type undecidedJSON struct {
	// Count is their number, and Some the first of them.
	Count   int          `json:"count"`
	Some    []string     `json:"some"`
	Reasons *reasonsJSON `json:"reasons,omitempty"`
}

// truthText returns "true", "false" or "unknown".
func truthText(t expr.Tristate) string { return t.String() }
