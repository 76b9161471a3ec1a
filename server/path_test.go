package server

import (
	"net/url"
	"path"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{
		"/": true, "/a": true, "/a/b": true, "/a/": true, "/a.b": true, "/...": true, "/.a": true, "/a%20b": true, "/%2e%2e%2e": true, "/ä": true,
		"/%A0": true, "/%F0": true, "/%a0": true, "/%f0": true, "/%90": true, "/%0A": true, "/%0F": true, "/%0a": true, "/%0f": true, "/%09": true, "/%5B": true, "/%2D": true,
		"/%G0": false, "/%g0": false, "/%@0": false, "/%`0": false, "/%:0": false, "/%/0": false, "/%0G": false, "/%0g": false, "/%0@": false, "/%0`": false, "/%0:": false, "/%0/": false,
		"": false, "a": false, "*": false, "//": false, "//a": false, "/a//b": false, "/a//": false, "/.": false, "/..": false, "/a/./b": false,
		"/a/../b": false, "/a/..": false, "/./a": false, "/%2e": false, "/%2E%2e/a": false, "/.%2e": false, "/a%2fb": false, "/a%2Fb": false,
		"/a%5cb": false, `/a\b`: false, "/a%00": false, "/a\x00": false, "/%": false, "/%2": false, "/%zz": false, "/a%2": false, "/a?b": false, "/a#b": false,
	} {
		if canonical(p) != want {
			t.Errorf("canonical(%q) = %v", p, !want)
		}
	}
}

// FuzzCanonical checks that path.Clean does not change a decoded canonical path,
// and that decoding does not change its number of segments.
func FuzzCanonical(f *testing.F) {
	for _, p := range []string{"/", "/a/b%20c", "/%2e%2e/x", "/a/../b", "/a%2fb/"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if !canonical(p) {
			return
		}
		plain, err := url.PathUnescape(p)
		if err != nil {
			t.Fatal(err)
		}
		if clean := path.Clean(plain); clean != plain && clean+"/" != plain {
			t.Errorf("%q is %q, clean %q", p, plain, clean)
		}
		if strings.Count(p, "/") != strings.Count(plain, "/") {
			t.Errorf("%q is %q", p, plain)
		}
	})
}
