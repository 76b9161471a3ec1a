package policy

import (
	"hash/maphash"
	"slices"

	"github.com/ostiary/ostiary/policy/value"
)

// A guard is a necessary condition for a child to apply: for one of the keys of
// the guard, the bag of the key's slot contains the key's value or is an error. An
// index uses guards to find the children that can apply:
//
//	I1: a child that is not found would be NotApplicable.
//	I2: children are found in document order, each once.
//
// So every algorithm gives the same result with an index as without one, and the
// first error in document order is the same.
type guard []guardKey

// guardKey is a match for equality: the slot has a value with the key.
type guardKey struct {
	indexKey
	// required is true if an empty bag is an error, so that the child must be
	// evaluated then.
	required bool
	hash     uint64 // of the indexKey
}

// indexKey is a key of a slot.
type indexKey struct {
	slot int32
	key  value.Key
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
	// The children with key n of the table are postings[starts[n]:starts[n+1]], in
	// order.
	keys     *table[indexKey]
	starts   []int32
	postings []int32
	// always are the children without a guard, in order.
	always []int32
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
			k := indexKey{p.slot, values[j].Key()}
			add(x.list(maphash.Comparable(r.plan.slots.seed, k), &k))
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
func (x *index) list(hash uint64, k *indexKey) []int32 {
	n := x.keys.find(hash, k)
	if n < 0 {
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
	x := &index{always: always}
	x.post(chosen, x.number(chosen))
	return x
}

// chooseGuards chooses a guard for each child, one whose keys probably find the
// fewest children, and returns the children that have none.
func chooseGuards(count int, choices func(child int) []guard) (chosen []guard, always []int32) {
	chosen = make([]guard, count)
	var uses usage
	for i := range chosen {
		guards := choices(i)
		switch {
		case len(guards) == 0:
			always = append(always, int32(i))
			continue
		case len(guards) > 1 && uses == nil:
			uses = countUses(count, choices)
		}
		chosen[i] = uses.cheapest(guards)
	}
	return chosen, always
}

// usage counts, by slot, the keys of guards.
type usage map[int32]*slotUsage

// slotUsage counts the keys of a slot.
type slotUsage struct {
	keys int
	// seen has a bit for each hash of a key, modulo its size. The number of bits
	// that are set estimates the number of different keys.
	seen      [64]uint64
	different int // bits that are set in seen
}

// countUses counts the keys in the guards of all children.
func countUses(count int, choices func(child int) []guard) usage {
	uses := usage{}
	for i := range count {
		for _, g := range choices(i) {
			for j := range g {
				uses.add(&g[j])
			}
		}
	}
	return uses
}

func (u usage) add(k *guardKey) {
	s := u[k.slot]
	if s == nil {
		s = &slotUsage{}
		u[k.slot] = s
	}
	s.keys++
	if word, bit := &s.seen[k.hash>>6%64], uint64(1)<<(k.hash%64); *word&bit == 0 {
		*word |= bit
		s.different++
	}
}

// cheapest returns the guard whose keys probably find the fewest children.
func (u usage) cheapest(guards []guard) guard {
	best, least := guards[0], 0
	if len(guards) == 1 {
		return best
	}
	for i, g := range guards {
		cost := 0
		for j := range g {
			s := u[g[j].slot]
			cost += s.keys * 64 / s.different
		}
		if i == 0 || cost < least {
			best, least = g, cost
		}
	}
	return best
}

// number numbers the keys, and reserves the room of their lists. It returns the
// numbers in the order of the guards.
func (x *index) number(chosen []guard) (numbers []int32) {
	count := 0
	for _, g := range chosen {
		count += len(g)
	}
	x.keys = newTable[indexKey](count)
	numbers = make([]int32, 0, count)
	x.starts = make([]int32, 1, count+1)
	for _, g := range chosen {
		for j := range g {
			n, isNew := x.keys.add(g[j].hash, g[j].indexKey)
			if isNew {
				x.starts = append(x.starts, 0)
			}
			x.starts[n+1]++
			numbers = append(numbers, int32(n))
		}
	}
	for n := 1; n < len(x.starts); n++ {
		x.starts[n] += x.starts[n-1]
	}
	x.postings = make([]int32, count)
	return numbers
}

// post puts the children into the lists of their keys and slots.
func (x *index) post(chosen []guard, numbers []int32) {
	next := slices.Clone(x.starts)
	var last *place
	for i, g := range chosen {
		for j := range g {
			n := numbers[0]
			numbers = numbers[1:]
			x.postings[next[n]] = int32(i)
			next[n]++
			if last == nil || last.slot != g[j].slot {
				last = x.place(g[j].slot)
			}
			last.add(int32(i), g[j].required)
		}
	}
}

// place returns the place of a slot, and adds it if it is new. The result is
// valid until the next one is added.
func (x *index) place(slot int32) *place {
	for i := range x.places {
		if x.places[i].slot == slot {
			return &x.places[i]
		}
	}
	x.places = append(x.places, place{slot: slot})
	return &x.places[len(x.places)-1]
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
func (t target) guards(seed maphash.Seed) []guard {
	var out []guard
	for _, any := range t {
		if g := anyOfGuard(any, seed); g != nil {
			out = append(out, g)
		}
	}
	return out
}

// anyOfGuard returns the guard of a disjunction, or nil if it has none.
func anyOfGuard(parts [][]match, seed maphash.Seed) guard {
	var g guard
	for _, part := range parts {
		i := slices.IndexFunc(part, func(m match) bool { return m.isGuard() })
		if i < 0 {
			return nil
		}
		d := part[i].bag.(*designator)
		k := indexKey{slot: d.slot, key: part[i].key}
		g = append(g, guardKey{indexKey: k, required: d.missing != nil, hash: maphash.Comparable(seed, k)})
	}
	return g.unique()
}

// unique joins equal keys of the guard, so that an index finds a child once.
func (g guard) unique() guard {
	if len(g) < 2 {
		return g
	}
	seen := newTable[indexKey](len(g))
	kept := g[:0]
	for _, k := range g {
		if n, isNew := seen.add(k.hash, k.indexKey); isNew {
			kept = append(kept, k)
		} else {
			kept[n].required = kept[n].required || k.required
		}
	}
	return kept
}

// isGuard reports whether the match compares an attribute for equality.
func (m *match) isGuard() bool {
	_, ok := m.bag.(*designator)
	return ok && m.equal
}

// guards returns the guards of a node as a child. With targetsOnly it returns the
// guards of the target only. The algorithm only-one-applicable needs them, because
// it evaluates the targets of its children before it evaluates a child.
func (n *node) guards(targetsOnly bool) []guard {
	if targetsOnly {
		return n.choices[:n.targets]
	}
	return n.choices
}

// childGuards returns the guards of a rule or member.
func (n *node) childGuards(i int) []guard {
	if n.id.Set {
		return n.children[i].guards(n.algorithm == onlyOneApplicable)
	}
	return n.rules[i].guards
}

// complete makes the guards and the index of a node from its target and its
// children. If the children of like have the same guards, its index is used again;
// like may be nil.
func (n *node) complete(seed maphash.Seed, like *node) {
	for i := range n.rules {
		n.rules[i].guards = n.rules[i].target.guards(seed)
	}
	switch {
	case n.algorithm == onPermitApplySecond:
		n.index = nil
	case like != nil && n.sameGuards(like):
		n.index = like.index
	default:
		n.index = newIndex(n.len(), n.childGuards)
	}
	n.choices = n.target.guards(seed)
	n.targets = len(n.choices)
	if d := n.derived(); d != nil {
		n.choices = append(n.choices, d)
	}
}

// sameGuards reports whether two policy sets have the same combining algorithm, and
// members with the same guards in the same order.
func (n *node) sameGuards(like *node) bool {
	return n.algorithm == like.algorithm && slices.EqualFunc(n.children, like.children, func(a, b *node) bool {
		return a == b || a.targets == b.targets && slices.EqualFunc(a.choices, b.choices, slices.Equal)
	})
}

// derived joins the guards of all children: unless the algorithm decides without
// applicable children, the node applies only if a child does. It returns nil if a
// child has no guard, or if there are too many.
func (n *node) derived() guard {
	if n.algorithm == denyUnlessPermit || n.algorithm == permitUnlessDeny || n.len() > guardKeysMax {
		return nil
	}
	all := guard{}
	for i := range n.len() {
		choices := n.childGuards(i)
		if len(choices) == 0 {
			return nil
		}
		all = append(all, slices.MinFunc(choices, func(a, b guard) int { return len(a) - len(b) })...)
		if len(all) > guardKeysMax {
			return nil
		}
	}
	return all.unique()
}
