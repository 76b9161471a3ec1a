package policy

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/policy/function"
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
// checked, even what the root does not reach. The error is of type [Errors] and
// has everything that is wrong. Neither root nor library may change afterwards.
func Compile(root Element, library []Element, o CompileOptions) (*Plan, error) {
	c := newCompiler(o)
	c.library = c.newLibrary(library)
	for _, e := range library {
		c.element(e)
	}
	n := c.element(root)
	if len(c.errors) == 0 {
		c.checkTwice(n)
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	p := &Plan{root: n, slots: c.slots.slots, functions: c.functions, bounds: c.bounds, nodes: c.nodes}
	if c.previous != nil {
		p.runs = c.previous.runs
	} else {
		p.runs = &sync.Pool{New: newRun}
	}
	return p, nil
}

// Check checks one policy or policy set like [Compile], but does not resolve its
// references. The error is of type [Errors].
func Check(e Element, o CompileOptions) error {
	c := newCompiler(o)
	c.element(e)
	return c.err()
}

// compiler compiles trees of policies.
type compiler struct {
	report
	functions *function.Set
	standard  *function.Set
	bounds    Bounds
	rules     map[string]algorithm // combining algorithms for rules, by id
	policies  map[string]algorithm // combining algorithms for policies, by id
	slots     slotsBuilder
	previous  *Plan
	library   *library // nil if references are not resolved
	// nodes are the compiled elements. An element is nil while it is compiled, and
	// if it is wrong.
	nodes map[Element]*node
	path  []Element // the elements that are being compiled, the root first
}

func newCompiler(o CompileOptions) *compiler {
	c := &compiler{functions: o.Functions, standard: function.Standard(), bounds: o.Bounds.withDefaults(),
		rules: map[string]algorithm{}, policies: map[string]algorithm{}}
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
	if p := o.Previous; p != nil && p.functions == c.functions && p.bounds == c.bounds {
		c.previous = p
		c.slots.slots = p.slots
		c.nodes = make(map[Element]*node, len(p.nodes)+1)
	} else {
		c.nodes = map[Element]*node{}
		c.slots = slotsBuilder{&slots{seed: maphash.MakeSeed(), categories: map[string]map[string][]int32{}}, true}
	}
	return c
}

// element returns the compiled form of a policy, a policy set, or what a
// reference refers to. It returns nil if it is wrong, or if it is a reference
// that is not resolved.
func (c *compiler) element(e Element) *node {
	switch e := e.(type) {
	case *Reference:
		return c.reference(e)
	case *Policy:
		if e != nil {
			return c.once(e, e.Position, func(old *node) *node { return c.policy(e, old) })
		}
	case *PolicySet:
		if e != nil {
			return c.once(e, e.Position, func(old *node) *node { return c.policySet(e, old) })
		}
	}
	c.add(Position{}, "an element is missing: expected a policy, a policy set or a reference")
	return nil
}

// once compiles an element unless that has been done. old is what the previous
// plan has for it, or nil.
func (c *compiler) once(e Element, at Position, compile func(old *node) *node) *node {
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
	var old *node
	if c.previous != nil {
		old = c.previous.nodes[e]
	}
	c.nodes[e] = nil
	c.path = append(c.path, e)
	n := compile(old)
	c.path = c.path[:len(c.path)-1]
	c.nodes[e] = n
	return n
}

// loop returns the ids of the elements from e to the end of the path, and e
// again.
func (c *compiler) loop(e Element) string {
	var ids []string
	for _, on := range append(c.path[slices.Index(c.path, e):len(c.path):len(c.path)], e) {
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
		return "policy set " + quote(name.ID)
	} else {
		return "policy " + quote(name.ID)
	}
}

// policy compiles a policy.
func (c *compiler) policy(p *Policy, old *node) *node {
	if old != nil {
		return old
	}
	before := len(c.errors)
	c.version(p.Version, p.Position)
	e := newExpressions(c, p.Variables)
	n := &node{id: nameOf(p), position: p.Position, depth: 1, target: e.target(p.Target),
		algorithm: c.algorithm(c.rules, p.Algorithm, "rules", p.Position)}
	n.variables = e.definitions()
	n.duties = e.allDuties(p.Obligations, p.Advice)
	n.rules = e.allRules(p.Rules)
	if len(c.errors) > before {
		return nil
	}
	n.complete(c.slots.seed)
	return n
}

// policySet compiles a policy set and its members. What was compiled before is
// used again, if the members are the same.
func (c *compiler) policySet(s *PolicySet, old *node) *node {
	before := len(c.errors)
	n := c.setAlone(s, old)
	children, depth := c.members(s)
	if len(c.errors) > before {
		return nil
	}
	if old != nil && slices.Equal(old.children, children) {
		return old
	}
	n.children, n.depth = children, depth
	if n.depth > c.bounds.PolicyDepth {
		c.add(s.Position, "%s contains more levels than the bound %q allows: expected at most %d", describe(s), BoundPolicyDepth, c.bounds.PolicyDepth)
		return nil
	}
	n.complete(c.slots.seed)
	return n
}

// setAlone compiles a policy set without its members.
func (c *compiler) setAlone(s *PolicySet, old *node) *node {
	if old != nil {
		alone := *old
		return &alone
	}
	c.version(s.Version, s.Position)
	e := newExpressions(c, nil)
	n := &node{id: nameOf(s), position: s.Position, target: e.target(s.Target),
		algorithm: c.algorithm(c.policies, s.Algorithm, "policies", s.Position)}
	n.duties = e.allDuties(s.Obligations, s.Advice)
	if n.algorithm == onPermitApplySecond && len(s.Children) != 2 && len(s.Children) != 3 {
		c.add(s.Position, "%s has %d members: expected 2 or 3 for %s", describe(s), len(s.Children), s.Algorithm)
	}
	return n
}

// members compiles the members of a policy set. It also returns the number of
// levels with the set itself.
func (c *compiler) members(s *PolicySet) (children []*node, depth int) {
	children, depth = make([]*node, 0, len(s.Children)), 1
	for _, child := range s.Children {
		if n := c.element(child); n != nil {
			children = append(children, n)
			depth = max(depth, n.depth+1)
		}
	}
	return children, depth
}

// version checks a version.
func (c *compiler) version(text string, at Position) {
	if !isVersion(text) {
		c.add(at, "invalid version %s: expected numbers with dots, for example 1.0", quote(text))
	}
}

// algorithm finds a combining algorithm.
func (c *compiler) algorithm(known map[string]algorithm, id, what string, at Position) algorithm {
	a, ok := known[id]
	if !ok {
		c.add(at, "unknown combining algorithm %s: expected one for %s, for example %s", quote(id), what,
			map[string]string{"rules": AlgorithmRulesDenyOverrides, "policies": AlgorithmDenyOverrides}[what])
	}
	return a
}

// checkTwice checks that no two different policies under the root have the same
// id and version.
func (c *compiler) checkTwice(root *node) {
	seen := make(map[PolicyVersion]*node, len(c.nodes))
	var visit func(n *node)
	visit = func(n *node) {
		other, ok := seen[n.id]
		switch {
		case !ok:
			seen[n.id] = n
		case other == n:
			return
		default:
			c.add(n.position, "id %s with version %s is defined twice, also at %s: expected distinct ids or versions",
				quote(n.id.ID), n.id.Version, other.position)
			return
		}
		for _, child := range n.children {
			visit(child)
		}
	}
	visit(root)
}
