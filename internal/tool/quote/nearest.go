package quote

import (
	"iter"
	"strings"
)

const (
	// nameBytesMax bounds the names that are compared, in bytes. Longer ones have no
	// suggestion.
	nameBytesMax = 64
	// knownMax bounds how many known names are compared.
	knownMax = 1000
)

// Nearest returns the known name that is nearest to name, or "" if none is near. A
// known name is near if at most two edits lead to it (one edit for names of up to
// four bytes) and if both begin with the same byte. An edit inserts, deletes or
// replaces a byte, or swaps two neighbors. Letters that differ in case only count as
// equal. The first of equally near names counts.
func Nearest(name string, known iter.Seq[string]) string {
	folded := strings.ToLower(name)
	if len(folded) == 0 || len(folded) > nameBytesMax {
		return ""
	}
	edits := 2
	if len(name) <= 4 {
		edits = 1
	}
	found, compared := "", 0
	for k := range known {
		if compared++; compared > knownMax {
			break
		}
		other := strings.ToLower(k)
		if k == "" || k == name || len(other) > nameBytesMax || other[0] != folded[0] || max(len(other), len(folded))-min(len(other), len(folded)) > edits {
			continue
		}
		if d := distance(folded, other); d <= edits {
			found, edits = k, d-1
		}
	}
	return found
}

// distance returns the number of edits from a to b (optimal string alignment).
func distance(a, b string) int {
	var rows [3][nameBytesMax + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
