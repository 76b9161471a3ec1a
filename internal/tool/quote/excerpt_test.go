package quote_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"a", 0, "…"}, {"abc", 3, "abc"}, {"abc", 2, "ab…"},
		{"aé", 3, "aé"}, {"aéb", 3, "aé…"}, {"aéb", 2, "a…"}, // é has two bytes
		{"a日b", 4, "a日…"}, {"a日b", 3, "a…"}, {"a日b", 2, "a…"}, {"日b", 2, "…"},
		{"a😀", 4, "a…"}, {"a😀", 5, "a😀"},
		{"\xff\xff\xff", 2, "\xff\xff…"}, {"a\x80\x80\x80", 2, "…"}, // invalid bytes stay, but no text ends between them
	} {
		if got := quote.Of(c.text, c.most); got != c.want {
			t.Errorf("%q, %d: %q, want %q", c.text, c.most, got, c.want)
		}
		if got := quote.Of([]byte(c.text), c.most); got != c.want {
			t.Errorf("bytes %q, %d: %q, want %q", c.text, c.most, got, c.want)
		}
		if got := quote.Start(c.text, c.most); got != strings.TrimSuffix(c.want, "…") {
			t.Errorf("start of %q, %d: %q", c.text, c.most, got)
		}
	}
}

// TestOfIsValid cuts a text at each byte.
func TestOfIsValid(t *testing.T) {
	t.Parallel()
	const text = "aé日😀\u00a0b"
	for most := range len(text) + 2 {
		got := quote.Start(text, most)
		if !utf8.ValidString(got) || len(got) > most || !strings.HasPrefix(text, got) {
			t.Errorf("%d: %q", most, got)
		}
		if most < len(text) && most-len(got) >= utf8.UTFMax {
			t.Errorf("%d: only %q", most, got)
		}
	}
}

func TestOfForeign(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\u00a0b": "a b", "a\xff\xfeb": "a?b", "a\u00a0bcé": "a bc…", "abcdef": "abcd…", "é\xffé": "é?é…"[:3] + "…",
	} {
		if got := quote.OfForeign(text, 4); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
