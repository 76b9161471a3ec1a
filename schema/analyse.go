package schema

import "github.com/ostiary/ostiary/expr"

// dependency is one place where a relation reads another.
type dependency struct {
	on RelationID // the relation that is read
	// through is the strongest operator above that place: CyclePlain for unions
	// only, CycleMixed for an intersection or the base of an exclusion,
	// CycleNegative for the subtracted side of an exclusion.
	through CycleClass
}

func paramNamed(name string) func(expr.Param) bool {
	return func(p expr.Param) bool { return p.Name == name }
}

// analyse computes what the evaluator needs for its plans: components, reach,
// cycles and the backward reading.
func (c *compilation) analyse() {
	c.depends = make([][]dependency, len(c.s.Relations))
	for i := range c.s.Relations {
		c.dependencies(RelationID(i), c.s.Relations[i].Expr, CyclePlain)
	}
	c.components()
	c.classes()
	c.reach()
	if c.m.Options.RequireEntrypoints {
		c.entrypoints()
	}
	c.s.backward = readBackward(c.s)
}

// dependencies adds what the rewrite e of relation id reads. through is the
// strongest operator above e.
func (c *compilation) dependencies(id RelationID, e *Expr, through CycleClass) {
	for step := range e.Steps() {
		if step.From != None {
			c.depends[id] = append(c.depends[id], dependency{step.From, through})
		}
	}
	switch e.Op {
	case OpIntersection:
		through = max(through, CycleMixed)
	case OpExclusion:
		c.dependencies(id, e.Children[0], max(through, CycleMixed))
		c.dependencies(id, e.Children[1], CycleNegative)
		return
	}
	for _, ch := range e.Children {
		c.dependencies(id, ch, through)
	}
}

// components numbers the strongly connected components of the relations. A
// component gets its number after those that it depends on.
func (c *compilation) components() {
	n := len(c.s.Relations)
	t := tarjan{c: c, index: make([]int, n), low: make([]int, n), onStack: make([]bool, n)}
	for root := range n {
		if t.index[root] == 0 {
			t.visit(RelationID(root))
		}
	}
}

// tarjan is the state of Tarjan's algorithm for strongly connected components.
type tarjan struct {
	c         *compilation
	visited   int          // number of relations that were visited
	index     []int        // by relation: its number in the order of visits, from 1; 0 if not visited
	low       []int        // by relation: the lowest index on the stack that it is known to reach
	stack     []RelationID // visited relations that have no component yet
	onStack   []bool       // by relation
	component int32        // number of the next component
}

// visit visits the relations that root depends on. It does not recurse, because
// a model can be deeper than the goroutine's stack.
func (t *tarjan) visit(root RelationID) {
	type frame struct {
		id   RelationID
		next int // index of the next dependency
	}
	t.push(root)
	for frames := []frame{{root, 0}}; len(frames) > 0; {
		f := &frames[len(frames)-1]
		id := f.id
		if depends := t.c.depends[id]; f.next < len(depends) {
			on := depends[f.next].on
			f.next++
			if t.index[on] == 0 {
				t.push(on)
				frames = append(frames, frame{on, 0})
			} else if t.onStack[on] {
				t.low[id] = min(t.low[id], t.index[on])
			}
			continue
		}
		if frames = frames[:len(frames)-1]; len(frames) > 0 {
			up := frames[len(frames)-1].id
			t.low[up] = min(t.low[up], t.low[id])
		}
		if t.low[id] == t.index[id] {
			t.popComponent(id)
		}
	}
}

func (t *tarjan) push(id RelationID) {
	t.visited++
	t.index[id], t.low[id] = t.visited, t.visited
	t.stack, t.onStack[id] = append(t.stack, id), true
}

// popComponent makes a component of the relations on the stack, down to first.
func (t *tarjan) popComponent(first RelationID) {
	for {
		top := t.stack[len(t.stack)-1]
		t.stack, t.onStack[top] = t.stack[:len(t.stack)-1], false
		t.c.s.Relations[top].Component = t.component
		if top == first {
			break
		}
	}
	t.component++
}

// classes sets Recursive, Cycle and Probe of each relation.
func (c *compilation) classes() {
	recursive := map[int32]bool{}
	class := map[int32]CycleClass{}
	for i, deps := range c.depends {
		comp := c.s.Relations[i].Component
		for _, d := range deps {
			if c.s.Relations[d.on].Component == comp {
				recursive[comp] = true
				class[comp] = max(class[comp], d.through)
			}
		}
	}
	for _, id := range c.dependenciesFirst() {
		r := &c.s.Relations[id]
		r.Recursive, r.Cycle = recursive[r.Component], class[r.Component]
		r.Probe = r.Expr.Op == OpDirect
		for _, x := range r.Restrictions {
			r.Probe = r.Probe && x.Relation == None
		}
	}
	c.monotone()
}

// dependenciesFirst returns the relations ordered by component.
func (c *compilation) dependenciesFirst() []RelationID {
	buckets := make([][]RelationID, len(c.s.Relations))
	for i := range c.s.Relations {
		comp := c.s.Relations[i].Component
		buckets[comp] = append(buckets[comp], RelationID(i))
	}
	var out []RelationID
	for _, b := range buckets {
		out = append(out, b...)
	}
	return out
}

// enters reports whether tuples can give e a member, if exactly the relations in
// has can have members.
func (c *compilation) enters(e *Expr, has []bool) bool {
	switch e.Op {
	case OpDirect:
		for _, x := range e.Direct {
			if x.Relation == None || has[x.Relation] {
				return true
			}
		}
		return false
	case OpComputed:
		return has[e.Relation]
	case OpArrow:
		for _, v := range e.Via {
			if has[v.Target] {
				return true
			}
		}
		return false
	case OpUnion:
		for _, ch := range e.Children {
			if c.enters(ch, has) {
				return true
			}
		}
		return false
	case OpIntersection, OpExclusion:
		for _, ch := range e.Children {
			if !c.enters(ch, has) {
				return false
			}
		}
	}
	return true
}
