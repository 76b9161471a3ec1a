package eval

import (
	"math/bits"
	"slices"
	"strings"
)

// Position is a place in the order of lists: after the entry with this hash
// and id. The zero Position is before the first entry, because no id is empty.
// Every Position is valid, even if the list never had such an entry.
type Position struct {
	// Hash is the entry's [OrderHash].
	Hash uint64
	// ID is the entry's id.
	ID string
}

// PositionOf returns the position of an entry.
func PositionOf(id string) Position { return Position{OrderHash(id), id} }

// Compare orders positions by hash, then by the bytes of the id.
func (p Position) Compare(o Position) int {
	switch {
	case p.Hash < o.Hash:
		return -1
	case p.Hash > o.Hash:
		return 1
	}
	return strings.Compare(p.ID, o.ID)
}

const (
	orderSeed = 0x6f737469617279_01 // "ostiary", version 1
	orderWord = 0x9e3779b97f4a7c15  // odd: 2^64 over the golden ratio
	orderLast = 0xd6e8feb86659fd93
)

// OrderHash returns the hash by which lists are ordered. It is part of the
// meaning of an answer: the same on every machine, in every process and in every
// release.
//
// The hash starts as orderSeed xor (length × orderLast). For each word of
// eight bytes, little-endian, the last one padded with zeros: xor it in, then
// fold with orderWord. At the end xor the hash with its upper half (h ^ h>>32)
// and fold with orderLast. Folding a with b multiplies a, its top bit set,
// with b to 128 bits, and returns the xor of the product's high half, its low
// half and a. The hash of "anne" is 0x005cbb4a27f86fac, that of
// "doc-0123456789" is 0x61890b369bf10b09; TestOrderHashVectors has more.
//
// It spreads names evenly. It does not withstand deliberate collisions and
// need not: entries with equal hashes are ordered by id.
func OrderHash(id string) uint64 {
	h := orderSeed ^ uint64(len(id))*orderLast
	i := 0
	for ; i+8 <= len(id); i += 8 {
		h = fold(h^word(id[i:]), orderWord)
	}
	if i < len(id) {
		h = fold(h^tail(id, i), orderWord)
	}
	return fold(h^h>>32, orderLast)
}

// fold multiplies and combines both halves of the product. Setting the top bit
// keeps zero from absorbing everything. The xor with a separates two values
// that differ only in that bit.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a|1<<63, b)
	return hi ^ lo ^ a
}

func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// tail reads the bytes from i on, fewer than eight, as a word padded with
// zeros.
func tail(s string, i int) uint64 {
	if len(s) >= 8 { // read the last eight bytes and drop the ones before i
		return word(s[len(s)-8:]) >> (8 * (8 - (len(s) - i)))
	}
	w := uint64(0)
	for j := len(s) - 1; j >= 0; j-- {
		w = w<<8 | uint64(s[j])
	}
	return w
}

// orderedID is an entry of a list while it is sorted.
type orderedID struct {
	// hash is the id's OrderHash.
	hash uint64
	// index is where the id is in the list's ids.
	index uint32
}

// orderUnique sorts entries by hash, then id. Of entries with equal ids it
// keeps the one with the least index. tmp is scratch space of at least the
// length of entries. counts is scratch space that is returned for reuse.
func orderUnique(entries, tmp []orderedID, counts []uint32, ids []string) ([]orderedID, []uint32) {
	if len(entries) <= orderSmall {
		sortSmall(entries, ids)
	} else {
		entries, counts = radixPass(entries, tmp[:len(entries)], counts, ids)
	}
	out := entries[:0]
	for i, e := range entries {
		if i > 0 {
			if p := out[len(out)-1]; p.hash == e.hash && ids[p.index] == ids[e.index] {
				continue
			}
		}
		out = append(out, e)
	}
	return out, counts
}

const (
	// orderSmall is the length up to which an insertion sort is faster.
	orderSmall = 64
	// orderBuckets bounds the number of buckets, so that their counters stay
	// in the cache.
	orderBuckets = 1 << 16
)

// radixPass distributes entries to buckets by the upper bits of the hash,
// about one entry per bucket, and sorts each bucket.
func radixPass(entries, tmp []orderedID, counts []uint32, ids []string) ([]orderedID, []uint32) {
	width := min(bits.Len(uint(len(entries)-1)), bits.Len(orderBuckets-1))
	shift := 64 - width
	n := 1 << width
	counts = slices.Grow(counts[:0], n)[:n]
	clear(counts)
	for i := range entries {
		counts[entries[i].hash>>shift]++
	}
	sum := uint32(0)
	for i, c := range counts {
		counts[i] = sum
		sum += c
	}
	for i := range entries {
		e := &entries[i]
		c := &counts[e.hash>>shift]
		tmp[*c] = *e
		*c++
	}
	from := uint32(0)
	for _, to := range counts { // each count is now the end of its bucket
		if to-from > 1 {
			sortSmall(tmp[from:to], ids)
		}
		from = to
	}
	return tmp, counts
}

// sortSmall sorts a few entries by insertion. Many entries in one bucket, such
// as ids that were made to collide, take a sort that is never quadratic.
func sortSmall(run []orderedID, ids []string) {
	if len(run) > orderSmall {
		slices.SortFunc(run, func(a, b orderedID) int { return compareRanked(a, b, ids) })
		return
	}
	for i := 1; i < len(run); i++ {
		e := run[i]
		j := i
		for j > 0 && (run[j-1].hash > e.hash || run[j-1].hash == e.hash && compareRanked(run[j-1], e, ids) > 0) {
			run[j] = run[j-1]
			j--
		}
		run[j] = e
	}
}

// compareRanked compares entries by hash, id and index.
func compareRanked(a, b orderedID, ids []string) int {
	switch {
	case a.hash < b.hash:
		return -1
	case a.hash > b.hash:
		return 1
	}
	if c := strings.Compare(ids[a.index], ids[b.index]); c != 0 {
		return c
	}
	return int(a.index) - int(b.index)
}
