package eval

import (
	"math/bits"
	"slices"
	"strings"
)

// Position is a place in the order of lists: after the entry with this hash
// and id. The zero Position is before the first entry, since no id is empty.
// Any Position is valid, also one that no entry ever had.
type Position struct {
	Hash uint64
	ID   string
}

// PositionOf returns the place of an entry.
func PositionOf(id string) Position { return Position{OrderHash(id), id} }

// Compare orders positions: by hash, then by the bytes of the id.
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
	orderSeed = 0x6f737469617279_01 // "ostiary", form 1
	orderWord = 0x9e3779b97f4a7c15  // odd: 2^64 over the golden ratio
	orderLast = 0xd6e8feb86659fd93
)

// OrderHash is what lists are ordered by. It is a part of what an answer is:
// the same on every node, in every process and in every release.
//
// The hash begins as orderSeed xor (length × orderLast). Each word of eight
// bytes, little-endian, the last one padded with zeros, is xored in, and the
// result folded with orderWord. In the end the hash is xored with its upper
// half (h ^ h>>32) and folded with orderLast. To fold a with b: multiply a,
// its top bit set, with b to 128 bits, and xor the product's high half, its
// low half and a. "anne" has 0x005cbb4a27f86fac, "doc-0123456789" has
// 0x61890b369bf10b09; TestOrderHashVectors holds more.
// It spreads names evenly; it does not withstand someone who seeks collisions,
// and need not: equal hashes are ordered by id.
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

// fold multiplies and joins both halves of the product. The top bit keeps
// zero from absorbing, a that two values which differ in it alone differ.
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
	if len(s) >= 8 { // a whole word that ends with them
		return word(s[len(s)-8:]) >> (8 * (8 - (len(s) - i)))
	}
	w := uint64(0)
	for j := len(s) - 1; j >= 0; j-- {
		w = w<<8 | uint64(s[j])
	}
	return w
}

// ranked is an entry of a list while it is sorted: its hash and where its id
// is.
type ranked struct {
	hash uint64
	at   uint32
}

// order sorts entries by hash, then id, and drops entries of equal ids but
// the one with the least at. tmp is scratch space, as long as entries at
// least, and counts scratch that is returned for another use.
func order(entries, tmp []ranked, counts []uint32, ids []string) ([]ranked, []uint32) {
	if len(entries) <= orderSmall {
		sortRun(entries, ids)
	} else {
		entries, counts = scatter(entries, tmp[:len(entries)], counts, ids)
	}
	out := entries[:0]
	for i, e := range entries {
		if i > 0 {
			if p := out[len(out)-1]; p.hash == e.hash && ids[p.at] == ids[e.at] {
				continue
			}
		}
		out = append(out, e)
	}
	return out, counts
}

const (
	orderSmall   = 64      // below, an insertion sort is quicker
	orderBuckets = 1 << 16 // at most: their counters stay in the cache
)

// scatter is one radix pass over the hash's upper bits, about one entry a
// bucket, and sorts the buckets.
func scatter(entries, tmp []ranked, counts []uint32, ids []string) ([]ranked, []uint32) {
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
	for _, to := range counts { // each now holds its bucket's end
		if to-from > 1 {
			sortRun(tmp[from:to], ids)
		}
		from = to
	}
	return tmp, counts
}

// sortRun sorts a few entries by insertion. Many (ids that were made to
// collide) take a sort that never is quadratic.
func sortRun(run []ranked, ids []string) {
	if len(run) > orderSmall {
		slices.SortFunc(run, func(a, b ranked) int { return compareRanked(a, b, ids) })
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

func compareRanked(a, b ranked, ids []string) int {
	switch {
	case a.hash < b.hash:
		return -1
	case a.hash > b.hash:
		return 1
	}
	if c := strings.Compare(ids[a.at], ids[b.at]); c != 0 {
		return c
	}
	return int(a.at) - int(b.at)
}
