package graph

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ostiary/ostiary/rel"
)

// adjacency holds the neighbors of every node in one direction, unsorted. Those
// of n are edges[ends[n-1]:ends[n]].
type adjacency struct {
	ends  []uint32
	edges []Edge
}

func (a *adjacency) edgesOf(n Node) []Edge { return a.edges[a.ends[n-1]:a.ends[n]] }

// sortPairs sorts pairs by object and, at the same time, by subject.
func sortPairs(pairs [][]loadPair, tuples, nodes int) (byObject, bySubject adjacency) {
	var other sync.WaitGroup
	other.Go(func() { bySubject = adjacencyBySubject(pairs, tuples, nodes) })
	byObject = adjacencyByObject(pairs, tuples, nodes)
	other.Wait()
	return byObject, bySubject
}

// adjacencyByObject is a counting sort of pairs by object.
func adjacencyByObject(pairs [][]loadPair, tuples, nodes int) adjacency {
	a := adjacency{make([]uint32, nodes+1), make([]Edge, tuples)}
	for _, chunk := range pairs {
		for _, p := range chunk {
			a.ends[p.object+1]++
		}
	}
	a.sum()
	for _, chunk := range pairs {
		for _, p := range chunk {
			a.put(p.object, p.subject)
		}
	}
	return a
}

// adjacencyBySubject is a counting sort of pairs by subject.
func adjacencyBySubject(pairs [][]loadPair, tuples, nodes int) adjacency {
	a := adjacency{make([]uint32, nodes+1), make([]Edge, tuples)}
	for _, chunk := range pairs {
		for _, p := range chunk {
			a.ends[p.subject.Node()+1]++
		}
	}
	a.sum()
	for _, chunk := range pairs {
		for _, p := range chunk {
			a.put(p.subject.Node(), EdgeTo(p.object, p.subject.Detailed()))
		}
	}
	return a
}

// sum turns counts, where that of n is in ends[n+1], into the index at which
// the edges of each node begin.
func (a *adjacency) sum() {
	for n := range len(a.ends) - 1 {
		a.ends[n+1] += a.ends[n]
	}
}

// put adds an edge of n. Once all edges are added, ends[n] is the end of those
// of n.
func (a *adjacency) put(n Node, e Edge) {
	a.edges[a.ends[n]] = e
	a.ends[n]++
}

// buildSegments builds all segments of v, in parallel.
func (v *View) buildSegments(byObject, bySubject adjacency) error {
	branches := (len(v.blocks)<<blockBits + 1<<branchAt - 1) >> branchAt
	for t := range branches {
		v.copyBranch(t)
	}
	var (
		next  atomic.Int64
		group sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	for range min(runtime.GOMAXPROCS(0), branches) {
		group.Go(func() {
			b := builder{v: v, byObject: byObject, bySubject: bySubject}
			for t := next.Add(1) - 1; t < int64(branches) && b.err == nil; t = next.Add(1) - 1 {
				b.branch(int(t))
			}
			mu.Lock()
			defer mu.Unlock()
			v.segmentBytes += b.bytes
			v.liveNodes += b.liveNodes
			if first == nil {
				first = b.err
			}
		})
	}
	group.Wait()
	return first
}

// builder makes segments from adjacencies. Its buffers are reused.
type builder struct {
	v                   *View
	byObject, bySubject adjacency
	enc                 encoder
	keys                []uint64 // edges of one node, each with its side in the upper half
	list                []Edge   // edges of one list

	bytes     int64 // of the segments and leaves
	liveNodes int   // nodes with a list
	err       error
}

// branch fills the t-th branch of the view.
func (b *builder) branch(t int) {
	d := b.v.top[t]
	for q := range d {
		first := t<<(branchAt-blockBits) + q<<leafBits // block
		if first >= len(b.v.blocks) {
			return
		}
		p := new(leaf)
		d[q] = p
		b.bytes += leafBytes
		for i := range p {
			if first+i < len(b.v.blocks) && b.err == nil {
				p[i] = b.segment(Node(first+i) << blockBits)
			}
		}
	}
}

// segment returns the segment of the block whose first node is first.
func (b *builder) segment(first Node) segment {
	if first == 0 {
		return segment{} // block 0 is never used
	}
	b.enc.reset()
	for i := range Node(blockSize) {
		n := first | i
		b.keys = b.keys[:0]
		for _, e := range b.byObject.edgesOf(n) {
			b.keys = append(b.keys, uint64(forward(b.v.kindOf(e.Node())))<<32|uint64(e))
		}
		for _, e := range b.bySubject.edgesOf(n) {
			b.keys = append(b.keys, uint64(reverse(b.v.kindOf(e.Node())))<<32|uint64(e))
		}
		if len(b.keys) > 0 {
			b.liveNodes++
			b.enc.beginNode(int(i))
			b.node(n)
		}
	}
	s := b.enc.finish()
	b.bytes += s.bytes()
	return s
}

// node adds the groups of n, whose edges are in b.keys.
func (b *builder) node(n Node) {
	slices.Sort(b.keys)
	for from := 0; from < len(b.keys); {
		s := side(b.keys[from] >> 32)
		b.list = b.list[:0]
		for ; from < len(b.keys) && side(b.keys[from]>>32) == s; from++ {
			e := Edge(b.keys[from])
			if k := len(b.list); k > 0 && b.list[k-1].Node() == e.Node() {
				b.err = b.duplicate(n, e.Node(), s)
			}
			b.list = append(b.list, e)
		}
		if len(b.list) <= inlineMax {
			b.enc.addList(s, ListOf(b.list))
		} else {
			b.enc.addList(s, copiedList(b.list))
		}
	}
}

// duplicate returns an error for the tuple of n and m, which came twice.
func (b *builder) duplicate(n, m Node, s side) error {
	if s.reverse() {
		n, m = m, n
	}
	v := b.v
	k := rel.Key{Object: v.Object(n), Relation: v.KindName(v.kindOf(n)).Relation, Subject: v.Subject(m)}
	return fmt.Errorf("%w: %s", ErrDuplicate, k)
}
