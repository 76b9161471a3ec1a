package kv

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Keys have the order of the strings of their parts, and different strings make
// different keys.
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
			t.Errorf("%q %q and %q %q have another order as keys %x and %x", a, b, c, d, first, second)
		}
		var parts [2][]byte
		if err := splitKey(first, parts[:]); err != nil || string(parts[0]) != a || string(parts[1]) != b {
			t.Errorf("the key of %q %q is split into %q, %v", a, b, parts, err)
		}
		if strings.HasPrefix(c, a) != bytes.HasPrefix(appendPart(nil, c), appendPartPrefix(nil, a)) {
			t.Errorf("appendPartPrefix(%q) and the part of %q disagree about the prefix", a, c)
		}
	})
}

// splitKey either rejects bytes, or returns parts that make the same bytes.
func FuzzSplitKey(f *testing.F) {
	f.Add([]byte("a\x00b\x00"))
	f.Add([]byte("\x01\x01\x00\x01\x02\x00"))
	f.Add([]byte("\x01\x03\x00\x00"))
	f.Fuzz(func(t *testing.T, key []byte) {
		var parts [2][]byte
		if err := splitKey(key, parts[:]); err != nil {
			return
		}
		if again := appendPart(appendPart(nil, string(parts[0])), string(parts[1])); !bytes.Equal(again, key) {
			t.Errorf("key %x is split into %q, whose key is %x", key, parts, again)
		}
	})
}

func TestSuccessor(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "a\xff\xff": "b", "a\x00": "a\x01", "\xfe\xff": "\xff"} {
		if have := successor([]byte(prefix)); string(have) != want {
			t.Errorf("successor(%q) = %q, want %q", prefix, have, want)
		}
	}
}

// Later calls do not change the strings that were returned.
func TestRowStrings(t *testing.T) {
	t.Parallel()
	var n rowStrings
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
		t.Error("a string changed after it was returned")
	}
}

// splitKey agrees with splitting byte by byte, for keys of all lengths that contain
// many bytes with a special meaning.
func TestSplitKey(t *testing.T) {
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
		err := splitKey(key, parts)
		bad := len(key) > 0 && key[len(key)-1] != 0
		for i, want := range bytes.Split(key, []byte{0})[:len(parts)] {
			plain, unescapeErr := unescape(want)
			if bad = bad || unescapeErr != nil; err == nil && !bytes.Equal(parts[i], plain) {
				t.Fatalf("part %d of key %x is %x, want %x", i, key, parts[i], plain)
			}
		}
		if (err != nil) != bad {
			t.Fatalf("key %x: error %v, want an error: %v", key, err, bad)
		}
		if splitKey(key, make([][]byte, len(parts)+1)) == nil || len(parts) > 0 && splitKey(key, parts[1:]) == nil {
			t.Fatalf("key %x is split into a wrong number of parts", key)
		}
	}
}
