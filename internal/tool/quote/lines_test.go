package quote_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// TestAt compares positions with those that are counted from the beginning.
func TestAt(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{"", "\n", "a", "a\nb", strings.Repeat("ab\n", 300), strings.Repeat("x", 1000), strings.Repeat("x", 255) + "\n" + strings.Repeat("\n", 600)} {
		x := quote.NewIndex([]byte(text))
		for range 500 {
			offset := rnd.IntN(len(text) + 3)
			before := []byte(text[:min(offset, len(text))])
			line, column := x.At(offset)
			if wantLine, wantColumn := bytes.Count(before, []byte{'\n'})+1, len(before)-bytes.LastIndexByte(before, '\n'); line != wantLine || column != wantColumn {
				t.Fatalf("offset %d of %.20q: %d:%d, expected %d:%d", offset, text, line, column, wantLine, wantColumn)
			}
		}
	}
}

// TestWork checks that a text is read once, and that each position costs at most a
// block more, in any order of the positions.
func TestWork(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("x", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat("x", 1<<19) + "\n" + strings.Repeat("x", 1<<19)} {
		x := quote.NewIndex([]byte(text))
		const positions = 20_000
		rnd := rand.New(rand.NewPCG(3, 4))
		for range positions {
			x.At(rnd.IntN(len(text)))
		}
		if most := len(text) + positions*256; x.Read() > most {
			t.Errorf("%d bytes were read: expected at most %d", x.Read(), most)
		}
	}
}
