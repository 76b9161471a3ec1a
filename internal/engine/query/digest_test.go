package query

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
)

// TestDigestsAreComplete changes every field of every request that has cursors,
// one at a time. A field that the digest omits would let two requests share a
// cursor. A new field fails here until the digest includes it, or until it is
// named below with a reason.
func TestDigestsAreComplete(t *testing.T) {
	t.Parallel()
	omitted := map[string]string{
		"Cursor":         "it contains the digest",
		"Limit":          "pages of one list may differ in size",
		"UnknownPerPage": "it is how far to search, not what is in the list",
		"Consistency":    "the cursor pins the revision",
		"SchemaImplied":  "SchemaID names the schema in any case",
	}
	for _, c := range []struct {
		zero   any
		digest func(any) snapshot.Digest
	}{
		{authz.ListObjectsRequest{}, func(r any) snapshot.Digest { x := r.(authz.ListObjectsRequest); return objectsDigest(&x) }},
		{authz.ListSubjectsRequest{}, func(r any) snapshot.Digest { x := r.(authz.ListSubjectsRequest); return subjectsDigest(&x) }},
		{authz.ExpandPageRequest{}, func(r any) snapshot.Digest { x := r.(authz.ExpandPageRequest); return expandDigest(&x) }},
		{authz.ReadRequest{}, func(r any) snapshot.Digest { x := r.(authz.ReadRequest); return readDigest(&x) }},
		{authz.ReadAttributesRequest{}, func(r any) snapshot.Digest { x := r.(authz.ReadAttributesRequest); return attributesDigest(&x) }},
	} {
		typ := reflect.TypeOf(c.zero)
		seen := map[snapshot.Digest]string{c.digest(c.zero): "zero"}
		n := 0
		eachField(typ, nil, typ.Name(), func(path []int, name, field string) {
			if omitted[field] != "" {
				return
			}
			n++
			v := reflect.New(typ).Elem()
			fill(v.FieldByIndex(path))
			d := c.digest(v.Interface())
			if other, ok := seen[d]; ok {
				t.Errorf("%s has the digest of %s", name, other)
			}
			seen[d] = name
		})
		if n < 3 {
			t.Errorf("%s: %d fields", typ, n)
		}
	}
}

// eachField visits the fields of a struct, and those of nested structs.
func eachField(typ reflect.Type, path []int, name string, visit func(path []int, name, field string)) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		at := append(path[:len(path):len(path)], i)
		if f.Type.Kind() == reflect.Struct && f.Name != "Consistency" {
			eachField(f.Type, at, name+"."+f.Name, visit)
			continue
		}
		visit(at, name+"."+f.Name, f.Name)
	}
}

// fill sets a value that is not the zero value. Lists and maps get one element.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		element := reflect.ValueOf("x")
		if v.Type().Elem().Kind() == reflect.Slice {
			element = reflect.ValueOf([]string{"x"})
		}
		v.SetMapIndex(reflect.ValueOf("x"), element)
	default:
		panic(v.Type())
	}
}

// TestDigestOfScope checks that scopes with another meaning have another
// digest, and that the order and repetition of ids do not matter.
func TestDigestOfScope(t *testing.T) {
	t.Parallel()
	type scope = map[string][]string
	sum := func(s scope) snapshot.Digest { r := authz.ListObjectsRequest{Scope: s}; return objectsDigest(&r) }
	seen := map[snapshot.Digest]int{}
	for i, s := range []scope{nil, {}, {"a": nil}, {"a": {"1"}}, {"a": {"1", "2"}}, {"a": {"12"}}, {"b": {"1"}}, {"a": {"1"}, "b": nil}, {"a": nil, "b": {"1"}}, {"a": {"b", "1"}}} {
		d := sum(s)
		if other, ok := seen[d]; ok {
			t.Errorf("scope %d has the digest of scope %d", i, other)
		}
		seen[d] = i
	}
	if sum(scope{"a": {"1", "2"}}) != sum(scope{"a": {"2", "1", "2"}}) {
		t.Error("the digest depends on the order of ids")
	}
}

// TestDigestOfParts changes every field of the elements of Tuples and Attributes.
func TestDigestOfParts(t *testing.T) {
	t.Parallel()
	sum := func(a authz.QueryOptions) snapshot.Digest {
		r := authz.ListObjectsRequest{QueryOptions: a}
		return objectsDigest(&r)
	}
	seen := map[snapshot.Digest]string{}
	see := func(name string, a authz.QueryOptions) {
		t.Helper()
		d := sum(a)
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
	ask := reflect.TypeOf(authz.QueryOptions{})
	for _, name := range []string{"Tuples", "Attributes"} {
		f, _ := ask.FieldByName(name)
		eachField(f.Type.Elem(), nil, name, func(path []int, field, _ string) {
			v := reflect.New(ask).Elem()
			list := v.FieldByName(name)
			list.Set(reflect.MakeSlice(f.Type, 1, 1))
			fill(list.Index(0).FieldByIndex(path))
			see(field, v.Interface().(authz.QueryOptions))
		})
	}
	// Values that print alike, or that differ only in their separators, are different.
	for name, v := range map[string]any{
		"text 1": "1", "float 1": 1.0, "number 1": json.Number("1"), "int 1": 1, "true": true, "text true": "true", "null": nil,
		"duration": time.Duration(1), "list ab": []any{"a", "b"}, "list a,b": []any{"a,b"}, "nested": []any{[]any{"a"}, "b"},
		"nested2": []any{[]any{"a", "b"}}, "map": map[string]any{"a": "b"}, "empty map": map[string]any{}, "empty list": []any{},
	} {
		see(name, authz.QueryOptions{Context: expr.Values{"v": v}})
	}
	see("v and w", authz.QueryOptions{Context: expr.Values{"v": "x", "w": "x"}})
	see("vw", authz.QueryOptions{Context: expr.Values{"vw": "xx"}})
}
