package quote

import (
	"slices"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	known := []string{"viewer", "can_view", "owner", "own", "doc", "document", strings.Repeat("x", 64), strings.Repeat("y", 65)}
	for name, want := range map[string]string{
		"veiwer": "viewer", "viewr": "viewer", "viewers": "viewer", "can_veiw": "can_view", "ownr": "owner", "doce": "doc", "documnet": "document",
		"Viewer": "viewer", "VIEWER": "viewer", "OWNR": "owner", "DOCUMENTATION": "",
		"viewer": "", "": "", "editor": "", "iewer": "", "dxcxmxnt": "", "vwer": "", "do": "doc", "dco": "doc",
		strings.Repeat("x", 63): strings.Repeat("x", 64), strings.Repeat("x", 63) + "y": strings.Repeat("x", 64), strings.Repeat("y", 64): "", strings.Repeat("x", 65): "",
	} {
		if got := Nearest(name, slices.Values(known)); got != want {
			t.Errorf("%q: got %q, expected %q", name, got, want)
		}
	}
}

func TestNameKnownMax(t *testing.T) {
	t.Parallel()
	known := make([]string, knownMax+1)
	known[knownMax-1] = "viewer"
	if got := Nearest("viewr", slices.Values(known)); got != "viewer" {
		t.Errorf("the last name within the bound: got %q", got)
	}
	known[knownMax-1], known[knownMax] = "", "viewer"
	if got := Nearest("viewr", slices.Values(known)); got != "" {
		t.Errorf("the first name above the bound: got %q", got)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	if nameBytesMax != 64 || knownMax != 1000 {
		t.Errorf("bounds %d and %d: the tests use 64 and 1000", nameBytesMax, knownMax)
	}
}

// TestNearest checks that the nearest of several near names is returned, and the first of
// equally near ones.
func TestNearest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ known, want string }{
		{"abxye abcdx", "abcdx"}, {"abcdx abxye", "abcdx"}, {"abxye axyde", "abxye"}, {"abcdx abcxe", "abcdx"},
		{"abxye abcdx abcd", "abcdx"}, {"abxyz", ""}, {"abxye ABCDE", "ABCDE"}, {"abcdef ABCDE abcd", "ABCDE"},
	} {
		if got := Nearest("abcde", slices.Values(strings.Fields(c.known))); got != c.want {
			t.Errorf("of %s: got %q, expected %q", c.known, got, c.want)
		}
	}
}

// words returns all words of a, b and c with at most n letters.
func words(n int) []string {
	all := []string{""}
	for from := 0; n > 0; n-- {
		end := len(all)
		for _, word := range all[from:end] {
			all = append(all, word+"a", word+"b", word+"c")
		}
		from = end
	}
	return all
}

// TestDistance compares distance with its definition, for all pairs of short words and
// for the longest words.
func TestDistance(t *testing.T) {
	t.Parallel()
	var define func(a, b string) int
	define = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		n, m := len(a)-1, len(b)-1
		replaced := define(a[:n], b[:m])
		if a[n] != b[m] {
			replaced++
		}
		least := min(replaced, define(a[:n], b)+1, define(a, b[:m])+1)
		if n > 0 && m > 0 && a[n] == b[m-1] && a[n-1] == b[m] {
			least = min(least, define(a[:n-1], b[:m-1])+1)
		}
		return least
	}
	all := words(4)
	for _, a := range all {
		for _, b := range all {
			if got, want := distance(a, b), define(a, b); got != want {
				t.Fatalf("from %q to %q: got %d, expected %d", a, b, got, want)
			}
		}
	}
	x, y := strings.Repeat("x", nameBytesMax), strings.Repeat("y", nameBytesMax)
	for _, c := range []struct {
		a, b string
		want int
	}{{x, y, 64}, {x, "", 64}, {"", y, 64}, {x, x, 0}, {x, x[1:] + "y", 1}, {x[2:] + "yz", x[2:] + "zy", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q: got %d, expected %d", c.a, c.b, got, c.want)
		}
	}
}
