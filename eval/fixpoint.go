package eval

import (
	"github.com/ostiary/ostiary/expr"
)

// solution is the value of every gate of a system.
type solution struct {
	lo []bool // true also where every unknown condition is false
	hi []bool // true at least where every unknown condition is true
	// height is the least height of a proof, where lo: its most hops on a
	// branch.
	height []int32
}

// truth is a gate's value.
func (s *solution) truth(g int32) expr.Tristate {
	switch {
	case s.lo[g]:
		return expr.True
	case s.hi[g]:
		return expr.Unknown
	}
	return expr.False
}

// solve finds the well-founded values: the alternating fixpoint, one strongly
// connected part of the equations after the other, what it depends on first.
// Proofs in lo are no higher than depthMax. It returns false at the bound of
// nodes or when the context ended; the solution is not to be used then.
func (s *system) solve(depthMax int) bool {
	n := len(s.gates)
	arcs := len(s.arcs)
	r := &s.room
	r.begin(10*n+1+2*arcs, 3*n)
	s.solution = solution{r.truths(n), r.truths(n), r.numbers(n)}
	f := &fixpoint{s: s, depthMax: depthMax, part: r.numbers(n), left: r.numbers(n), most: r.numbers(n), next: r.truths(n),
		users: r.numbers(arcs), owner: r.numbers(arcs), usersFirst: r.numbers(n + 1)}
	f.reverse(r.numbers(n)[:0])
	return f.parts(r.numbers(n), r.numbers(n), r.numbers(n))
}

// room is memory for solving a system, handed out in parts, all zero.
type room struct {
	allNumbers, restNumbers []int32
	allTruths, restTruths   []bool
}

func (r *room) begin(numbers, truths int) {
	if cap(r.allNumbers) < numbers {
		r.allNumbers = make([]int32, numbers)
	}
	if cap(r.allTruths) < truths {
		r.allTruths = make([]bool, truths)
	}
	r.restNumbers, r.restTruths = r.allNumbers[:numbers], r.allTruths[:truths]
	clear(r.restNumbers)
	clear(r.restTruths)
}

func (r *room) numbers(n int) (some []int32) {
	some, r.restNumbers = r.restNumbers[:n:n], r.restNumbers[n:]
	return some
}

func (r *room) truths(n int) (some []bool) {
	some, r.restTruths = r.restTruths[:n:n], r.restTruths[n:]
	return some
}

// fixpoint is a system being solved.
type fixpoint struct {
	s        *system
	depthMax int
	part     []int32 // by gate: its part's number, rising in the order of solving
	number   int32
	// users are, by gate, the arcs that lead to it, as numbers.
	users      []int32
	usersFirst []int32
	owner      []int32 // by arc: the gate it starts from

	left []int32 // by gate: arcs of a gateAll that are not yet true
	most []int32 // by gate: the greatest height among its true arcs
	next []bool  // by gate: what a round finds
	heap heights // gates that were found true and are still to be settled
}

// reverse fills users and owner.
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

// parts is Tarjan's algorithm with an explicit stack; each part is solved as
// it is found, so that what it depends on is final.
// Its arguments are zero, one for each gate.
func (f *fixpoint) parts(index, low, next []int32) bool {
	n := len(f.s.gates)
	stack, path := f.s.room.numbers(n)[:0], make([]int32, 0, 32)
	counter := int32(0)
	for root := range n {
		if index[root] != 0 {
			continue
		}
		path = append(path, int32(root))
		for len(path) > 0 {
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
				} else if f.part[to] == 0 { // still on the stack
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
			if !f.solvePart(stack[first:]) {
				return false
			}
			stack = stack[:first]
		}
	}
	return true
}

// solvePart finds the values of one part's gates.
func (f *fixpoint) solvePart(gates []int32) bool {
	f.number++
	negative := false
	for _, g := range gates {
		f.part[g] = f.number
	}
	for _, g := range gates {
		if f.s.gates[g].op == gateBut && f.inside(f.s.arcs[f.s.gates[g].first+1].to) {
			negative = true
		}
	}
	f.leastHigh(gates)
	f.leastLow(gates)
	for changed := negative; changed; {
		if !f.s.q.visit(len(gates)) {
			f.s.full = false
			return false
		}
		f.leastHigh(gates)
		changed = f.leastLow(gates)
	}
	return true
}

func (f *fixpoint) inside(g int32) bool { return f.part[g] == f.number }

// leastHigh replaces hi of a part by the least fixpoint that reads negations
// against lo.
func (f *fixpoint) leastHigh(gates []int32) {
	f.least(gates, true)
	for _, g := range gates {
		f.s.hi[g] = f.next[g]
	}
}

// leastLow replaces lo of a part by the least fixpoint that reads negations
// against hi. It says whether lo changed.
func (f *fixpoint) leastLow(gates []int32) bool {
	f.least(gates, false)
	changed := false
	for _, g := range gates {
		changed = changed || f.s.lo[g] != f.next[g]
		f.s.lo[g] = f.next[g]
	}
	return changed
}

// least computes next over a part, in one world: the high one (high) or the
// low one. Gates come out in the order of their height, lowest first, so that
// each is settled once, at its least height (Knuth's form of Dijkstra's
// algorithm). In the high world heights do not count.
func (f *fixpoint) least(gates []int32, high bool) {
	s := f.s
	for _, g := range gates {
		f.next[g], f.most[g] = false, 0
		f.left[g] = s.gates[g].count
	}
	for _, g := range gates {
		f.seed(g, high)
	}
	for len(f.heap) > 0 {
		h, g := f.heap.pop()
		if f.next[g] {
			continue
		}
		f.next[g] = true
		if !high {
			s.height[g] = h
		}
		for _, a := range f.users[f.usersFirst[g]:f.usersFirst[g+1]] {
			if up := f.owner[a]; f.inside(up) && !f.next[up] {
				f.arrive(up, a, h, high)
			}
		}
	}
}

// seed starts from what is known outside of the part.
func (f *fixpoint) seed(i int32, high bool) {
	s := f.s
	g := &s.gates[i]
	if g.op == gateConst {
		if g.value == expr.True || high && g.value == expr.Unknown {
			f.found(i, g.height, high)
		}
		return
	}
	if g.op == gateAll && g.count == 0 {
		f.found(i, 0, high)
	}
	for a := g.first; a < g.first+g.count; a++ {
		to := s.arcs[a].to
		if high && s.arcs[a].cond == expr.Unknown && s.q.b.fails {
			f.arrive(i, a, 0, high) // this alone makes it unknown
			continue
		}
		if f.inside(to) {
			continue
		}
		if high && s.hi[to] || !high && s.lo[to] {
			f.arrive(i, a, s.height[to], high)
		}
	}
}

// arrive hands gate i one of its arcs that turned out true, at height h.
func (f *fixpoint) arrive(i, a, h int32, high bool) {
	s := f.s
	g, arc := &s.gates[i], &s.arcs[a]
	if arc.cond != expr.True && !high {
		return
	}
	h += arc.hop
	switch g.op {
	case gateAny:
		f.found(i, h, high)
	case gateAll:
		f.most[i] = max(f.most[i], h)
		if f.left[i]--; f.left[i] == 0 {
			f.found(i, f.most[i], high)
		}
	case gateBut:
		if a == g.first && !f.subtracted(s.arcs[a+1].to, high) {
			f.found(i, h, high)
		}
	}
}

// subtracted reads the subtracted side in the other world.
func (f *fixpoint) subtracted(g int32, high bool) bool {
	if high {
		return f.s.lo[g]
	}
	return f.s.hi[g]
}

func (f *fixpoint) found(g, h int32, high bool) {
	if high {
		h = 0
	}
	if !high && int(h) > f.depthMax {
		return
	}
	if !f.next[g] {
		f.heap.push(h, g)
	}
}

// heights is a heap of gates, the lowest height on top.
type heights []uint64

func (q *heights) push(height, gate int32) {
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

func (q *heights) pop() (height, gate int32) {
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
