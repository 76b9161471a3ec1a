package identity

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity/oauth1"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
)

// openAt opens the service of a store with a clock.
func openAt(t *testing.T, store *ostiary.Store, now *time.Time) *Service {
	t.Helper()
	s, err := Open(t.Context(), store, settings.Deployment{Rounds: 4, Clock: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newStore returns a new store in memory.
func newStore(t *testing.T) *ostiary.Store {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestNonces uses nonces again: at once, by another service of the store, at the end of
// the window, and with another time, consumer or token.
func TestNonces(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now, store := start, newStore(t)
	first, second := openAt(t, store, &now), openAt(t, store, &now)
	refused := &Error{Reason: Unauthorized}
	future := nonce{"c", "t", "n", start.Add(oauth1.Window).Unix()}
	if err := first.useNonce(t.Context(), future); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Service{first, second, openAt(t, store, &now)} {
		if err := s.useNonce(t.Context(), future); !errors.Is(err, refused) {
			t.Error("again:", err)
		}
	}
	for name, x := range map[string]nonce{"another consumer": {"d", "t", "n", future.signed}, "another token": {"c", "", "n", future.signed},
		"another text": {"c", "t", "m", future.signed}, "another time": {"c", "t", "n", future.signed + 1}, "separators": {"c t", "", "n", future.signed},
		"the end of the consumer": {"ct", "", "n", future.signed}} {
		if err := second.useNonce(t.Context(), x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A request from the future is valid for twice the window, and longer for a server
	// whose clock is behind.
	for later := time.Duration(0); later <= 2*oauth1.Window+clockSkewMax; later += time.Minute {
		now = start.Add(later)
		if err := first.useNonce(t.Context(), nonce{"c", "t", "other", now.Unix()}); err != nil {
			t.Fatal(later, err)
		}
		if err := second.useNonce(t.Context(), future); !errors.Is(err, refused) {
			t.Fatalf("%s later: %v", later, err)
		}
	}
	now = now.Add(time.Hour)
	if err := first.useNonce(t.Context(), nonce{"c", "t", "last", now.Unix()}); err != nil {
		t.Fatal(err)
	}
	d, err := second.at(t.Context())
	if err != nil || d.nonces.Len() != 1 {
		t.Errorf("%d nonces are stored after an hour, want 1: %v", d.nonces.Len(), err)
	}
}

// TestNoncesMax reaches the bound of nonces.
func TestNoncesMax(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := openAt(t, newStore(t), &now)
	if s.noncesMax != noncesMax {
		t.Fatal(s.noncesMax)
	}
	s.noncesMax = 10
	for i := range 11 {
		err := s.useNonce(t.Context(), nonce{"c", "t", strconv.Itoa(i), now.Unix()})
		if (err == nil) != (i < 10) || err != nil && !errors.Is(err, &Error{Reason: Unavailable}) {
			t.Errorf("nonce %d: %v", i, err)
		}
	}
	now = now.Add(nonceLife + time.Second)
	if err := s.useNonce(t.Context(), nonce{"c", "t", "11", now.Unix()}); err != nil {
		t.Error("after their life:", err)
	}
}
