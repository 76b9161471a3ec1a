package pattern

import (
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/xmlread"
)

// TestBlocks checks that each block begins and ends where Unicode lets one: at a
// multiple of 16. Two blocks are equal, or have no character in common.
func TestBlocks(t *testing.T) {
	t.Parallel()
	owner := map[rune]span{}
	for name, b := range blocks() {
		if b.low%16 != 0 || b.high%16 != 15 || b.low > b.high || b.high > 0x10FFFF {
			t.Errorf("%s: %#x to %#x", name, b.low, b.high)
			continue
		}
		for r := b.low; r <= b.high; r += 16 {
			if other, taken := owner[r]; taken && other != b {
				t.Errorf("%s has the character %#x of another block", name, r)
				break
			}
			owner[r] = b
		}
	}
	for name, b := range blocks() {
		if _, known := owner[b.high+1]; !known && b.high < 0x1000 && b.high != 0x85F {
			t.Errorf("no block follows %s", name)
		}
	}
}

// TestNameCharacters compares the escapes \i and \c with the names of XML, for all
// characters.
func TestNameCharacters(t *testing.T) {
	t.Parallel()
	in := func(s set, r rune) bool {
		for _, x := range s {
			if x.low <= r && r <= x.high {
				return true
			}
		}
		return false
	}
	for r := rune(0); r <= 0x10FFFF; r++ {
		if 0xD800 <= r && r <= 0xDFFF || r == ':' { // a name of package xmlread has no colon
			continue
		}
		if in(nameStarts, r) != xmlread.IsName(string(r)) || in(names, r) != xmlread.IsName("a"+string(r)) {
			t.Fatalf("%#x: begins a name: %v, is part of one: %v", r, in(nameStarts, r), in(names, r))
		}
	}
	if !in(nameStarts, ':') || !in(names, ':') {
		t.Error("a colon is no part of a name")
	}
}

// TestManyGroups compiles more groups one after another than may nest.
func TestManyGroups(t *testing.T) {
	t.Parallel()
	if _, err := Compile(strings.Repeat("(a)(?:b)", 200)); err != nil {
		t.Error(err)
	}
}

// TestNestedClasses compiles more classes one after another than may nest.
func TestNestedClasses(t *testing.T) {
	t.Parallel()
	p, err := Compile("^" + strings.Repeat("[a-z-[m]]", 200) + "$")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := p.Match(strings.Repeat("a", 200)); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := p.Match(strings.Repeat("a", 199) + "m"); ok || err != nil {
		t.Error(ok, err)
	}
}
