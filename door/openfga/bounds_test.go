package openfga

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// TestDefaults checks that an option that is not positive has the default of
// docs/openfga.md, and that any other is kept.
func TestDefaults(t *testing.T) {
	t.Parallel()
	want := Options{WriteTuples: 100, BatchChecks: 50, ListResults: 1000, Depth: 25, ConditionContextBytes: 32 << 10,
		ChangesPage: 100, AssertionBytes: 64_000, ListTime: 3 * time.Second}
	for _, unset := range []int{0, -1} {
		o := Options{WriteTuples: unset, BatchChecks: unset, ListResults: unset, Depth: unset, ConditionContextBytes: unset,
			ChangesPage: unset, AssertionBytes: unset, ListTime: time.Duration(unset)}
		if got := o.withDefaults(); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v", unset, got)
		}
	}
	ones := Options{WriteTuples: 1, BatchChecks: 1, ListResults: 1, Depth: 1, ConditionContextBytes: 1, ChangesPage: 1, AssertionBytes: 1, ListTime: 1}
	if got := ones.withDefaults(); !reflect.DeepEqual(got, ones) {
		t.Errorf("%+v", got)
	}
}

// TestWords checks the characters and the lengths of words.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		text        string
		least, most int
		want        bool
	}{
		{"abc", 3, 3, true}, {"abc", 4, 9, false}, {"abc", 0, 2, false}, {"é漢😀", 3, 3, true}, {"é漢😀", 4, 9, false},
		{"À", 1, 1, true}, {"", 0, 0, true}, {"", 1, 1, false}, {"a\x7f", 2, 2, true},
		{"a b", 1, 9, false}, {"a\tb", 1, 9, false}, {"a\nb", 1, 9, false}, {"a\vb", 1, 9, true}, {"a\fb", 1, 9, false}, {"a\rb", 1, 9, false}, {"a\x0eb", 1, 9, true}, {"a\x08b", 1, 9, true},
	} {
		if got := validWord(at.text, at.least, at.most); got != at.want {
			t.Errorf("%q from %d to %d: %v", at.text, at.least, at.most, got)
		}
	}
}

// TestNamespaceNames checks names in a model with a namespace.
func TestNamespaceNames(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	m, _, err := language.ParseDSL([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	m.Namespace = "space"
	info, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	addTuples(t, st, "space/document:a:b#viewer@space/user:did:key:1", "space/document:a:b#viewer@space/group:g:1#member")
	for _, at := range []struct {
		user, object string
		want         bool
	}{
		{"space/user:did:key:1", "space/document:a:b", true},
		{"space/group:g:1#member", "space/document:a:b", true},
		{"space/user:did:key:2", "space/document:a:b", false},
		{"space/user:did:key:1", "space/document:a:c", false},
	} {
		got, err := s.check(t.Context(), &headers{}, &wire.CheckRequest{StoreID: st.ID().String(), ModelID: info.ID, HasKey: true, Key: wire.Key{User: at.user, Relation: "viewer", Object: at.object}})
		if err != nil || got != at.want {
			t.Errorf("%s %s: %v %v", at.user, at.object, got, err)
		}
	}
	for _, key := range []wire.Key{
		{User: "space/user:did:key:1", Object: "space/document"}, {User: "space/user:did:key:1", Object: "space/document:"},
		{User: "space/user:did:key:1", Object: "space/document:a#b:c"}, {User: "space/user", Object: "space/document:a:b"},
		{User: "space/user:x:y#", Object: "space/document:a:b"}, {User: "space/user:did:key:1", Object: "space/planet:a:b"},
	} {
		key.Relation = "viewer"
		_, err := s.check(t.Context(), &headers{}, &wire.CheckRequest{StoreID: st.ID().String(), ModelID: info.ID, HasKey: true, Key: key})
		wantCode(t, err, codeValidation)
	}
}

// TestNamespaceHint checks the error of a request without a model to a store whose
// models are all in namespaces.
func TestNamespaceHint(t *testing.T) {
	t.Parallel()
	s, _ := testService(t, ostiary.Options{}, Options{})
	st, err := s.engine.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "spaces"})
	if err != nil {
		t.Fatal(err)
	}
	in := &wire.CheckRequest{StoreID: st.ID().String(), HasKey: true, Key: wire.Key{User: "user:a", Relation: "viewer", Object: "document:1"}}
	_, err = s.check(t.Context(), &headers{}, in)
	wantCode(t, err, codeLatestNotFound)
	if strings.Contains(err.Error(), "of namespace") {
		t.Errorf("without models: %v", err)
	}
	var newest string
	for _, space := range []string{"first", "second"} {
		info, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: &schema.Model{Namespace: space, Types: []schema.TypeDef{{Name: "user"}}}})
		if err != nil {
			t.Fatal(err)
		}
		newest = info.ID
	}
	_, err = s.check(t.Context(), &headers{}, in)
	wantCode(t, err, codeLatestNotFound)
	if want := "the newest is '" + newest + "', of namespace 'second'"; !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q at the end", err, want)
	}
	in.ModelID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	_, err = s.check(t.Context(), &headers{}, in)
	wantCode(t, err, codeModelNotFound)
}

// TestInlineTypes checks the types of parameters that a tuple stores.
func TestInlineTypes(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string {
		return strings.Repeat("list<", depth-1) + "int" + strings.Repeat(">", depth-1)
	}
	for _, text := range []string{"int", "list<int>", "map<list<string>>", "any", nested(language.TypeDepthMax)} {
		if _, err := inlineType(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, err := inlineType("map<list<bool>>"); err != nil || got.Kind != expr.Map || got.Elem.Kind != expr.List || got.Elem.Elem.Kind != expr.Bool || got.Elem.Elem.Elem != nil {
		t.Errorf("%+v %v", got, err)
	}
	for _, text := range []string{"", "list", "map", "list<>", "list<int", "int<int>", "list<int>>", "<int>", "list<nothing>", "nothing", nested(language.TypeDepthMax + 1)} {
		if got, err := inlineType(text); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
	m := &schema.Model{}
	addInline(m)
	want := []expr.Definition{{Name: language.InlineCondition, Source: "false", Params: []expr.Param{
		{Name: "expression", Type: expr.Type{Kind: expr.String}}, {Name: "parameters", Type: expr.Type{Kind: expr.Map, Elem: &expr.Type{Kind: expr.String}}}}}}
	if !reflect.DeepEqual(m.Conditions, want) {
		t.Errorf("%+v", m.Conditions)
	}
}

// TestUnreadable checks that a model which the protocol cannot express is an error
// of the list of models, and that assertions with a member of a later version are
// read.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	id := st.ID().String()
	models, err := s.readModels(t.Context(), &headers{}, &openfgav1.ReadAuthorizationModelsRequest{StoreId: id})
	if err != nil {
		t.Fatal(err)
	}
	model := models.GetAuthorizationModels()[0].GetId()
	put := func(body string) {
		t.Helper()
		if _, err := st.Write(t.Context(), authz.WriteRequest{Documents: []authz.Document{{Kind: assertionsKind, Key: model, Body: []byte(body)}}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (*openfgav1.ReadAssertionsResponse, error) {
		return s.readAssertions(t.Context(), &headers{}, &openfgav1.ReadAssertionsRequest{StoreId: id, AuthorizationModelId: model})
	}
	put(`{"assertions":[{"later":1,"expectation":true,"tupleKey":{"user":"user:a","relation":"viewer","object":"document:1"}}]}`)
	if out, err := read(); err != nil || len(out.GetAssertions()) != 1 || !out.GetAssertions()[0].GetExpectation() {
		t.Errorf("%v %v", out, err)
	}
	put("broken")
	if out, err := read(); err == nil {
		t.Errorf("a broken document: %v", out)
	}
	foreign := &schema.Model{Types: []schema.TypeDef{{Name: "user", Attributes: []schema.AttributeDef{{Name: "age", Type: expr.Type{Kind: expr.Int}}}}}}
	if _, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: foreign}); err != nil {
		t.Fatal(err)
	}
	_, err = s.readModels(t.Context(), &headers{}, &openfgav1.ReadAuthorizationModelsRequest{StoreId: id})
	wantCode(t, err, codeInvalidModel)
}

// TestConditionBound checks that a bound of a condition is an error of the
// condition, and that any other bound is one of the evaluation.
func TestConditionBound(t *testing.T) {
	t.Parallel()
	of := func(bound string) authz.ConditionError {
		return authz.ConditionError{Condition: "c", Err: &expr.BoundError{Bound: bound}}
	}
	for _, at := range []struct {
		reasons authz.Reasons
		want    bool
	}{
		{authz.Reasons{Bound: "cost", Errors: []authz.ConditionError{of("cost")}}, true},
		{authz.Reasons{Bound: "cost", Errors: []authz.ConditionError{of("other"), of("cost")}}, true},
		{authz.Reasons{Bound: "depth", Errors: []authz.ConditionError{of("cost")}}, false},
		{authz.Reasons{Bound: "depth", Errors: []authz.ConditionError{{Condition: "c", Err: context.Canceled}}}, false},
		{authz.Reasons{Bound: "depth"}, false},
	} {
		if got := conditionBound(&at.reasons); got != at.want {
			t.Errorf("%+v: %v", at.reasons, got)
		}
		code := codeTooComplex
		if at.want {
			code = codeValidation
		}
		wantCode(t, unknownError(&at.reasons), code)
	}
}

// TestLogPositions checks positions of the log that are cut off.
func TestLogPositions(t *testing.T) {
	t.Parallel()
	full := logPosition{after: "o1.x", skip: 300, typ: "document"}
	b, err := openToken(changesToken, full.token("store"), "store")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		got, err := parseLogPosition(sealToken(changesToken, b[:n], "store"), "store")
		if n < 3+len(full.typ) && err == nil || err == nil && (got.skip != full.skip || got.typ != full.typ) {
			t.Errorf("%d of %d bytes: %+v, %v", n, len(b), got, err)
		}
	}
	for _, b := range [][]byte{bytes.Repeat([]byte{0xff}, 11), {0, 0xff}, {0, 5, 'a'}} {
		if got, err := parseLogPosition(sealToken(changesToken, b, "store"), "store"); err == nil {
			t.Errorf("%x: %+v", b, got)
		}
	}
}

// TestDepthWithin checks each operator at the bound and one above.
func TestDepthWithin(t *testing.T) {
	t.Parallel()
	this := &openfgav1.Userset{Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}
	for name, around := range map[string]func(u *openfgav1.Userset) *openfgav1.Userset{
		"union": func(u *openfgav1.Userset) *openfgav1.Userset {
			return &openfgav1.Userset{Userset: &openfgav1.Userset_Union{Union: &openfgav1.Usersets{Child: []*openfgav1.Userset{this, u}}}}
		},
		"intersection": func(u *openfgav1.Userset) *openfgav1.Userset {
			return &openfgav1.Userset{Userset: &openfgav1.Userset_Intersection{Intersection: &openfgav1.Usersets{Child: []*openfgav1.Userset{u, this}}}}
		},
		"base": func(u *openfgav1.Userset) *openfgav1.Userset {
			return &openfgav1.Userset{Userset: &openfgav1.Userset_Difference{Difference: &openfgav1.Difference{Base: u, Subtract: this}}}
		},
		"subtract": func(u *openfgav1.Userset) *openfgav1.Userset {
			return &openfgav1.Userset{Userset: &openfgav1.Userset_Difference{Difference: &openfgav1.Difference{Base: this, Subtract: u}}}
		},
	} {
		u := this
		for range 4 {
			u = around(u)
		}
		if !depthWithin(u, 5) || depthWithin(u, 4) || depthWithin(this, 0) {
			t.Errorf("%s: depth 5 is within 5: %v, within 4: %v", name, depthWithin(u, 5), depthWithin(u, 4))
		}
	}
}

// TestModelBytes writes a model of as many bytes as the bound admits, and with one
// less.
func TestModelBytes(t *testing.T) {
	t.Parallel()
	m := &openfgav1.AuthorizationModel{SchemaVersion: "1.1", TypeDefinitions: []*openfgav1.TypeDefinition{{Type: "user"}}}
	size := proto.Size(m)
	for bytes, want := range map[int]codes.Code{size: codes.OK, size - 1: codeEntityLimit} {
		s := &service{o: Options{Model: language.Bounds{ModelBytes: bytes}}.withDefaults()}
		_, err := s.source(m)
		if want == codes.OK && err != nil {
			t.Error(err)
		}
		if want != codes.OK {
			wantCode(t, err, want)
		}
	}
}

// TestControlCharacters checks which names have characters that are refused.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"a\u00a0": false, "a\u0080": true, "a\u009f": true, "a\xc2": false, "é": false, "a@b": true, "a:b": true, "ab": false, "a\x1f": true, "a ": false, "a\x7f": true} {
		if got := containsAny(name, ":@"); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
