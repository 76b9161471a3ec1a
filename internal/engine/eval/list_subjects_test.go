package eval

import (
	"context"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
)

// TestSubjectsAreCheck compares every list of subjects of random worlds with
// check, as SubjectList describes it.
func TestSubjectsAreCheck(t *testing.T) {
	t.Parallel()
	var got subjectCounts
	for seed := range uint64(listWorlds) {
		w := newSmallWorld(t, seed)
		if w == nil {
			continue
		}
		for _, r := range w.askedRelations() {
			for _, o := range append(w.objects[:len(w.objects):len(w.objects)], rel.Object{Type: "doc", ID: "none"}) {
				if o.Type != w.b.s.Types[r.Type].Name {
					continue
				}
				for _, sub := range []rel.Subject{{Type: "user"}, {Type: "group", Relation: "r0"}, {Type: "doc", Relation: "r3"}, {Type: "group"}} {
					w.subjectsAreCheck(t, ListSubjectsQuestion{Object: o, Relation: r.Name, SubjectType: sub.Type, SubjectRelation: sub.Relation}, &got)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if got.listed < listWorlds || got.wildcards < listWorlds/4 || got.excluded == 0 || got.unknown < listWorlds/4 || got.named < listWorlds {
		t.Errorf("the worlds have too little variety: %+v", got)
	}
}

type subjectCounts struct{ listed, wildcards, excluded, unknown, named int }

func (w *smallWorld) subjectsAreCheck(t *testing.T, q ListSubjectsQuestion, got *subjectCounts) {
	t.Helper()
	l, err := w.b.ListSubjects(context.Background(), w.view, q, w.env)
	if err != nil {
		t.Fatalf("seed %d: %v: %v", w.seed, q, err)
	}
	bulk, err := w.b.Force(ModeBackward).ListSubjects(context.Background(), w.view, q, w.env)
	if l.Stats, bulk.Stats = (authz.Stats{}), (authz.Stats{}); err != nil || !reflect.DeepEqual(l, bulk) {
		t.Errorf("seed %d: %v: %+v, in bulk %+v, %v", w.seed, q, l, bulk, err)
	}
	got.listed += len(l.IDs)
	got.excluded += len(l.Excluded)
	got.unknown += l.UnknownCount
	if l.Wildcard == expr.True {
		got.wildcards++
	}
	known := 0
	for _, sub := range w.subjectsAsked() {
		if sub.Type != q.SubjectType || sub.Relation != q.SubjectRelation {
			continue
		}
		truth := w.check(t, q.Object, q.Relation, sub)
		want := l.Wildcard
		switch in := func(ids []string) bool { return slices.Contains(ids, sub.ID) }; {
		case in(l.IDs):
			want = expr.True
			known++
		case in(l.Unknown):
			want = expr.Unknown
			known++
		case in(l.Excluded):
			want = expr.False
			known++
		}
		r := &w.b.s.Relations[must(w.b.relation(q.Object.Type, q.Relation))]
		kind, _, _ := w.b.subjectKind(&sub)
		if w.b.s.Options.MissingContextFails && !r.Reaches(kind) {
			continue // a list does not read relations that no subject of the kind can be in
		}
		if truth != want {
			t.Errorf("seed %d: %v: %v is %v, but the list %+v", w.seed, q, sub, truth, l)
		}
	}
	if own := len(l.IDs) + len(l.Unknown) + len(l.Excluded); own != known && !(own == known+1 && q.Object.ID == "none") {
		t.Errorf("seed %d: %v: %+v: expected each candidate once", w.seed, q, l)
	}
	w.subjectPages(t, q, l)
	w.checkNamed(t, q, l, got)
}

// checkNamed compares a list with Named with check.
func (w *smallWorld) checkNamed(t *testing.T, q ListSubjectsQuestion, l SubjectList, got *subjectCounts) {
	t.Helper()
	q.Named = true
	named, err := w.b.ListSubjects(context.Background(), w.view, q, w.env)
	if err != nil {
		t.Fatalf("seed %d: %v: %v", w.seed, q, err)
	}
	want := slices.Clone(l.IDs)
	if l.Wildcard == expr.True {
		for s := range w.tupleSubjects() {
			if s.Type == q.SubjectType && s.Relation == q.SubjectRelation && w.check(t, q.Object, q.Relation, s) == expr.True &&
				(!s.IsWildcard() || w.b.s.Options.StarIsOrdinary) && !slices.Contains(want, s.ID) {
				want = append(want, s.ID)
				got.named++
			}
		}
		slices.SortFunc(want, func(a, b string) int { return PositionOf(a).Compare(PositionOf(b)) })
	}
	if !slices.Equal(named.IDs, want) || named.Excluded != nil || named.UnknownCount != l.UnknownCount {
		t.Errorf("seed %d: %v: %+v, want %v of %+v", w.seed, q, named, want, l)
	}
	w.subjectPages(t, q, named)
	q.UnknownPerPage = true
	w.subjectPages(t, q, named)
}

// tupleSubjects yields the subjects of all tuples.
func (w *smallWorld) tupleSubjects() iter.Seq[rel.Subject] {
	return func(yield func(rel.Subject) bool) {
		for _, t := range w.view.Tuples(rel.Filter{}, graph.Position{}) {
			if !yield(t.Subject) {
				return
			}
		}
		for _, t := range w.env.Tuples {
			if !yield(t.Subject) {
				return
			}
		}
	}
}

// subjectPages reads the list again in pages of two.
func (w *smallWorld) subjectPages(t *testing.T, q ListSubjectsQuestion, whole SubjectList) {
	t.Helper()
	var ids, excluded []string
	for q.Limit = 2; ; {
		l, err := w.b.ListSubjects(context.Background(), w.view, q, w.env)
		if err != nil {
			t.Fatal(err)
		}
		ids, excluded = append(ids, l.IDs...), append(excluded, l.Excluded...)
		if !l.More {
			break
		}
		q.After = l.Next
	}
	if !slices.Equal(ids, whole.IDs) || !slices.Equal(excluded, whole.Excluded) {
		t.Errorf("seed %d: %v: pages give %v and %v, the whole is %+v", w.seed, q, ids, excluded, whole)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
