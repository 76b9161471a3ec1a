package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// atPlace returns the model of [documents] with two conditions on owners: the
// request's place, and its list of places.
func atPlace() *schema.Model {
	m := documents()
	text := expr.Type{Kind: expr.String}
	m.Conditions = []expr.Definition{
		{Name: "at_home", Params: []expr.Param{{Name: "place", Type: text}}, Source: `place == "home"`},
		{Name: "one_place", Params: []expr.Param{{Name: "places", Type: expr.Type{Kind: expr.List, Elem: &text}}}, Source: `places.size() == 1`},
	}
	owner := &m.Types[3].Relations[1]
	owner.Subjects = append(owner.Subjects, schema.SubjectType{Type: "user", Condition: "at_home"}, schema.SubjectType{Type: "user", Condition: "one_place"})
	return m
}

func request(t testing.TB, question string, a authz.QueryOptions) authz.CheckRequest {
	t.Helper()
	q := tup(t, question)
	return authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: a}
}

// TestCheckBatchIsItsSingleChecks asks random requests, which differ in their
// context and contextual tuples, both with CheckBatch and with one Check each. The
// answers must be equal, at the newest revision and at a past one.
func TestCheckBatchIsItsSingleChecks(t *testing.T) {
	t.Parallel()
	const seed = 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ctx, clock := context.Background(), newClock()
	s := newStore(t, newEngine(t, ostiary.Options{Conditions: cel.New(cel.Options{}), Clock: clock.Now}), atPlace())
	first := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a with at_home", "document:2#owner@user:b with one_place",
		"group:g#member@user:c", "document:3#viewer@group:g#member")}))(t)
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:3#owner@user:a"), Remove: keys(t, "group:g#member@user:c")}))(t)
	contexts := []expr.Values{nil, {"place": "home"}, {"place": "away"}, {"places": []any{"a,b"}}, {"places": []any{"a", "b"}}, {"place": 1.0}}
	contextual := [][]rel.Tuple{nil, tups(t, "group:g#member@user:c"), tups(t, "document:1#viewer@user:*", "document:2#parent@folder:f"),
		tups(t, "folder:f#viewer@user:b"), tups(t, "document:1#owner@group:g")}
	requests := make([]authz.CheckRequest, 600)
	for i := range requests {
		q := fmt.Sprintf("document:%d#%s@user:%c", 1+rng.IntN(4), []string{"owner", "viewer", "parent", "none"}[rng.IntN(4)], 'a'+rune(rng.IntN(4)))
		requests[i] = request(t, q, authz.QueryOptions{Context: contexts[rng.IntN(len(contexts))], Tuples: contextual[rng.IntN(len(contextual))],
			Bounds: authz.QuestionBounds{Depth: rng.IntN(3)}, SchemaID: []string{"", "", "", "unknown"}[rng.IntN(4)]})
	}
	seen := map[string]int{}
	for _, at := range []authz.Consistency{{}, authz.AtExactly(first), authz.AtLeast(first)} {
		results := must(s.CheckBatch(ctx, requests, at))(t)
		for i, r := range requests {
			r.Consistency = at
			one, err := s.Check(ctx, r)
			many := results[i]
			if one.Decision != many.Decision || one.String() != many.String() || err == nil && one.Revision != many.Revision || fmt.Sprint(err) != fmt.Sprint(many.Err) {
				t.Fatalf("at %v, request %+v: Check returns %s, %v; CheckBatch returns %s, %v", at, r, one, err, many, many.Err)
			}
			seen[fmt.Sprint(many.Decision, many.Err != nil)]++
		}
	}
	for _, outcome := range []string{"true false", "false false", "unknown false", "false true"} {
		if seen[outcome] == 0 {
			t.Errorf("no request has the decision and error %q: %v", outcome, seen)
		}
	}
}

// TestCheckBatchKeepsItemsApart asks questions that differ only in similar contexts
// and contextual tuples. No question may get the answer of another.
func TestCheckBatchKeepsItemsApart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Conditions: cel.New(cel.Options{})}), atPlace())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a with one_place", "document:2#owner@user:a")}))(t)
	results := must(s.CheckBatch(ctx, []authz.CheckRequest{
		request(t, "document:1#viewer@user:a", authz.QueryOptions{Context: expr.Values{"places": []any{"a,b"}}}),
		request(t, "document:1#viewer@user:a", authz.QueryOptions{Context: expr.Values{"places": []any{"a", "b"}}}),
		request(t, "document:1#viewer@user:a", authz.QueryOptions{}),
		request(t, "document:1#viewer@user:b", authz.QueryOptions{Tuples: tups(t, "document:1#owner@user:b")}),
		request(t, "document:1#viewer@user:b", authz.QueryOptions{}),
		request(t, "nothing:1#viewer@user:a", authz.QueryOptions{}),
		request(t, "document:2#viewer@user:a", authz.QueryOptions{Consistency: authz.AtRevision(1)}),
		request(t, "document:2#viewer@user:a", authz.QueryOptions{}),
	}, authz.Consistency{}))(t)
	for i, want := range []expr.Tristate{expr.True, expr.False, expr.Unknown, expr.True, expr.False, expr.False, expr.False, expr.True} {
		if results[i].Decision != want || results[i].Revision != 2 {
			t.Errorf("item %d: got %v at revision %d, want %v at revision 2", i, results[i], results[i].Revision, want)
		}
	}
	wantKind(t, results[5].Err, authz.ErrNoType)
	wantKind(t, results[6].Err, authz.ErrInvalidRequest)
}

// TestCheckBatchAtOneTime lets a tuple expire while CheckBatch runs. All requests
// must be evaluated at the time at which the call began.
func TestCheckBatchAtOneTime(t *testing.T) {
	t.Parallel()
	ctx, start := context.Background(), newClock()
	now, step := start.Now(), time.Duration(0)
	s := newStore(t, newEngine(t, ostiary.Options{Clock: func() time.Time { now = now.Add(step); return now }}), documents())
	soon := tup(t, "document:1#owner@user:a")
	soon.Expires = rel.TimeOf(now.Add(time.Second))
	must(s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{soon}}))(t)
	step = 400 * time.Millisecond
	requests := make([]authz.CheckRequest, 10)
	for i := range requests {
		requests[i] = request(t, "document:1#viewer@user:a", authz.QueryOptions{})
	}
	for i, r := range must(s.CheckBatch(ctx, requests, authz.Consistency{}))(t) {
		if !r.Allowed() {
			t.Errorf("item %d: got %v, want true", i, r)
		}
	}
}

func TestCheckBatchBounds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{BatchItems: 2, ContextTuples: 1, FutureWait: time.Millisecond}}), documents())
	plain := request(t, "document:1#viewer@user:a", authz.QueryOptions{})
	atBound := request(t, "document:1#viewer@user:a", authz.QueryOptions{Tuples: tups(t, "document:1#owner@user:a")})
	aboveBound := request(t, "document:1#viewer@user:a", authz.QueryOptions{Tuples: tups(t, "document:1#owner@user:a", "document:1#owner@user:b")})
	results := must(s.CheckBatch(ctx, []authz.CheckRequest{atBound, aboveBound}, authz.Consistency{}))(t)
	if !results[0].Allowed() || results[1].Allowed() {
		t.Errorf("at and above the bound ContextTuples: got %v, want true and an error", results)
	}
	wantKind(t, results[1].Err, authz.ErrBound)
	_, err := s.CheckBatch(ctx, []authz.CheckRequest{plain, plain, plain}, authz.Consistency{})
	wantKind(t, err, authz.ErrBound)
	if none := must(s.CheckBatch(ctx, nil, authz.Consistency{}))(t); len(none) != 0 {
		t.Errorf("no requests: got %v, want no results", none)
	}
	_, err = s.CheckBatch(ctx, []authz.CheckRequest{plain}, authz.AtRevision(1<<40))
	if err == nil {
		t.Error("a revision that does not exist was answered")
	}
	cancel()
	if _, err = s.CheckBatch(ctx, []authz.CheckRequest{atBound, plain}, authz.Consistency{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
