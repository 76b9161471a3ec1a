package identity_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// two returns the deployment twice: by two engines on one driver.
func two(t *testing.T, c settings.Compliance) (all [2]*deployment) {
	t.Helper()
	first := deploy(t)
	for i := range all {
		e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: first.driver, SecretKey: &[32]byte{1}})
		first.ok(err)
		t.Cleanup(func() { e.Close() })
		x := *first
		x.store, err = e.Store(t.Context(), first.store.ID())
		first.ok(err)
		all[i] = x.comply(c)
	}
	return all
}

// TestTwoEngines changes a deployment through one engine and uses it through the
// other one, in both directions.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	all := two(t, settings.Compliance{})
	for i := range all {
		ctx, a, b := t.Context(), all[i], all[1-i]
		name := fmt.Sprint("user", i)
		user := a.user(name, "old", "")
		wait.Until(t, "the user", func() bool { return b.login(user, "old") == nil })
		if found, err := b.Find(ctx, identity.User, identity.DefaultDomain, name); err != nil || found.ID != user.ID {
			t.Errorf("found %v, %v", found, err)
		}
		_, err := b.Create(ctx, identity.Record{Kind: identity.User, Name: name}, nil)
		b.fails(err, identity.Conflict, "Duplicate")

		// Roles: granted, implied, by a group, and taken away.
		project := a.make(identity.Record{Kind: identity.Project, Name: fmt.Sprint("project", i)})
		group := a.make(identity.Record{Kind: identity.Group, Name: fmt.Sprint("group", i)})
		role := a.make(identity.Record{Kind: identity.Role, Name: fmt.Sprint("role", i)})
		has := func(want ...string) {
			t.Helper()
			wait.Until(t, fmt.Sprint("roles ", want), func() bool { return fmt.Sprint(b.roles(user.ID, project.ID)) == fmt.Sprint(want) })
		}
		a.grant(user.ID, project.ID, "member")
		has("member", "reader")
		a.ok(a.Imply(ctx, a.find(identity.Role, "member").ID, role.ID))
		has("member", "reader", role.Name)
		a.ok(a.NotImply(ctx, a.find(identity.Role, "member").ID, role.ID))
		has("member", "reader")
		a.ok(a.Revoke(ctx, identity.Grant{UserID: user.ID, Target: project.ID, RoleID: a.find(identity.Role, "member").ID}))
		has()
		a.ok(a.Grant(ctx, identity.Grant{GroupID: group.ID, Target: project.ID, RoleID: role.ID}))
		a.ok(a.AddMember(ctx, group.ID, user.ID))
		has(role.Name)

		// Tokens: revoked alone, with a new password, and with the user.
		token := func(d *deployment) *identity.Token {
			d.clock.move(2 * time.Second)
			return d.token(user.ID, identity.Scope{ProjectID: project.ID})
		}
		x := token(b)
		a.ok(a.RevokeToken(ctx, x))
		wait.Until(t, "the revocation", func() bool { _, err := b.valid(x); return err != nil })
		x = token(b)
		a.ok(a.set(user, "new", false))
		wait.Until(t, "the new password", func() bool { return b.login(user, "new") == nil })
		b.fails(b.login(user, "old"), identity.Unauthorized, "wrong password")
		wait.Until(t, "the end of the old password's tokens", func() bool { _, err := b.valid(x); return err != nil })
		x = token(b)
		_, err = a.Update(ctx, identity.User, user.ID, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
		a.ok(err)
		wait.Until(t, "that the user is disabled", func() bool { _, err := b.valid(x); return err != nil })
		b.fails(b.login(user, "new"), identity.Unauthorized, "disabled")
		a.ok(a.Delete(ctx, identity.User, user.ID))
		wait.Until(t, "the deletion", func() bool { _, err := b.Get(ctx, identity.User, user.ID); return err != nil })
		b.user(name, "again", "")
	}
}

// TestTwoEnginesLockUsers counts wrong passwords on two engines. Together they lock a
// user, whichever stores its counts first.
func TestTwoEnginesLockUsers(t *testing.T) {
	t.Parallel()
	all := two(t, settings.Compliance{LockoutAttempts: 3, LockoutDuration: time.Hour})
	a, b := all[0], all[1]
	bob := a.user("bob", "right", "")
	wait.Until(t, "the user", func() bool { return b.login(bob, "right") == nil })
	wrong := func(d *deployment, times int) {
		t.Helper()
		for range times {
			d.clock.move(time.Second)
			d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password of")
		}
	}
	locked := func(d *deployment) bool {
		err := d.login(bob, "wrong")
		if !errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
			t.Error(err)
		}
		return fmt.Sprint(err) == fmt.Sprint("user ", bob.ID, " is locked after wrong passwords")
	}
	wrong(a, 1)
	wrong(b, 1)
	a.ok(a.Flush(t.Context()))
	b.ok(b.Flush(t.Context()))
	wrong(b, 1) // the third one
	if !locked(b) {
		t.Error("not locked after three wrong passwords, two of them on another engine")
	}
	b.ok(b.Flush(t.Context()))
	wait.Until(t, "the lock", func() bool { return locked(a) })

	// An administrator ends the lock on one engine.
	b.clock.move(time.Second)
	_, err := b.Update(t.Context(), identity.User, bob.ID, nil, false, func(*identity.Record) error { return nil })
	b.ok(err)
	b.ok(b.Flush(t.Context()))
	wait.Until(t, "the end of the lock", func() bool { return a.login(bob, "right") == nil })

	// A right password on one engine forgets those before it, also where they are not
	// stored yet, and none after it.
	wrong(a, 2)
	wrong(b, 1)
	b.clock.move(time.Second)
	b.ok(b.login(bob, "right"))
	wrong(b, 2)
	b.ok(b.Flush(t.Context()))
	a.ok(a.Flush(t.Context()))
	wrong(a, 1)
	if !locked(a) {
		t.Error("not locked after three wrong passwords since the right one")
	}
}

// TestForgottenOnAnotherEngine counts wrong passwords on one engine, and an administrator ends
// their count on another one: they do not come back with the next wrong password.
func TestForgottenOnAnotherEngine(t *testing.T) {
	t.Parallel()
	all := two(t, settings.Compliance{LockoutAttempts: 3, LockoutDuration: time.Hour})
	a, b := all[0], all[1]
	bob := a.user("bob", "right", "")
	wait.Until(t, "the user", func() bool { return b.login(bob, "right") == nil })
	wrong := func(d *deployment) {
		t.Helper()
		d.clock.move(time.Second)
		d.fails(d.login(bob, "wrong"), identity.Unauthorized, "wrong password of")
	}
	wrong(a)
	wrong(a)
	wrong(b)
	b.clock.move(time.Second)
	_, err := b.Update(t.Context(), identity.User, bob.ID, nil, false, func(*identity.Record) error { return nil })
	b.ok(err)
	b.ok(b.Flush(t.Context()))
	later := b.user("later", "right", "")
	wait.Until(t, "what the other engine has stored", func() bool { return a.login(later, "right") == nil })
	wrong(a)
	wrong(a)
	wrong(a) // the third one
	a.clock.move(time.Second)
	a.fails(a.login(bob, "right"), identity.Unauthorized, "is locked after wrong passwords")
}

// TestTwoEnginesKeepNamesUnique creates records with the same names on two engines at
// once. Of each name one creation is accepted.
func TestTwoEnginesKeepNamesUnique(t *testing.T) {
	t.Parallel()
	all := two(t, settings.Compliance{})
	const names, clients = 20, 3
	var made [names]atomic.Int32
	var ends sync.WaitGroup
	for _, d := range all {
		for range clients {
			ends.Go(func() {
				for i := range names {
					_, err := d.Create(t.Context(), identity.Record{Kind: identity.Group, Name: fmt.Sprint("n", i)}, nil)
					if err == nil {
						made[i].Add(1)
					} else if !errors.Is(err, &identity.Error{Reason: identity.Conflict}) {
						t.Error(err)
					}
				}
			})
		}
	}
	ends.Wait()
	for i := range made {
		if n := made[i].Load(); n != 1 {
			t.Errorf("name n%d was accepted %d times", i, n)
		}
	}
	for i, d := range all {
		wait.Until(t, fmt.Sprint("all groups on engine ", i), func() bool {
			groups, _, err := d.List(t.Context(), identity.ListRequest{Kind: identity.Group})
			return err == nil && len(groups) == names
		})
	}
}

// reads is a driver that counts what is read of documents.
type reads struct {
	storage.Driver
	loads, kinds, buckets atomic.Int32
}

func (d *reads) Load(ctx context.Context, id storage.StoreID, o storage.LoadOptions) (storage.State, error) {
	d.loads.Add(1)
	s, err := d.Driver.Load(ctx, id, o)
	bodies := s.Bodies
	s.Bodies = func(kind string) iter.Seq2[storage.Document, error] {
		d.kinds.Add(1)
		return bodies(kind)
	}
	return s, err
}

func (d *reads) DocumentsBy(ctx context.Context, id storage.StoreID, kind, secondary string) iter.Seq2[storage.Document, error] {
	d.buckets.Add(1)
	return d.Driver.DocumentsBy(ctx, id, kind, secondary)
}

// TestOpenReads counts the reads of a service that is opened on an empty store, and
// again when it has records.
func TestOpenReads(t *testing.T) {
	t.Parallel()
	driver := &reads{Driver: memory.New()}
	defer driver.Close()
	d := deployOn(t, driver)
	check := func(loads int32) {
		t.Helper()
		if driver.loads.Load() > loads || driver.kinds.Load() != 28 || driver.buckets.Load() != 0 {
			t.Errorf("%d loads, %d reads of a kind and %d by a secondary key, want at most %d, 28 and 0", driver.loads.Load(), driver.kinds.Load(), driver.buckets.Load(), loads)
		}
		driver.loads.Store(0)
		driver.kinds.Store(0)
	}
	check(2) // the store and the documents
	d.open()
	check(1)
}

// TestOldDocuments reads records that an older version wrote with secondary keys, and
// follows a removal by filter, which this package does not write.
func TestOldDocuments(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	write := func(w authz.WriteRequest) {
		t.Helper()
		_, err := d.store.Write(t.Context(), w)
		d.ok(err)
	}
	old := d.make(identity.Record{Kind: identity.User, Name: "old"})
	x := d.token(old.ID, identity.Scope{})
	write(authz.WriteRequest{Documents: []authz.Document{
		{Kind: "identity/user", Key: "other", Secondary: []string{"bucket0815"}, Body: []byte(`{"id":"other","name":"other","domain":"default"}`)},
		{Kind: "identity/activity", Key: "other", Secondary: []string{"bucket0815"}, Body: []byte(`{"failures":7,"failed":"2026-03-01T12:00:00Z"}`)},
		{Kind: "identity/revocation", Key: "r", Secondary: []string{"bucket0000"}, Body: []byte(`{"user_id":"` + old.ID + `","issued_before":"2026-03-01T12:00:00Z","revoked_at":"2026-03-01T12:00:00Z"}`)},
	}})
	for what, s := range map[string]*identity.Service{"followed": d.Service, "loaded": d.open()} {
		if r, err := s.Find(t.Context(), identity.User, identity.DefaultDomain, "other"); err != nil || r.ID != "other" {
			t.Errorf("%s: %v, %v", what, r, err)
		}
		if _, err := s.Validate(t.Context(), x.Payload, x.Issued, 0); err == nil {
			t.Errorf("%s: the token is not revoked", what)
		}
	}
	filter := func(kind, prefix string) storage.Filter {
		return storage.Filter{Target: storage.FilterDocuments, DocumentKind: "identity/" + kind, DocumentKeyPrefix: prefix}
	}
	write(authz.WriteRequest{RemoveMatching: []storage.Filter{filter("user", "oth"), filter("revocation", ""), filter("activity", "")}})
	for what, s := range map[string]*identity.Service{"followed": d.Service, "loaded": d.open()} {
		if _, err := s.Get(t.Context(), identity.User, "other"); err == nil {
			t.Errorf("%s: the removed user is there", what)
		}
		if _, err := s.Validate(t.Context(), x.Payload, x.Issued, 0); err != nil {
			t.Errorf("%s: the revocation is there: %v", what, err)
		}
		if _, err := s.Find(t.Context(), identity.User, identity.DefaultDomain, "old"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
