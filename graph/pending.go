package graph

import "slices"

// pending is what a batch is about to do, in order of first mention, with the
// place of each pair of nodes. Its memory is used again by later batches.
type pending struct {
	changes []change
	// slots is open addressing: places in changes, plus one. It is empty while
	// there are so few changes that walking them is quicker.
	slots []uint32

	edits, sortBuffer []edit
	kinds             kindCache
}

const linearMax = 8 // changes

// find returns the change of a pair of nodes, nil if there is none. It is
// valid until the next add.
func (p *pending) find(object, subject Node) *change {
	if len(p.slots) == 0 {
		for i := range p.changes {
			if c := &p.changes[i]; c.object == object && c.subject == subject {
				return c
			}
		}
		return nil
	}
	for at := p.home(object, subject); p.slots[at] != 0; at = (at + 1) & (len(p.slots) - 1) {
		if c := &p.changes[p.slots[at]-1]; c.object == object && c.subject == subject {
			return c
		}
	}
	return nil
}

// home is where the search for a pair begins.
func (p *pending) home(object, subject Node) int {
	return int((pair(uint32(object), uint32(subject)) * oddA) >> 32 & uint64(len(p.slots)-1))
}

// add adds the change of a pair that has none.
func (p *pending) add(c change) *change {
	p.changes = append(p.changes, c)
	switch n := len(p.changes); {
	case n*2 > len(p.slots) && n > linearMax:
		p.rehash(4 * n)
	case len(p.slots) > 0:
		p.insert(n - 1)
	}
	return &p.changes[len(p.changes)-1]
}

// index makes room for at least n changes.
func (p *pending) rehash(n int) {
	size := 4 * linearMax
	for size < n {
		size *= 2
	}
	if cap(p.slots) >= size {
		p.slots = p.slots[:size]
		clear(p.slots)
	} else {
		p.slots = make([]uint32, size)
	}
	for i := range p.changes {
		p.insert(i)
	}
}

func (p *pending) insert(i int) {
	at := p.home(p.changes[i].object, p.changes[i].subject)
	for p.slots[at] != 0 {
		at = (at + 1) & (len(p.slots) - 1)
	}
	p.slots[at] = uint32(i + 1)
}

// reset empties p and keeps its memory, but nothing that changes refer to.
func (p *pending) reset() {
	clear(p.changes)
	p.changes, p.slots = p.changes[:0], p.slots[:0]
}

const (
	digitBits   = 11
	countingMin = 256 // edits: fewer are sorted by comparing
)

// sorted returns edits in order: those of a node beside each other by counting,
// since there are many nodes with few edits each, and then each node's own.
func (p *pending) sortEdits(edits []edit) []edit {
	if len(edits) < countingMin {
		slices.SortFunc(edits, edit.order)
		return edits
	}
	least, most := edits[0].node, edits[0].node
	for i := range edits {
		least, most = min(least, edits[i].node), max(most, edits[i].node)
	}
	p.sortBuffer = slices.Grow(p.sortBuffer[:0], len(edits))[:len(edits)]
	from, to := edits, p.sortBuffer
	for shift := 0; (most-least)>>shift != 0; shift += digitBits {
		countingPass(from, to, least, shift)
		from, to = to, from
	}
	p.sortBuffer = to
	for begin := 0; begin < len(from); {
		end := begin + 1
		for end < len(from) && from[end].node == from[begin].node {
			end++
		}
		if end-begin > 1 {
			slices.SortFunc(from[begin:end], edit.order)
		}
		begin = end
	}
	return from
}

// countingPass moves edits in the order of one digit of their nodes.
func countingPass(from, to []edit, least Node, shift int) {
	var ends [1 << digitBits]uint32
	for i := range from {
		ends[(from[i].node-least)>>shift&(1<<digitBits-1)]++
	}
	sum := uint32(0)
	for d := range ends {
		ends[d], sum = sum, sum+ends[d]
	}
	for i := range from {
		d := (from[i].node - least) >> shift & (1<<digitBits - 1)
		to[ends[d]] = from[i]
		ends[d]++
	}
}
