package acp_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
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

// TestDepthBound: a chain of groups in groups is followed as far as the bound
// allows; beyond it there is an error with the bound's name, and no answer.
func TestDepthBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, "name: p\nresources:\n- name: g\n  relations:\n  - {name: member, types: [actor, g->member]}\n"))(t)
	group := func(i int) acp.Object {
		return acp.Object{Policy: id, Resource: "g", ID: strconv.Itoa(i)}
	}
	const chain = authz.DepthDefault + 1
	for i := range chain + 1 {
		must(0, e.Register(ctx, alice, group(i)))(t)
		s := acp.Subject{Resource: "g", ID: strconv.Itoa(i - 1), Relation: "member"}
		if i == 0 {
			s = acp.ActorSubject(bob)
		}
		must(e.SetRelationship(ctx, alice, acp.Relationship{Object: group(i), Relation: "member", Subject: s}))(t)
	}
	deepest := 0
	for i := range chain + 1 {
		ok, err := e.Check(ctx, bob, "member", group(i))
		switch {
		case ok && err == nil:
			deepest = i
		case !errors.Is(err, acp.ErrUndecided) || !strings.Contains(err.Error(), authz.BoundDepth):
			t.Errorf("depth %d: %v %v", i, ok, err)
		}
		if access, err := e.Access(ctx, bob, "member", group(i)); ok != (access == acp.Allow) || !ok && err == nil {
			t.Errorf("depth %d: %v %v", i, access, err)
		}
		if _, err := e.MayManage(ctx, bob, "member", group(i)); err != nil {
			t.Error(err) // depends on the owner only
		}
	}
	if deepest != authz.DepthDefault {
		t.Errorf("the deepest that is decided is %d", deepest)
	}
	if _, err := e.CheckMany(ctx, bob, "member", id, "g", []string{"0", strconv.Itoa(chain)}); !errors.Is(err, acp.ErrUndecided) {
		t.Error(err)
	}
}

// TestCutListings checks that a listing of readable objects ends with an error if a
// bound cuts it or leaves an object undecided.
func TestCutListings(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const policy = "name: p\nresources:\n- name: g\n  relations:\n  - {name: member, types: [actor, g->member]}\n" +
		"- name: note\n  relations:\n  - {name: reader, types: [actor, g->member]}\n  - {name: blocked, types: [actor, g->member]}\n  permissions:\n  - {name: read, expr: reader - blocked}\n"
	for _, c := range []struct {
		name   string
		bounds authz.Bounds
		// through is true if the search for candidates reaches the bound, otherwise
		// the check of a candidate does.
		through bool
	}{{authz.BoundNodes, authz.Bounds{Nodes: 3}, true}, {authz.BoundNodes, authz.Bounds{Nodes: 3}, false}, {authz.BoundDepth, authz.Bounds{Depth: 3}, false}} {
		name := c.name
		engine := must(ostiary.Open(ctx, ostiary.Options{Bounds: c.bounds}))(t)
		t.Cleanup(func() { engine.Close() })
		e := open(t, acp.Options{Engine: engine})
		id := must(e.AddPolicy(ctx, alice, policy))(t)
		relate := func(resource, object, relation string, s acp.Subject) {
			t.Helper()
			o := acp.Object{Policy: id, Resource: resource, ID: object}
			if !must(e.IsRegistered(ctx, o))(t) {
				must(0, e.Register(ctx, alice, o))(t)
			}
			must(e.SetRelationship(ctx, alice, acp.Relationship{Object: o, Relation: relation, Subject: s}))(t)
		}
		member := func(g string) acp.Subject { return acp.Subject{Resource: "g", ID: g, Relation: "member"} }
		relate("note", "1", "reader", acp.ActorSubject(bob))
		var ids []string
		list := func() (last error) {
			ids = nil
			for found, err := range e.Readable(ctx, bob, "read", id, "note") {
				if last = err; err == nil {
					ids = append(ids, found)
				}
			}
			return last
		}
		if err := list(); err != nil || !slices.Equal(ids, []string{"1"}) {
			t.Errorf("%s: %v, %v: expected the note", name, ids, err)
		}
		if c.through {
			relate("note", "2", "reader", member("a"))
		} else {
			relate("note", "1", "blocked", member("a"))
		}
		for _, g := range []string{"a", "b", "c", "d"} {
			relate("g", g, "member", member(string(g[0]+1)))
		}
		relate("g", "e", "member", acp.ActorSubject(bob))
		if err := list(); !errors.Is(err, acp.ErrUndecided) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v: expected an error that names the bound", name, ids, err)
		}
	}
}
