//go:build faults

package eval

import (
	"context"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/fault"
	"github.com/ostiary/ostiary/rel"
)

// TestListFaults switches on each mistake that a list could make: a few worlds
// are enough to tell.
func TestListFaults(t *testing.T) {
	defer fault.Switch(fault.None)
	for name, f := range map[string]fault.Fault{
		"unchecked": fault.EvalListUnchecked, "wildcard": fault.EvalListWildcardMissed, "contextual": fault.EvalContextualMissedInList,
		"computed": fault.EvalReverseMissesComputed, "arrow": fault.EvalReverseMissesArrow,
	} {
		objects, subjects := -1, -1
		for seed := range uint64(300) {
			w := newSmallWorld(t, seed)
			if w == nil {
				continue
			}
			if objects < 0 && w.objectsDiffer(t, f) {
				objects = int(seed)
			}
			if subjects < 0 && w.subjectsDiffer(t, f) {
				subjects = int(seed)
			}
		}
		t.Logf("%s: objects in world %d, subjects in world %d", name, objects, subjects)
		backwards := f == fault.EvalReverseMissesComputed || f == fault.EvalReverseMissesArrow
		if objects < 0 || subjects < 0 && !backwards {
			t.Errorf("%s is not caught", name)
		}
	}
}

func (w *smallWorld) objectsDiffer(t *testing.T, f fault.Fault) bool {
	for _, r := range w.relations() {
		for _, sub := range w.everybody() {
			q := ListObjectsQuestion{Type: w.b.s.Types[r.Type].Name, Relation: r.Name, Subject: sub}
			fault.Switch(f)
			l, err := w.b.ListObjects(context.Background(), w.view, q, w.env)
			fault.Switch(fault.None)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range w.objects {
				if o.Type == q.Type && w.exists(o, sub) && slices.Contains(l.IDs, o.ID) != (w.check(t, o, r.Name, sub) == expr.True) {
					return true
				}
			}
		}
	}
	return false
}

func (w *smallWorld) subjectsDiffer(t *testing.T, f fault.Fault) bool {
	for _, r := range w.relations() {
		o := w.object(w.b.s.Types[r.Type].Name)
		q := ListSubjectsQuestion{Object: o, Relation: r.Name, SubjectType: "user"}
		fault.Switch(f)
		l, err := w.b.ListSubjects(context.Background(), w.view, q, w.env)
		fault.Switch(fault.None)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"u0", "u1", "u2", "stranger"} {
			listed := slices.Contains(l.IDs, id) || l.Wildcard == expr.True && !slices.Contains(l.Excluded, id) && !slices.Contains(l.Unknown, id)
			if listed != (w.check(t, o, r.Name, rel.Subject{Type: "user", ID: id}) == expr.True) {
				return true
			}
		}
	}
	return false
}
