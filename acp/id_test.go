package acp_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/acp"
)

// TestIDBounds registers ids at their bounds and one byte above. An id that is not
// accepted must be an error in every call that takes one, and never public.
func TestIDBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	for _, c := range []struct {
		name, id string
		ok       bool
	}{
		{"plain at the bound", strings.Repeat("x", acp.IDBytesMax), true},
		{"plain above the bound", strings.Repeat("x", acp.IDBytesMax+1), false},
		{"blanks at the bound", strings.Repeat(" ", acp.AnyIDBytesMax), true},
		{"blanks above the bound", strings.Repeat(" ", acp.AnyIDBytesMax+1), false},
		{"invalid UTF-8 at the bound", strings.Repeat("\xff", acp.AnyIDBytesMax), true},
		{"one blank, stored form at the bound", strings.Repeat("x", acp.IDBytesMax-6) + " ", true},
		{"one blank, stored form above the bound", strings.Repeat("x", acp.IDBytesMax-5) + " ", false},
		{"empty", "", false},
	} {
		if c.ok {
			must(0, e.Register(ctx, alice, doc(id, c.id)))(t)
			if got := must(e.Access(ctx, bob, "read", doc(id, c.id)))(t); got != acp.Deny {
				t.Errorf("%s: access of a stranger is %v, want deny", c.name, got)
			}
			continue
		}
		for call, err := range idCalls(e, doc(id, c.id)) {
			if !errors.Is(err, acp.ErrInvalidID) {
				t.Errorf("%s: %s: error is %v, want %v", c.name, call, err, acp.ErrInvalidID)
			} else if c.id != "" && !strings.Contains(err.Error(), "IDBytesMax") {
				t.Errorf("%s: %s: %q does not name the bound", c.name, call, err)
			}
		}
	}
}

// idCalls makes every call that takes an object's id and returns the errors.
func idCalls(e *acp.Engine, o acp.Object) map[string]error {
	ctx, errs := context.Background(), map[string]error{}
	shared := acp.Relationship{Object: o, Relation: "reader", Subject: acp.ActorSubject(bob)}
	_, errs["Access"] = e.Access(ctx, bob, "read", o)
	_, errs["AccessAny"] = e.AccessAny(ctx, bob, []string{"read", "write"}, o)
	_, errs["Check"] = e.Check(ctx, bob, "read", o)
	_, errs["CheckMany"] = e.CheckMany(ctx, bob, "read", o.Policy, o.Resource, []string{"1", o.ID})
	_, errs["VerifyAccess"] = e.VerifyAccess(ctx, bob, []acp.Operation{{Object: o, Permission: "read"}})
	_, errs["MayManage"] = e.MayManage(ctx, bob, "reader", o)
	_, _, errs["Owner"] = e.Owner(ctx, o)
	_, errs["IsRegistered"] = e.IsRegistered(ctx, o)
	_, errs["Registration"] = e.Registration(ctx, o)
	errs["Register"] = e.Register(ctx, alice, o)
	_, errs["SetRelationship"] = e.SetRelationship(ctx, alice, shared)
	_, errs["DeleteRelationship"] = e.DeleteRelationship(ctx, alice, shared)
	_, errs["Archive"] = e.Archive(ctx, alice, o)
	_, errs["Unarchive"] = e.Unarchive(ctx, alice, o)
	errs["Transfer"] = e.Transfer(ctx, alice, o, bob)
	b := e.Batch()
	b.Register(alice, o)
	errs["Batch"] = b.Commit(ctx)
	if o.ID != "" { // an empty id in a filter selects every object
		for _, err := range e.FilterRelationships(ctx, o.Policy, acp.RelationshipFilter{Resource: o.Resource, ID: o.ID}) {
			errs["FilterRelationships"] = err
		}
	}
	for _, err := range e.FilterRelationships(ctx, o.Policy, acp.RelationshipFilter{Subject: acp.Subject{Resource: o.Resource, ID: o.ID}}) {
		errs["FilterRelationships by subject"] = err
	}
	return errs
}

// FuzzID registers a document with any id. A stranger is denied, every listing
// returns the id, and no other id is the same document.
func FuzzID(f *testing.F) {
	for _, s := range []string{"bae-1", "a b#c", "a%20b%23c", "\ufffda%20b%23c", "\ufffd", "*", "%", "\xff\xfe", "a\x00", "é\u0085", `"q"`, "\ufffd%2a"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, id, other string) {
		ctx := context.Background()
		e := open(t, acp.Options{})
		policy := must(e.AddPolicy(ctx, alice, notes))(t)
		o := doc(policy, id)
		stored, err := acp.StoredID(id)
		if err != nil {
			for call, err := range idCalls(e, o) {
				wantKind(t, err, acp.ErrInvalidID)
				if err == nil {
					t.Fatalf("%s accepts %q", call, id)
				}
			}
			return
		}
		if back := acp.ParseStoredID(stored); back != id {
			t.Fatalf("%q is stored as %q, which is read as %q", id, stored, back)
		}
		must(0, e.Register(ctx, alice, o))(t)
		must(e.Relate(ctx, alice, o, "reader", carol))(t)
		for actor, want := range map[string]acp.Access{alice: acp.Allow, carol: acp.Allow, bob: acp.Deny, "": acp.Deny} {
			if got := must(e.Access(ctx, actor, "read", o))(t); got != want {
				t.Errorf("access of %q to %q is %v, want %v", actor, id, got, want)
			}
			if got := must(e.CheckMany(ctx, actor, "read", policy, "note", []string{id}))(t); got[0] != want {
				t.Errorf("CheckMany of %q on %q is %v, want %v", actor, id, got[0], want)
			}
		}
		for got, err := range e.Readable(ctx, carol, "read", policy, "note") {
			if must(got, err)(t) != id {
				t.Errorf("Readable yields %q, want %q", got, id)
			}
		}
		seen := 0
		for x, err := range e.FilterRelationships(ctx, policy, acp.RelationshipFilter{Resource: "note", ID: id}) {
			if must(x, err)(t); x.Object != o {
				t.Errorf("FilterRelationships yields %q, want %q", x.Object.ID, id)
			}
			seen++
		}
		if seen != 2 {
			t.Errorf("FilterRelationships yields %d relationships, want 2", seen)
		}
		if _, err := acp.StoredID(other); err == nil && other != id {
			if got := must(e.Access(ctx, carol, "read", doc(policy, other)))(t); got != acp.Public {
				t.Errorf("access to %q is %v after %q was registered, want public", other, got, id)
			}
		}
	})
}
