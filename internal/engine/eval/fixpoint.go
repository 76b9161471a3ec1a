package eval

import (
	"github.com/ostiary/ostiary/expr"
)

// solution is the value of every gate: True is lo, False is not hi, and
// Unknown is hi without lo.
type solution struct {
	// lo is true for gates that hold although every unknown condition is taken
	// as false.
	lo []bool
	// hi is true for gates that could hold if every unknown condition is taken
	// as true.
	hi []bool
	// height is, where lo is true, the least height of a proof: the most hops
	// on one of its branches.
	height []int32
}

// truth returns a gate's value.
func (s *solution) truth(g int32) expr.Tristate {
	switch {
	case s.lo[g]:
		return expr.True
	case s.hi[g]:
		return expr.Unknown
	}
	return expr.False
}

// solve finds the well-founded values of all gates (see fixpoint). Proofs in
// lo are at most depthMax hops high. It returns false at the bound of nodes or
// after an error; the solution is then not valid.
func (s *system) solve(depthMax int) bool {
	n := len(s.gates)
	arcs := len(s.arcs)
	r := &s.memory
	r.reset(10*n+1+2*arcs, 3*n)
	s.solution = solution{r.takeBools(n), r.takeBools(n), r.takeNumbers(n)}
	f := &fixpoint{s: s, depthMax: depthMax, component: r.takeNumbers(n), pendingArcs: r.takeNumbers(n), maxHeight: r.takeNumbers(n), value: r.takeBools(n),
		users: r.takeNumbers(arcs), owner: r.takeNumbers(arcs), usersFirst: r.takeNumbers(n + 1)}
	f.reverse(r.takeNumbers(n)[:0])
	return f.components(r.takeNumbers(n), r.takeNumbers(n), r.takeNumbers(n))
}

// solverMemory hands out zeroed slices for solving a system.
type solverMemory struct {
	// allNumbers and allBools are all memory; restNumbers and restBools are
	// what is not handed out yet.
	allNumbers, restNumbers []int32
	allBools, restBools     []bool
}

// reset prepares to hand out that many numbers and truth values.
func (r *solverMemory) reset(numbers, truths int) {
	if cap(r.allNumbers) < numbers {
		r.allNumbers = make([]int32, numbers)
	}
	if cap(r.allBools) < truths {
		r.allBools = make([]bool, truths)
	}
	r.restNumbers, r.restBools = r.allNumbers[:numbers], r.allBools[:truths]
	clear(r.restNumbers)
	clear(r.restBools)
}

func (r *solverMemory) takeNumbers(n int) (some []int32) {
	some, r.restNumbers = r.restNumbers[:n:n], r.restNumbers[n:]
	return some
}

func (r *solverMemory) takeBools(n int) (some []bool) {
	some, r.restBools = r.restBools[:n:n], r.restBools[n:]
	return some
}

// fixpoint solves a [system]: it computes its well-founded model by the
// alternating fixpoint.
//
// There are two worlds. In the low world unknown conditions are false, in the
// high world they are true. Each world is a least fixpoint: a gate is true
// only if it follows from gates that are true, so a cycle cannot justify
// itself. The subtracted side of an exclusion is read in the other world. What
// is true in the low world is certain; what is false in the high world is
// refuted.
//
// The strongly connected components of the gates are solved one after the
// other, dependencies first, so that everything outside of a component is
// final. A component without a subtraction inside needs one round. Otherwise
// the two worlds are computed in turns: the low world only grows and the high
// world only shrinks, until neither changes. What is still between them
// depends on its own negation and is Unknown.
type fixpoint struct {
	// s is the system.
	s *system
	// depthMax bounds the height of proofs in the low world.
	depthMax int
	// component is, by gate, the number of its component. Numbers rise in the
	// order of solving; 0 means not found yet.
	component []int32
	// current is the number of the component that is being solved.
	current int32
	// users are the numbers of the arcs that lead to each gate; usersFirst is,
	// by gate, where its own begin.
	users []int32
	// usersFirst has one entry more than there are gates.
	usersFirst []int32
	// owner is, by arc, the gate that it starts from.
	owner []int32

	// pendingArcs is, by gate, the number of arcs of a gateAll that are not
	// true yet.
	pendingArcs []int32
	// maxHeight is, by gate, the greatest height among its true arcs.
	maxHeight []int32
	// value is, by gate, what the current round has found.
	value []bool
	// heap holds gates that are true, until their height is final.
	heap heightHeap
}

// reverse fills users, usersFirst and owner.
func (f *fixpoint) reverse(fill []int32) {
	s := f.s
	for i := range s.gates {
		g := &s.gates[i]
		for a := g.first; a < g.first+g.count; a++ {
			f.owner[a] = int32(i)
			f.usersFirst[s.arcs[a].to+1]++
		}
	}
	for i := range s.gates {
		f.usersFirst[i+1] += f.usersFirst[i]
	}
	fill = append(fill, f.usersFirst[:len(s.gates)]...)
	for a := range s.arcs {
		to := s.arcs[a].to
		f.users[fill[to]] = int32(a)
		fill[to]++
	}
}

// components finds the strongly connected components by Tarjan's algorithm
// with an explicit stack, and solves each as it is found. Its arguments are
// zeroed, one entry per gate.
func (f *fixpoint) components(index, low, next []int32) bool {
	n := len(f.s.gates)
	stack, path := f.s.memory.takeNumbers(n)[:0], make([]int32, 0, 32)
	counter := int32(0)
	for root := range n {
		if index[root] != 0 {
			continue
		}
		path = append(path, int32(root))
		for len(path) > 0 {
			if !f.s.q.tick(1) {
				return false
			}
			v := path[len(path)-1]
			if index[v] == 0 {
				counter++
				index[v], low[v] = counter, counter
				stack = append(stack, v)
			}
			if g := &f.s.gates[v]; next[v] < g.count {
				to := f.s.arcs[g.first+next[v]].to
				next[v]++
				if index[to] == 0 {
					path = append(path, to)
				} else if f.component[to] == 0 { // on the stack
					low[v] = min(low[v], index[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				up := path[len(path)-1]
				low[up] = min(low[up], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			first := len(stack) - 1
			for stack[first] != v {
				first--
			}
			if !f.solveComponent(stack[first:]) {
				return false
			}
			stack = stack[:first]
		}
	}
	return true
}

// solveComponent finds the values of one component's gates.
func (f *fixpoint) solveComponent(gates []int32) bool {
	f.current++
	negative := false
	for _, g := range gates {
		f.component[g] = f.current
	}
	for _, g := range gates {
		if f.s.gates[g].op == gateExclusion && f.inComponent(f.s.arcs[f.s.gates[g].first+1].to) {
			negative = true
		}
	}
	f.leastHigh(gates)
	f.leastLow(gates)
	for changed := negative; changed; {
		if !f.s.q.visit(len(gates)) {
			f.s.complete = false
			return false
		}
		f.leastHigh(gates)
		changed = f.leastLow(gates)
	}
	return f.s.q.err == nil
}

// inComponent reports whether a gate is in the current component.
func (f *fixpoint) inComponent(g int32) bool { return f.component[g] == f.current }

// leastHigh replaces hi in a component by the least fixpoint that reads
// subtracted sides in lo.
func (f *fixpoint) leastHigh(gates []int32) {
	f.least(gates, true)
	for _, g := range gates {
		f.s.hi[g] = f.value[g]
	}
}

// leastLow replaces lo in a component by the least fixpoint that reads
// subtracted sides in hi. It reports whether lo changed.
func (f *fixpoint) leastLow(gates []int32) bool {
	f.least(gates, false)
	changed := false
	for _, g := range gates {
		changed = changed || f.s.lo[g] != f.value[g]
		f.s.lo[g] = f.value[g]
	}
	return changed
}

// least computes value over a component, in the high or the low world. Gates
// leave the heap in the order of their height, the lowest first, so that each
// one is final when it leaves, with its least height (Knuth's generalization
// of Dijkstra's algorithm). In the high world heights do not count.
func (f *fixpoint) least(gates []int32, high bool) {
	s := f.s
	for _, g := range gates {
		f.value[g], f.maxHeight[g] = false, 0
		f.pendingArcs[g] = s.gates[g].count
	}
	for _, g := range gates {
		f.seed(g, high)
	}
	for len(f.heap) > 0 {
		h, g := f.heap.pop()
		if f.value[g] {
			continue
		}
		if !s.q.tick(1) {
			f.heap = f.heap[:0]
			return // the question has failed, so the values do not matter
		}
		f.value[g] = true
		if !high {
			s.height[g] = h
		}
		for _, a := range f.users[f.usersFirst[g]:f.usersFirst[g+1]] {
			if up := f.owner[a]; f.inComponent(up) && !f.value[up] {
				f.arcIsTrue(up, a, h, high)
			}
		}
	}
}

// seed takes the constants and everything outside of the component into
// account.
func (f *fixpoint) seed(i int32, high bool) {
	s := f.s
	g := &s.gates[i]
	if g.op == gateConst {
		if g.value == expr.True || high && g.value == expr.Unknown {
			f.push(i, g.height, high)
		}
		return
	}
	if g.op == gateAll && g.count == 0 {
		f.push(i, 0, high)
	}
	for a := g.first; a < g.first+g.count; a++ {
		to := s.arcs[a].to
		if high && s.arcs[a].cond == expr.Unknown && s.q.b.missingFails {
			f.arcIsTrue(i, a, 0, high) // with MissingContextFails this alone makes it possible
			continue
		}
		if f.inComponent(to) {
			continue
		}
		if high && s.hi[to] || !high && s.lo[to] {
			f.arcIsTrue(i, a, s.height[to], high)
		}
	}
}

// arcIsTrue counts arc a of gate i as true, with height h.
func (f *fixpoint) arcIsTrue(i, a, h int32, high bool) {
	s := f.s
	g, arc := &s.gates[i], &s.arcs[a]
	if arc.cond != expr.True && !high {
		return
	}
	h += arc.hop
	switch g.op {
	case gateAny:
		f.push(i, h, high)
	case gateAll:
		f.maxHeight[i] = max(f.maxHeight[i], h)
		if f.pendingArcs[i]--; f.pendingArcs[i] == 0 {
			f.push(i, f.maxHeight[i], high)
		}
	case gateExclusion:
		if a == g.first && !f.subtracted(s.arcs[a+1].to, high) {
			f.push(i, h, high)
		}
	}
}

// subtracted reads the subtracted side of an exclusion in the other world.
func (f *fixpoint) subtracted(g int32, high bool) bool {
	if high {
		return f.s.lo[g]
	}
	return f.s.hi[g]
}

// push adds a true gate to the heap, unless its proof is too high.
func (f *fixpoint) push(g, h int32, high bool) {
	if high {
		h = 0
	}
	if !high && int(h) > f.depthMax {
		return
	}
	if !f.value[g] {
		f.heap.push(h, g)
	}
}

// heightHeap is a binary heap of gates with the lowest height on top. An entry
// holds the height in its upper half and the gate in its lower half.
type heightHeap []uint64

// push adds a gate.
func (q *heightHeap) push(height, gate int32) {
	h := append(*q, uint64(height)<<32|uint64(gate))
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*q = h
}

// pop removes the gate with the lowest height.
func (q *heightHeap) pop() (height, gate int32) {
	h := *q
	top, last := h[0], len(h)-1
	h[0], h = h[last], h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1] < h[down] {
			down++
		}
		if h[i] <= h[down] {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*q = h
	return int32(top >> 32), int32(uint32(top))
}
