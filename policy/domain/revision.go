package domain

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/storage"
)

// revision is what a domain has at one revision of its store. It never changes.
type revision struct {
	// token names the revision, and number is its number.
	token  ostiary.Token
	number storage.Revision
	// policies are the named policies in the order of their names.
	policies []*Stored
	// bytes is the size of the texts of all policies and of the root.
	bytes int
	// root is nil if there is none.
	root *Stored
	// plan is what root and policies compile to. It is nil if there is no root, or
	// if broken is set.
	plan *policy.Plan
	// broken is why stored policies do not compile, although they did when they
	// were written, for example by a later version of this program.
	broken error
}

// library returns the elements of the policies in the order of their names.
func (r *revision) library() []policy.Element {
	out := make([]policy.Element, len(r.policies))
	for i, p := range r.policies {
		out[i] = p.element
	}
	return out
}

// find returns the index of the policy with a name, or the index at which it
// would be.
func (r *revision) find(name string) (int, bool) {
	return slices.BinarySearchFunc(r.policies, name, func(p *Stored, name string) int { return cmp.Compare(p.Name, name) })
}

// with returns the revision after a change, without a plan, a number and a token.
func (r *revision) with(c *parsedChange) *revision {
	next := &revision{bytes: r.bytes, root: r.root}
	if c.clear {
		next.root, next.bytes = nil, 0
	} else {
		next.policies = slices.Clone(r.policies)
	}
	for _, name := range c.remove {
		next.drop(name)
	}
	for _, p := range c.put {
		next.put(p)
	}
	if c.root != nil {
		next.setRoot(c.root)
	}
	return next
}

// setRoot replaces the root of a revision that is being made. nil removes it.
func (r *revision) setRoot(root *Stored) {
	if r.root != nil {
		r.bytes -= r.root.bytes
	}
	if r.root = root; root != nil {
		r.bytes += root.bytes
	}
}

// put adds or replaces a policy of a revision that is being made.
func (r *revision) put(p *Stored) {
	r.bytes += p.bytes
	i, found := r.find(p.Name)
	if !found {
		r.policies = slices.Insert(r.policies, i, p)
		return
	}
	r.bytes -= r.policies[i].bytes
	r.policies[i] = p
}

// drop removes a policy from a revision that is being made.
func (r *revision) drop(name string) {
	if i, found := r.find(name); found {
		r.bytes -= r.policies[i].bytes
		r.policies = slices.Delete(r.policies, i, i+1)
	}
}

// dropPrefix removes the policies whose names have a prefix from a revision that
// is being made.
func (r *revision) dropPrefix(prefix string) {
	kept := r.policies[:0]
	for _, p := range r.policies {
		if strings.HasPrefix(p.Name, prefix) {
			r.bytes -= p.bytes
			continue
		}
		kept = append(kept, p)
	}
	clear(r.policies[len(kept):])
	r.policies = kept
}

// parsedChange is a change of which the texts are parsed.
type parsedChange struct {
	// clear removes all policies and the root before the rest.
	clear  bool
	remove []string
	put    []*Stored
	// root replaces the root; nil leaves it.
	root *Stored
}

// compile sets the plan of a revision. previous is a revision whose parts are
// reused. Policies that the root cannot reach may refer to policies that do not
// exist, because policies arrive in any order. It fails with an *[InvalidError], or
// with ostiary.ErrCanceled if ctx ends before.
func (d *Domain) compile(ctx context.Context, r, previous *revision) error {
	if r.root == nil {
		return nil
	}
	o := policy.CompileOptions{Functions: d.options.Functions, Bounds: d.options.Bounds}
	if previous != nil {
		o.Previous = previous.plan
	}
	library := r.library()
	plan, err := policy.Compile(ctx, r.root.element, library, o)
	if err != nil {
		if some := r.reachable(); len(some) < len(library) {
			plan, err = policy.Compile(ctx, r.root.element, some, o)
		}
	}
	if err != nil {
		return invalid("", err)
	}
	r.plan = plan
	return nil
}

// reachable returns the elements that the root can reach through references,
// whatever versions these ask for.
func (r *revision) reachable() []policy.Element {
	byID := make(map[string][]*Stored, len(r.policies))
	for _, p := range r.policies {
		byID[p.ID] = append(byID[p.ID], p)
	}
	var out []policy.Element
	seen := map[string]bool{}
	for todo := slices.Clone(r.root.references); len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		for _, p := range byID[id] {
			out = append(out, p.element)
			todo = append(todo, p.references...)
		}
	}
	return out
}

// Policies yields the named policies of a pinned revision whose names follow
// after, in the order of their names. "" begins with the first.
func (p *Pinned) Policies(after string) iter.Seq[Stored] {
	start, found := p.at.find(after)
	if found {
		start++
	}
	return func(yield func(Stored) bool) {
		for _, one := range p.at.policies[start:] {
			if !yield(*one) {
				return
			}
		}
	}
}

// Root returns the root of a pinned revision; nil if there is none.
func (p *Pinned) Root() *Stored {
	if p.at.root == nil {
		return nil
	}
	root := *p.at.root
	return &root
}
