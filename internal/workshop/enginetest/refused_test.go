package enginetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
)

// inquiry is what all questions have in common.
type inquiry struct {
	object      rel.Object
	relation    string
	subject     rel.Subject
	subjectType string // of lists of subjects
	limit       int
	cursor      string
	authz.QueryOptions
}

// inquire asks an inquiry in each way. It returns a line for each outcome, which is an
// error or "ok", with the ways that it has.
func inquire(s *ostiary.Store, q inquiry) string {
	ctx := context.Background()
	check := authz.CheckRequest{Object: q.object, Relation: q.relation, Subject: q.subject, QueryOptions: q.QueryOptions}
	within := check
	within.Consistency = authz.Consistency{}
	expand := authz.ExpandRequest{Object: q.object, Relation: q.relation, QueryOptions: q.QueryOptions}
	selector := authz.PermissionSelector{ObjectType: q.object.Type, Relation: q.relation, SubjectType: q.subjectType, Objects: []string{q.object.ID}}
	var outcomes []string
	ways := map[string]string{}
	line := func(name string, err error) {
		text := "ok"
		if err != nil {
			text = authz.Reason(err)
		}
		if len(text) > 160 {
			text = text[:160] + "..."
		}
		if ways[text] == "" {
			outcomes = append(outcomes, text)
		}
		ways[text] += ", " + name
	}
	_, err := s.Check(ctx, check)
	line("check", err)
	results, err := s.CheckBatch(ctx, []authz.CheckRequest{within}, q.Consistency)
	if err == nil {
		err = results[0].Err
	}
	line("batch", err)
	_, err = s.Explain(ctx, authz.ExplainRequest{CheckRequest: check})
	line("explain", err)
	_, err = s.Expand(ctx, expand)
	line("expand", err)
	_, err = s.ExpandPage(ctx, authz.ExpandPageRequest{ExpandRequest: expand, Limit: q.limit, Cursor: q.cursor})
	line("expand page", err)
	_, err = s.ListObjects(ctx, authz.ListObjectsRequest{Type: q.object.Type, Relation: q.relation, Subject: q.subject, Limit: q.limit, Cursor: q.cursor, QueryOptions: q.QueryOptions})
	line("list objects", err)
	_, err = s.ListSubjects(ctx, authz.ListSubjectsRequest{Object: q.object, Relation: q.relation, SubjectType: q.subjectType, Limit: q.limit, Cursor: q.cursor, QueryOptions: q.QueryOptions})
	line("list subjects", err)
	_, _, err = s.FirstSubject(ctx, q.object, q.relation, q.subjectType)
	line("first subject", err)
	_, err = s.Read(ctx, authz.ReadRequest{Limit: q.limit, Cursor: q.cursor, Consistency: q.Consistency})
	line("read", err)
	_, err = s.ReadAttributes(ctx, authz.ReadAttributesRequest{Limit: q.limit, Cursor: q.cursor, Consistency: q.Consistency})
	line("attributes", err)
	for _, err = range s.Export(ctx, q.Consistency) {
		if err != nil {
			break
		}
	}
	line("export", err)
	entitled, err := s.Entitlements(ctx, authz.EntitlementsRequest{Subject: q.subject, Objects: []rel.Object{q.object}, Relations: []string{q.relation}, QueryOptions: q.QueryOptions})
	if err == nil {
		err = entitled.Objects[0].Err
	}
	line("entitlements", err)
	changed, err := s.WhatIf(ctx, authz.WhatIfRequest{Questions: []authz.CheckRequest{within}, Consistency: q.Consistency})
	if err == nil {
		err = changed.Items[0].Before.Err
	}
	line("what if", err)
	_, err = s.Difference(ctx, authz.DifferenceRequest{PermissionSelector: selector, From: authz.AtRevision(1), To: q.Consistency, SchemaID: q.SchemaID, Context: q.Context, Bounds: q.Bounds, Limit: q.limit, Cursor: q.cursor})
	line("difference", err)
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	for _, err = range s.WatchPermission(canceled, authz.WatchPermissionRequest{PermissionSelector: selector, Context: q.Context, Bounds: q.Bounds}) {
		if err != nil {
			break
		}
	}
	line("watch", err)
	out := ""
	for _, text := range outcomes {
		out += fmt.Sprintf("  %s: %s\n", ways[text][2:], text)
	}
	return out
}

// TestRefusedQuestions asks malformed questions in each way that a question can be asked,
// and compares the errors with a file.
func TestRefusedQuestions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	bounds := authz.Bounds{FutureWait: time.Millisecond, ContextTuples: 1, ContextAttributes: 1, ContextBytes: 20, PageItems: 10, ListItems: 10, ExpandEntries: 10}
	e := newEngine(t, ostiary.Options{Bounds: bounds})
	s := newStore(t, e, documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:1#viewer@group:g#member")}))(t)
	held := must(newStore(t, e, documents()).Hold(ctx, authz.Consistency{}))(t)
	long := strings.Repeat("x", rel.IDBytesMax+1)
	var out strings.Builder
	for _, c := range []struct {
		name   string
		change func(*inquiry)
	}{
		{"well formed", func(*inquiry) {}},
		{"unknown type", func(q *inquiry) { q.object.Type = "folders" }},
		{"no type", func(q *inquiry) { q.object.Type = "" }},
		{"malformed type", func(q *inquiry) { q.object.Type = "a:b" }},
		{"no id", func(q *inquiry) { q.object.ID = "" }},
		{"id too long", func(q *inquiry) { q.object.ID = long }},
		{"unknown relation", func(q *inquiry) { q.relation = "veiwer" }},
		{"no relation", func(q *inquiry) { q.relation = "" }},
		{"unknown type of the subject", func(q *inquiry) { q.subject.Type, q.subjectType = "robot", "robot" }},
		{"no type of the subject", func(q *inquiry) { q.subject.Type, q.subjectType = "", "" }},
		{"no id of the subject", func(q *inquiry) { q.subject.ID = "" }},
		{"id of the subject too long", func(q *inquiry) { q.subject.ID = long }},
		{"unknown relation of the subject", func(q *inquiry) { q.subject.Relation = "member" }},
		{"a wildcard", func(q *inquiry) { q.subject.ID = "*" }},
		{"unknown schema", func(q *inquiry) { q.SchemaID = "none" }},
		{"a revision of the future", func(q *inquiry) { q.Consistency = authz.AtRevision(99) }},
		{"the revision before the schema", func(q *inquiry) { q.Consistency = authz.AtRevision(0) }},
		{"a time before the schema", func(q *inquiry) { q.Consistency = authz.AtTime(time.Unix(1, 0)) }},
		{"a malformed token", func(q *inquiry) { q.Consistency = authz.AtExactly("x") }},
		{"a view of another store", func(q *inquiry) { q.Consistency = held }},
		{"a contextual tuple", func(q *inquiry) { q.Tuples = tups(t, "document:1#owner@user:bob") }},
		{"two contextual tuples", func(q *inquiry) {
			q.Tuples = tups(t, "document:1#owner@user:bob", "document:1#owner@user:carl")
		}},
		{"a contextual tuple of an unknown relation", func(q *inquiry) { q.Tuples = tups(t, "document:1#editor@user:bob") }},
		{"a contextual tuple of a computed relation", func(q *inquiry) { q.Tuples = tups(t, "document:1#owner@group:g") }},
		{"a malformed contextual tuple", func(q *inquiry) { q.Tuples = []rel.Tuple{{}} }},
		{"two contextual attributes", func(q *inquiry) {
			a := rel.Attribute{Object: q.object, Name: "n", Value: "1"}
			q.Attributes = []rel.Attribute{a, a}
		}},
		{"an unknown contextual attribute", func(q *inquiry) { q.Attributes = []rel.Attribute{{Object: q.object, Name: "n", Value: "1"}} }},
		{"a malformed contextual attribute", func(q *inquiry) { q.Attributes = []rel.Attribute{{}} }},
		{"a context at its bound", func(q *inquiry) { q.Context = expr.Values{"a": strings.Repeat("x", 19)} }},
		{"a context above its bound", func(q *inquiry) { q.Context = expr.Values{"a": strings.Repeat("x", 20)} }},
		{"one node", func(q *inquiry) { q.Bounds = authz.QuestionBounds{Nodes: 1} }},
		{"a limit at its bound", func(q *inquiry) { q.limit = 10 }},
		{"a limit above its bound", func(q *inquiry) { q.limit = 11 }},
		{"a malformed cursor", func(q *inquiry) { q.cursor = "x" }},
	} {
		q := inquiry{object: rel.Object{Type: "document", ID: "1"}, relation: "viewer", subject: rel.Subject{Type: "user", ID: "anne"}, subjectType: "user"}
		c.change(&q)
		fmt.Fprintf(&out, "%s\n%s", c.name, inquire(s, q))
	}
	empty := newStore(t, e, nil)
	fmt.Fprintf(&out, "a store without a schema\n%s", inquire(empty, inquiry{object: rel.Object{Type: "document", ID: "1"}, relation: "viewer", subject: rel.Subject{Type: "user", ID: "anne"}, subjectType: "user"}))
	golden.Equal(t, "testdata/refused.txt", strings.NewReplacer(empty.ID().String(), "STORE", s.ID().String(), "STORE").Replace(out.String()))
}
