package commit

import (
	"reflect"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// TestRequestDigest requires that each field of a request counts, and that nothing
// else does: an equal request in other memory has the same digest.
func TestRequestDigest(t *testing.T) {
	t.Parallel()
	tuple := func(id string) rel.Tuple {
		return rel.Tuple{Object: rel.Object{Type: "doc", ID: id}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
	}
	attribute := rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "size", Value: "1"}
	document := func(body string) []authz.Document {
		return []authz.Document{{Kind: "kind", Key: "key", Secondary: []string{"second"}, Body: []byte(body)}}
	}
	// Each field is set in one of the requests; all of them differ.
	requests := func() []authz.WriteRequest {
		filter := rel.Filter{ObjectType: "doc", ObjectID: "1"}
		return []authz.WriteRequest{
			{},
			{Add: []rel.Tuple{tuple("1")}},
			{Add: []rel.Tuple{tuple("2")}},
			{Add: []rel.Tuple{tuple("1"), tuple("2")}},
			{Remove: []rel.Key{tuple("1").Key()}},
			{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: filter}}},
			{Preconditions: []authz.Precondition{{Filter: filter}}},
			{Preconditions: []authz.Precondition{{Filter: filter, Absent: true}}},
			{SetAttributes: []rel.Attribute{attribute}},
			{RemoveAttributes: []rel.Attribute{attribute}},
			{Documents: document("a")},
			{Documents: document("b")},
			{RemoveDocuments: []authz.DocumentKey{{Kind: "kind", Key: "key"}}},
			{Secrets: document("a")},
			{Secrets: document("b")},
			{RemoveSecrets: []authz.DocumentKey{{Kind: "kind", Key: "key"}}},
			{RemoveSchemas: []string{"01"}},
			{OnDuplicate: authz.Ignore},
			{OnMissing: authz.Ignore},
			{After: "token"},
			{SchemaID: "token"},
		}
	}
	seen := map[[32]byte]int{}
	again := requests()
	for i, r := range requests() {
		digest, ok := requestDigest(&r, &storage.Origin{Caller: "anne"})
		if j, is := seen[digest]; !ok || is {
			t.Errorf("request %d has the digest of request %d, ok %v", i, j, ok)
		}
		seen[digest] = i
		repeated, _ := requestDigest(&again[i], &storage.Origin{Caller: "anne", Request: storage.RequestID{Node: storage.NodeID{1}, Number: 7}})
		if repeated != digest {
			t.Errorf("request %d has another digest when it is repeated", i)
		}
		for _, origin := range []storage.Origin{{Caller: "bob"}, {Caller: "anne", Reason: "a reason"}} {
			if other, _ := requestDigest(&r, &origin); other == digest {
				t.Errorf("request %d has the same digest with %+v", i, origin)
			}
		}
	}
	if _, ok := requestDigest(&authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: &schema.Model{}}}}, &storage.Origin{}); ok {
		t.Error("a request with schemas has a digest")
	}
	// A new field must count, and have a request above.
	if have := reflect.TypeFor[authz.WriteRequest]().NumField(); have != 17 {
		t.Errorf("a request has %d fields, requestDigest knows 17", have)
	}
}
