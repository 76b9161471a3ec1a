package oracle

import (
	"context"
	"fmt"
	"reflect"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/eval"
)

// expandPagesLaw: the pages of an expansion, put together, are the tree of one
// Expand, for pages of every small size and for every number of levels. No page
// is larger than its bound unless it has a single tuple or relation.
func expandPagesLaw(b *Bench) *Failure {
	if !b.admissible() || len(b.World.Stored) > wideMin {
		return nil
	}
	for i, q := range b.Questions {
		if i%max(1, len(b.Questions)/expandsMax) != 0 {
			continue
		}
		levels, limit := []int{1, 2, 3, 1 << 20}[i%4], 1+i%17
		whole, err := b.binding.Expand(context.Background(), b.graph.View(), q.Object, q.Relation, levels, &b.env)
		if err != nil || whole.Bound != "" {
			return &Failure{Question: q, Text: fmt.Sprintf("%v, bound %v", err, whole)}
		}
		joined, err := expandInPages(b, q, levels, limit)
		if err != nil {
			return &Failure{Question: q, Text: fmt.Sprintf("%d levels in pages of %d: %v", levels, limit, err)}
		}
		if !reflect.DeepEqual(whole, joined) {
			return &Failure{Question: q, Text: fmt.Sprintf("%d levels in pages of %d: want\n%s\ngot\n%s", levels, limit, whole, joined)}
		}
	}
	return nil
}

// expandInPages reads all pages of an expansion and puts them together.
func expandInPages(b *Bench, q Question, levels, limit int) (*authz.Tree, error) {
	env := b.env
	env.Bounds.ExpandEntries = limit
	j := joiner{parts: map[node]*authz.Tree{}}
	for at := (eval.ExpandPosition{}); ; {
		page, err := b.binding.ExpandPage(context.Background(), b.graph.View(), q.Object, q.Relation, levels, at, &env)
		if err != nil || page.Bound != "" || len(page.Parts) == 0 {
			return nil, fmt.Errorf("%w, bound %q, %d parts at %+v", err, page.Bound, len(page.Parts), at)
		}
		if err := j.add(page.Parts, limit); err != nil {
			return nil, err
		}
		switch {
		case !page.More:
			return j.join(levels), nil
		case page.Next == at:
			return nil, fmt.Errorf("the page at %+v is its own next page", at)
		}
		at = page.Next
	}
}

// joiner puts the pages of an expansion together.
type joiner struct {
	// parts are the relations, root is the first one.
	parts map[node]*authz.Tree
	root  *authz.Tree
}

// add adds the parts of a page. It fails if the page is too large, or if a
// relation that does not continue is repeated.
func (j *joiner) add(parts []*authz.Tree, limit int) error {
	entries, leaves := 0, 0
	for i, part := range parts {
		e, l := sizeOfPart(part)
		entries, leaves = entries+e, leaves+l
		key := node{part.Object, part.Relation}
		old := j.parts[key]
		switch {
		case old == nil:
			j.parts[key] = part
		case i > 0:
			return fmt.Errorf("%s#%s comes twice", part.Object, part.Relation)
		default:
			mergeLeaves(old, part)
		}
		if j.root == nil {
			j.root = part
		}
	}
	if entries > limit && (leaves > 1 || len(parts) > 1) {
		return fmt.Errorf("a page of %d entries, of which %d are tuples, in %d parts", entries, leaves, len(parts))
	}
	return nil
}

// sizeOfPart returns the number of nodes and tuples of a part, and the number of
// its tuples.
func sizeOfPart(t *authz.Tree) (entries, leaves int) {
	entries, leaves = 1+len(t.Leaves), len(t.Leaves)
	for _, l := range t.Leaves {
		if l.Tree != nil {
			entries++
		}
	}
	for _, c := range t.Children {
		e, l := sizeOfPart(c)
		entries, leaves = entries+e, leaves+l
	}
	return entries, leaves
}

// mergeLeaves adds the tuples of a part to those of the same relation on earlier
// pages.
func mergeLeaves(to, from *authz.Tree) {
	to.Leaves = append(to.Leaves, from.Leaves...)
	for i := range to.Children {
		mergeLeaves(to.Children[i], from.Children[i])
	}
}

// join puts each part at its first place in breadth-first order.
func (j *joiner) join(levels int) *authz.Tree {
	placed := map[node]bool{}
	todo := []*authz.Tree{j.root}
	for level := 0; level < levels && len(todo) > 0; level++ {
		var next []*authz.Tree
		for _, t := range todo {
			key := node{t.Object, t.Relation}
			part := j.parts[key]
			switch {
			case t.Cut || part == nil:
				continue
			case placed[key]:
				t.Seen = true
				continue
			}
			placed[key] = true
			t.Children = part.Children
			next = references(t.Children[0], next)
		}
		todo = next
	}
	return j.root
}

// references appends the relations below a rewrite: those of the rewrite, then
// those of its tuples.
func references(t *authz.Tree, out []*authz.Tree) []*authz.Tree {
	out = computed(t, out)
	return leafTrees(t, out)
}

func computed(t *authz.Tree, out []*authz.Tree) []*authz.Tree {
	if t.Kind == authz.TreeRelation {
		return append(out, t)
	}
	for _, c := range t.Children {
		out = computed(c, out)
	}
	return out
}

func leafTrees(t *authz.Tree, out []*authz.Tree) []*authz.Tree {
	if t.Kind == authz.TreeRelation {
		return out
	}
	for _, l := range t.Leaves {
		if l.Tree != nil {
			out = append(out, l.Tree)
		}
	}
	for _, c := range t.Children {
		out = leafTrees(c, out)
	}
	return out
}
