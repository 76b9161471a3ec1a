package kv

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Parts in a row keep the order of their strings, and no two rows of parts are
// the same bytes.
func FuzzParts(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "\x01", "\x01\x00", "a\x00b", "\xff", "\x01\x02"} {
		f.Add(s, "a\x00", "b", s)
	}
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		first := appendPart(appendPart(nil, a), b)
		second := appendPart(appendPart(nil, c), d)
		order := strings.Compare(a, c)
		if order == 0 {
			order = strings.Compare(b, d)
		}
		if bytes.Compare(first, second) != order {
			t.Errorf("%q %q and %q %q are in another order as %x and %x", a, b, c, d, first, second)
		}
		var parts [2][]byte
		if err := cutParts(first, parts[:]); err != nil || string(parts[0]) != a || string(parts[1]) != b {
			t.Errorf("%q %q is read as %q, %v", a, b, parts, err)
		}
		if strings.HasPrefix(c, a) != bytes.HasPrefix(appendPart(nil, c), appendOpenPart(nil, a)) {
			t.Errorf("the prefix %q of %q is lost", a, c)
		}
	})
}

// Any bytes are read as parts that are written the same, or refused.
func FuzzCutParts(f *testing.F) {
	f.Add([]byte("a\x00b\x00"))
	f.Add([]byte("\x01\x01\x00\x01\x02\x00"))
	f.Add([]byte("\x01\x03\x00\x00"))
	f.Fuzz(func(t *testing.T, key []byte) {
		var parts [2][]byte
		if err := cutParts(key, parts[:]); err != nil {
			return
		}
		if again := appendPart(appendPart(nil, string(parts[0])), string(parts[1])); !bytes.Equal(again, key) {
			t.Errorf("%x is read as %q, which is %x", key, parts, again)
		}
	})
}

func TestSuccessor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\xff\xff": "b", "a\x00": "a\x01", "\xfe\xff": "\xff"} {
		if have := successor([]byte(prefix)); string(have) != want {
			t.Errorf("the successor of %q is %q, want %q", prefix, have, want)
		}
	}
}

// Words and texts are what they were, whatever came before and between.
func TestNames(t *testing.T) {
	t.Parallel()
	var n names
	var have, want []string
	for i := range 3 * wordsMax {
		text := strings.Repeat(string(rune('a'+i%26)), i%300)
		if i%1000 == 0 {
			text = strings.Repeat("long", chunkBytes)
		}
		b := []byte(text)
		have = append(have, n.text(b), n.word(i%5, b))
		want = append(want, text, text)
		clear(b)
	}
	if !slices.Equal(have, want) {
		t.Error("a string changed after it was handed out")
	}
}

// Keys of every length, whose bytes are mostly those that mean something, are cut
// as they are byte by byte.
func TestCutParts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		key := make([]byte, r.IntN(40))
		for i := range key {
			key[i] = []byte{0, 1, 2, 3, 'a', 0x80, 0xfe, 0xff}[r.IntN(8)]
		}
		if r.IntN(2) == 0 && len(key) > 0 {
			key[len(key)-1] = 0
		}
		parts := make([][]byte, bytes.Count(key, []byte{0}))
		err := cutParts(key, parts)
		bad := len(key) > 0 && key[len(key)-1] != 0
		for i, want := range bytes.Split(key, []byte{0})[:len(parts)] {
			plain, failed := unescape(want)
			if bad = bad || failed != nil; err == nil && !bytes.Equal(parts[i], plain) {
				t.Fatalf("part %d of %x is %x", i, key, parts[i])
			}
		}
		if (err != nil) != bad {
			t.Fatalf("%x: %v", key, err)
		}
		if cutParts(key, make([][]byte, len(parts)+1)) == nil || len(parts) > 0 && cutParts(key, parts[1:]) == nil {
			t.Fatalf("%x has another number of parts", key)
		}
	}
}
