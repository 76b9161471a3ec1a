package client

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// At chooses a revision. At most one field is set; without one it is the newest
// revision.
type At struct {
	// Exactly is the token of the revision.
	Exactly string `json:"exactly,omitempty"`
	// AtLeast is the token of a revision that the answer must not be older than.
	AtLeast string `json:"at_least,omitempty"`
	// Revision is the number of the revision.
	Revision *uint64 `json:"revision,omitempty"`
	// Time is a time in RFC 3339: the newest revision at that time.
	Time string `json:"time,omitempty"`
}

// MarshalJSON returns the form of the API.
func (a At) MarshalJSON() ([]byte, error) {
	if a == (At{}) {
		return []byte(`{"minimize_latency":true}`), nil
	}
	type plain At
	return json.Marshal(plain(a))
}

// Query is what all questions have in common.
type Query struct {
	// At is the revision; nil is the newest one.
	At *At `json:"at,omitempty"`
	// Schema is the id of the schema; "" is the current one.
	Schema string `json:"schema,omitempty"`
	// Context has the parameters of conditions.
	Context map[string]any `json:"context,omitempty"`
	// Tuples count for this question only.
	Tuples []Tuple `json:"tuples,omitempty"`
}

// Tuple is a tuple, or its key.
type Tuple struct {
	Object    string          `json:"object"`
	Relation  string          `json:"relation"`
	Subject   string          `json:"subject"`
	Condition string          `json:"condition,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`
	Expires   *time.Time      `json:"expires,omitempty"`
	// Created is the time of the write, in responses of [Store.Read]; nil if it is not
	// known.
	Created *time.Time `json:"created,omitempty"`
}

// TupleOf returns a tuple of the engine in the form of the API.
func TupleOf(t rel.Tuple) Tuple {
	out := Tuple{Object: t.Object.String(), Relation: t.Relation, Subject: t.Subject.String(), Condition: t.Condition}
	if t.Context != "" {
		out.Context = json.RawMessage(t.Context)
	}
	if t.Expires != 0 {
		at := t.Expires.Time()
		out.Expires = &at
	}
	return out
}

// TuplesOf returns tuples of the engine in the form of the API.
func TuplesOf(tuples ...rel.Tuple) []Tuple {
	out := make([]Tuple, len(tuples))
	for i, t := range tuples {
		out[i] = TupleOf(t)
	}
	return out
}

// Tuple returns the tuple in the engine's form. It fails if a name or the context is
// malformed.
func (t *Tuple) Tuple() (out rel.Tuple, err error) {
	if out.Subject, err = rel.ParseSubject(t.Subject); err != nil {
		return out, err
	}
	if out.Object, err = rel.ParseObject(t.Object); err != nil {
		return out, err
	}
	out.Relation, out.Condition = t.Relation, t.Condition
	if len(t.Context) > 0 {
		if out.Context, err = rel.Canonical(t.Context); err != nil {
			return out, err
		}
	}
	if t.Expires != nil {
		out.Expires = rel.TimeOf(*t.Expires)
	}
	return out, out.Validate()
}

// Attribute is an attribute of an object.
type Attribute struct {
	Object string          `json:"object"`
	Name   string          `json:"name"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// Filter selects tuples. An empty field matches everything.
type Filter struct {
	ObjectType      string `json:"object_type,omitempty"`
	ObjectID        string `json:"object_id,omitempty"`
	Relation        string `json:"relation,omitempty"`
	SubjectType     string `json:"subject_type,omitempty"`
	SubjectID       string `json:"subject_id,omitempty"`
	SubjectRelation string `json:"subject_relation,omitempty"`
	// SubjectPlain selects subjects without a relation.
	SubjectPlain bool `json:"subject_plain,omitempty"`
}

// StoreInfo is a store.
type StoreInfo struct {
	ID      string            `json:"id"`
	Name    string            `json:"name"`
	Created time.Time         `json:"created"`
	Aliases map[string]string `json:"aliases"`
	// Revision, Token and Schema are the newest revision and the current schema. They
	// and Limits are set by [Store.Get].
	Revision *uint64       `json:"revision"`
	Token    string        `json:"token"`
	Schema   string        `json:"schema"`
	Limits   *turns.Limits `json:"limits"`
}

// NewStore is a store to create.
type NewStore struct {
	// ID is a ULID; "" is a new one.
	ID      string            `json:"id,omitempty"`
	Name    string            `json:"name"`
	Aliases map[string]string `json:"aliases,omitempty"`
}

// SchemaInfo is a schema. Dialect, Source and Model are set by [Store.Schema].
type SchemaInfo struct {
	ID        string        `json:"id"`
	Namespace string        `json:"namespace"`
	Created   time.Time     `json:"created"`
	Revision  uint64        `json:"revision"`
	Dialect   string        `json:"dialect"`
	Source    string        `json:"source"`
	Model     *schema.Model `json:"model"`
}

// NewSchema is a schema to write: either a model, or a dialect and its source.
type NewSchema struct {
	// ID is a ULID; "" is a new one.
	ID        string        `json:"id,omitempty"`
	Namespace string        `json:"namespace,omitempty"`
	Dialect   string        `json:"dialect,omitempty"`
	Source    string        `json:"source,omitempty"`
	Model     *schema.Model `json:"model,omitempty"`
}

// Question is a check.
type Question struct {
	Object   string `json:"object"`
	Relation string `json:"relation"`
	Subject  string `json:"subject"`
	Query
}

// Decision is the answer to a check. Truth is "true", "false" or "unknown".
type Decision struct {
	Allowed  bool     `json:"allowed"`
	Truth    string   `json:"truth"`
	Reasons  *Reasons `json:"reasons"`
	Revision uint64   `json:"revision"`
}

// Reasons are why a decision is unknown.
type Reasons struct {
	// Missing names the parameters that are missing.
	Missing []string `json:"missing"`
	// Errors are the errors of conditions.
	Errors []string `json:"errors"`
	// Cycle is true if the answer depends on its own negation.
	Cycle bool `json:"cycle"`
	// Bound names the bound that was reached.
	Bound string `json:"bound"`
}

// String formats the reasons on one line.
func (r *Reasons) String() string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.Bound != "" {
		parts = append(parts, "bound reached: "+r.Bound)
	}
	parts = append(parts, r.Errors...)
	if len(r.Missing) > 0 {
		parts = append(parts, "missing context: "+strings.Join(r.Missing, ", "))
	}
	if r.Cycle {
		parts = append(parts, "cycle through exclusion")
	}
	return strings.Join(parts, ", ")
}

// Page selects a page of a list.
type Page struct {
	// Limit is the largest number of results; 0 is the server's default.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the page before; "" is the first page.
	Cursor string `json:"cursor,omitempty"`
}

// ListObjects asks for the objects of a type that a subject has a relation on.
type ListObjects struct {
	Type     string `json:"type"`
	Relation string `json:"relation"`
	Subject  string `json:"subject"`
	Page
	Query
}

// ListSubjects asks for the subjects of a type that have a relation on an object.
type ListSubjects struct {
	Object          string `json:"object"`
	Relation        string `json:"relation"`
	SubjectType     string `json:"subject_type"`
	SubjectRelation string `json:"subject_relation,omitempty"`
	Page
	Query
}

// List is a page of a list.
type List struct {
	// Objects or Subjects are the results.
	Objects  []string `json:"objects"`
	Subjects []string `json:"subjects"`
	// Everybody is "true" if all subjects but those of Except have the relation.
	Everybody string   `json:"everybody"`
	Except    []string `json:"except"`
	// Undecided describes the candidates that could not be decided; nil if there are
	// none.
	Undecided *Undecided `json:"undecided"`
	// Cut is the bound that ended the search early; "" if none did.
	Cut string `json:"cut"`
	// Next is the cursor of the next page; "" on the last one.
	Next     string `json:"next"`
	Revision uint64 `json:"revision"`
}

// Undecided are candidates that a list could not decide: their number, and some of
// them.
type Undecided struct {
	Count   int      `json:"count"`
	Some    []string `json:"some"`
	Reasons *Reasons `json:"reasons"`
}

// Expand asks for the subjects that have a relation on an object, as a tree, or in
// pages if it has a limit or a cursor.
type Expand struct {
	Object   string `json:"object"`
	Relation string `json:"relation"`
	Levels   int    `json:"levels,omitempty"`
	// Text asks for the tree as a text as well.
	Text bool `json:"text,omitempty"`
	Page
	Query
}

// Explain asks why a check has its answer.
type Explain struct {
	Question
	// Steps is the largest number of steps; 0 is the server's default.
	Steps int `json:"steps,omitempty"`
	// Text asks for the explanation as a text as well. Short leaves out steps with a
	// single child, and Origins adds the write that made each tuple.
	Text    bool `json:"text,omitempty"`
	Short   bool `json:"short,omitempty"`
	Origins bool `json:"origins,omitempty"`
}

// Write is an atomic change of a store.
type Write struct {
	Add            []Tuple     `json:"add,omitempty"`
	Remove         []Tuple     `json:"remove,omitempty"`
	RemoveMatching []Matching  `json:"remove_matching,omitempty"`
	SetAttributes  []Attribute `json:"set_attributes,omitempty"`
	// OnDuplicate is "fail", "ignore" or "replace", and OnMissing "fail" or "ignore";
	// "" is "fail".
	OnDuplicate string `json:"on_duplicate,omitempty"`
	OnMissing   string `json:"on_missing,omitempty"`
	// Schema is the id of the schema that must admit what is added; "" is the current
	// one.
	Schema    string     `json:"schema,omitempty"`
	Documents []Document `json:"documents,omitempty"`
	// Importing marks the store as incomplete, or as complete again.
	Importing *bool `json:"importing,omitempty"`
}

// Matching selects the tuples that a write removes.
type Matching struct {
	Tuples Filter `json:"tuples"`
}

// Document is a JSON value that a client keeps in a store.
type Document struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// Written is the revision to which a write led. Unchanged is true if the store already
// was as the write asked; the revision is then the newest one.
type Written struct {
	Token     string `json:"token"`
	Revision  uint64 `json:"revision"`
	Unchanged bool   `json:"unchanged"`
}

// Read asks for stored tuples.
type Read struct {
	Filter Filter `json:"filter"`
	At     *At    `json:"at,omitempty"`
	Page
}

// TuplePage is a page of tuples.
type TuplePage struct {
	Tuples   []Tuple `json:"tuples"`
	Next     string  `json:"next"`
	Revision uint64  `json:"revision"`
}

// Changes asks for a page of the log. At most one of After and Since is set.
type Changes struct {
	// After is the token after which the page begins.
	After string `json:"after,omitempty"`
	// Since is the time at which the page begins; nil is the beginning of the log.
	Since *time.Time `json:"since,omitempty"`
	// Types restrict the page to changes of objects of these types.
	Types []string `json:"types,omitempty"`
	Limit int      `json:"limit,omitempty"`
}

// ChangePage is a page of the log. Next is the token after its last entry.
type ChangePage struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next"`
	More    bool    `json:"more"`
}

// Entry is an entry of the log.
type Entry struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Token    string    `json:"token"`
	native.OriginJSON
	Changes []Change `json:"changes"`
}

// Change is a change of an entry. Op names it and determines which other field is set:
// "add" and "remove" have a tuple, "set_attribute" and "remove_attribute" an attribute,
// "put_document" and "remove_document" a document, and "remove_matching" what it
// removes. "put_secret" and "remove_secret" do not show which.
type Change struct {
	Op         string           `json:"op"`
	Tuple      *Tuple           `json:"tuple"`
	Attribute  *Attribute       `json:"attribute"`
	Tuples     *Filter          `json:"tuples"`
	Attributes *AttributeFilter `json:"attributes"`
	Document   *DocumentName    `json:"document"`
}

// AttributeFilter selects attributes. An empty field matches everything.
type AttributeFilter struct {
	ObjectType string `json:"object_type"`
	ObjectID   string `json:"object_id"`
	Name       string `json:"name"`
}

// DocumentName names a document of any kind. A schema has the kind "schema".
type DocumentName struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
}
