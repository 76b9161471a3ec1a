package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
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

// TestRemovedRelation removes a relation of one resource. The relationships of its
// other relation, and of the relation with the same name of another resource, must
// remain.
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
  - {name: keeper, types: [actor]}
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
	must(e.Relate(ctx, alice, folder, "keeper", carol))(t)
	must(e.SetRelationship(ctx, alice, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.Subject{Resource: "folder", ID: "1", Relation: "reader"}}))(t)
	edited := strings.Replace(text, "  - {name: reader, types: [actor]}\n  permissions:\n  - {name: read, expr: reader}\n", "  permissions:\n  - {name: read, expr: keeper}\n", 1)
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
	if ok := must(e.Check(ctx, carol, "read", folder))(t); !ok {
		t.Error("the other relation's relationship is removed, too")
	}
}

// TestDIDForms compares which texts are DIDs with a file.
func TestDIDForms(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, did := range []string{"", "did", "did:", "did::", "did::a", "did:a", "did:a:", "did:a:b", "DID:a:b", "did:A:b", "did:a1:b", "did:a_:b", "did:a-b:c",
		"did:web:a:", "did:web:a::b", "did:web::a", "did:web:a%", "did:web:a%2", "did:web:a%20", "did:web:%20", "did:web:a%2g", "did:web:a%g0", "did:web:a%2G", "did:web:a%aF",
		"did:web:a%20%", "did:web:a.b_c-d", "did:web:a/b", "did:web:a b", "did:web:a#b", "did:web:a?b", "did:web:ä",
		"did:key:", "did:key:z", "did:key:z1", "did:key:z0", "did:key:y6Mk", "did:key:z6Mk", "did:key:zz", "did:keys:z6Mk", alice + "x", alice[:len(alice)-1], strings.ToUpper(alice)} {
		fmt.Fprintf(&out, "%q: %v\n", did, acp.ValidateDID(did))
	}
	for n := range 2 {
		did := "did:a:" + strings.Repeat("x", rel.IDBytesMax-len("did:a:")+n)
		fmt.Fprintf(&out, "%d bytes: %v\n", len(did), acp.ValidateDID(did))
	}
	golden.Equal(t, "testdata/dids.golden", out.String())
}

// TestNames compares with a file which characters a name of a policy may contain.
func TestNames(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for c := rune(0); c <= 0x100; c++ {
		if c >= 'b' && c <= 'z' || c >= 'B' && c <= 'Z' || c >= '1' && c <= '9' {
			continue // as a, A and 0
		}
		quoted, err := json.Marshal("a" + string(c) + "b")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = acp.ParsePolicy("name: p\nresources:\n- name: "+string(quoted)+"\n", acp.DialectAuto); err != nil {
			fmt.Fprintf(&out, "%U: %v\n", c, err)
		}
	}
	golden.Equal(t, "testdata/names.golden", out.String())
}

// TestDeleteSmallPolicy deletes a policy in one entry of the log, and one with many
// resources in more.
func TestDeleteSmallPolicy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	s := must(e.Store())(t)
	for resources, entries := range map[int]uint64{1: 1, 98: 1, 99: 1, 100: 2} {
		text := "name: small\nresources:\n"
		for i := range resources {
			text += fmt.Sprintf("- name: r%d\n", i)
		}
		id := must(e.AddPolicy(ctx, alice, text))(t)
		for i := range resources {
			must(0, e.Register(ctx, alice, acp.Object{Policy: id, Resource: fmt.Sprintf("r%d", i), ID: "1"}))(t)
		}
		before := uint64(must(s.Stats(ctx))(t).Revision)
		must(0, e.DeletePolicy(ctx, alice, id))(t)
		after := must(s.Stats(ctx))(t)
		if n := uint64(after.Revision) - before; n != entries || after.Graph.Tuples != 0 {
			t.Errorf("%d resources: deleted in %d entries, want %d; %d tuples are left", resources, n, entries, after.Graph.Tuples)
		}
	}
}
