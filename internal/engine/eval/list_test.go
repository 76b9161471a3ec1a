package eval

import (
	"context"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

const listWorlds = 60

// TestListIsCheck compares every list of random worlds with check.
func TestListIsCheck(t *testing.T) {
	t.Parallel()
	entries, undecided := 0, 0
	for seed := range uint64(listWorlds) {
		w := newSmallWorld(t, seed)
		if w == nil {
			continue
		}
		for _, r := range w.askedRelations() {
			for _, sub := range w.subjectsAsked() {
				n, u := w.listIsCheck(t, w.b, w.b.s.Types[r.Type].Name, r.Name, sub)
				w.listIsCheck(t, w.b.Force(ModeBackward), w.b.s.Types[r.Type].Name, r.Name, sub)
				entries, undecided = entries+n, undecided+u
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if entries < 10*listWorlds || undecided < listWorlds {
		t.Errorf("only %d entries and %d unknown: the worlds have too little variety", entries, undecided)
	}
}

func (w *smallWorld) listIsCheck(t *testing.T, b *Binding, typ, relation string, sub rel.Subject) (int, int) {
	t.Helper()
	q := ListObjectsQuestion{Type: typ, Relation: relation, Subject: sub}
	l, err := b.ListObjects(context.Background(), w.view, q, w.env)
	if err != nil {
		t.Fatalf("seed %d: list %v: %v", w.seed, q, err)
	}
	if l.Bound != "" || l.More {
		t.Errorf("seed %d: %v: bound %q, more %v", w.seed, q, l.Bound, l.More)
	}
	if !slices.IsSortedFunc(l.IDs, func(a, b string) int { return PositionOf(a).Compare(PositionOf(b)) }) {
		t.Errorf("seed %d: %v: not in order: %v", w.seed, q, l.IDs)
	}
	var listed, unknown int
	asked := append(w.objects[:len(w.objects):len(w.objects)], sub.Object())
	for i, o := range asked {
		if o.Type != typ || slices.Contains(asked[:i], o) {
			continue
		}
		truth := w.check(t, o, relation, sub)
		in, un := slices.Contains(l.IDs, o.ID), slices.Contains(l.Unknown, o.ID)
		elsewhere := w.b.s.Options.MissingContextFails && truth == expr.Unknown // see ObjectList.Unknown
		if w.isKnown(o, sub) && (in != (truth == expr.True) || un != (truth == expr.Unknown) && !elsewhere) {
			t.Errorf("seed %d: %v: %v: listed %v, unknown %v, but check returns %v", w.seed, q, o, in, un, truth)
		}
		if in {
			listed++
		}
		if un {
			unknown++
		}
	}
	if listed != len(l.IDs) || unknown != len(l.Unknown) || unknown != l.UnknownCount || (l.Reasons != nil) != (unknown > 0) {
		t.Errorf("seed %d: %v: %v, unknown %v (%d), reasons %v", w.seed, q, l.IDs, l.Unknown, l.UnknownCount, l.Reasons)
	}
	return listed, unknown
}

// isKnown reports whether o is in a tuple, has an attribute, or is the
// subject's own object.
func (w *smallWorld) isKnown(o rel.Object, sub rel.Subject) bool {
	if sub.Object() == o {
		return true
	}
	for _, t := range w.env.Tuples {
		if t.Object == o || t.Subject.Object() == o {
			return true
		}
	}
	for _, a := range w.env.Attributes {
		if a.Object == o {
			return true
		}
	}
	for range w.view.Attributes(o.Type, o.ID, "") {
		return true
	}
	for n := range w.view.Objects(o.Type) {
		if w.view.ID(n) == o.ID {
			return true
		}
	}
	return false
}

// TestListPages reads every list in pages of every size.
func TestListPages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := newSmallWorld(t, seed)
		if w == nil {
			continue
		}
		for _, r := range w.askedRelations() {
			q := ListObjectsQuestion{Type: w.b.s.Types[r.Type].Name, Relation: r.Name, Subject: rel.Subject{Type: "user", ID: "u1"}}
			whole, err := w.b.ListObjects(context.Background(), w.view, q, w.env)
			if err != nil {
				t.Fatal(err)
			}
			for size := 1; size <= len(whole.IDs)+1; size++ {
				w.pages(t, q, size, whole)
			}
			for _, after := range []Position{{0, "x"}, {1 << 63, ""}, {^uint64(0), "zzz"}, {OrderHash("d1"), ""}, {7, "d1\x00#"}} {
				w.resume(t, q, after, whole.IDs)
			}
		}
	}
}

func (w *smallWorld) pages(t *testing.T, q ListObjectsQuestion, size int, whole ObjectList) {
	t.Helper()
	var all []string
	q.Limit = size
	for {
		l, err := w.b.ListObjects(context.Background(), w.view, q, w.env)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l.IDs...)
		if l.UnknownCount != whole.UnknownCount {
			t.Errorf("seed %d: %v: a page has %d unknown entries, the whole list %d", w.seed, q, l.UnknownCount, whole.UnknownCount)
		}
		if want := len(all) < len(whole.IDs); l.More != want || l.More && len(l.IDs) != size {
			t.Fatalf("seed %d: %v: page %v of %v: more is %v", w.seed, q, l.IDs, whole.IDs, l.More)
		}
		if !l.More {
			break
		}
		q.After = l.Next
	}
	if !slices.Equal(all, whole.IDs) {
		t.Errorf("seed %d: pages of %d give %v, the whole is %v", w.seed, size, all, whole.IDs)
	}
}

// resume continues after a position that no list returned.
func (w *smallWorld) resume(t *testing.T, q ListObjectsQuestion, after Position, whole []string) {
	t.Helper()
	q.After, q.Limit = after, 0
	l, err := w.b.ListObjects(context.Background(), w.view, q, w.env)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, id := range whole {
		if PositionOf(id).Compare(after) > 0 {
			want = append(want, id)
		}
	}
	if !slices.Equal(l.IDs, want) {
		t.Errorf("seed %d: after %v: %v, want %v", w.seed, after, l.IDs, want)
	}
}
