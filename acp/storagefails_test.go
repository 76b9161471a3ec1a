package acp_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/internal/workshop/failing"
)

// shaky is a collection over a driver whose operations fail: a policy with the notes
// 1, which is shared, 2, which is archived, and 3 of another owner.
type shaky struct {
	driver *failing.Driver
	engine *acp.Engine // that had nothing in memory when it was started
	policy string
}

func (x *shaky) options() acp.Options {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return acp.Options{Driver: x.driver, Clock: func() time.Time { return now }}
}

func newShaky(t *testing.T, d *failing.Driver) *shaky {
	t.Helper()
	ctx := context.Background()
	x := &shaky{driver: d}
	e := open(t, x.options())
	x.policy = must(e.AddPolicy(ctx, alice, notes))(t)
	for id, who := range map[string]string{"1": alice, "2": alice, "3": bob} {
		must(0, e.Register(ctx, who, doc(x.policy, id)))(t)
	}
	must(e.Relate(ctx, alice, doc(x.policy, "1"), "reader", bob))(t)
	must(e.Relate(ctx, alice, doc(x.policy, "1"), "admin", carol))(t)
	must(e.Archive(ctx, alice, doc(x.policy, "2")))(t)
	must(0, e.Close())(t)
	x.engine = open(t, x.options())
	return x
}

// state returns the policies and relationships that a new engine reads.
func (x *shaky) state() (string, error) {
	ctx := context.Background()
	e, err := acp.Open(ctx, x.options())
	if err != nil {
		return "", err
	}
	defer e.Close()
	var out strings.Builder
	for p, err := range e.Policies(ctx) {
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, p.ID, p.Creator, p.Name, len(p.Source), p.Metadata)
		text, err := all(e.FilterRelationships(ctx, p.ID, acp.RelationshipFilter{}))
		if err != nil {
			return "", err
		}
		for _, id := range []string{"1", "2", "3", "4"} {
			registration, err := e.Registration(ctx, doc(p.ID, id))
			if err != nil && !errors.Is(err, acp.ErrObjectNotFound) {
				return "", err
			}
			text += fmt.Sprintln(id, registration.Owner, registration.Archived)
		}
		fmt.Fprintln(&out, text)
	}
	return out.String(), nil
}

// all returns the elements of a sequence as text.
func all[T any](seq iter.Seq2[T, error]) (string, error) {
	text := ""
	for v, err := range seq {
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%+v\n", v)
	}
	return text, nil
}

// TestStorageFails makes each operation of the driver fail in turn, in every call of an
// engine. See failing.Each for what must hold.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	note := func(x *shaky, id string) acp.Object { return doc(x.policy, id) }
	text := func(v any, err error) (string, error) { return fmt.Sprintf("%+v", v), err }
	edited := strings.Replace(notes, "- {name: blocked, types: [actor]}", "- {name: blocked, types: [actor]}\n  - {name: editor, types: [actor]}", 1)
	withoutAdmin := strings.NewReplacer("  - {name: admin, types: [actor], manages: [reader]}\n", "", " + admin", "", "{name: write, expr: admin}", "{name: write}").Replace(notes)
	for name, call := range map[string]func(x *shaky) (string, error){
		"check":            func(x *shaky) (string, error) { return text(x.engine.Check(ctx, bob, "read", note(x, "1"))) },
		"access":           func(x *shaky) (string, error) { return text(x.engine.Access(ctx, carol, "write", note(x, "1"))) },
		"access of public": func(x *shaky) (string, error) { return text(x.engine.Access(ctx, carol, "write", note(x, "9"))) },
		"access any": func(x *shaky) (string, error) {
			return text(x.engine.AccessAny(ctx, bob, []string{"write", "read"}, note(x, "1")))
		},
		"check many": func(x *shaky) (string, error) {
			return text(x.engine.CheckMany(ctx, bob, "read", x.policy, "note", []string{"1", "2", "3", "9"}))
		},
		"readable": func(x *shaky) (string, error) {
			return all(x.engine.Readable(ctx, bob, "read", x.policy, "note"))
		},
		"verify access": func(x *shaky) (string, error) {
			return text(x.engine.VerifyAccess(ctx, bob, []acp.Operation{{Object: note(x, "1"), Permission: "read"}, {Object: note(x, "3"), Permission: "write"}}))
		},
		"may manage": func(x *shaky) (string, error) { return text(x.engine.MayManage(ctx, carol, "reader", note(x, "1"))) },
		"validate resource": func(x *shaky) (string, error) {
			return text(0, x.engine.ValidateResource(ctx, x.policy, "note", "read"))
		},
		"owner": func(x *shaky) (string, error) {
			owner, ok, err := x.engine.Owner(ctx, note(x, "1"))
			return fmt.Sprint(owner, ok), err
		},
		"is registered": func(x *shaky) (string, error) { return text(x.engine.IsRegistered(ctx, note(x, "2"))) },
		"registration":  func(x *shaky) (string, error) { return text(x.engine.Registration(ctx, note(x, "2"))) },
		"catalogue":     func(x *shaky) (string, error) { return text(x.engine.Catalogue(ctx, x.policy)) },
		"policy": func(x *shaky) (string, error) {
			p, err := x.engine.Policy(ctx, x.policy)
			if err != nil {
				return "", err
			}
			return p.ID + p.Source, nil
		},
		"policies": func(x *shaky) (string, error) {
			text := ""
			for p, err := range x.engine.Policies(ctx) {
				if err != nil {
					return "", err
				}
				text += p.ID
			}
			return text, nil
		},
		"filter": func(x *shaky) (string, error) {
			return all(x.engine.FilterRelationships(ctx, x.policy, acp.RelationshipFilter{}))
		},
		"filter by object": func(x *shaky) (string, error) {
			return all(x.engine.FilterRelationships(ctx, x.policy, acp.RelationshipFilter{Resource: "note", ID: "1"}))
		},
		"filter by subject": func(x *shaky) (string, error) {
			return all(x.engine.FilterRelationships(ctx, x.policy, acp.RelationshipFilter{Subject: acp.ActorSubject(bob)}))
		},
		"theorem": func(x *shaky) (string, error) {
			result, err := x.engine.EvaluateTheorem(ctx, x.policy, "Authorizations { note:1#read@"+bob+" !note:1#write@"+bob+" } Delegations { "+carol+" > note:1#reader }")
			if err != nil {
				return "", err
			}
			for _, c := range slices.Concat(result.Authorizations, result.Delegations) {
				if c.Err != nil {
					return "", c.Err
				}
			}
			return fmt.Sprint(result.Count, result.Failures), nil
		},
		"register":  func(x *shaky) (string, error) { return text(0, x.engine.Register(ctx, alice, note(x, "4"))) },
		"archive":   func(x *shaky) (string, error) { return text(x.engine.Archive(ctx, alice, note(x, "1"))) },
		"unarchive": func(x *shaky) (string, error) { return text(x.engine.Unarchive(ctx, alice, note(x, "2"))) },
		"transfer":  func(x *shaky) (string, error) { return text(0, x.engine.Transfer(ctx, alice, note(x, "1"), bob)) },
		"amend": func(x *shaky) (string, error) {
			return text(0, x.engine.Root().AmendRegistration(ctx, note(x, "1"), bob, time.Unix(1e9, 0)))
		},
		"reveal": func(x *shaky) (string, error) {
			return text(0, x.engine.Root().RevealRegistration(ctx, alice, note(x, "4"), time.Unix(1e9, 0)))
		},
		"relate": func(x *shaky) (string, error) {
			return text(x.engine.Relate(ctx, carol, note(x, "1"), "reader", alice))
		},
		"unrelate": func(x *shaky) (string, error) {
			return text(x.engine.Unrelate(ctx, alice, note(x, "1"), "reader", bob))
		},
		"batch": func(x *shaky) (string, error) {
			b := x.engine.Batch()
			b.Register(alice, note(x, "4"))
			b.Relate(alice, acp.Relationship{Object: note(x, "4"), Relation: "reader", Subject: acp.ActorSubject(carol)})
			b.Unrelate(alice, acp.Relationship{Object: note(x, "1"), Relation: "reader", Subject: acp.ActorSubject(bob)})
			b.Archive(bob, note(x, "3"))
			b.Unarchive(alice, note(x, "2"))
			return text(0, b.Commit(ctx))
		},
		"add policy": func(x *shaky) (string, error) {
			return text(x.engine.AddPolicy(ctx, bob, strings.Replace(notes, "name: notes", "name: more", 1)))
		},
		"edit policy": func(x *shaky) (string, error) {
			return text(x.engine.EditPolicy(ctx, alice, x.policy, acp.PolicySource{Text: edited}))
		},
		"remove a relation": func(x *shaky) (string, error) {
			return text(x.engine.EditPolicy(ctx, alice, x.policy, acp.PolicySource{Text: withoutAdmin}))
		},
		"edit metadata": func(x *shaky) (string, error) {
			return text(0, x.engine.EditPolicyMetadata(ctx, alice, x.policy, map[string]string{"a": "b"}))
		},
		"delete policy": func(x *shaky) (string, error) { return text(0, x.engine.DeletePolicy(ctx, alice, x.policy)) },
		"reset":         func(x *shaky) (string, error) { return text(0, x.engine.ResetState(ctx)) },
		"prepare": func(x *shaky) (string, error) {
			b := x.engine.Batch()
			b.Register(alice, note(x, "4"))
			p, err := b.Prepare(ctx)
			if err != nil {
				return "", err
			}
			p.Abort()
			return "prepared", nil
		},
		"start again": func(x *shaky) (string, error) {
			if err := x.engine.Close(); err != nil {
				return "", err
			}
			return text(0, x.engine.Start(ctx))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
				x := newShaky(t, d)
				scenario := failing.Scenario{Call: func() (string, error) { return call(x) }, State: x.state, InSteps: name == "reset" || name == "delete policy" || name == "add policy"}
				if name == "batch" || name == "reveal" {
					// A plan of several operations that fails is made again, with lookups.
					scenario.Optional = []failing.Operation{failing.Document, failing.Store, failing.Load, failing.TuplesNext, failing.AttributesNext, failing.DocumentsNext, failing.CloseState, failing.Rows}
				}
				return scenario
			})
		})
	}
}

// TestLongListing lists more relationships than one read of the store returns.
func TestLongListing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	const n = 2_001
	b := e.Batch()
	for i := range n {
		b.Register(alice, doc(id, fmt.Sprint(i)))
	}
	must(0, b.Commit(ctx))(t)
	seen := map[string]int{}
	for x, err := range e.FilterRelationships(ctx, id, acp.RelationshipFilter{Resource: "note"}) {
		seen[must(x, err)(t).Object.ID]++
	}
	readable := 0
	for _, err := range e.Readable(ctx, alice, "read", id, "note") {
		readable++
		must(0, err)(t)
	}
	if len(seen) != n || seen["0"] != 1 || readable != n {
		t.Errorf("%d relationships and %d readable documents, want %d", len(seen), readable, n)
	}
}

// TestTextBounds checks the bounds of texts at their values and one above.
func TestTextBounds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	expression := func(text string) string {
		return strings.Replace(notes, "{name: nobody}", "{name: nobody, expr: "+text+"}", 1)
	}
	const blocks = "Authorizations { } Delegations { }"
	theorem := func(n int) string { return blocks + strings.Repeat(" ", n-len(blocks)) }
	padded := func(n int) string { return notes + "#" + strings.Repeat("x", n-len(notes)-1) }
	for what, c := range map[string]struct {
		good, bad string
		try       func(text string) error
	}{
		"operators":   {"reader" + strings.Repeat(" + reader", 900), "reader" + strings.Repeat(" + reader", 901), func(s string) error { _, err := acp.ParsePolicy(expression(s), acp.DialectAuto); return err }},
		"exclusions":  {"reader" + strings.Repeat(" - reader", 90), "reader" + strings.Repeat(" - reader", 91), func(s string) error { _, err := acp.ParsePolicy(expression(s), acp.DialectAuto); return err }},
		"alternation": {"reader" + strings.Repeat(" + reader & reader", 45), "reader" + strings.Repeat(" + reader & reader", 45) + " + reader", func(s string) error { _, err := acp.ParsePolicy(expression(s), acp.DialectAuto); return err }},
		"theorem":     {theorem(acp.TheoremBytesMax), theorem(acp.TheoremBytesMax + 1), func(s string) error { _, err := e.EvaluateTheorem(ctx, id, s); return err }},
		"policy":      {padded(acp.PolicyBytesMax), padded(acp.PolicyBytesMax + 1), func(s string) error { _, err := acp.ParsePolicy(s, acp.DialectAuto); return err }},
	} {
		if err := c.try(c.good); err != nil {
			t.Errorf("%s at the bound: %.200v", what, err)
		}
		if err := c.try(c.bad); err == nil {
			t.Errorf("%s above the bound: no error", what)
		}
	}
}
