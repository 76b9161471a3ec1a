package identity

import (
	"fmt"
	"testing"
	"time"
)

func TestVerified(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var none *verified
	none.add("secret", "hash", now)
	if none.holds("secret", "hash", now) || newVerified(0) != nil {
		t.Error("a cache without a time holds a password")
	}
	v := newVerified(time.Minute)
	v.add("secret", "hash", now)
	for _, x := range []struct {
		secret, hash string
		at           time.Duration
		want         bool
	}{{"secret", "hash", 0, true}, {"secret", "hash", time.Minute - 1, true}, {"secret", "hash", time.Minute, false}, {"secrets", "hash", 0, false}, {"secret", "hashs", 0, false}} {
		if got := v.holds(x.secret, x.hash, now.Add(x.at)); got != x.want {
			t.Errorf("%s, %s after %v: %v, want %v", x.secret, x.hash, x.at, got, x.want)
		}
	}
	for i := range verifiedMax - 1 {
		v.add(fmt.Sprint(i), "hash", now)
	}
	if len(v.ends) != verifiedMax {
		t.Errorf("%d passwords, want %d", len(v.ends), verifiedMax)
	}
	if v.add("one more", "hash", now); len(v.ends) != 1 || !v.holds("one more", "hash", now) {
		t.Errorf("%d passwords in a cache that was full, want 1", len(v.ends))
	}
}

// TestNetwork checks which addresses take turns as one.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "pipe": "pipe", "10.0.0.1": "10.0.0.1", "10.0.0.1:5000": "10.0.0.1", "[::ffff:10.0.0.1]:5000": "10.0.0.1",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "2001:db8:1:2::1": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := network(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
