package schema

import "slices"

// reach computes the Reach of each relation as a least fixpoint. It takes one
// component after the other, dependencies first, so that it only repeats the
// relations of one component.
func (c *compilation) reach() {
	order := c.dependenciesFirst()
	for start := 0; start < len(order) && len(c.errs) == 0; {
		end := start
		comp := c.s.Relations[order[start]].Component
		for end < len(order) && c.s.Relations[order[end]].Component == comp {
			end++
		}
		members := order[start:end]
		if c.s.Relations[members[0]].Cycle == CyclePlain {
			c.reachTogether(members)
		} else {
			c.reachMixed(members)
		}
		start = end
	}
}

// reachTogether computes the Reach of a component whose cycles contain only
// unions. Each member contains all others then, so they share one set. A relation
// without cycles is such a component.
func (c *compilation) reachTogether(members []RelationID) {
	set, any := newKindSetBuilder(len(c.s.Kinds)), false
	for _, id := range members {
		if !c.work(id) {
			return
		}
		r := &c.s.Relations[id]
		any = c.reachOf(r.Expr, set) || any
		set.add(r.Kind) // the userset o#r is a member of o#r
	}
	for _, id := range members {
		c.s.Relations[id].Reach, c.s.Relations[id].ReachAny = set.set, any
	}
}

// reachMixed computes the Reach of a component with intersections or exclusions in
// its cycles. It repeats a relation after a relation that it depends on has grown.
func (c *compilation) reachMixed(members []RelationID) {
	comp := c.s.Relations[members[0]].Component
	inside := func(id RelationID) bool { return c.s.Relations[id].Component == comp }
	c.settle(slices.Clone(members), c.reachAgain, inside)
}

// settle calls step for each relation of a queue. After it has returned true, the
// relations that depend on the relation and that again selects follow in the queue,
// unless they wait there. It returns false if the compilation must not go on.
func (c *compilation) settle(queue []RelationID, step, again func(RelationID) bool) bool {
	users := c.usersOf()
	waits := make(map[RelationID]bool, len(queue))
	for _, id := range queue {
		waits[id] = true
	}
	for len(queue) > 0 {
		id := queue[0]
		queue, waits[id] = queue[1:], false
		if !c.work(id) {
			return false
		}
		if !step(id) {
			continue
		}
		for _, user := range users[id] {
			if !waits[user] && again(user) {
				waits[user], queue = true, append(queue, user)
			}
		}
	}
	return true
}

// usersOf returns, for each relation, the relations that depend on it. It computes
// them once.
func (c *compilation) usersOf() [][]RelationID {
	if c.users == nil {
		c.users = make([][]RelationID, len(c.s.Relations))
		for i, depends := range c.depends {
			for _, d := range depends {
				c.users[d.on] = append(c.users[d.on], RelationID(i))
			}
		}
	}
	return c.users
}

// reachAgain computes the Reach of a relation from those that it depends on, and
// reports whether it has grown.
func (c *compilation) reachAgain(id RelationID) (grown bool) {
	r := &c.s.Relations[id]
	set := newKindSetBuilder(len(c.s.Kinds))
	set.addAll(r.Reach)
	any := c.reachOf(r.Expr, set)
	set.add(r.Kind)
	grown = any && !r.ReachAny || !set.set.equal(r.Reach)
	r.Reach, r.ReachAny = set.set, any || r.ReachAny
	return grown
}

// reachOf adds the kinds that e can hold for to a set, from the Reach of the
// relations that e reads. It returns true if e can hold for every subject. The
// reach of an exclusion is the reach of its base.
func (c *compilation) reachOf(e *Expr, set *kindSetBuilder) (any bool) {
	merge := func(id RelationID) {
		r := &c.s.Relations[id]
		set.addAll(r.Reach)
		any = any || r.ReachAny
	}
	switch e.Op {
	case OpDirect:
		for _, x := range e.Direct {
			set.add(x.Kind)
			if k := c.s.Kinds[x.Kind]; k.Wildcard {
				set.add(c.s.Types[c.s.types[k.Type]].Plain)
			}
			if x.Relation != None {
				merge(x.Relation)
			}
		}
	case OpComputed:
		merge(e.Relation)
	case OpArrow:
		for _, v := range e.Via {
			merge(v.Target)
		}
	case OpUnion:
		for _, ch := range e.Children {
			any = c.reachOf(ch, set) || any
		}
	case OpIntersection:
		return c.reachOfAll(e.Children, set)
	case OpExclusion:
		return c.reachOf(e.Children[0], set)
	case OpAttribute, OpRule:
		any = true
	}
	return any
}

// reachOfAll adds the reach of an intersection to a set. An operand that can hold
// for every subject does not narrow the result.
func (c *compilation) reachOfAll(children []*Expr, into *kindSetBuilder) (any bool) {
	var all *kindSetBuilder
	for _, ch := range children {
		set, any := c.reachAlone(ch)
		switch {
		case any:
		case all == nil:
			all = newKindSetBuilder(len(c.s.Kinds))
			all.addAll(set)
		default:
			all.keep(set)
		}
	}
	if all == nil {
		return true
	}
	into.addAll(all.set)
	return false
}

// reachAlone returns the reach of an operand, and whether it can hold for every
// subject.
func (c *compilation) reachAlone(e *Expr) (KindSet, bool) {
	if e.Op == OpComputed {
		r := &c.s.Relations[e.Relation]
		return r.Reach, r.ReachAny
	}
	b := newKindSetBuilder(len(c.s.Kinds))
	any := c.reachOf(e, b)
	return b.set, any
}

// monotone sets Monotone of each relation, dependencies first.
func (c *compilation) monotone() {
	bad := make([]bool, len(c.s.Relations)) // by component
	for _, id := range c.dependenciesFirst() {
		r := &c.s.Relations[id]
		bad[r.Component] = bad[r.Component] || !unionOnly(r.Expr)
		for _, d := range c.depends[id] {
			bad[r.Component] = bad[r.Component] || bad[c.s.Relations[d.on].Component]
		}
	}
	for i := range c.s.Relations {
		c.s.Relations[i].Monotone = !bad[c.s.Relations[i].Component]
	}
}

// unionOnly reports whether e contains no operator but unions, and no rule and
// no attribute.
func unionOnly(e *Expr) bool {
	switch e.Op {
	case OpIntersection, OpExclusion, OpAttribute, OpRule:
		return false
	}
	for _, ch := range e.Children {
		if !unionOnly(ch) {
			return false
		}
	}
	return true
}

// entrypoints rejects relations that cannot have a member, whatever tuples are
// written. It looks at a relation again after one that it depends on can have
// members.
func (c *compilation) entrypoints() {
	has := make([]bool, len(c.s.Relations))
	enters := func(id RelationID) bool {
		has[id] = c.enters(c.s.Relations[id].Expr, has)
		return has[id]
	}
	if !c.settle(c.dependenciesFirst(), enters, func(user RelationID) bool { return !has[user] }) {
		return
	}
	c.each(func(r *Relation) {
		if !has[r.ID] {
			c.fail(ReasonEntrypoint, "no tuple can give a subject this relation")
		}
	})
}
