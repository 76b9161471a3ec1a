package acp_test

import (
	"context"
	"slices"
	"testing"

	"github.com/ostiary/ostiary/acp"
)

const notes = `
name: notes
resources:
- name: folder
  relations:
  - {name: viewer, types: [actor]}
  permissions:
  - {name: view, expr: viewer}
- name: note
  relations:
  - {name: reader, types: [actor, "group->member"]}
  - {name: admin, types: [actor], manages: [reader]}
  - {name: blocked, types: [actor]}
  - {name: parent, types: [folder]}
  permissions:
  - {name: read, expr: reader + admin + parent->view - blocked}
  - {name: write, expr: admin}
  - {name: nobody}
- name: group
  relations:
  - {name: member, types: [actor]}
`

// TestEndToEnd: a policy, a document, shared and unshared, in memory and on
// disk.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	for _, d := range disks {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			e := open(t, acp.Options{Driver: d.open(t)})
			id := must(e.AddPolicy(ctx, alice, notes))(t)
			doc := acp.Object{Policy: id, Resource: "note", ID: "bae-1"}
			access := func(actor, permission string, want acp.Access) {
				t.Helper()
				if got := must(e.Access(ctx, actor, permission, doc))(t); got != want {
					t.Errorf("%s %s: %v, want %v", actor, permission, got, want)
				}
				if got := must(e.Check(ctx, actor, permission, doc))(t); got != (want == acp.Allow) {
					t.Errorf("check of %s %s: %v", actor, permission, got)
				}
			}
			access(alice, "read", acp.Public)
			must(0, e.Register(ctx, alice, doc))(t)
			wantKind(t, e.Register(ctx, alice, doc), acp.ErrRegistered)
			wantKind(t, e.Register(ctx, bob, doc), acp.ErrForbidden)
			access(alice, "read", acp.Allow)
			access(alice, "nobody", acp.Allow)
			access(bob, "read", acp.Deny)
			access("", "read", acp.Deny)
			if owner, ok, err := e.Owner(ctx, doc); owner != alice || !ok || err != nil {
				t.Error(owner, ok, err)
			}

			relate := func(who, relation, target string, existed bool) {
				t.Helper()
				if got := must(e.Relate(ctx, who, doc, relation, target))(t); got != existed {
					t.Errorf("existed: %v", got)
				}
			}
			relate(alice, "admin", bob, false)
			relate(alice, "admin", bob, true)
			relate(bob, "reader", carol, false)
			access(carol, "read", acp.Allow)
			access(carol, "write", acp.Deny)
			_, err := e.Relate(ctx, bob, doc, "admin", carol)
			wantKind(t, err, acp.ErrUnauthorized)
			relate(alice, "reader", acp.AllActors, false)
			access("", "read", acp.Allow)
			relate(alice, "blocked", carol, false)
			access(carol, "read", acp.Deny)
			if many := must(e.CheckMany(ctx, carol, "read", id, "note", []string{"bae-1", "bae-2"}))(t); !slices.Equal(many, []acp.Access{acp.Deny, acp.Public}) {
				t.Error(many)
			}
			if found := must(e.Unrelate(ctx, bob, doc, "reader", acp.AllActors))(t); !found {
				t.Error("not found")
			}
			access("", "read", acp.Deny)
			var readable []string
			for id, err := range e.Readable(ctx, bob, "read", id, "note") {
				readable = append(readable, must(id, err)(t))
			}
			if !slices.Equal(readable, []string{"bae-1"}) {
				t.Error(readable)
			}
		})
	}
}
