package acp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/internal/golden"
)

// TestStoredIDs compares the stored forms of ids with a file, and what texts that look
// like stored forms are read as.
func TestStoredIDs(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, id := range []string{"", "plain", "a b", " ", "#", "a#b", "*", "a*", "%", "%41", "a\x7f", "\x1f", "!", "é", "\u0080", "a\u0085", "\ufffd", "\ufffda", "\xff", "a\xffb", "a\xc3", "日本", "日 本", `"`, `"q"`, "a\tb", "a\nb", "😀", "😀 "} {
		stored, err := acp.StoredID(id)
		if back := acp.ParseStoredID(stored); err == nil && back != id {
			t.Errorf("%q is stored as %q, which is read as %q", id, stored, back)
		}
		fmt.Fprintf(&out, "%q is stored as %q, error %v\n", id, stored, err)
	}
	mark := strings.TrimSuffix(must(acp.StoredID(" "))(t), "%20")
	for _, rest := range []string{"", "a", "%", "%2", "%20", "%2g", "%20x", "x%20", "%41", "%7f", "%7F", "a%20%", "a%20%2", "a%20%20", "%C3", "%c3", "%FF", "a b", "%20#"} {
		fmt.Fprintf(&out, "the mark and %q is read as %q\n", rest, acp.ParseStoredID(mark+rest))
	}
	golden.Equal(t, "testdata/stored.golden", out.String())
}

// TestEvents compares the events of each change with a file.
func TestEvents(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var out strings.Builder
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := open(t, acp.Options{Clock: func() time.Time { return now }, Event: func(x acp.Event) {
		fmt.Fprintf(&out, "  %s by %q: %q %s %q, %v, token %v, at %s\n", x.Kind, nameOf(x.Actor), x.Object.ID, x.Relation, nameOf(x.Subject.String()), x.Policy != "", x.Token != "", x.Time.Format(time.RFC3339))
	}})
	step := func(what string, err error) { fmt.Fprintf(&out, "%s: %v\n", what, err) }
	id, err := e.AddPolicy(ctx, alice, notes)
	step("policy", err)
	step("register", e.Register(ctx, alice, doc(id, "1")))
	for range 2 {
		_, err = e.Relate(ctx, alice, doc(id, "1"), "reader", bob)
		step("relate", err)
	}
	_, err = e.Relate(ctx, alice, doc(id, "1"), "reader", carol)
	step("relate another", err)
	for range 2 {
		_, err = e.Unrelate(ctx, alice, doc(id, "1"), "reader", bob)
		step("unrelate", err)
	}
	step("transfer", e.Transfer(ctx, alice, doc(id, "1"), bob))
	_, err = e.Archive(ctx, bob, doc(id, "1"))
	step("archive", err)
	_, err = e.Unarchive(ctx, bob, doc(id, "1"))
	step("unarchive", err)
	step("amend", e.Root().AmendRegistration(ctx, doc(id, "1"), alice, now.Add(-time.Hour)))
	step("reveal", e.Root().RevealRegistration(ctx, alice, doc(id, "2"), now.Add(-time.Hour)))
	step("metadata", e.EditPolicyMetadata(ctx, alice, id, map[string]string{"a": "b"}))
	_, err = e.EditPolicy(ctx, alice, id, acp.PolicySource{Text: strings.Replace(notes, "- {name: nobody}", "- {name: nobody, expr: reader}", 1)})
	step("edit", err)
	step("delete", e.DeletePolicy(ctx, alice, id))
	golden.Equal(t, "testdata/events.golden", out.String())
}

// TestRemovedRelation removes a relation of one resource. The relationships of the
// relation with the same name of another resource must remain.
func TestRemovedRelation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const text = `
name: two
resources:
- name: note
  relations:
  - {name: reader, types: [actor, "folder->reader"]}
  permissions:
  - {name: read, expr: reader}
- name: folder
  relations:
  - {name: reader, types: [actor]}
  permissions:
  - {name: read, expr: reader}
`
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, text))(t)
	folder := acp.Object{Policy: id, Resource: "folder", ID: "1"}
	for _, o := range []acp.Object{doc(id, "1"), folder} {
		must(0, e.Register(ctx, alice, o))(t)
		must(e.Relate(ctx, alice, o, "reader", bob))(t)
	}
	must(e.SetRelationship(ctx, alice, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.Subject{Resource: "folder", ID: "1", Relation: "reader"}}))(t)
	edited := strings.Replace(text, "- name: folder\n  relations:\n  - {name: reader, types: [actor]}\n  permissions:\n  - {name: read, expr: reader}\n", "- name: folder\n  permissions:\n  - {name: read}\n", 1)
	edited = strings.Replace(edited, `[actor, "folder->reader"]`, "[actor]", 1)
	if removed := must(e.EditPolicy(ctx, alice, id, acp.PolicySource{Text: edited}))(t); removed != 2 {
		t.Errorf("%d relationships are removed, want 2", removed)
	}
	if ok := must(e.Check(ctx, bob, "read", doc(id, "1")))(t); !ok {
		t.Error("the relationship of the other resource is removed, too")
	}
	if ok := must(e.Check(ctx, bob, "read", folder))(t); ok {
		t.Error("the removed relation permits")
	}
}
