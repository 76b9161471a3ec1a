package enginetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// TestListPages reads lists page by page, while the store changes and restarts.
// All pages must belong to the revision of the first page.
func TestListPages(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		s := newStore(t, x.engine, documents())
		var w authz.WriteRequest
		objects, subjects := map[string]bool{}, map[string]bool{}
		for i := range 25 {
			w.Add = append(w.Add, tup(t, fmt.Sprintf("document:d%d#owner@user:anne", i)), tup(t, fmt.Sprintf("document:one#owner@user:u%d", i)))
			objects[fmt.Sprint("d", i)], subjects[fmt.Sprint("u", i)] = true, true
		}
		must(s.Write(ctx, w))(t)
		byObject := authz.ListObjectsRequest{Type: "document", Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}, Limit: 4}
		bySubject := authz.ListSubjectsRequest{Object: rel.Object{Type: "document", ID: "one"}, Relation: "viewer", SubjectType: "user", Limit: 4}
		gotObjects, gotSubjects := map[string]bool{}, map[string]bool{}
		for page := 0; ; page++ {
			lo, ls := must(s.ListObjects(ctx, byObject))(t), must(s.ListSubjects(ctx, bySubject))(t)
			for _, id := range lo.IDs {
				gotObjects[id] = true
			}
			for _, id := range ls.IDs {
				gotSubjects[id] = true
			}
			if (lo.Next == "") != (ls.Next == "") || lo.Revision != ls.Revision || lo.Revision != 2 {
				t.Fatalf("page %d: %+v %+v", page, lo, ls)
			}
			if byObject.Cursor, bySubject.Cursor = lo.Next, ls.Next; lo.Next == "" {
				break
			}
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:later%d#owner@user:anne", page)),
				Remove: keys(t, fmt.Sprintf("document:d%d#owner@user:anne", page), fmt.Sprintf("document:one#owner@user:u%d", page))}))(t)
			if page%3 == 1 {
				s = x.again(s)
			}
		}
		if !maps.Equal(gotObjects, objects) || !maps.Equal(gotSubjects, subjects) {
			t.Errorf("listed objects %v and subjects %v, want those of the first page's revision", gotObjects, gotSubjects)
		}
		byObject.Cursor = must(s.ListObjects(ctx, authz.ListObjectsRequest{Type: "document", Relation: "viewer", Subject: byObject.Subject, Limit: 1}))(t).Next
		for _, other := range []func(r *authz.ListObjectsRequest){
			func(r *authz.ListObjectsRequest) { r.Relation = "owner" },
			func(r *authz.ListObjectsRequest) { r.Subject.ID = "bob" },
			func(r *authz.ListObjectsRequest) { r.Tuples = tups(t, "document:x#owner@user:anne") },
			func(r *authz.ListObjectsRequest) { r.Bounds.Depth = 3 },
		} {
			r := byObject
			other(&r)
			_, err := s.ListObjects(ctx, r)
			wantKind(t, err, authz.ErrCursor)
		}
	})
}

// TestReadFilters compares Read with a plain loop over all tuples, for random
// filters and page sizes.
func TestReadFilters(t *testing.T) {
	t.Parallel()
	const seed = 11
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	var w authz.WriteRequest
	all := map[rel.Key]rel.Tuple{}
	for range 400 {
		x := tup(t, []string{
			fmt.Sprintf("document:%d#owner@user:%d", rng.IntN(20), rng.IntN(20)),
			fmt.Sprintf("document:%d#viewer@group:%d#member", rng.IntN(20), rng.IntN(20)),
			fmt.Sprintf("group:%d#member@user:%d", rng.IntN(20), rng.IntN(20)),
			fmt.Sprintf("folder:%d#viewer@user:%d", rng.IntN(20), rng.IntN(20)),
			fmt.Sprintf("document:%d#viewer@user:*", rng.IntN(20)),
		}[rng.IntN(5)])
		if _, ok := all[x.Key()]; !ok {
			all[x.Key()] = x
			w.Add = append(w.Add, x)
		}
	}
	must(s.Write(ctx, w))(t)
	some := func(of ...string) string {
		if rng.IntN(2) == 0 {
			return ""
		}
		return of[rng.IntN(len(of))]
	}
	for range 300 {
		f := rel.Filter{ObjectType: some("document", "group", "folder", "none"), ObjectID: some("1", "2", "3"), Relation: some("owner", "viewer", "member"),
			SubjectType: some("user", "group"), SubjectID: some("1", "2", "*"), SubjectRelation: some("member"), SubjectPlain: rng.IntN(3) == 0}
		var want, got []string
		for k, x := range all {
			if f.Match(k) {
				want = append(want, x.String())
			}
		}
		r := authz.ReadRequest{Filter: f, Limit: 1 + rng.IntN(30)}
		for {
			page := must(s.Read(ctx, r))(t)
			for _, x := range page.Tuples {
				got = append(got, x.String())
				if x.Created.IsZero() {
					t.Fatalf("%s has no creation time", x)
				}
			}
			if r.Cursor = page.Next; r.Cursor == "" {
				break
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Fatalf("filter %+v: got\n%v, want\n%v", f, got, want)
		}
	}
}

// TestUnknown asks questions that cannot be decided. The answer must never be an
// allow, and always have the reasons.
func TestUnknown(t *testing.T) {
	t.Parallel()
	ctx, clock := context.Background(), newClock()
	m := documents()
	m.Conditions = []expr.Definition{{Name: "at_home", Params: []expr.Param{{Name: "place", Type: expr.Type{Kind: expr.String}}}, Source: `place == "home"`}}
	m.Types[3].Relations[1].Subjects = append(m.Types[3].Relations[1].Subjects, schema.SubjectType{Type: "user", Condition: "at_home"})
	e := newEngine(t, ostiary.Options{Conditions: cel.New(cel.Options{}), Clock: clock.Now, Bounds: authz.Bounds{Depth: 3}})
	s := newStore(t, e, m)
	var w authz.WriteRequest
	w.Add = tups(t, "document:1#owner@user:anne with at_home", "group:0#member@user:anne")
	for i := range 5 {
		w.Add = append(w.Add, tup(t, fmt.Sprintf("group:%d#member@group:%d#member", i+1, i)))
	}
	token := must(s.Write(ctx, w))(t)
	check := func(question string, a authz.QueryOptions) authz.CheckResult {
		q := tup(t, question)
		return must(s.Check(ctx, authz.CheckRequest{Object: q.Object, Relation: q.Relation, Subject: q.Subject, QueryOptions: a}))(t)
	}
	r := check("document:1#owner@user:anne", authz.QueryOptions{})
	if r.Decision != expr.Unknown || r.Allowed() || !slices.Equal(r.Reasons.Missing, []string{"place"}) {
		t.Errorf("without context: got %v, want unknown", r)
	}
	if r := check("document:1#owner@user:anne", authz.QueryOptions{Context: expr.Values{"place": "home"}}); !r.Allowed() {
		t.Errorf("at home: got %v, want true", r)
	}
	if r := check("document:1#owner@user:anne", authz.QueryOptions{Context: expr.Values{"place": "away"}}); r.Decision != expr.False {
		t.Errorf("away: got %v, want false", r)
	}
	for i := range 6 {
		r := check(fmt.Sprintf("group:%d#member@user:anne", i), authz.QueryOptions{})
		if within := i <= 3; within != r.Allowed() || !within && (r.Decision != expr.Unknown || r.Reasons.Bound != authz.BoundDepth) {
			t.Errorf("%d hops with depth bound 3: got %v", i, r)
		}
	}
	// A question may lower the engine's bounds, but not raise them.
	if r := check("group:4#member@user:anne", authz.QueryOptions{Bounds: authz.QuestionBounds{Depth: 100}}); r.Allowed() {
		t.Errorf("deeper than the engine's bound: got %v", r)
	}
	if r := check("group:2#member@user:anne", authz.QueryOptions{Bounds: authz.QuestionBounds{Depth: 1}}); r.Allowed() {
		t.Errorf("deeper than the question's own bound: got %v", r)
	}

	x := must(s.Explain(ctx, authz.ExplainRequest{CheckRequest: authz.CheckRequest{Object: rel.Object{Type: "group", ID: "1"}, Relation: "member",
		Subject: rel.Subject{Type: "user", ID: "anne"}}}))(t)
	if !x.Answer.Allowed() || x.Because == nil || x.Token != token || x.Schema.ID == "" || !x.Asked.Equal(clock.Now()) {
		t.Errorf("explanation: %+v", x)
	}
	clock.Advance(time.Hour)
	again := must(s.Explain(ctx, authz.ExplainRequest{CheckRequest: authz.CheckRequest{Object: rel.Object{Type: "group", ID: "1"}, Relation: "member",
		Subject: rel.Subject{Type: "user", ID: "anne"}, QueryOptions: authz.QueryOptions{Consistency: authz.AtExactly(token)}}}))(t)
	if string(must(json.Marshal(x))(t)) != string(must(json.Marshal(again))(t)) {
		t.Errorf("the same question got a different explanation:\n%+v\n%+v", x, again)
	}
	tree := must(s.Expand(ctx, authz.ExpandRequest{Object: rel.Object{Type: "group", ID: "1"}, Relation: "member"}))(t)
	if tree.Kind != authz.TreeRelation || tree.Revision != 2 {
		t.Errorf("expansion: %+v", tree)
	}
}

// TestMoreBounds tests bounds at their limit and one above it; see [TestBounds]
// for the others.
func TestMoreBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{Bounds: authz.Bounds{ContextAttributes: 2, SchemaBytes: 8_000}})
	m := documents()
	m.Types[3].Attributes = []schema.AttributeDef{{Name: "name", Type: expr.Type{Kind: expr.String}}}
	s := newStore(t, e, m)
	object := rel.Object{Type: "document", ID: "1"}
	size := func(source int) error {
		_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: m, Source: make([]byte, source)})
		return err
	}
	fits := 0
	for step := 3 << 12; step >= 3; step /= 2 { // JSON writes three bytes as four
		if size(fits+step) == nil {
			fits += step
		}
	}
	if fits < 100 || fits > 8_000 {
		t.Errorf("the largest accepted schema source has %d bytes", fits)
	}
	wantKind(t, size(fits+3), authz.ErrBound)
	for _, c := range []struct {
		name string
		most int
		ask  func(n int) error
	}{
		{"AliasesMax", authz.AliasesMax, func(n int) error {
			aliases := map[string]string{}
			for i := range n {
				aliases[fmt.Sprint("door", i)] = fmt.Sprint(n)
			}
			return e.UpdateStore(ctx, s.ID(), replace("", aliases))
		}},
		{"SecondaryKeysMax", authz.SecondaryKeysMax, func(n int) error {
			_, err := s.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: "a", Key: "b", Secondary: repeat(n, "x")}}})
			return err
		}},
		{"DocumentKeyBytesMax", authz.DocumentKeyBytesMax, func(n int) error {
			_, err := s.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: "a", Key: strings.Repeat("x", n)}}})
			return err
		}},
		{"AttributeValueBytesMax", authz.AttributeValueBytesMax, func(n int) error {
			_, err := s.Write(ctx, authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: object, Name: "name", Value: `"` + strings.Repeat("x", n-2) + `"`}}})
			return err
		}},
		{"ScopeIDsMax", authz.ScopeIDsMax, func(n int) error {
			_, err := s.ListObjects(ctx, authz.ListObjectsRequest{Type: "document", Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"},
				Scope: map[string][]string{"document": repeat(n-1, "x"), "user": {"y"}}})
			return err
		}},
		{"ContextAttributes", 2, func(n int) error {
			_, err := s.Check(ctx, authz.CheckRequest{Object: object, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"},
				QueryOptions: authz.QueryOptions{Attributes: repeat(n, rel.Attribute{Object: object, Name: "name", Value: `"x"`})}})
			return err
		}},
	} {
		if err := c.ask(c.most); err != nil {
			t.Errorf("%s at its bound: %v", c.name, err)
		}
		var bound *authz.BoundError
		if err := c.ask(c.most + 1); !errors.As(err, &bound) || bound.Name != c.name {
			t.Errorf("%s above its bound: %v", c.name, err)
		}
	}
	// An id of the greatest length can be asked and written; a longer one is refused.
	for n, ok := range map[int]bool{rel.IDBytesMax: true, rel.IDBytesMax + 1: false} {
		x := rel.Tuple{Object: rel.Object{Type: "document", ID: strings.Repeat("x", n)}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"}}
		_, wrote := s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{x}})
		_, asked := s.Check(ctx, authz.CheckRequest{Object: x.Object, Relation: x.Relation, Subject: x.Subject})
		for _, err := range []error{wrote, asked} {
			if (err == nil) != ok {
				t.Errorf("an id of %d bytes: got error %v", n, err)
			} else if !ok {
				wantKind(t, err, authz.ErrInvalidName)
			}
		}
	}
	for _, long := range []int{authz.TokenBytesMax + 1, authz.CursorBytesMax + 1} {
		_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.AtExactly(authz.Token(strings.Repeat("x", long)))})
		wantKind(t, err, authz.ErrToken)
		_, err = s.Read(ctx, authz.ReadRequest{Cursor: strings.Repeat("x", long)})
		wantKind(t, err, authz.ErrCursor)
	}
}
