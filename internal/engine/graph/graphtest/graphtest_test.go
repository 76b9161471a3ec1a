package graphtest_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
	"github.com/ostiary/ostiary/rel"
)

// A shape has about the size and the names it states, each tuple once, and
// its questions have the answers that its tuples give.
func TestShape(t *testing.T) {
	t.Parallel()
	for _, s := range []graphtest.Shape{
		{Tuples: graphtest.TuplesMin},
		{Tuples: 20_000, UUID: true, Seed: 7},
	} {
		keys := map[rel.Key]bool{}
		names := map[rel.Object]bool{}
		for tu := range s.All() {
			if err := tu.Validate(); err != nil {
				t.Fatal(err)
			}
			if keys[tu.Key()] {
				t.Fatalf("%v comes twice", tu)
			}
			keys[tu.Key()] = true
			names[tu.Object], names[tu.Subject.Object()] = true, true
		}
		if n := len(keys); n < s.Tuples*97/100 || n > s.Tuples*103/100 {
			t.Errorf("%+v has %d tuples", s, n)
		}
		if r := float64(len(names)) / float64(len(keys)); r < 0.75 || r > 0.80 {
			t.Errorf("%+v has %.3f names a tuple", s, r)
		}
		has := func(o rel.Object, relation string, u rel.Subject) bool {
			return keys[rel.Key{Object: o, Relation: relation, Subject: u}]
		}
		for _, q := range s.Direct(1000) {
			if has(q.Object, q.Relation, q.Subject) != q.Allowed {
				t.Fatalf("%+v", q)
			}
		}
		for _, q := range s.ThreeHop(100) {
			got := has(q.Object, "owner", q.Subject)
			for f := range s.Folders() {
				for g := range s.Groups() {
					members := s.Group(g).AsSubject()
					members.Relation = "member"
					got = got || has(q.Object, "parent", s.Folder(f).AsSubject()) &&
						has(s.Folder(f), "viewer", members) && has(s.Group(g), "member", q.Subject)
				}
			}
			if got != q.Allowed {
				t.Fatalf("%+v", q)
			}
		}
	}
}

// The list and fan-out cases add what they state and nothing twice.
func TestCases(t *testing.T) {
	t.Parallel()
	s := graphtest.Shape{Tuples: graphtest.TuplesMin}
	plain := 0
	for range s.All() {
		plain++
	}
	s.Lists, s.Fan = 2, 100
	keys := map[rel.Key]bool{}
	for tu := range s.All() {
		if keys[tu.Key()] {
			t.Fatalf("%v comes twice", tu)
		}
		keys[tu.Key()] = true
	}
	want := 2*(1+1+100+1+10+1000) + 3*100 + 3*5 + 2
	if got := len(keys) - plain; got != want {
		t.Errorf("the cases have %d tuples, want %d", got, want)
	}
}
