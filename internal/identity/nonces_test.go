package identity

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// TestNonces uses nonces again: at once, at the end of the window, and with
// another time, consumer or token.
func TestNonces(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := newNonces(start.Add(700 * time.Millisecond))
	use := func(consumer, token, text string, signed, now time.Time) error {
		return n.use(nonce{consumer, token, text, signed.Unix()}, now)
	}
	refused := &Error{Reason: Unauthorized}
	if err := use("c", "t", "n", start, start); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]nonce{"another consumer": {"d", "t", "n", start.Unix()}, "another token": {"c", "", "n", start.Unix()},
		"another text": {"c", "t", "m", start.Unix()}, "another time": {"c", "t", "n", start.Unix() + 1}, "separators": {"c t", "", "n", start.Unix()}} {
		if err := n.use(x, start); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := use("c", "t", "old", start.Add(-time.Second), start); !errors.Is(err, refused) {
		t.Error("signed before the start:", err)
	}
	// A request from the future is valid for twice the window. Its nonce must be
	// remembered as long, also if other requests begin new generations.
	signed := start.Add(oauth1.Window)
	if err := use("c", "t", "future", signed, start); err != nil {
		t.Fatal(err)
	}
	for later := time.Duration(0); later <= 2*oauth1.Window; later += 30 * time.Second {
		if err := use("c", "t", "other", start.Add(later), start.Add(later)); err != nil {
			t.Fatal(later, err)
		}
		if err := use("c", "t", "future", signed, start.Add(later)); !errors.Is(err, refused) {
			t.Fatalf("%s later: %v", later, err)
		}
	}
	if remembered := len(n.current) + len(n.previous); remembered > 60 {
		t.Errorf("%d nonces are remembered", remembered)
	}
}

// TestNoncesMax reaches the bound of nonces.
func TestNoncesMax(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := newNonces(start)
	if n.max != noncesMax {
		t.Fatal(n.max)
	}
	n.max = 10
	for i := range 11 {
		err := n.use(nonce{"c", "t", strconv.Itoa(i), start.Unix()}, start)
		if (err == nil) != (i < 10) || err != nil && !errors.Is(err, &Error{Reason: Unavailable}) {
			t.Errorf("nonce %d: %v", i, err)
		}
	}
	later := start.Add(2*oauth1.Window + time.Second)
	if err := n.use(nonce{"c", "t", "11", later.Unix()}, later); err != nil {
		t.Error("in the next generation:", err)
	}
}
