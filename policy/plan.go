package policy

import (
	"hash/maphash"
	"sync"

	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// Plan is a compiled tree of policies. It is immutable, and may decide any number
// of requests concurrently. [Compile] makes it.
type Plan struct {
	root      *node
	library   *library
	slots     *slots
	functions *function.Set
	bounds    Bounds
	// runs has the states of evaluations for reuse. Plans that follow each other
	// have the same pool.
	runs *sync.Pool
	size int // number of policies and sets under the root
	// slotsAtFirst is the number of slots of the first of the plans that follow
	// each other.
	slotsAtFirst int
}

// nodes returns the nodes of the plan by their trees.
func (p *Plan) nodes() map[Element]*node {
	out := make(map[Element]*node, p.size)
	var visit func(n *node)
	visit = func(n *node) {
		if _, ok := out[n.tree]; ok {
			return
		}
		out[n.tree] = n
		for _, child := range n.children {
			visit(child)
		}
	}
	visit(p.root)
	for _, n := range p.library.nodes {
		visit(n)
	}
	return out
}

// node is a compiled policy or policy set.
type node struct {
	tree      Element // what the node was compiled from
	id        PolicyVersion
	hash      uint64 // of id
	position  Position
	target    target
	algorithm algorithm
	children  []*node // members of a policy set
	// references are the numbers of the elements of the library that the members of
	// a policy set refer to, or -1.
	references []int32
	rules      []rule       // rules of a policy
	variables  []expression // definitions of a policy, by number
	duties     [2][]duty    // obligations and advice, by effect: Permit, Deny
	index      *index       // finds the children that can apply; nil if all must be tried
	depth      int          // number of nodes on the longest path to a policy
	// choices are the guards of the node as a child, of which the first are those
	// of its target. See guard.
	choices []guard
	targets int // number of guards of the target
}

// len returns the number of rules or members.
func (n *node) len() int {
	if n.id.Set {
		return len(n.children)
	}
	return len(n.rules)
}

// rule is a compiled rule.
type rule struct {
	id        string
	position  Position
	effect    Effect
	target    target
	condition expression // nil means true
	duties    []duty     // obligations and advice for the effect
	guards    []guard    // see guard
}

// target is a compiled Target: a conjunction of disjunctions of conjunctions.
type target [][][]match

// match compares a literal with the values of a bag.
type match struct {
	literal value.Value
	// key is the key of the literal if values match that have the same key.
	// Otherwise test is called.
	key   value.Key
	equal bool
	text  bool // equal, and the values are strings
	test  function.Test
	bag   bagExpression
}

// bagExpression is an expression whose value is a bag of attribute values: a
// designator or a selector.
type bagExpression interface {
	expression
	bag(r *run) ([]value.Value, *status.Error)
}

// expression is a compiled expression.
type expression interface {
	// eval returns the value. It fails if the expression is Indeterminate.
	eval(r *run) (function.Operand, *status.Error)
}

// duty is a compiled obligation or piece of advice.
type duty struct {
	id          string
	advice      bool
	assignments []assignment
}

// assignment computes arguments of a duty.
type assignment struct {
	argument   Argument // everything but the value
	expression expression
}

// slots numbers the attributes that the policies of a plan designate or select,
// so that an evaluation finds the values of each at most once. A slots is
// immutable once its plan is compiled.
type slots struct {
	seed       maphash.Seed // of the hashes in indexes
	list       []slot
	categories map[string]map[string][]int32 // slots of attributes by category and id
	selectors  map[string]int32              // slots of selectors by key
}

// slot identifies a bag of values: an attribute by category, id, type and issuer,
// or the nodes of a selector by category, type and selection.
type slot struct {
	designator Designator // without MustBePresent and Position
	selection  *selection // nil for an attribute
	clock      bool       // the time of the request, if the request has none
}

// find returns the number of the slot of an attribute.
func (s *slots) find(d *Designator) (int32, bool) {
	for _, n := range s.categories[d.Category][d.ID] {
		if is := &s.list[n].designator; is.Type == d.Type && is.Issuer == d.Issuer {
			return n, true
		}
	}
	return 0, false
}

// outgrown reports whether so many slots were added to the first ones that they
// should be numbered again: policies that used them may be gone.
func (s *slots) outgrown(first int) bool { return len(s.list) > 2*first+1000 }

// isClock reports whether a designator names an attribute that the decision
// point supplies if the request does not (section 10.2.5).
func isClock(d *Designator) bool {
	if d.Category != CategoryEnvironment || d.Issuer != "" {
		return false
	}
	switch d.ID {
	case AttributeCurrentTime:
		return d.Type == value.Time
	case AttributeCurrentDate:
		return d.Type == value.Date
	case AttributeCurrentDateTime:
		return d.Type == value.DateTime
	}
	return false
}
