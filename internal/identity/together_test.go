package identity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// gated returns a bootstrapped service, its store, and the driver with an open
// gate.
func gated(t *testing.T) (*identity.Service, *ostiary.Store, *storagetest.Gate) {
	t.Helper()
	d := &storagetest.Gate{Driver: memory.New()}
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: d, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "k"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret"}); err != nil {
		t.Fatal(err)
	}
	return s, store, d
}

// TestDecidedAhead decides a change of a user on one that is not durable yet, and
// refuses it because of that one. The refusal counts only if that one becomes
// durable; otherwise the change is decided again. Readers never see what is not
// durable.
func TestDecidedAhead(t *testing.T) {
	t.Parallel()
	failed, refused := errors.New("the disk is gone"), errors.New("refused")
	for _, outcome := range []error{nil, failed} {
		s, _, d := gated(t)
		ctx := context.Background()
		user, err := s.Create(ctx, identity.Record{Kind: identity.User, Name: "u"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Entered, d.Leave = make(chan struct{}, 4), make(chan error)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.Update(ctx, identity.User, user.ID, nil, false, func(r *identity.Record) error { r.Name = "first"; return nil })
			first <- err
		}()
		<-d.Entered
		decided := make(chan string, 9)
		go func() {
			_, err := s.Update(ctx, identity.User, user.ID, nil, false, func(r *identity.Record) error {
				decided <- r.Name
				if r.Name == "first" {
					return refused
				}
				r.Name = "second"
				return nil
			})
			second <- err
		}()
		if name := <-decided; name != "first" {
			t.Errorf("decided on %q, want the change before", name)
		}
		if r, err := s.Get(ctx, identity.User, user.ID); err != nil || r.Name != "u" {
			t.Errorf("readers see %v, %v before it is durable", r, err)
		}
		d.Leave <- outcome
		want := "first"
		if outcome != nil {
			want = "second"
			<-d.Entered
			d.Leave <- nil
		}
		a, b := <-first, <-second
		r, err := s.Get(ctx, identity.User, user.ID)
		if !errors.Is(a, outcome) || (outcome == nil) != errors.Is(b, refused) || outcome != nil && b != nil || err != nil || r.Name != want {
			t.Errorf("first append %v: results %v and %v, the user is %v, %v, want %q", outcome, a, b, r, err, want)
		}
	}
}

// TestTogether makes concurrent writes that depend on one another: records with few
// names, grants, memberships and deletions. One of equal names wins, and the
// directory in memory must be that of the store.
func TestTogether(t *testing.T) {
	t.Parallel()
	s, store, _ := gated(t)
	ctx := t.Context()
	var mu sync.Mutex
	var wait sync.WaitGroup
	made := map[string]int{}
	const clients, names = 8, 40
	for client := range clients {
		wait.Go(func() {
			for i := range names {
				name := fmt.Sprint("n", i)
				u, err := s.Create(ctx, identity.Record{Kind: identity.User, Name: name}, nil)
				switch {
				case err == nil:
					mu.Lock()
					made[name]++
					mu.Unlock()
				case !errors.Is(err, &identity.Error{Reason: identity.Conflict}):
					t.Error(err)
				}
				if err == nil && i%4 == 0 { // later clients may make it again
					_, err := s.Update(ctx, identity.User, u.ID, nil, false, func(r *identity.Record) error { r.Name = fmt.Sprint("renamed", client, "-", i); return nil })
					mu.Lock()
					made[name]--
					mu.Unlock()
					if err := errors.Join(err, s.Delete(ctx, identity.User, u.ID)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	again, err := identity.Open(ctx, store, settings.Deployment{Rounds: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*identity.Service{s, again} {
		users, _, err := x.List(ctx, identity.ListRequest{Kind: identity.User})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, u := range users {
			count[u.Name]++
		}
		for i := range names {
			name := fmt.Sprint("n", i)
			if want := min(1, i%4); count[name] != want || made[name] != want {
				t.Errorf("%d users are named %s after %d creations, want %d", count[name], name, made[name], want)
			}
		}
	}
}
