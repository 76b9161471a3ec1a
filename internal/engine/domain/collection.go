package domain

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/policy"
)

// collection is the policies of a domain at one revision of its store. It never
// changes.
type collection struct {
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
func (c *collection) library() []policy.Element {
	out := make([]policy.Element, len(c.policies))
	for i, p := range c.policies {
		out[i] = p.element
	}
	return out
}

// find returns the index of the policy with a name, or the index at which it
// would be.
func (c *collection) find(name string) (int, bool) {
	return slices.BinarySearchFunc(c.policies, name, func(p *Stored, name string) int { return cmp.Compare(p.Name, name) })
}

// draft returns a copy that can be changed, without a plan.
func (c *collection) draft() *collection {
	return &collection{policies: slices.Clone(c.policies), bytes: c.bytes, root: c.root}
}

// with returns the collection after a change, without a plan.
func (c *collection) with(change *parsedChange) *collection {
	next := &collection{}
	if !change.clear {
		next = c.draft()
	}
	for _, name := range change.remove {
		next.drop(name)
	}
	for _, p := range change.put {
		next.put(p)
	}
	if change.root != nil {
		next.setRoot(change.root)
	}
	return next
}

// setRoot replaces the root of a collection that is being made. nil removes it.
func (c *collection) setRoot(root *Stored) {
	if c.root != nil {
		c.bytes -= c.root.bytes
	}
	if c.root = root; root != nil {
		c.bytes += root.bytes
	}
}

// put adds or replaces a policy of a collection that is being made.
func (c *collection) put(p *Stored) {
	c.bytes += p.bytes
	i, found := c.find(p.Name)
	if !found {
		c.policies = slices.Insert(c.policies, i, p)
		return
	}
	c.bytes -= c.policies[i].bytes
	c.policies[i] = p
}

// drop removes a policy from a revision that is being made.
func (c *collection) drop(name string) {
	if i, found := c.find(name); found {
		c.bytes -= c.policies[i].bytes
		c.policies = slices.Delete(c.policies, i, i+1)
	}
}

// dropPrefix removes the policies whose names have a prefix from a collection that
// is being made.
func (c *collection) dropPrefix(prefix string) {
	kept := c.policies[:0]
	for _, p := range c.policies {
		if strings.HasPrefix(p.Name, prefix) {
			c.bytes -= p.bytes
			continue
		}
		kept = append(kept, p)
	}
	clear(c.policies[len(kept):])
	c.policies = kept
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

// compile sets the plan of a collection. previous is one whose parts are reused. Policies that the root cannot reach may refer to policies that do not
// exist, because policies arrive in any order. It fails with an *[InvalidError], or
// with authz.ErrCanceled if ctx ends before.
func (d *Domain) compile(ctx context.Context, c, previous *collection) error {
	if c.root == nil {
		return nil
	}
	o := policy.CompileOptions{Functions: d.options.Functions, Bounds: d.options.Bounds, Previous: previous.plan}
	library := c.library()
	plan, err := policy.Compile(ctx, c.root.element, library, o)
	if err != nil {
		if some := c.reachable(); len(some) < len(library) {
			plan, err = policy.Compile(ctx, c.root.element, some, o)
		}
	}
	if err != nil {
		return invalid("", err)
	}
	c.plan = plan
	return nil
}

// reachable returns the elements that the root can reach through references,
// whatever versions these ask for.
func (c *collection) reachable() []policy.Element {
	byID := make(map[string][]*Stored, len(c.policies))
	for _, p := range c.policies {
		byID[p.ID] = append(byID[p.ID], p)
	}
	var out []policy.Element
	seen := map[string]bool{}
	for todo := slices.Clone(c.root.references); len(todo) > 0; {
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

// share replaces the policies of a collection that is being made by those of other
// that are the same, so that the compiler reuses what it compiled for them. It reports
// whether all of them are the same.
func (c *collection) share(other *collection) bool {
	if c.root != nil && c.root.same(other.root) {
		c.root = other.root
	}
	rest := other.policies
	for i, p := range c.policies {
		for len(rest) > 0 && rest[0].Name < p.Name {
			rest = rest[1:]
		}
		if len(rest) > 0 && p.same(rest[0]) {
			c.policies[i] = rest[0]
		}
	}
	return c.root == other.root && slices.Equal(c.policies, other.policies)
}

// Policies yields the named policies of a pinned revision whose names follow
// after, in the order of their names. "" begins with the first.
func (p *Pinned) Policies(after string) iter.Seq[Stored] {
	start, found := p.at.Value.find(after)
	if found {
		start++
	}
	return func(yield func(Stored) bool) {
		for _, one := range p.at.Value.policies[start:] {
			if !yield(*one) {
				return
			}
		}
	}
}

// Root returns the root of a pinned revision; nil if there is none.
func (p *Pinned) Root() *Stored {
	if p.at.Value.root == nil {
		return nil
	}
	root := *p.at.Value.root
	return &root
}
