package eval

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// flatTree is a tree as texts: the parts of each expanded relation without tuples, and
// the tuples of each place.
type flatTree struct {
	parts  map[string]string
	leaves map[string][]string
}

// add adds the expanded relations of a tree.
func (f flatTree) add(t *authz.Tree) {
	if t.Kind == authz.TreeRelation && len(t.Children) > 0 {
		name := t.Object.String() + "#" + t.Relation
		var text strings.Builder
		f.part(t.Children[0], name, &text)
		f.parts[name] = text.String()
	}
	for _, ch := range t.Children {
		f.add(ch)
	}
	for _, l := range t.Leaves {
		if l.Tree != nil {
			f.add(l.Tree)
		}
	}
}

// part prints a part of a relation's rewrite; place names it.
func (f flatTree) part(t *authz.Tree, place string, text *strings.Builder) {
	fmt.Fprintln(text, place, t.Kind, t.Object, t.Relation, t.Target, t.Rewrite, t.Decision, t.Reasons, t.Cut)
	for _, l := range t.Leaves {
		leads := ""
		if l.Tree != nil {
			leads = fmt.Sprint(l.Tree.Object, "#", l.Tree.Relation, " ", l.Tree.Cut)
		}
		f.leaves[place] = append(f.leaves[place], fmt.Sprint(l.Tuple, " ", l.Decision, " ", l.Wildcard, " ", leads))
	}
	if t.Kind == authz.TreeRelation {
		return
	}
	for i, ch := range t.Children {
		f.part(ch, fmt.Sprint(place, "/", i), text)
	}
}

// TestExpandPagesAreTheTree compares the pages of expansions of random worlds, of
// several sizes, with the whole tree.
func TestExpandPagesAreTheTree(t *testing.T) {
	t.Parallel()
	pages := 0
	for seed := range uint64(60) {
		w := newSmallWorld(t, seed)
		if w == nil {
			continue
		}
		for _, r := range w.askedRelations() {
			o := w.object(w.b.s.Types[r.Type].Name)
			for _, levels := range []int{0, 1, 2, 50} {
				tree, err := w.b.Expand(context.Background(), w.view, o, r.Name, levels, w.env)
				if err != nil {
					t.Fatal(err)
				}
				w.sameTuples(t, tree)
				whole := flatTree{map[string]string{}, map[string][]string{}}
				whole.add(tree)
				for _, bounds := range []authz.QuestionBounds{{}, {ExpandEntries: 1}, {ExpandEntries: 2}, {ExpandEntries: 3}, {ExpandEntries: 7}, {ExpandBytes: 1}, {ExpandBytes: 100}} {
					got, n := w.allPages(t, o, r.Name, levels, bounds)
					pages += n
					if !maps.Equal(got.parts, whole.parts) || !maps.EqualFunc(got.leaves, whole.leaves, slices.Equal) {
						t.Fatalf("seed %d, %v#%s, %d levels, %+v:\n%v\n%v\nthe whole tree:\n%v\n%v", seed, o, r.Name, levels, bounds, got.parts, got.leaves, whole.parts, whole.leaves)
					}
				}
			}
		}
	}
	if pages < 10_000 {
		t.Errorf("only %d pages", pages)
	}
}

// sameTuples requires that the leaves of a tree are tuples of the world, with all their
// parts.
func (w *smallWorld) sameTuples(t *testing.T, tree *authz.Tree) {
	t.Helper()
	for _, l := range tree.Leaves {
		if stored, ok := w.view.Get(l.Tuple.Key()); (!ok || l.Tuple != stored) && !slices.Contains(w.env.Tuples, l.Tuple) {
			t.Fatalf("seed %d: the tuple %v is %v, %v", w.seed, l.Tuple, stored, ok)
		}
		if l.Tree != nil {
			w.sameTuples(t, l.Tree)
		}
	}
	for _, ch := range tree.Children {
		w.sameTuples(t, ch)
	}
}

// allPages reads an expansion in pages and returns them together, with their number.
// No page is empty, or larger than the bounds unless it has one tuple or relation.
func (w *smallWorld) allPages(t *testing.T, o rel.Object, relation string, levels int, bounds authz.QuestionBounds) (flatTree, int) {
	t.Helper()
	env := *w.env
	env.Bounds.ExpandEntries, env.Bounds.ExpandBytes = bounds.ExpandEntries, bounds.ExpandBytes
	all := flatTree{map[string]string{}, map[string][]string{}}
	at := ExpandPosition{}
	for n := 1; ; n++ {
		page, err := w.b.ExpandPage(context.Background(), w.view, o, relation, levels, at, &env)
		if err != nil || page.Bound != "" || len(page.Parts) == 0 || n > 2000 {
			t.Fatalf("page %d: %v, bound %q, %d parts", n, err, page.Bound, len(page.Parts))
		}
		entries, relations := 0, map[string]bool{}
		for _, part := range page.Parts {
			name := part.Object.String() + "#" + part.Relation
			if relations[name] {
				t.Fatalf("page %d has %s twice", n, name)
			}
			relations[name] = true
			all.add(part)
			for _, l := range part.Children[0].Leaves {
				entries++
				if l.Tree != nil {
					entries++
				}
			}
		}
		if most := bounds.ExpandEntries; most > 3 && entries > most {
			t.Fatalf("page %d has %d entries of tuples, the bound is %d", n, entries, most)
		}
		if !page.More {
			return all, n
		}
		if page.Next == at {
			t.Fatalf("page %d leads nowhere", n)
		}
		at = page.Next
	}
}
