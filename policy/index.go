package policy

import (
	"slices"

	"github.com/ostiary/ostiary/policy/value"
)

// A guard is a condition without which a child certainly does not apply: one of
// its keys has its value among those of its slot, or the slot's bag is an error
// for it. An index finds by guards the children that can apply:
//
//	I1: a child that is not found would be NotApplicable.
//	I2: children are found in document order, each once.
//
// So every algorithm gives the same result with an index as without, and the
// first error in document order is the same, too.
type guard []guardKey

// guardKey is a match for equality: the slot has a value with the key.
type guardKey struct {
	slot int32
	// required is true if an empty bag is an error, so that the child must be
	// evaluated then.
	required bool
	key      value.Key
}

const (
	// indexMin is the least number of children for which an index is made.
	indexMin = 8
	// guardKeysMax is the largest number of keys in a guard that is made of the
	// guards of children.
	guardKeysMax = 32
)

// index finds the children of a node that can apply to a request.
type index struct {
	places []place
	// keys numbers the pairs of slot and key. The children with pair n are
	// postings[starts[n]:starts[n+1]], in order.
	keys     map[indexKey]int32
	starts   []int32
	postings []int32
	// always are the children without a guard, in order.
	always []int32
}

// indexKey is a key of a slot.
type indexKey struct {
	slot int32
	key  value.Key
}

// place is a slot that an index looks at.
type place struct {
	slot     int32
	all      []int32 // children with a key of the slot, in order
	required []int32 // those of them for which an empty bag is an error, in order
}

// find returns the children that can apply, in order. The result is valid until
// the caller shortens r.found.
func (x *index) find(r *run) []int32 {
	base := len(r.found)
	only := x.always // the result, as long as only one list contributes to it
	add := func(list []int32) {
		switch {
		case len(list) == 0:
		case len(only) == 0 && len(r.found) == base:
			only = list
		default:
			if len(r.found) == base {
				r.found = append(r.found, only...)
			}
			r.found = append(r.found, list...)
		}
	}
	for i := range x.places {
		p := &x.places[i]
		values, err := r.bag(p.slot)
		if err == nil {
			err = r.step(1 + len(values))
		}
		switch {
		case err != nil:
			add(p.all)
		case len(values) == 0:
			add(p.required)
		}
		for j := range values {
			add(x.list(indexKey{p.slot, values[j].Key()}))
		}
	}
	if len(r.found) == base {
		return only
	}
	all := r.found[base:]
	slices.Sort(all)
	all = slices.Compact(all)
	r.found = r.found[:base+len(all)]
	return all
}

// list returns the children with a key.
func (x *index) list(k indexKey) []int32 {
	n, ok := x.keys[k]
	if !ok {
		return nil
	}
	return x.postings[x.starts[n]:x.starts[n+1]]
}

// newIndex returns an index over the guards of count children. choices returns
// the guards of a child, of which any can be used. It returns nil if an index
// would not find fewer children.
func newIndex(count int, choices func(child int) []guard) *index {
	if count < indexMin {
		return nil
	}
	chosen, always := chooseGuards(count, choices)
	if len(always)*2 > count {
		return nil
	}
	x := &index{keys: make(map[indexKey]int32, count), always: always}
	x.number(chosen)
	x.post(chosen)
	return x
}

// chooseGuards chooses a guard for each child, the one that the fewest children
// share, and returns the children that have none.
func chooseGuards(count int, choices func(child int) []guard) (chosen []guard, always []int32) {
	chosen = make([]guard, count)
	var uses map[indexKey]int // how many guards have a key; made when a child has a choice
	for i := range chosen {
		guards := choices(i)
		switch {
		case len(guards) == 0:
			always = append(always, int32(i))
			continue
		case len(guards) > 1 && uses == nil:
			uses = countUses(count, choices)
		}
		chosen[i] = slices.MinFunc(guards, func(a, b guard) int { return a.cost(uses) - b.cost(uses) })
	}
	return chosen, always
}

// countUses counts how many guards of all children have each key.
func countUses(count int, choices func(child int) []guard) map[indexKey]int {
	uses := make(map[indexKey]int, count)
	for i := range count {
		for _, g := range choices(i) {
			for _, k := range g {
				uses[indexKey{k.slot, k.key}]++
			}
		}
	}
	return uses
}

// cost returns how many children share the keys of the guard.
func (g guard) cost(uses map[indexKey]int) int {
	sum := 0
	for _, k := range g {
		sum += uses[indexKey{k.slot, k.key}]
	}
	return sum
}

// number numbers the pairs of slot and key, and reserves the room of their lists.
func (x *index) number(chosen []guard) {
	var sizes []int32
	for _, g := range chosen {
		for _, k := range g {
			pair := indexKey{k.slot, k.key}
			n, ok := x.keys[pair]
			if !ok {
				n = int32(len(sizes))
				x.keys[pair] = n
				sizes = append(sizes, 0)
			}
			sizes[n]++
		}
	}
	x.starts = make([]int32, len(sizes)+1)
	for n, size := range sizes {
		x.starts[n+1] = x.starts[n] + size
	}
	x.postings = make([]int32, x.starts[len(sizes)])
}

// post puts the children into the lists of their keys and slots.
func (x *index) post(chosen []guard) {
	next := slices.Clone(x.starts)
	places := map[int32]int{}
	for i, g := range chosen {
		for _, k := range g {
			n := x.keys[indexKey{k.slot, k.key}]
			x.postings[next[n]] = int32(i)
			next[n]++
			at, ok := places[k.slot]
			if !ok {
				at = len(x.places)
				places[k.slot] = at
				x.places = append(x.places, place{slot: k.slot})
			}
			x.places[at].add(int32(i), k.required)
		}
	}
}

// add adds a child to the lists of a place, once.
func (p *place) add(child int32, required bool) {
	if n := len(p.all); n == 0 || p.all[n-1] != child {
		p.all = append(p.all, child)
	}
	if n := len(p.required); required && (n == 0 || p.required[n-1] != child) {
		p.required = append(p.required, child)
	}
}

// guards returns the guards of a target: one for each disjunction of which each
// part has a match for equality.
func (t target) guards() []guard {
	var out []guard
	for _, any := range t {
		if g := anyOfGuard(any); g != nil {
			out = append(out, g)
		}
	}
	return out
}

// anyOfGuard returns the guard of a disjunction, or nil if it has none.
func anyOfGuard(parts [][]match) guard {
	var g guard
	for _, part := range parts {
		i := slices.IndexFunc(part, func(m match) bool { _, ok := m.guardKey(); return ok })
		if i < 0 {
			return nil
		}
		k, _ := part[i].guardKey()
		g = append(g, k)
	}
	return g
}

// guardKey returns the key of a match for equality with an attribute.
func (m *match) guardKey() (guardKey, bool) {
	d, ok := m.bag.(*designator)
	if !ok || !m.equal {
		return guardKey{}, false
	}
	return guardKey{slot: d.slot, required: d.missing != nil, key: m.key}, true
}

// guards returns the guards of a node as a child. Only those of the target may
// be used for only-one-applicable, which asks for targets and not for values.
func (n *node) guards(targetsOnly bool) []guard {
	if targetsOnly || n.derived == nil {
		return n.targets
	}
	return append(slices.Clip(n.targets), n.derived)
}

// makeIndex makes the index over the children of the node.
func (n *node) makeIndex() {
	n.index = nil
	switch {
	case n.algorithm == onPermitApplySecond:
	case n.id.Set:
		targetsOnly := n.algorithm == onlyOneApplicable
		n.index = newIndex(len(n.children), func(i int) []guard { return n.children[i].guards(targetsOnly) })
	default:
		n.index = newIndex(len(n.rules), func(i int) []guard { return n.rules[i].targets })
	}
}

// derive joins the guards of all children: if the node is not one that decides
// without applicable children, it applies only if a child does.
func (n *node) derive() {
	n.derived = nil
	if n.algorithm == denyUnlessPermit || n.algorithm == permitUnlessDeny || n.len() > guardKeysMax {
		return
	}
	var all guard
	for i := range n.len() {
		var choices []guard
		if n.id.Set {
			choices = n.children[i].guards(n.algorithm == onlyOneApplicable)
		} else {
			choices = n.rules[i].targets
		}
		if len(choices) == 0 {
			return
		}
		all = append(all, slices.MinFunc(choices, func(a, b guard) int { return len(a) - len(b) })...)
		if len(all) > guardKeysMax {
			return
		}
	}
	n.derived = all
}
