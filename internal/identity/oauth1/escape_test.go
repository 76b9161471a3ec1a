package oauth1_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "azAZ09-._~": "azAZ09-._~", " +/?&=%:;,'\"*()!": "%20%2B%2F%3F%26%3D%25%3A%3B%2C%27%22%2A%28%29%21", "é漢": "%C3%A9%E6%BC%A2", "\x00\x7f\xff": "%00%7F%FF",
	} {
		if got := oauth1.Escape(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a b%")
	f.Fuzz(func(t *testing.T, text string) {
		encoded := oauth1.Escape(text)
		if back, err := url.PathUnescape(encoded); err != nil || back != text {
			t.Errorf("%q: %q, %v", text, back, err)
		}
		if strings.ContainsAny(encoded, "/+ &=") {
			t.Errorf("%q: %q", text, encoded)
		}
	})
}
