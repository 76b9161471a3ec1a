package callers

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// TestExpiredKeys makes a key with the name of one that has expired, and removes the expired
// ones. The last key stays, so that the system does not become one without keys.
func TestExpiredKeys(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	r := New(e, Options{Clock: func() time.Time { return now }})
	create := func(name string, expires time.Time) error {
		_, err := r.Create(t.Context(), NewKey{Name: name, Stores: []string{"*"}, Rights: []string{"read"}, Expires: expires})
		return err
	}
	for i := range 60 {
		if err := create(fmt.Sprint("short ", i), now.Add(5*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("short 7", time.Time{}); !errors.Is(err, ErrKeyExists) {
		t.Errorf("the name of a key: %v", err)
	}
	now = now.Add(5 * time.Second)
	if n, err := r.Len(t.Context()); n != 60 || err != nil {
		t.Errorf("%d keys after all have expired: %v", n, err)
	}
	for i, want := range []int{11, 2} {
		if err := create(fmt.Sprint("short ", 7+i), time.Time{}); err != nil {
			t.Errorf("the name of an expired key: %v", err)
		}
		if n, err := r.Len(t.Context()); n > want+1 || err != nil {
			t.Errorf("%d keys, at most %d expected: %v", n, want+1, err)
		}
	}
	one, err := r.Find(t.Context(), "short 7")
	if err != nil || one.expired(now) {
		t.Errorf("the new key: %v, %v", one, err)
	}
}

// TestAdministersAll checks that a key with admin on all stores sees and revokes every key,
// but gets no secret of one that may do more.
func TestAdministersAll(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	r := New(e, Options{})
	as := map[string]*Credential{}
	for name, n := range map[string]NewKey{"admin": {Stores: []string{"*"}, Rights: []string{"admin"}, Doors: []string{"native"}, Expires: time.Now().Add(time.Hour)},
		"team": {Stores: []string{"team-*"}, Rights: []string{"admin"}}, "wide": {Stores: []string{"*"}, Rights: []string{"admin"}}} {
		n.Name = name
		made, err := r.Create(t.Context(), n)
		if err == nil {
			as[name], err = r.Secret(t.Context(), made.Secret)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	admin, team := authz.WithAccess(t.Context(), as["admin"]), authz.WithAccess(t.Context(), as["team"])
	if all, err := r.List(admin); len(all) != 3 || err != nil {
		t.Errorf("%d keys: %v", len(all), err)
	}
	if _, err := r.Rotate(admin, "wide", 0); !errors.Is(err, authz.ErrForbidden) {
		t.Errorf("a new secret of a key that may do more: %v", err)
	}
	if _, err := r.Revoke(team, "wide"); !errors.Is(err, ErrNoKey) {
		t.Errorf("a lesser key: %v", err)
	}
	if _, err := r.Revoke(admin, "wide"); err != nil {
		t.Error(err)
	}
}
