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
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// checks returns requests for questions of the form "object#relation@subject".
func checks(t testing.TB, texts ...string) (out []authz.CheckRequest) {
	t.Helper()
	for _, text := range texts {
		out = append(out, request(t, text, authz.QueryOptions{}))
	}
	return out
}

// both prints the two decisions of each item as before>after.
func both(w authz.WhatIfResult) string {
	var out []string
	for _, i := range w.Items {
		out = append(out, fmt.Sprintf("%v>%v", i.Before.Decision, i.After.Decision))
	}
	return strings.Join(out, " ")
}

func TestWhatIf(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@group:g#member", "group:g#member@user:anne", "document:2#owner@user:bob",
		"document:3#parent@folder:f", "folder:f#viewer@user:carl")}))(t)
	names := must(s.Stats(ctx))(t)
	questions := checks(t, "document:1#viewer@user:anne", "document:1#viewer@user:zoe", "document:2#viewer@user:bob", "document:3#viewer@user:carl")
	ask := func(r authz.WhatIfRequest) authz.WhatIfResult {
		t.Helper()
		r.Questions = questions
		return must(s.WhatIf(ctx, r))(t)
	}
	wantText := func(w authz.WhatIfResult, want string, gained, lost, other, failed int) {
		t.Helper()
		if got := both(w); got != want || w.Gained != gained || w.Lost != lost || w.Other != other || w.Failed != failed || w.Partial != "" || w.Revision != 2 {
			t.Errorf("got %s, gained %d, lost %d, other %d, failed %d, partial %q; want %s, %d, %d, %d, %d", got, w.Gained, w.Lost, w.Other, w.Failed, w.Partial, want, gained, lost, other, failed)
		}
	}
	wantText(ask(authz.WhatIfRequest{}), "true>true false>false true>true true>true", 0, 0, 0, 0)
	wantText(ask(authz.WhatIfRequest{Changes: authz.WriteRequest{Add: tups(t, "group:g#member@user:zoe"), Remove: keys(t, "document:2#owner@user:bob")}}),
		"true>true false>true true>false true>true", 1, 1, 0, 0)
	wantText(ask(authz.WhatIfRequest{Changes: authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user"}}}}}),
		"true>false false>false true>false true>false", 0, 3, 0, 0)
	m := documents()
	m.Types[3].Relations[2].Rewrite = schema.Union(schema.Direct(), schema.Computed("owner"))
	wantText(ask(authz.WhatIfRequest{Model: m}), "true>true false>false true>true true>false", 0, 1, 0, 0)
	m.Types[3].Relations[2].Name = "reader"
	wantText(ask(authz.WhatIfRequest{Model: m}), "true>false false>false true>false true>false", 0, 0, 0, 4)
	info := must(s.CurrentSchema(ctx, ""))(t)
	wantText(ask(authz.WhatIfRequest{SchemaID: info.ID}), "true>true false>false true>true true>true", 0, 0, 0, 0)
	questions[1].Tuples = tups(t, "group:g#member@user:zoe")
	wantText(ask(authz.WhatIfRequest{Changes: authz.WriteRequest{Add: tups(t, "document:9#owner@user:x"), Remove: keys(t, "document:1#viewer@group:g#member")}}),
		"true>false true>false true>true true>true", 0, 2, 0, 0)
	if got := must(s.Stats(ctx))(t); got != names {
		t.Errorf("a proposal changed the store: %+v, before %+v", got, names)
	}
	want(t, s, "document:2#owner@user:bob", "true")
}

// TestWhatIfNamedSchema proposes a schema for questions that name one. It replaces the
// named schema if both have the same namespace, and only after the change.
func TestWhatIfNamedSchema(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:anne")}))(t)
	first := must(s.CurrentSchema(ctx, ""))(t).ID
	denying := documents()
	denying.Types[3].Relations[2].Rewrite = schema.Computed("owner")
	denying.Types[3].Relations[2].Subjects = nil
	second, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: denying})
	must(second, err)(t)
	spaced := &schema.Model{Namespace: "space", Types: []schema.TypeDef{{Name: "user"}}}
	other, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: spaced})
	must(other, err)(t)
	for name, c := range map[string]struct {
		question string // the schema that the question names
		proposal authz.WhatIfRequest
		want     string
	}{
		"no name, a model":                 {"", authz.WhatIfRequest{Model: documents()}, "false>true"},
		"the current one, a model":         {second.ID, authz.WhatIfRequest{Model: documents()}, "false>true"},
		"an earlier one, a model":          {first, authz.WhatIfRequest{Model: denying}, "true>false"},
		"an earlier one, a stored one":     {first, authz.WhatIfRequest{SchemaID: second.ID}, "true>false"},
		"an earlier one, the same":         {first, authz.WhatIfRequest{SchemaID: first}, "true>true"},
		"an earlier one, only a tuple":     {first, authz.WhatIfRequest{Changes: authz.WriteRequest{Remove: keys(t, "document:1#viewer@user:anne")}}, "true>false"},
		"a model of another namespace":     {first, authz.WhatIfRequest{Model: spaced}, "true>true"},
		"a schema of another namespace":    {first, authz.WhatIfRequest{SchemaID: other.ID}, "true>true"},
		"a name in another namespace":      {other.ID, authz.WhatIfRequest{Model: spaced}, "false>false"},
		"a name that the store lacks":      {"none", authz.WhatIfRequest{Model: documents()}, "false>false"},
		"no name, in another namespace":    {"", authz.WhatIfRequest{Model: spaced}, "false>false"},
		"no name, stored, another one too": {"", authz.WhatIfRequest{SchemaID: other.ID}, "false>false"},
	} {
		t.Run(name, func(t *testing.T) {
			c.proposal.Questions = []authz.CheckRequest{request(t, "document:1#viewer@user:anne", authz.QueryOptions{SchemaID: c.question})}
			got := must(s.WhatIf(ctx, c.proposal))(t)
			if both(got) != c.want {
				t.Errorf("got %s, want %s", both(got), c.want)
			}
			if failed := got.Items[0].Before.Err != nil && got.Items[0].After.Err != nil; failed != (c.question == "none" || c.question == other.ID) {
				t.Errorf("errors %v and %v", got.Items[0].Before.Err, got.Items[0].After.Err)
			}
		})
	}
}

func TestWhatIfRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{WhatIfQuestions: 2, WhatIfNodes: 4, FutureWait: 50 * time.Millisecond}}), documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@group:g#member", "group:g#member@user:anne")}))(t)
	two := checks(t, "document:1#viewer@user:anne", "document:1#viewer@user:bob")
	got := must(s.WhatIf(ctx, authz.WhatIfRequest{Questions: two}))(t)
	if got.Partial != "WhatIfNodes" || len(got.Items) != 1 {
		t.Errorf("got %+v, want one item and the bound WhatIfNodes", got)
	}
	for name, c := range map[string]struct {
		r    authz.WhatIfRequest
		kind error
	}{
		"too many questions":     {authz.WhatIfRequest{Questions: append(two, two[0])}, authz.ErrBound},
		"a model and an id":      {authz.WhatIfRequest{Model: documents(), SchemaID: "x"}, authz.ErrInvalidRequest},
		"a document":             {authz.WhatIfRequest{Changes: authz.WriteRequest{Documents: []authz.Document{{Kind: "k", Key: "x"}}}}, authz.ErrInvalidRequest},
		"a bad model":            {authz.WhatIfRequest{Model: &schema.Model{Types: []schema.TypeDef{{Name: ":"}}}}, authz.ErrInvalidSchema},
		"no such schema":         {authz.WhatIfRequest{SchemaID: "x"}, authz.ErrNoSchema},
		"a tuple not admitted":   {authz.WhatIfRequest{Changes: authz.WriteRequest{Add: tups(t, "document:1#owner@group:g#member")}}, authz.ErrInvalidTuple},
		"an unknown attribute":   {authz.WhatIfRequest{Changes: authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: rel.Object{Type: "document", ID: "1"}, Name: "x", Value: "1"}}}}, authz.ErrInvalidTuple},
		"a future revision":      {authz.WhatIfRequest{Consistency: authz.AtRevision(99)}, authz.ErrFuture},
		"a filter without field": {authz.WhatIfRequest{Changes: authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples}}}}, authz.ErrInvalidRequest},
	} {
		_, err := s.WhatIf(ctx, c.r)
		t.Run(name, func(t *testing.T) { wantKind(t, err, c.kind) })
	}
	q := checks(t, "document:1#viewer@user:anne")
	q[0].Consistency = authz.AtRevision(1)
	wantKind(t, must(s.WhatIf(ctx, authz.WhatIfRequest{Questions: q}))(t).Items[0].After.Err, authz.ErrInvalidRequest)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if got, err := s.WhatIf(ended, authz.WhatIfRequest{Questions: two}); err != nil || got.Partial != authz.BoundTime || len(got.Items) != 0 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestRecorded(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := newClock()
	e := newEngine(t, ostiary.Options{Clock: clock.Now, Record: authz.RecordingOptions{Decisions: 3}})
	s, twin := newStore(t, e, documents()), newStore(t, e, documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
	context1 := expr.Values{"list": []any{"x"}}
	r := request(t, "document:1#viewer@user:anne", authz.QueryOptions{Context: context1, Tuples: tups(t, "document:7#owner@user:x")})
	must(s.Check(ctx, r))(t)
	context1["list"].([]any)[0] = "changed"
	must(twin.Check(ctx, request(t, "document:1#viewer@user:anne", authz.QueryOptions{})))(t)
	clock.Advance(40 * time.Minute)
	must(s.CheckBatch(ctx, checks(t, "document:1#viewer@user:bob"), authz.Consistency{}))(t)
	got := s.RecordedDecisions(ctx, 0, 0)
	if len(got) != 2 || got[0].Decision != expr.True || got[1].Decision != expr.False || got[0].Revision != 2 ||
		got[0].Question.Context["list"].([]any)[0] != "x" || got[0].Question.Tuples[0] != r.Tuples[0] || got[1].Question.Subject.ID != "bob" {
		t.Errorf("got unexpected decisions %+v", got)
	}
	questions := make([]authz.CheckRequest, len(got))
	for i := range got {
		questions[i] = got[i].Question
	}
	w := must(s.WhatIf(ctx, authz.WhatIfRequest{Questions: questions, Changes: authz.WriteRequest{Add: tups(t, "document:1#viewer@user:bob")}}))(t)
	if both(w) != "true>true false>true" {
		t.Errorf("recorded decisions asked again: got %s", both(w))
	}
	if got := s.RecordedDecisions(ctx, 0, 1); len(got) != 1 || got[0].Question.Subject.ID != "bob" {
		t.Errorf("got unexpected decisions %+v", got)
	}
	must(s.Check(ctx, r))(t) // the fourth decision replaces the oldest
	if got := s.RecordedDecisions(ctx, 0, 0); len(got) != 2 || got[0].Question.Subject.ID != "bob" {
		t.Errorf("got unexpected decisions %+v", got)
	}
	clock.Advance(61 * time.Minute)
	if got := s.RecordedDecisions(ctx, 0, 0); len(got) != 0 {
		t.Errorf("after more than an hour: got %+v, want none", got)
	}
	if got := newStore(t, newEngine(t, ostiary.Options{}), documents()).RecordedDecisions(ctx, 0, 0); got != nil {
		t.Errorf("without a recorder: got %+v, want nil", got)
	}
}

// TestRecorderBytes records more than RecordingOptions.Bytes allows. Only the newest
// decisions may be kept.
func TestRecorderBytes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{Record: authz.RecordingOptions{Decisions: 1000, Bytes: 20_000}})
	s := newStore(t, e, documents())
	for i := range 300 {
		must(s.Check(ctx, request(t, fmt.Sprintf("document:%d#viewer@user:anne", i), authz.QueryOptions{Context: expr.Values{"text": strings.Repeat("x", 1000)}})))(t)
	}
	if n := len(s.RecordedDecisions(ctx, 0, 0)); n == 0 || n > 20 {
		t.Errorf("%d decisions are kept, want 1 to 20", n)
	}
}
