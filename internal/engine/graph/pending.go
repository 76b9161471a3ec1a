package graph

import "slices"

// pending is a hash table of a batch's changes, by their pairs of nodes. Its
// memory is reused by later batches.
type pending struct {
	changes []change // in the order in which they were added
	// slots is the table, with linear probing: indices in changes, plus one. It
	// is empty while there are so few changes that searching them one by one is
	// quicker.
	slots []uint32

	edits, sortBuffer []edit    // memory for the edits of one flush and for sorting them
	kinds             kindCache // for AddAbsent
}

// linearMax is the most changes that are searched one by one.
const linearMax = 8 // changes

// find returns the change of a pair of nodes, or nil if there is none. The
// pointer is valid until the next add.
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

// home returns the slot at which the search for a pair begins.
func (p *pending) home(object, subject Node) int {
	return int((pair(uint32(object), uint32(subject)) * oddA) >> 32 & uint64(len(p.slots)-1))
}

// add adds the first change of a pair.
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

// rehash makes slots large enough for n slots and fills it.
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

// insert puts the i-th change into slots.
func (p *pending) insert(i int) {
	at := p.home(p.changes[i].object, p.changes[i].subject)
	for p.slots[at] != 0 {
		at = (at + 1) & (len(p.slots) - 1)
	}
	p.slots[at] = uint32(i + 1)
}

// reset empties p, and keeps its memory but nothing that the changes refer to.
func (p *pending) reset() {
	clear(p.changes)
	p.changes, p.slots = p.changes[:0], p.slots[:0]
}

const (
	digitBits   = 11  // bits of a node number in one pass of the counting sort
	countingMin = 256 // fewer edits are sorted by comparison
)

// sortEdits returns the edits in order. There are usually many nodes with few
// edits each. So a counting sort orders the edits by node first, and a
// comparison sort then orders the edits of each node.
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

// countingPass moves edits to another slice, in the order of one digit of their
// nodes.
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
