package permify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	permifypb "github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// TestErrorCodes compares the failure of each kind of error that has an error code of the
// protocol with testdata/kinds.txt. A failure keeps its cause.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	cause := errors.New("the cause")
	kinds := []error{authz.ErrTransaction, cause}
	for _, k := range errorCodes {
		kinds = append(kinds, k.kind)
	}
	for _, kind := range kinds {
		err := translateError(&authz.Error{Op: "test", Kind: kind, Err: cause})
		var f *failure
		if !errors.As(err, &f) || !errors.Is(f.cause, cause) {
			t.Errorf("%v: %v lost its cause", kind, err)
			continue
		}
		fmt.Fprintf(&table, "%v: %d %s: %s\n", kind, httpStatus(f.code), f.code, f.message)
	}
	golden.Equal(t, "testdata/kinds.txt", table.String())
}

// TestStoredValues checks values of attributes that no schema has: their types are
// those of the values.
func TestStoredValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`true`: "BooleanValue", `false`: "BooleanValue", `"true"`: "StringValue", `""`: "StringValue", `5`: "IntegerValue", `-5`: "IntegerValue",
		`0.5`: "DoubleValue", `1e30`: "DoubleValue", `1E30`: "DoubleValue",
		`[]`: "StringArrayValue", `["a"]`: "StringArrayValue", `[true]`: "BooleanArrayValue", `[false,true]`: "BooleanArrayValue",
		`[1,2]`: "IntegerArrayValue", `[0.5]`: "DoubleArrayValue",
	} {
		for _, s := range []*schema.Schema{nil, {}} {
			m, err := storedValue(text, s, "document", "gone")
			if err != nil || !strings.HasSuffix(m.GetTypeUrl(), "."+want) {
				t.Errorf("%s: %v %v, want %s", text, m.GetTypeUrl(), err, want)
			}
		}
	}
	if m, err := storedValue(`{}`, nil, "document", "gone"); err == nil {
		t.Errorf("{}: %v", m)
	}
}

// TestIDs checks the characters and the lengths of ids.
func TestIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "z", "A", "Z", "0", "9", ":", "_", "-", "@", ".", "+", "*", strings.Repeat("x", 128)} {
		if !validID(id) {
			t.Errorf("%q is refused", id)
		}
	}
	for _, id := range []string{"", "`", "{", "[", "/", ";", "!", "a b", "a*", "**", "\x01", "\x1a", "é", "#", strings.Repeat("x", 129)} {
		if validID(id) {
			t.Errorf("%q is accepted", id)
		}
	}
}

// TestRelationshipTexts checks texts that are no relationship.
func TestRelationshipTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"document:1#viewer@user:1", " document:1#viewer@user:1 ", "document:1#viewer@group:1#member"} {
		if _, err := parseTuple(text, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "document:1", "document:1#viewer", "document#viewer@user:1", "document:1#viewer@user", "document:1@user:1",
		"document:1#viewer@user:1#", "document:1#viewer@user#member", "#@", ":#@:"} {
		if got, err := parseTuple(text, nil); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestText checks that a text is a JSON string wherever a character that needs an
// escape is.
func TestText(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		for _, s := range []string{string(rune(c)), "ab" + string(rune(c)), string(rune(c)) + "ab", ""} {
			var back string
			if err := json.Unmarshal(appendText(nil, s), &back); err != nil || back != s {
				t.Errorf("%q: %q %v", s, back, err)
			}
		}
	}
}

// TestTokensOfLists checks tokens of several lists.
func TestTokensOfLists(t *testing.T) {
	t.Parallel()
	if got, err := splitToken(joinToken([]string{"a", "", "c"}), 3); err != nil || fmt.Sprint(got) != "[a  c]" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := splitToken("", 2); err != nil || len(got) != 2 {
		t.Errorf("%q %v", got, err)
	}
	long := joinedPrefix + strings.Repeat("x", tokenBytesMax-len(joinedPrefix))
	if _, err := splitToken(long, 1); err != nil {
		t.Error(err)
	}
	for token, n := range map[string]int{long + "x": 1, joinToken([]string{"a", "b"}): 1, joinToken([]string{"a"}): 2, "a~b": 2, "m2.a": 1} {
		if got, err := splitToken(token, n); err == nil {
			t.Errorf("%.20q: %d tokens", token, len(got))
		}
	}
}

// TestFilterCombinations checks the filters for several ids, and their bound.
func TestFilterCombinations(t *testing.T) {
	t.Parallel()
	ids := func(n int) (out []string) {
		for i := range n {
			out = append(out, "i"+strconv.Itoa(i))
		}
		return out
	}
	filter := func(entities, subjects int) *permifypb.TupleFilter {
		return &permifypb.TupleFilter{Entity: &permifypb.EntityFilter{Type: "document", Ids: ids(entities)}, Relation: "viewer",
			Subject: &permifypb.SubjectFilter{Type: "user", Ids: ids(subjects)}}
	}
	for _, n := range [][3]int{{0, 0, 1}, {2, 0, 2}, {0, 3, 3}, {2, 3, 6}, {storage.FiltersMax / 2, 2, storage.FiltersMax}} {
		got, err := tupleFilters(filter(n[0], n[1]))
		seen := map[rel.Filter]bool{}
		for _, f := range got {
			if f.ObjectType != "document" || f.Relation != "viewer" || f.SubjectType != "user" {
				t.Errorf("%+v", f)
			}
			seen[f] = true
		}
		if err != nil || len(got) != n[2] || len(seen) != n[2] {
			t.Errorf("%v: %d filters, %d different, %v", n, len(got), len(seen), err)
		}
	}
	if got, err := tupleFilters(filter(storage.FiltersMax/2+1, 2)); err == nil {
		t.Errorf("%d filters", len(got))
	}
}

// TestBulkItems checks the bound on the items of a bulk check over gRPC.
func TestBulkItems(t *testing.T) {
	t.Parallel()
	request := func(n int) *permifypb.PermissionBulkCheckRequest {
		r := &permifypb.PermissionBulkCheckRequest{Metadata: &permifypb.PermissionCheckRequestMetadata{}}
		for range n {
			r.Items = append(r.Items, &permifypb.PermissionBulkCheckRequestItem{Entity: &permifypb.Entity{Type: "document", Id: "1"}, Permission: "view",
				Subject: &permifypb.Subject{Type: "user", Id: "1"}})
		}
		return r
	}
	if got, err := newBulkCheckRequest(request(bulkItemsMax)); err != nil || len(got.items) != bulkItemsMax {
		t.Error(len(got.items), err)
	}
	if got, err := newBulkCheckRequest(request(bulkItemsMax + 1)); err == nil {
		t.Error(len(got.items))
	}
}

// TestRemovedByFilter checks that a watch reports each tuple and attribute that a
// filter removed, also if they are more than a page, and no other one.
func TestRemovedByFilter(t *testing.T) {
	t.Parallel()
	e, _ := start(t, Options{})
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	model := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "document",
		Relations: []schema.RelationDef{{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	for i, name := range []string{"a1", "a2"} {
		model.Types[1].Attributes = append(model.Types[1].Attributes, schema.AttributeDef{Name: name})
		model.Types[1].Attributes[i].Type.Kind = 3
	}
	if _, _, err := store.WriteSchema(t.Context(), authz.SchemaSource{Model: model}); err != nil {
		t.Fatal(err)
	}
	one, two := rel.Object{Type: "document", ID: "1"}, rel.Object{Type: "document", ID: "2"}
	w := authz.WriteRequest{}
	for i := range changesMax + 2 {
		w.Add = append(w.Add, rel.Tuple{Object: one, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: strconv.Itoa(i)}})
		w.SetAttributes = append(w.SetAttributes, rel.Attribute{Object: rel.Object{Type: "document", ID: strconv.Itoa(i)}, Name: "a1", Value: "1"})
	}
	w.Add = append(w.Add, rel.Tuple{Object: two, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "1"}})
	w.SetAttributes = append(w.SetAttributes, rel.Attribute{Object: two, Name: "a2", Value: "1"})
	if _, err := store.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		filter storage.Filter
		want   int
	}{
		{storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "document", ObjectID: "1"}}, changesMax + 2},
		{storage.Filter{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user", SubjectID: "1"}}, 2},
		{storage.Filter{Target: storage.FilterAttributes, ObjectType: "document", Name: "a1"}, changesMax + 2},
		{storage.Filter{Target: storage.FilterAttributes, ObjectType: "document", ObjectID: "2"}, 2},
		{storage.Filter{Target: storage.FilterAttributes, ObjectType: "document", ObjectID: "2", Name: "a1"}, 1},
	} {
		seen := map[string]bool{}
		err := addRemoved(t.Context(), store, 2, &at.filter, func(c *permifypb.DataChange) error {
			if c.GetOperation() != permifypb.DataChange_OPERATION_DELETE {
				t.Errorf("%v", c)
			}
			seen[fmt.Sprint(c.GetTuple().GetEntity().GetId(), c.GetTuple().GetSubject().GetId(), c.GetAttribute().GetEntity().GetId(), c.GetAttribute().GetAttribute())] = true
			return nil
		})
		if err != nil || len(seen) != at.want {
			t.Errorf("%+v: %d changes, %v, want %d", at.filter, len(seen), err, at.want)
		}
		broken := errors.New("broken")
		if err := addRemoved(t.Context(), store, 2, &at.filter, func(*permifypb.DataChange) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%+v: %v, want the error of the receiver", at.filter, err)
		}
	}
}

// TestStatuses checks the HTTP status of each gRPC code.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]int{
		codes.OK: 200, codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 504, codes.NotFound: 404, codes.AlreadyExists: 409,
		codes.PermissionDenied: 403, codes.ResourceExhausted: 429, codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
		codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
	} {
		if got := httpStatus(code); got != want {
			t.Errorf("%s: %d, want %d", code, got, want)
		}
	}
	for _, reason := range []door.Reason{door.TooLarge, door.ForeignPage, door.TimedOut} {
		why := &door.Refusal{Reason: reason}
		w := httptest.NewRecorder()
		if serveError(w, fmt.Errorf("wrapped: %w", why)); w.Code != why.Status() {
			t.Errorf("%v: %d, want %d", why, w.Code, why.Status())
		}
	}
}
