package acp_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage/memory"
)

// TestBadInput: each refusal has its own kind and the general one, through the
// wrapping, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	must(0, e.Register(ctx, alice, doc(id, "1")))(t)
	must(e.Relate(ctx, alice, doc(id, "1"), "admin", bob))(t)
	s := must(e.Store())(t)
	head := must(s.Head(ctx))(t)
	long := strings.Repeat("x", rel.IDBytesMax+1)
	relate := func(who string, o acp.Object, relation, target string) func() error {
		return func() error { _, err := e.Relate(ctx, who, o, relation, target); return err }
	}
	set := func(x acp.Relationship) func() error {
		return func() error { _, err := e.SetRelationship(ctx, alice, x); return err }
	}
	register := func(who string, o acp.Object) func() error {
		return func() error { return e.Register(ctx, who, o) }
	}
	subject := func(s acp.Subject) acp.Relationship {
		return acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: s}
	}
	for _, c := range []struct {
		name          string
		kind, general error
		call          func() error
	}{
		{"register without identity", acp.ErrUnauthenticated, acp.ErrUnauthenticated, register("", doc(id, "2"))},
		{"register without DID", acp.ErrInvalidDID, acp.ErrInput, register("alice", doc(id, "2"))},
		{"register to everybody", acp.ErrInvalidDID, acp.ErrInput, register("*", doc(id, "2"))},
		{"register twice", acp.ErrRegistered, acp.ErrForbidden, register(alice, doc(id, "1"))},
		{"register another's", acp.ErrRegistered, acp.ErrForbidden, register(bob, doc(id, "1"))},
		{"no policy", acp.ErrPolicyNotFound, acp.ErrNotFound, register(alice, acp.Object{Policy: "x", Resource: "note", ID: "1"})},
		{"no such policy", acp.ErrPolicyNotFound, acp.ErrNotFound, register(alice, acp.Object{Policy: strings.Repeat("0", 64), Resource: "note", ID: "1"})},
		{"no resource", acp.ErrResourceNotFound, acp.ErrNotFound, register(alice, acp.Object{Policy: id, Resource: "x", ID: "1"})},
		{"the actors' type", acp.ErrResourceNotFound, acp.ErrNotFound, register(alice, acp.Object{Policy: id, Resource: "actor", ID: "1"})},
		{"no id", acp.ErrInvalidID, acp.ErrInput, register(alice, doc(id, ""))},
		{"a long id with a blank", acp.ErrInvalidID, acp.ErrInput, register(alice, doc(id, long[2:]+" "))},
		{"a long id", acp.ErrInvalidID, acp.ErrInput, register(alice, doc(id, long))},
		{"share by a stranger", acp.ErrUnauthorized, acp.ErrUnauthorized, relate(carol, doc(id, "1"), "reader", carol)},
		{"share without identity", acp.ErrUnauthenticated, acp.ErrUnauthenticated, relate("", doc(id, "1"), "reader", carol)},
		{"a manager beyond his relation", acp.ErrUnauthorized, acp.ErrUnauthorized, relate(bob, doc(id, "1"), "admin", carol)},
		{"share ownership", acp.ErrOwnerRelation, acp.ErrForbidden, relate(alice, doc(id, "1"), "owner", bob)},
		{"share what is not registered", acp.ErrObjectNotFound, acp.ErrNotFound, relate(alice, doc(id, "9"), "reader", bob)},
		{"share by a permission", acp.ErrRelationNotFound, acp.ErrNotFound, relate(alice, doc(id, "1"), "read", bob)},
		{"share by the engine's own", acp.ErrRelationNotFound, acp.ErrNotFound, relate(alice, doc(id, "1"), "~~archived", bob)},
		{"share with no DID", acp.ErrInvalidDID, acp.ErrInput, relate(alice, doc(id, "1"), "reader", "x:y:z")},
		{"share with a forged key", acp.ErrInvalidDID, acp.ErrInput, relate(alice, doc(id, "1"), "reader", alice+"x")},
		{"share with nobody", acp.ErrInput, acp.ErrInput, relate(alice, doc(id, "1"), "reader", "")},
		{"share with a type not admitted", acp.ErrRestriction, acp.ErrInput, set(subject(acp.Subject{Resource: "note", ID: "1"}))},
		{"share with a set not admitted", acp.ErrRestriction, acp.ErrInput, set(subject(acp.Subject{Resource: "note", ID: "1", Relation: "reader"}))},
		{"share with an unknown set", acp.ErrRelationNotFound, acp.ErrNotFound, set(subject(acp.Subject{Resource: "group", ID: "1", Relation: "x"}))},
		{"share with two subjects", acp.ErrInput, acp.ErrInput, set(subject(acp.Subject{Actor: bob, Resource: "group", ID: "1"}))},
		{"remove the owner", acp.ErrOwnerRelation, acp.ErrForbidden, func() error { _, err := e.Unrelate(ctx, alice, doc(id, "1"), "owner", alice); return err }},
		{"unshare from nobody", acp.ErrInput, acp.ErrInput, func() error {
			_, err := e.DeleteRelationship(ctx, alice, subject(acp.Subject{}))
			return err
		}},
		{"unshare without identity", acp.ErrUnauthenticated, acp.ErrUnauthenticated, func() error { _, err := e.Unrelate(ctx, "", doc(id, "1"), "admin", bob); return err }},
		{"unshare by a stranger", acp.ErrUnauthorized, acp.ErrUnauthorized, func() error { _, err := e.Unrelate(ctx, carol, doc(id, "1"), "admin", bob); return err }},
		{"archive by a stranger", acp.ErrUnauthorized, acp.ErrUnauthorized, func() error { _, err := e.Archive(ctx, bob, doc(id, "1")); return err }},
		{"transfer to no DID", acp.ErrInvalidDID, acp.ErrInput, func() error { return e.Transfer(ctx, alice, doc(id, "1"), "nodid") }},
		{"amend to no DID", acp.ErrInvalidDID, acp.ErrInput, func() error {
			return e.Root().AmendRegistration(ctx, doc(id, "1"), "nodid", time.Now())
		}},
		{"delete another's policy", acp.ErrUnauthorized, acp.ErrUnauthorized, func() error { return e.DeletePolicy(ctx, bob, id) }},
		{"delete without identity", acp.ErrUnauthenticated, acp.ErrUnauthenticated, func() error { return e.DeletePolicy(ctx, "", id) }},
		{"edit into nonsense", acp.ErrSyntax, acp.ErrInvalidPolicy, func() error {
			_, err := e.EditPolicy(ctx, alice, id, acp.PolicySource{Text: "["})
			return err
		}},
		{"add without text", acp.ErrSyntax, acp.ErrInvalidPolicy, func() error { _, err := e.AddPolicy(ctx, alice, ""); return err }},
		{"add without creator", acp.ErrUnauthenticated, acp.ErrUnauthenticated, func() error { _, err := e.AddPolicy(ctx, "", notes); return err }},
		{"edit metadata without identity", acp.ErrUnauthenticated, acp.ErrUnauthenticated, func() error { return e.EditPolicyMetadata(ctx, "", id, nil) }},
		{"edit another's metadata", acp.ErrUnauthorized, acp.ErrUnauthorized, func() error { return e.EditPolicyMetadata(ctx, bob, id, nil) }},
		{"prepare without identity", acp.ErrUnauthenticated, acp.ErrUnauthenticated, func() error {
			b := e.Batch()
			b.Register("", doc(id, "2"))
			_, err := b.Prepare(ctx)
			return err
		}},
		{"prepare to unshare from nobody", acp.ErrInput, acp.ErrInput, func() error {
			b := e.Batch()
			b.Unrelate(alice, subject(acp.Subject{}))
			_, err := b.Prepare(ctx)
			return err
		}},
		{"unknown permission", acp.ErrPermissionNotFound, acp.ErrNotFound, func() error { _, err := e.Check(ctx, alice, "x", doc(id, "1")); return err }},
		{"permission of the engine's own", acp.ErrPermissionNotFound, acp.ErrNotFound, func() error { _, err := e.Check(ctx, alice, "~reader", doc(id, "1")); return err }},
		{"no policy to validate", acp.ErrInput, acp.ErrInput, func() error { return e.ValidateResource(ctx, "", "note") }},
	} {
		err := c.call()
		if !errors.Is(err, c.kind) || !errors.Is(err, c.general) {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
		var ours *acp.Error
		if !errors.As(err, &ours) || ours.Op == "" {
			t.Errorf("%s: %T", c.name, err)
		}
		if now := must(s.Head(ctx))(t); now != head {
			t.Errorf("%s: something changed", c.name)
			head = now
		}
	}
	must(0, e.Register(ctx, alice, doc(id, long[1:])))(t)
}

// TestPolicyNotFoundIsItself: one kind is never another's.
func TestPolicyNotFoundIsItself(t *testing.T) {
	t.Parallel()
	e := open(t, acp.Options{})
	_, err := e.AddPolicy(context.Background(), alice, "[")
	if errors.Is(err, acp.ErrPolicyNotFound) || errors.Is(err, acp.ErrNotFound) || errors.Is(err, acp.ErrField) {
		t.Error(err)
	}
}

// TestTwins: two collections of one driver, with equal policies and so with
// equal ids, never meet; neither do two policies of one text.
func TestTwins(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	driver := memory.New()
	t.Cleanup(func() { driver.Close() })
	a, b := open(t, acp.Options{Driver: driver, Name: "a"}), open(t, acp.Options{Driver: driver, Name: "b"})
	id := must(a.AddPolicy(ctx, alice, notes))(t)
	if other := must(b.AddPolicy(ctx, bob, notes))(t); other != id {
		t.Fatal("the ids differ: the test shows nothing")
	}
	must(0, a.Register(ctx, alice, doc(id, "1")))(t)
	must(a.Relate(ctx, alice, doc(id, "1"), "reader", carol))(t)
	if got := must(b.Access(ctx, alice, "read", doc(id, "1")))(t); got != acp.Public {
		t.Error(got)
	}
	must(0, b.Register(ctx, bob, doc(id, "1")))(t)
	if got := must(b.Access(ctx, carol, "read", doc(id, "1")))(t); got != acp.Deny {
		t.Error(got)
	}
	wantKind(t, a.DeletePolicy(ctx, bob, id), acp.ErrUnauthorized)
	must(0, b.DeletePolicy(ctx, bob, id))(t)
	if got := must(a.Access(ctx, carol, "read", doc(id, "1")))(t); got != acp.Allow {
		t.Error(got)
	}
	twin := must(a.AddPolicy(ctx, alice, notes))(t)
	if twin == id {
		t.Error("two creations of one id")
	}
	if got := must(a.Access(ctx, carol, "read", doc(twin, "1")))(t); got != acp.Public {
		t.Error(got)
	}
	for x, err := range a.FilterRelationships(ctx, twin, acp.RelationshipFilter{}) {
		t.Error("in the twin:", x, err)
	}
}
