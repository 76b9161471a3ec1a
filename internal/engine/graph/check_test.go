package graph

import (
	"fmt"
	"slices"
	"testing"
)

// check walks a view and fails the test if an invariant of the package
// documentation (G1 to G8) does not hold.
func check(t *testing.T, v *View) {
	t.Helper()
	if err := walk(v); err != nil {
		t.Fatal(err)
	}
}

func walk(v *View) error {
	c := checker{v: v, names: map[uint32]bool{}}
	for b, k := range v.blocks {
		for i := range Node(blockSize) {
			n := Node(b)<<blockBits | i
			if err := c.node(n, k); err != nil {
				return fmt.Errorf("node %d (%v %q): %w", n, v.KindName(k), v.ID(n), err)
			}
		}
	}
	return c.counts()
}

type checker struct {
	v                       *View
	forward, back, detailed int
	liveNodes               int
	names                   map[uint32]bool // live names
	last                    Node            // a live one
}

func (c *checker) node(n Node, k Kind) error {
	v := c.v
	if v.isLive(n) {
		c.liveNodes++
		c.names[v.nameOffset(n)] = true
		if m, ok := v.Node(k, v.ID(n)); !ok || m != n {
			return fmt.Errorf("G4: its name leads to %d, %v", m, ok)
		}
		if m, ok := v.Sibling(n, k); !ok || m != n {
			return fmt.Errorf("G4: it is not its own sibling: %d, %v", m, ok)
		}
		if err := c.two(n, k); err != nil {
			return err
		}
		c.last = n
	}
	seg := v.segment(n)
	if seg == nil {
		return nil
	}
	gs, last := seg.groups(uint32(n)&(blockSize-1)), side(0)
	for s, l, ok := gs.next(); ok; s, l, ok = gs.next() {
		if s <= last {
			return fmt.Errorf("G2: groups out of order: %d after %d", s, last)
		}
		last = s
		if err := c.list(n, k, s, l); err != nil {
			return fmt.Errorf("list of %v, reverse %v: %w", v.KindName(s.kind()), s.reverse(), err)
		}
		if got := v.list(n, s); !sameList(got, l) {
			return fmt.Errorf("G4: another method returns a different list")
		}
		if s.reverse() {
			continue
		}
		if err := c.ways(n, s, l); err != nil {
			return err
		}
	}
	return nil
}

// two looks up a node's name together with another node's, and with a name that
// does not exist.
func (c *checker) two(n Node, k Kind) error {
	v := c.v
	other, absent := v.KindOf(c.last), v.ID(n)+"\x00"
	a, b := v.Names(k, v.ID(n), other, v.ID(c.last))
	for _, one := range []struct {
		name Name
		kind Kind
		want Node
	}{{a, k, n}, {b, other, c.last}, {v.NameOf(n), k, n}, {v.Name(k, v.ID(n)), k, n}} {
		if m, _ := v.NodeOf(one.name, one.kind); m != one.want {
			return fmt.Errorf("G4: with %d, its name leads to %d, not %d", c.last, m, one.want)
		}
	}
	if a, b := v.Names(k, absent, k, v.ID(n)); a.record != nil || b.record == nil {
		return fmt.Errorf("G4: %q is found, or hides an existing name", absent)
	}
	return nil
}

// ways finds all edges of a list through every other method that finds edges.
func (c *checker) ways(n Node, s side, l List) error {
	lists, in := c.v.Lists(n), 0
	if got := lists.Forward(s.kind()); !sameList(got, l) {
		return fmt.Errorf("G4: Lists has another list")
	}
	for i := range l.Chunks() {
		for _, e := range l.Chunk(i) {
			m := e.Node()
			got, ok, at := l.FindFrom(in, m)
			if in = at; got != e || !ok || at != i {
				return fmt.Errorf("G2: %d is not found from chunk %d on", m, in)
			}
			got, ok, short := lists.Find(s.kind(), m)
			if short && (got != e || !ok) || short != (l.Len() <= inlineMax) {
				return fmt.Errorf("G2: Lists finds %v, %v for %d; short: %v", got, ok, m, short)
			}
			if _, ok := l.Find(m + 1); ok {
				if _, found, short := lists.Find(s.kind(), m+1); short && !found {
					return fmt.Errorf("G2: Lists lacks %d", m+1)
				}
			} else if _, found, _ := lists.Find(s.kind(), m+1); found {
				return fmt.Errorf("G2: Lists finds %d", m+1)
			}
		}
	}
	return nil
}

func (c *checker) list(n Node, k Kind, s side, l List) error {
	v, last, count := c.v, Node(0), 0
	for i := range l.Chunks() {
		chunk := l.Chunk(i)
		if len(chunk) == 0 || len(chunk) > chunkMax {
			return fmt.Errorf("G3: chunk of %d edges", len(chunk))
		}
		for _, e := range chunk {
			m := e.Node()
			if m <= last {
				return fmt.Errorf("G2: %d after %d", m, last)
			}
			last = m
			count++
			if v.kindOf(m) != s.kind() {
				return fmt.Errorf("G2: %d is of another kind", m)
			}
			if found, ok := l.Find(m); !ok || found != e {
				return fmt.Errorf("G2: %d is not found", m)
			}
			mirror := reverse(k)
			o, sub := n, m
			if s.reverse() {
				mirror, o, sub = forward(k), m, n
				c.back++
			} else {
				c.forward++
			}
			if back, ok := v.list(m, mirror).Find(n); !ok || back.Detailed() != e.Detailed() {
				return fmt.Errorf("G1: %d has no such edge back", m)
			}
			if found, ok := v.Probe(o, sub); !ok || found != EdgeTo(sub, e.Detailed()) {
				return fmt.Errorf("G1: the probe of %d and %d finds %v %v", o, sub, found, ok)
			}
			if e.Detailed() && !s.reverse() {
				c.detailed++
			}
			if _, ok := v.details.Get(pair(uint32(o), uint32(sub))); ok != e.Detailed() {
				return fmt.Errorf("G5: details of %d: %v", m, ok)
			}
		}
	}
	if count != l.Len() || count == 0 {
		return fmt.Errorf("G3: %d edges, but Len is %d", count, l.Len())
	}
	if l.Len() <= inlineMax && l.chunked != nil {
		return fmt.Errorf("G3: %d edges are outside of the segment", l.Len())
	}
	return nil
}

func (c *checker) counts() error {
	v := c.v
	segments, attributes := int64(0), 0
	for _, d := range v.top {
		if d == nil {
			continue
		}
		segments += branchBytes
		for _, p := range d {
			if p == nil {
				continue
			}
			segments += leafBytes
			for i := range p {
				segments += p[i].bytes()
			}
		}
	}
	extra := int64(0)
	v.details.Ascend(0, func(_ uint64, d *Detail) bool { extra += d.bytes(); return true })
	v.values.Ascend(0, func(_ uint64, s string) bool {
		attributes++
		extra += attributeBytes + int64(len(s))
		return true
	})
	for _, p := range []struct {
		what      string
		got, want int
	}{
		{"tuples", v.tupleCount, c.forward},
		{"tuples backwards", c.back, c.forward},
		{"details", v.details.Len(), c.detailed},
		{"live nodes", v.liveNodes, c.liveNodes},
		{"live names", v.liveNames, len(c.names)},
		{"attributes", v.values.Len(), attributes},
		{"bytes of segments", int(v.segmentBytes), int(segments)},
		{"bytes of details and attributes", int(v.extraBytes), int(extra)},
	} {
		if p.got != p.want {
			return fmt.Errorf("G6: %s are %d, the walk finds %d", p.what, p.got, p.want)
		}
	}
	return nil
}

func sameList(a, b List) bool {
	if a.Len() != b.Len() || a.Chunks() != b.Chunks() {
		return false
	}
	for i := range a.Chunks() {
		if !slices.Equal(a.Chunk(i), b.Chunk(i)) {
			return false
		}
	}
	return true
}
