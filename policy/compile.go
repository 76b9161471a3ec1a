package policy

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/value"
)

// CompileOptions are the options of [Compile] and [Check]. The zero
// CompileOptions are valid.
type CompileOptions struct {
	// Functions are the functions that policies may call. Nil means
	// [function.Standard].
	Functions *function.Set
	// Bounds limit the depth of policies and expressions.
	Bounds Bounds
	// Previous is a plan whose compiled parts are used again for the same trees: a
	// policy or set that is the same pointer as one in the previous plan is not
	// compiled again. Trees must not change after they are compiled. Nil compiles
	// everything. The previous plan stays valid.
	Previous *Plan
}

// Compile checks and compiles a tree of policies. References are resolved among
// the members of library: the newest version that fits counts. All of library is
// checked, even what the root does not reach. Compile fails with [Errors], which
// lists every mistake, or with the error of ctx if that ends before. Neither root nor
// library may change afterwards.
func Compile(ctx context.Context, root Element, library []Element, o CompileOptions) (*Plan, error) {
	c := newCompiler(ctx, o)
	c.loadLibrary(library)
	n := c.element(root, c.oldRoot())
	if len(c.errors) == 0 && c.ended == nil {
		c.checkTwice(n)
	}
	if err := c.result(); err != nil {
		return nil, err
	}
	p := &Plan{root: n, library: c.library, slots: c.slots.slots, functions: c.functions, bounds: c.bounds,
		slotsAtFirst: len(c.slots.list), size: c.size}
	if c.previous != nil {
		p.runs, p.slotsAtFirst = c.previous.runs, c.previous.slotsAtFirst
	} else {
		p.runs = &sync.Pool{New: newRun}
	}
	return p, nil
}

// Check checks one policy or policy set like [Compile], but does not resolve its
// references. It fails with [Errors], or with the error of ctx if that ends before.
func Check(ctx context.Context, e Element, o CompileOptions) error {
	c := newCompiler(ctx, o)
	c.element(e, nil)
	return c.result()
}

// compiler compiles trees of policies.
type compiler struct {
	report
	ctx       context.Context
	part      turns.Part
	ended     error // of ctx, once the compiler has noticed it
	functions *function.Set
	standard  *function.Set
	bounds    Bounds
	rules     map[string]algorithm // combining algorithms for rules, by id
	policies  map[string]algorithm // combining algorithms for policies, by id
	slots     slotsBuilder
	library   *library // nil if references are not resolved
	// nodes are the elements that this compilation compiled. An element is nil
	// while it is compiled, and if it is wrong.
	nodes map[Element]*node
	path  []Element // the elements that are being compiled, the root first
	size  int       // number of policies and sets under the root

	previous *Plan
	// before has the nodes of the previous plan by tree. It is made when the trees
	// of both plans cannot be compared place by place.
	before map[Element]*node
}

func newCompiler(ctx context.Context, o CompileOptions) *compiler {
	c := &compiler{ctx: ctx, functions: o.Functions, standard: function.Standard(), bounds: o.Bounds.withDefaults(),
		rules: map[string]algorithm{}, policies: map[string]algorithm{}, nodes: map[Element]*node{}}
	if c.functions == nil {
		c.functions = c.standard
	}
	for _, a := range algorithms() {
		if a.rules {
			c.rules[a.id] = a.algorithm
		} else {
			c.policies[a.id] = a.algorithm
		}
	}
	if p := o.Previous; p != nil && p.functions == c.functions && p.bounds == c.bounds && !p.slots.outgrown(p.slotsAtFirst) {
		c.previous = p
		c.slots.slots = p.slots
	} else {
		c.slots = slotsBuilder{&slots{seed: maphash.MakeSeed(), categories: map[string]map[string][]int32{}, selectors: map[string]int32{}}, true}
	}
	return c
}

// stepsPerPart is the number of steps of turns.Part that an expression, a policy or a
// rule takes.
const stepsPerPart = 32

// step counts a part of a policy. It returns false if the context has ended: what is
// compiled afterwards is incomplete, and [compiler.result] returns the error.
func (c *compiler) step() bool {
	if c.ended == nil {
		c.ended = c.part.Step(c.ctx, nil, stepsPerPart)
	}
	return c.ended == nil
}

// result returns the error of the context, or the mistakes, or nil if there are none.
func (c *compiler) result() error {
	if c.ended != nil {
		return c.ended
	}
	return c.err()
}

// oldRoot returns the root of the previous plan, or nil if there is none.
func (c *compiler) oldRoot() *node {
	if c.previous == nil {
		return nil
	}
	return c.previous.root
}

// element returns the compiled form of a policy or a policy set, or of the element
// that a reference names. like is the node of the previous plan at the same place,
// or nil. The result is nil if the element is invalid, or if it is a reference
// that is not resolved.
func (c *compiler) element(e Element, like *node) *node {
	switch e := e.(type) {
	case *Reference:
		if e != nil {
			return c.libraryNode(c.reference(e))
		}
	case *Policy:
		if e != nil {
			if old := c.old(e, like); old != nil {
				return old
			}
			return c.once(e, e.Position, func() *node { return c.policy(e) })
		}
	case *PolicySet:
		if e != nil {
			return c.once(e, e.Position, func() *node { return c.policySet(e, c.old(e, like), like) })
		}
	}
	c.add(Position{}, "an element is missing: expected a policy, a policy set or a reference")
	return nil
}

// old returns the node of the previous plan for the same tree, or nil if there is
// none. like is what that plan has at the same place: if it has the same name,
// but is another tree, the element was changed.
func (c *compiler) old(e Element, like *node) *node {
	switch {
	case c.previous == nil:
		return nil
	case like != nil && like.tree == e:
		return like
	case like != nil && like.id == nameOf(e):
		return nil
	case c.before == nil:
		c.before = c.previous.nodes()
	}
	return c.before[e]
}

// once compiles an element unless that has been done.
func (c *compiler) once(e Element, at Position, compile func() *node) *node {
	if n, ok := c.nodes[e]; ok {
		if n == nil && slices.Contains(c.path, e) {
			c.add(at, "policy sets contain each other: %s: expected no loop", c.loop(e))
		}
		return n
	}
	if len(c.path) >= c.bounds.PolicyDepth {
		c.add(at, "%s is nested deeper than the bound %q allows: expected at most %d levels", describe(e), BoundPolicyDepth, c.bounds.PolicyDepth)
		return nil
	}
	if !c.step() {
		return nil
	}
	c.nodes[e] = nil
	c.path = append(c.path, e)
	n := compile()
	c.path = c.path[:len(c.path)-1]
	c.nodes[e] = n
	return n
}

// loop returns the ids of the elements from e to the end of the path, and e
// again.
func (c *compiler) loop(e Element) string {
	var ids []string
	for _, on := range append(slices.Clone(c.path[slices.Index(c.path, e):]), e) {
		ids = append(ids, nameOf(on).ID)
	}
	return strings.Join(ids, " -> ")
}

// nameOf returns the name of a policy or a policy set.
func nameOf(e Element) PolicyVersion {
	switch e := e.(type) {
	case *Policy:
		return PolicyVersion{ID: e.ID, Version: e.Version}
	case *PolicySet:
		return PolicyVersion{Set: true, ID: e.ID, Version: e.Version}
	}
	return PolicyVersion{}
}

// describe returns the kind and the id of an element for error texts.
func describe(e Element) string {
	if name := nameOf(e); name.Set {
		return "policy set " + value.Quote(name.ID)
	} else {
		return "policy " + value.Quote(name.ID)
	}
}

// policy compiles a policy.
func (c *compiler) policy(p *Policy) *node {
	before := len(c.errors)
	c.versions(p.Version, p.XPathVersion, p.Position)
	e := newExpressions(c, p.Variables)
	n := c.newNode(p, p.Position)
	n.target, n.algorithm = e.target(p.Target), c.algorithm(c.rules, p.Algorithm, "rules", p.Position)
	n.variables = e.definitions()
	n.duties = e.allDuties(p.Obligations, p.Advice)
	n.rules = e.allRules(p.Rules)
	if len(c.errors) > before || c.ended != nil {
		return nil
	}
	n.complete(c.slots.seed, nil)
	return n
}

// newNode returns a node without content.
func (c *compiler) newNode(e Element, at Position) *node {
	name := nameOf(e)
	return &node{tree: e, id: name, hash: maphash.Comparable(c.slots.seed, name), position: at, depth: 1}
}

// policySet compiles a policy set and its members. old is the node of the previous
// plan for the same tree, and like its node at the same place; either may be nil.
// The result is old if neither its members nor their places in the library have
// changed.
func (c *compiler) policySet(s *PolicySet, old, like *node) *node {
	before := len(c.errors)
	if old != nil {
		like = old
	}
	n := c.setAlone(s, old)
	n.references = c.references(s, like)
	children, depth := c.members(s, n.references, like)
	if len(c.errors) > before || c.ended != nil {
		return nil
	}
	if old != nil && slices.Equal(old.children, children) && slices.Equal(old.references, n.references) {
		return old
	}
	n.children, n.depth = children, depth
	if n.depth > c.bounds.PolicyDepth {
		c.add(s.Position, "%s contains more levels than the bound %q allows: expected at most %d", describe(s), BoundPolicyDepth, c.bounds.PolicyDepth)
		return nil
	}
	n.complete(c.slots.seed, like)
	return n
}

// setAlone compiles a policy set without its members.
func (c *compiler) setAlone(s *PolicySet, old *node) *node {
	if old != nil {
		alone := *old
		return &alone
	}
	c.versions(s.Version, s.XPathVersion, s.Position)
	e := newExpressions(c, nil)
	n := c.newNode(s, s.Position)
	n.target, n.algorithm = e.target(s.Target), c.algorithm(c.policies, s.Algorithm, "policies", s.Position)
	n.duties = e.allDuties(s.Obligations, s.Advice)
	if n.algorithm == onPermitApplySecond && len(s.Children) != 2 && len(s.Children) != 3 {
		c.add(s.Position, "the number of members of %s is %d: expected 2 or 3 for %s", describe(s), len(s.Children), s.Algorithm)
	}
	return n
}

// references returns, for each member of a policy set, the number of the element
// of the library that it refers to. The number is -1 if the member is no
// reference, or if nothing fits it. like is what the previous plan has at the
// place of the set, or nil: if neither the set nor the names of the library
// changed, its references lead to the same numbers.
func (c *compiler) references(s *PolicySet, like *node) []int32 {
	if like != nil && like.tree == s && c.library != nil && c.library.byID == c.previous.library.byID {
		return like.references
	}
	out := make([]int32, len(s.Children))
	for i, child := range s.Children {
		out[i] = -1
		if ref, ok := child.(*Reference); ok && ref != nil {
			out[i] = c.reference(ref)
		}
	}
	return out
}

// members compiles the members of a policy set. references are its references,
// and like is what the previous plan has at its place, or nil. It also returns the
// number of levels with the set itself.
func (c *compiler) members(s *PolicySet, references []int32, like *node) (children []*node, depth int) {
	children, depth = make([]*node, 0, len(s.Children)), 1
	member := func(i int) *node {
		if ref, ok := s.Children[i].(*Reference); ok && ref != nil {
			return c.libraryNode(references[i])
		}
		if like != nil && i < len(like.children) {
			return c.element(s.Children[i], like.children[i])
		}
		return c.element(s.Children[i], nil)
	}
	for i := range s.Children {
		if n := member(i); n != nil {
			children = append(children, n)
			depth = max(depth, n.depth+1)
		}
	}
	return children, depth
}

// versions checks the version of a policy or a set, and the version of XPath in its
// defaults, which is "" if there is none.
func (c *compiler) versions(text, xpath string, at Position) {
	if !isVersion(text) {
		c.add(at, "invalid version %s: expected numbers with dots, for example 1.0", value.Quote(text))
	}
	if xpath != "" && !content.IsXPathVersion(xpath) {
		c.add(at, "unsupported XPathVersion %s: expected %q", value.Quote(xpath), content.XPathVersion)
	}
}

// algorithm finds a combining algorithm.
func (c *compiler) algorithm(known map[string]algorithm, id, what string, at Position) algorithm {
	a, ok := known[id]
	if ok {
		return a
	}
	other, others, example := c.policies, "policies", AlgorithmRulesDenyOverrides
	if what == "policies" {
		other, others, example = c.rules, "rules", AlgorithmDenyOverrides
	}
	switch _, ofOther := other[id]; {
	case ofOther:
		c.add(at, "the combining algorithm %s combines %s: expected one for %s, for example %s", value.Quote(id), others, what, example)
	default:
		c.add(at, "unknown combining algorithm %s%s: expected one for %s, for example %s", value.Quote(id), nearestID(id, maps.Keys(known)), what, example)
	}
	return a
}

// nearestFunction returns a question for an error text: whether the function nearest
// to id is meant, or "".
func (c *compiler) nearestFunction(id string) string {
	return nearestID(id, func(yield func(string) bool) {
		for f := range c.functions.All() {
			if !yield(f.ID) {
				return
			}
		}
	})
}

// nearestID returns a question for an error text: whether the identifier whose last
// part is nearest to that of id is meant. It returns "" if none is near.
func nearestID(id string, known iter.Seq[string]) string {
	last := func(id string) string { return id[strings.LastIndexByte(id, ':')+1:] }
	all := slices.Sorted(known)
	slices.Reverse(all) // newer versions of an algorithm first
	found := quote.Nearest(last(id), func(yield func(string) bool) {
		for _, one := range all {
			if !yield(last(one)) {
				return
			}
		}
	})
	for _, one := range all {
		if found == "" && last(one) == last(id) || found != "" && last(one) == found {
			return fmt.Sprintf(" (did you mean %q?)", one)
		}
	}
	return ""
}

// checkTwice checks that no two different policies under the root have the same
// id and version.
func (c *compiler) checkTwice(root *node) {
	expected := len(c.nodes)
	if c.previous != nil {
		expected += c.previous.size
	}
	t := &twice{compiler: c, names: newTable[PolicyVersion](expected)}
	t.visit(root)
	c.size = len(t.nodes)
}

// twice finds policies with the same name.
type twice struct {
	*compiler
	names *table[PolicyVersion]
	nodes []*node // by number of the name
}

func (t *twice) visit(n *node) {
	number, isNew := t.names.add(n.hash, n.id)
	if !isNew {
		if other := t.nodes[number]; other.tree != n.tree {
			t.add(n.position, "id %s with version %s is defined twice, also at %s: expected distinct ids or versions",
				value.Quote(n.id.ID), n.id.Version, other.position)
		}
		return
	}
	t.nodes = append(t.nodes, n)
	for _, child := range n.children {
		t.visit(child)
	}
}
