package native

import (
	"encoding/json"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Objects and subjects are texts on the wire, "document:1", "group:eng#member",
// as rel reads and prints them.

func readObject(r *jsonread.Reader) rel.Object {
	o, err := rel.ParseObject(r.String())
	if err != nil {
		r.Fail(err.Error())
	}
	return o
}

func readSubject(r *jsonread.Reader) rel.Subject {
	s, err := rel.ParseSubject(r.String())
	if err != nil {
		r.Fail(err.Error())
	}
	return s
}

func readObjects(r *jsonread.Reader) (out []rel.Object) {
	for r.Array(); r.Item(); {
		out = append(out, readObject(r))
	}
	return out
}

func readTime(r *jsonread.Reader) time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.String())
	if err != nil {
		r.Fail("a time is wanted, as RFC 3339 writes it")
	}
	return t
}

func readExpiry(r *jsonread.Reader) rel.Time {
	t, err := rel.ParseExpiry(r.String())
	if err != nil {
		r.Fail(err.Error())
	}
	return t
}

// present reads strings that must not be left out.
type present struct{ object, relation, subject bool }

func (p present) all(r *jsonread.Reader) {
	switch {
	case !p.object:
		r.Fail("object is missing")
	case !p.relation:
		r.Fail("relation is missing")
	case !p.subject:
		r.Fail("subject is missing")
	}
}

// readTuple reads a tuple; a key is one without the rest.
func readTuple(r *jsonread.Reader, key bool) (t rel.Tuple) {
	var p present
	for r.Object(); r.Field(); {
		name := string(r.Name())
		switch {
		case name == "object":
			t.Object, p.object = readObject(r), true
		case name == "relation":
			t.Relation, p.relation = r.String(), true
		case name == "subject":
			t.Subject, p.subject = readSubject(r), true
		case name == "condition" && !key:
			t.Condition = r.String()
		case name == "context" && !key:
			t.Context = canonical(r, r.Values())
		case name == "expires" && !key:
			t.Expires = readExpiry(r)
		default:
			r.Unknown()
		}
	}
	if p.all(r); r.Err() == nil {
		if err := t.Validate(); err != nil {
			r.Fail(err.Error())
		}
	}
	return t
}

func canonical(r *jsonread.Reader, v any) string {
	if r.Err() != nil {
		return ""
	}
	text, err := rel.CanonicalValue(v)
	if err != nil {
		r.Fail(err.Error())
	}
	return text
}

// readTuples reads a list; an empty one is not nil, since it may stand against
// another one.
func readTuples(r *jsonread.Reader) []rel.Tuple {
	out := []rel.Tuple{}
	for r.Array(); r.Item(); {
		out = append(out, readTuple(r, false))
	}
	return out
}

// readAttribute reads an attribute; without a value it is its name.
func readAttribute(r *jsonread.Reader, value bool) (a rel.Attribute) {
	var object, name, has bool
	for r.Object(); r.Field(); {
		switch n := string(r.Name()); {
		case n == "object":
			a.Object, object = readObject(r), true
		case n == "name":
			a.Name, name = r.String(), true
		case n == "value" && value:
			a.Value, has = canonicalAny(r), true
		default:
			r.Unknown()
		}
	}
	if !object || !name || value && !has {
		r.Fail("an attribute has object, name and value")
	}
	return a
}

// canonicalAny reads any value as text; an empty object stays one.
func canonicalAny(r *jsonread.Reader) string {
	v := r.Value()
	if m, ok := v.(map[string]any); ok && len(m) == 0 {
		return "{}"
	}
	return canonical(r, v)
}

func readAttributes(r *jsonread.Reader, value bool) []rel.Attribute {
	out := []rel.Attribute{}
	for r.Array(); r.Item(); {
		out = append(out, readAttribute(r, value))
	}
	return out
}

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
		r.Fail("subject_plain and subject_relation exclude each other")
	}
	return f
}

// readAt reads which revision is asked: one member of an object.
func readAt(r *jsonread.Reader) (a ostiary.Consistency) {
	n := 0
	for r.Object(); r.Field(); n++ {
		switch string(r.Name()) {
		case "minimize_latency":
			if !r.Bool() {
				r.Fail("true is wanted")
			}
		case "fully_consistent":
			if !r.Bool() {
				r.Fail("true is wanted")
			}
			a = ostiary.FullyConsistent()
		case "at_least":
			a = ostiary.AtLeast(ostiary.Token(r.String()))
		case "exactly":
			a = ostiary.AtExactly(ostiary.Token(r.String()))
		case "revision":
			a = ostiary.AtRevision(storage.Revision(r.Int(0, 1<<62)))
		case "time":
			a = ostiary.AtTime(readTime(r))
		default:
			r.Unknown()
		}
	}
	if n != 1 {
		r.Fail("one of minimize_latency, at_least, exactly, fully_consistent, revision, time is wanted")
	}
	return a
}

// readAsk reads a member that every question may have; false is another one.
func readAsk(r *jsonread.Reader, a *ostiary.QueryOptions) bool {
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

// tupleJSON is a tuple in an answer.
type tupleJSON struct {
	Object    string          `json:"object"`
	Relation  string          `json:"relation"`
	Subject   string          `json:"subject"`
	Condition string          `json:"condition,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
	Expires   *time.Time      `json:"expires,omitempty"`
	Created   *time.Time      `json:"created,omitempty"`
}

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

type attributeJSON struct {
	Object string          `json:"object"`
	Name   string          `json:"name"`
	Value  json.RawMessage `json:"value,omitempty"`
}

func attributeOf(a *rel.Attribute) attributeJSON {
	out := attributeJSON{Object: a.Object.String(), Name: a.Name}
	if a.Value != "" {
		out.Value = json.RawMessage(a.Value)
	}
	return out
}

type filterJSON struct {
	ObjectType      string `json:"object_type,omitempty"`
	ObjectID        string `json:"object_id,omitempty"`
	Relation        string `json:"relation,omitempty"`
	SubjectType     string `json:"subject_type,omitempty"`
	SubjectID       string `json:"subject_id,omitempty"`
	SubjectRelation string `json:"subject_relation,omitempty"`
	SubjectPlain    bool   `json:"subject_plain,omitempty"`
}

// reasonsJSON says why something is undecided.
type reasonsJSON struct {
	Missing []string `json:"missing,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Cycle   bool     `json:"cycle,omitempty"`
	Bound   string   `json:"bound,omitempty"`
}

func reasonsOf(why *eval.Reasons) *reasonsJSON {
	if why == nil {
		return nil
	}
	out := &reasonsJSON{Missing: why.Missing, Cycle: why.Cycle, Bound: why.Bound}
	for _, e := range why.Errors {
		out.Errors = append(out.Errors, e.Error())
	}
	return out
}

// undecidedJSON counts what a list could not decide, and names the first.
type undecidedJSON struct {
	Count   int          `json:"count"`
	Some    []string     `json:"some"`
	Reasons *reasonsJSON `json:"reasons,omitempty"`
}

func truthOf(t expr.Tristate) string { return t.String() }
