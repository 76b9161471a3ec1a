package schema

// KindSet is a set of kinds. It consists of blocks; sets with equal parts share
// them, so that ten thousand relations that reach nearly the same kinds need
// little memory. A set that is finished does not change.
type KindSet []*kindBlock

// kindBlock is a part of a set: the bit at index k is set if the k-th kind of the
// block is in the set. It has the size of a line of the processor's cache.
type kindBlock [8]uint64

const (
	kindBlockShift = 9 // the kinds of a block, as a power of two
	kindBlockMask  = 1<<kindBlockShift - 1
)

// Has reports whether k is in the set.
func (s KindSet) Has(k KindID) bool {
	if k < 0 || int(k>>kindBlockShift) >= len(s) {
		return false
	}
	b := s[k>>kindBlockShift]
	return b != nil && b[k&kindBlockMask>>6]&(1<<(k&63)) != 0
}

// contains reports whether b has all kinds of o. Both may be nil.
func (b *kindBlock) contains(o *kindBlock) bool {
	if b == o || o == nil {
		return true
	}
	if b == nil {
		return *o == kindBlock{}
	}
	for i, w := range o {
		if w&^b[i] != 0 {
			return false
		}
	}
	return true
}

// kindSetBuilder makes a set. It copies a block that another set may have before
// it changes it.
type kindSetBuilder struct {
	set   KindSet
	owned []bool // by block: no other set has it
}

// newKindSetBuilder returns a builder of sets of that many kinds.
func newKindSetBuilder(kinds int) *kindSetBuilder {
	n := (kinds + kindBlockMask) >> kindBlockShift
	return &kindSetBuilder{make(KindSet, n), make([]bool, n)}
}

// own returns a block that may be changed.
func (b *kindSetBuilder) own(i int) *kindBlock {
	if !b.owned[i] {
		fresh := new(kindBlock)
		if b.set[i] != nil {
			*fresh = *b.set[i]
		}
		b.set[i], b.owned[i] = fresh, true
	}
	return b.set[i]
}

// add adds a kind; [None] adds nothing.
func (b *kindSetBuilder) add(k KindID) {
	if k >= 0 && !b.set.Has(k) {
		b.own(int(k >> kindBlockShift))[k&kindBlockMask>>6] |= 1 << (k & 63)
	}
}

// addAll adds the kinds of a set, which may be nil. It takes over whole blocks
// where it can.
func (b *kindSetBuilder) addAll(o KindSet) {
	for i, block := range o {
		switch {
		case b.set[i].contains(block):
		case block.contains(b.set[i]):
			b.set[i], b.owned[i] = block, false
		default:
			own := b.own(i)
			for j, w := range block {
				own[j] |= w
			}
		}
	}
}

// keep removes the kinds that are not in a set, which may be nil.
func (b *kindSetBuilder) keep(o KindSet) {
	if o == nil {
		clear(b.set)
		clear(b.owned)
	}
	for i, block := range o {
		switch {
		case block.contains(b.set[i]):
		case block == nil:
			b.set[i], b.owned[i] = nil, false
		default:
			own := b.own(i)
			for j, w := range block {
				own[j] &= w
			}
		}
	}
}

// equal reports whether the sets have the same kinds. A set may be nil.
func (s KindSet) equal(o KindSet) bool {
	for i := range max(len(s), len(o)) {
		var a, b *kindBlock
		if i < len(s) {
			a = s[i]
		}
		if i < len(o) {
			b = o[i]
		}
		if !a.contains(b) || !b.contains(a) {
			return false
		}
	}
	return true
}
