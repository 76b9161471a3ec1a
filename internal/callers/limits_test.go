package callers

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// hundred is a limit of 100 requests a second.
var hundred = turns.Limits{Requests: &turns.Rate{PerSecond: 100}}

// TestWhoLimits walks who may set and lift the limits of whom: of another key those who
// administer all stores, and the keys that have made it; of a store only the former. No key
// changes its own limits, or lifts them by a key that it makes or by its own end.
func TestWhoLimits(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.store("team-a")
	admin, _ := w.key(t.Context(), NewKey{Name: "admin", Stores: []string{"*"}, Rights: []string{"admin"}})
	team, _ := w.key(t.Context(), NewKey{Name: "team", Stores: []string{"team-*"}, Rights: []string{"admin"}, Limits: hundred})
	other, _ := w.key(t.Context(), NewKey{Name: "other", Stores: []string{"team-*"}, Rights: []string{"admin"}})
	reader, _ := w.key(t.Context(), NewKey{Name: "reader", Stores: []string{"*"}, Rights: []string{"read", "write", "schema"}})
	as := func(c *Credential) context.Context { return authz.WithAccess(t.Context(), c) }
	made, err := w.Create(as(team), NewKey{Name: "team~ci", Stores: []string{"team-*"}, Rights: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	ci, err := w.Secret(t.Context(), made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	w.Avoid(func() []string { return []string{"of-the-file"} })
	for _, c := range []struct {
		by   *Credential
		of   string
		want error
	}{
		{admin, "admin", nil}, {admin, "team", nil}, {admin, "team~ci", nil}, {admin, "reader", nil}, {admin, "none", ErrNoKey}, {admin, "of-the-file", nil},
		{team, "team", authz.ErrForbidden}, {team, "team~ci", nil}, {team, "other", authz.ErrForbidden}, {team, "admin", ErrNoKey}, {team, "of-the-file", ErrNoKey},
		{other, "team", authz.ErrForbidden}, {other, "team~ci", authz.ErrForbidden}, {other, "other", authz.ErrForbidden},
		{reader, "reader", authz.ErrForbidden}, {reader, "team", ErrNoKey}, {reader, "admin", ErrNoKey},
		{ci, "team~ci", authz.ErrForbidden}, {ci, "team", ErrNoKey},
	} {
		for _, l := range []turns.Limits{{}, hundred} { // lifts, and sets again
			if err := w.SetLimits(as(c.by), c.of, l); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s sets the limits of %s to %s: %v, want %v", c.by.key.Name, c.of, l.String(), err, c.want)
			}
		}
	}
	for _, c := range []*Credential{team, other, reader, ci} {
		if err := w.SetStoreLimits(as(c), s.Info(), hundred); !errors.Is(err, authz.ErrForbidden) {
			t.Errorf("%s sets the limits of a store: %v", c.key.Name, err)
		}
	}
	if err := w.SetStoreLimits(as(admin), s.Info(), hundred); err != nil {
		t.Error(err)
	}
	system, err := documents.SystemStore(t.Context(), w.engine)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.SetStoreLimits(t.Context(), system.Info(), hundred); !errors.Is(err, authz.ErrInvalidRequest) {
		t.Errorf("limits of the system store: %v", err)
	}
	for _, l := range []turns.Limits{{Requests: &turns.Rate{PerSecond: -1}}, {ProcessorMillis: &turns.Rate{PerSecond: turns.PerSecondMax + 1}}} {
		_, err := w.Create(t.Context(), NewKey{Name: "invalid", Stores: []string{"*"}, Rights: []string{"read"}, Limits: l})
		for _, err := range []error{err, w.SetLimits(t.Context(), "team", l), w.SetStoreLimits(t.Context(), s.Info(), l)} {
			if !errors.Is(err, authz.ErrInvalidRequest) {
				t.Errorf("%s: %v", l.String(), err)
			}
		}
	}
	for by, want := range map[*Credential]int{admin: 6, team: 2, other: 2, reader: 1, ci: 1} {
		all, err := w.Limited(as(by))
		if err != nil || len(all) != want {
			t.Errorf("%s sees %d with limits, %v, want %d", by.key.Name, len(all), err, want)
		}
	}
	// A key that ends itself does not lift its limits, for the keys that it has made.
	if _, err := w.Revoke(as(team), "team"); err != nil {
		t.Fatal(err)
	}
	if got := w.LimitsOfCaller(nil, "team~ci"); len(got) != 2 {
		t.Errorf("after its maker has ended itself, %d limits count for a key", len(got))
	}
	if _, err := w.Create(t.Context(), NewKey{Name: "team", Stores: []string{"*"}, Rights: []string{"read"}}); err != nil {
		t.Fatal(err)
	}
	if got := w.LimitsOfCaller(nil, "team"); len(got) != 0 {
		t.Errorf("a new key has the limits of an earlier one")
	}
}

// TestLimitsElsewhere sets limits, and reads them with another registry. A key that gets
// another secret keeps what it has used, and one that is revoked leaves nothing.
func TestLimitsElsewhere(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.store("team-a")
	w.key(t.Context(), NewKey{Name: "a", Stores: []string{"team-*"}, Rights: []string{"read"}, Limits: turns.Limits{Requests: &turns.Rate{PerSecond: 1, Burst: 10}, ProcessorMillis: &turns.Rate{PerSecond: 5}}})
	if err := w.SetStoreLimits(t.Context(), s.Info(), hundred); err != nil {
		t.Fatal(err)
	}
	_, other := w.node()
	wait.Until(t, "the other node has the limits", func() bool {
		other.Len(t.Context())
		return len(other.LimitsOfCaller(nil, "a")) == 1 && other.LimitsOfStore(s.Info()) != nil
	})
	if l := other.Limits("a"); l.String() != "requests 1:10, processor 5" {
		t.Errorf("the other node has %s", l.String())
	}
	again := s.Info()
	again.Incarnation[0]++
	if other.LimitsOfStore(again) != nil {
		t.Error("a store that was created again has the limits of the earlier one")
	}
	share := w.LimitsOfCaller(nil, "a")[0].RequestShare
	share.Take(0)
	if _, err := w.Rotate(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	w.key(t.Context(), NewKey{Name: "b", Stores: []string{"team-*"}, Rights: []string{"read"}})
	if w.LimitsOfCaller(nil, "a")[0].RequestShare != share {
		t.Error("a key that gets another secret begins with a full burst")
	}
	if _, err := w.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.SetStoreLimits(t.Context(), s.Info(), turns.Limits{}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the other node has no limits", func() bool { other.Len(t.Context()); return !other.AnyLimited() })
	if w.AnyLimited() {
		t.Error("limits are left of a key that was revoked and a store whose limits were lifted")
	}
}

// TestManyLimits sets and removes the limits of 100,000 keys: nothing of them is left. Above the
// bound, limits are refused with its name.
func TestManyLimits(t *testing.T) {
	t.Parallel()
	var l *limits
	put := func(name string) storage.Change {
		w := &authz.WriteRequest{}
		if err := (&Limited{Caller: name, Limits: hundred}).write(w); err != nil {
			t.Fatal(err)
		}
		return storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: limitsKind, Key: w.Documents[0].Key, Body: w.Documents[0].Body}}
	}
	const step = 1000
	for n := range 100 {
		var changes []storage.Change
		for i := range step {
			changes = append(changes, put(fmt.Sprint("key ", n, " ", i)))
		}
		var err error
		if l, err = l.apply(changes); err != nil {
			t.Fatal(err)
		}
		if len(l.all) != step || len(l.callers) != step {
			t.Fatalf("%d and %d keys have limits", len(l.all), len(l.callers))
		}
		for i := range changes {
			changes[i].Kind = storage.DocumentRemove
		}
		if l, err = l.apply(changes); err != nil || l != nil {
			t.Fatalf("%v, %v is left", l, err)
		}
	}
	var changes []storage.Change
	for i := range LimitedMax {
		changes = append(changes, put(fmt.Sprint("key ", i)))
	}
	l, err := l.apply(changes)
	if err != nil {
		t.Fatal(err)
	}
	w := open(t)
	v := empty()
	v.limits = l
	var bound *authz.BoundError
	if err := w.writeLimits(t.Context(), v, &authz.WriteRequest{}, &Limited{Caller: "one more", Limits: hundred}); !errors.As(err, &bound) || bound.Name != "LimitedMax" {
		t.Errorf("one more than the bound: %v", err)
	}
	for _, l := range []*Limited{{Caller: "key 7", Limits: hundred}, {Caller: "key 7"}, {Caller: "one more"}} {
		if err := w.writeLimits(t.Context(), v, &authz.WriteRequest{}, l); err != nil {
			t.Errorf("a change at the bound: %v", err)
		}
	}
}
