package pattern

import (
	"cmp"
	"slices"
	"sync"
	"unicode"
)

// span is a range of characters, both included.
type span struct{ low, high rune }

// set is a set of characters: ranges in order, which do not touch each other.
type set []span

// newSet returns the set of the characters of spans, in any order. It sorts spans.
func newSet(spans ...span) set {
	if len(spans) == 1 {
		return set{spans[0]}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	var s set
	for _, next := range spans {
		if n := len(s); n > 0 && next.low <= s[n-1].high+1 {
			s[n-1].high = max(s[n-1].high, next.high)
		} else {
			s = append(s, next)
		}
	}
	return s
}

// negate returns all other characters.
func (s set) negate() set {
	var rest set
	next := rune(0)
	for _, r := range s {
		if r.low > next {
			rest = append(rest, span{next, r.low - 1})
		}
		next = r.high + 1
	}
	if next <= unicode.MaxRune {
		rest = append(rest, span{next, unicode.MaxRune})
	}
	return rest
}

// subtract returns the characters of s that are not in without.
func (s set) subtract(without set) set {
	return newSet(append(slices.Clone(s.negate()), without...)...).negate()
}

// has reports whether the set has a character.
func (s set) has(r rune) bool {
	i, found := slices.BinarySearchFunc(s, r, func(s span, r rune) int { return cmp.Compare(s.low, r) })
	return found || i > 0 && s[i-1].high >= r
}

// tableSet returns the set of the characters of tables.
func tableSet(tables ...*unicode.RangeTable) set {
	var spans []span
	add := func(low, high, stride rune) {
		if stride == 1 {
			spans = append(spans, span{low, high})
			return
		}
		for r := low; r <= high; r += stride {
			spans = append(spans, span{r, r})
		}
	}
	for _, t := range tables {
		for _, r := range t.R16 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return newSet(spans...)
}

// category returns the set of a Unicode category, for example "L" or "Lu".
func category(name string) (set, bool) {
	t, ok := unicode.Categories[name]
	if !ok || len(name) > 2 || name == "LC" {
		return nil, false
	}
	return tableSet(t), true
}

// The sets of the escapes \s, \d, \w, \i and \c (XML Schema part 2, appendix
// F.1.1; XML 1.0, section 2.3 for names).
var (
	spaces     = set{{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}
	digits     = sync.OnceValue(func() set { return tableSet(unicode.Nd) })
	words      = sync.OnceValue(func() set { return tableSet(unicode.P, unicode.Z, unicode.C).negate() })
	nameStarts = newSet([]span{
		{':', ':'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x2FF},
		{0x370, 0x37D}, {0x37F, 0x1FFF}, {0x200C, 0x200D}, {0x2070, 0x218F}, {0x2C00, 0x2FEF},
		{0x3001, 0xD7FF}, {0xF900, 0xFDCF}, {0xFDF0, 0xFFFD}, {0x10000, 0xEFFFF},
	}...)
	names = newSet(append([]span{
		{'-', '.'}, {'0', '9'}, {0xB7, 0xB7}, {0x300, 0x36F}, {0x203F, 0x2040},
	}, nameStarts...)...)
)

// shorthand returns the set of an escape in lower case, nil if there is none.
func shorthand(r rune) set {
	switch r {
	case 's':
		return spaces
	case 'd':
		return digits()
	case 'w':
		return words()
	case 'i':
		return nameStarts
	case 'c':
		return names
	}
	return nil
}
