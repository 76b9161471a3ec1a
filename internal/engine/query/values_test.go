package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// fillAll sets every exported field of a value, with a different text or number for each.
func fillAll(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text", *next))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillAll(v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fillAll(v.Field(i), next)
			}
		}
	}
}

// filled returns a request with a value in every field but Consistency.
func filled() authz.CheckRequest {
	var r authz.CheckRequest
	n := 0
	fillAll(reflect.ValueOf(&r).Elem(), &n)
	r.Context = expr.Values{"a": "text", "b": json.Number("12"), "c": []any{"x", true, map[string]any{"d": nil}}, "e": 1.5}
	return r
}

// texts appends the strings of a value that share memory with nothing else, if it was
// copied.
func texts(v reflect.Value, all []string) []string {
	switch v.Kind() {
	case reflect.String:
		all = append(all, v.String())
	case reflect.Slice:
		for i := range v.Len() {
			all = texts(v.Index(i), all)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			all = texts(v.MapIndex(k), texts(k, all))
		}
	case reflect.Interface:
		all = texts(v.Elem(), all)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				all = texts(v.Field(i), all)
			}
		}
	}
	return all
}

// TestCloneRequest checks that a copy has all fields and shares no memory.
func TestCloneRequest(t *testing.T) {
	t.Parallel()
	original := filled()
	c := cloneRequest(&original)
	if !reflect.DeepEqual(c, original) {
		t.Errorf("got %+v\nexpected %+v", c, original)
	}
	own := map[*byte]string{}
	for _, s := range texts(reflect.ValueOf(original), nil) {
		own[unsafe.StringData(s)] = s
	}
	for _, s := range texts(reflect.ValueOf(c), nil) {
		if own[unsafe.StringData(s)] != "" {
			t.Errorf("the copy shares the memory of %q", s)
		}
	}
	clear(original.Context["c"].([]any)[2].(map[string]any))
	original.Context["c"].([]any)[0] = "changed"
	original.Context["a"], original.Tuples[0].Relation, original.Attributes[0].Name = "changed", "changed", "changed"
	if !reflect.DeepEqual(c, func() authz.CheckRequest { r := filled(); return r }()) {
		t.Errorf("a change of the request changes the copy: %+v", c)
	}
	original.Consistency = authz.FullyConsistent()
	if c := cloneRequest(&original); c.Consistency != (authz.Consistency{}) {
		t.Errorf("the copy has the consistency %v", c.Consistency)
	}
	original.Consistency, original.SchemaImplied = authz.Consistency{}, true
	if c := cloneRequest(&original); c.SchemaID != "" || c.SchemaImplied {
		t.Errorf("the copy has a schema that the caller did not name: %+v", c)
	}
	if c := cloneRequest(&authz.CheckRequest{}); !reflect.DeepEqual(c, authz.CheckRequest{}) {
		t.Errorf("the copy of an empty request is %+v", c)
	}
}

// grow makes the n-th string of a value one byte longer. It returns how many strings it
// found until then.
func grow(v reflect.Value, n int) int {
	switch v.Kind() {
	case reflect.String:
		if n--; n == -1 {
			v.SetString(v.String() + "x")
		}
	case reflect.Slice:
		for i := range v.Len() {
			n = grow(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				n = grow(v.Field(i), n)
			}
		}
	}
	return n
}

// TestRequestBytes checks that each byte of a request counts once, and what values, tuples
// and attributes count besides.
func TestRequestBytes(t *testing.T) {
	t.Parallel()
	full := filled()
	full.Context = nil
	size := requestBytes(&full)
	n := 0
	for ; ; n++ {
		r := cloneRequest(&full)
		if grow(reflect.ValueOf(&r).Elem(), n) >= 0 {
			break
		}
		if got := requestBytes(&r); got != size+1 {
			t.Errorf("string %d longer by a byte: %d bytes, expected %d", n, got, size+1)
		}
	}
	if n != 7+2*8+2*4 {
		t.Errorf("%d strings", n)
	}
	const empty = 3*128 + 16
	for _, c := range []struct {
		r    authz.CheckRequest
		want int64
	}{
		{authz.CheckRequest{}, empty},
		{authz.CheckRequest{QueryOptions: authz.QueryOptions{Tuples: make([]rel.Tuple, 3)}}, empty + 3*128},
		{authz.CheckRequest{QueryOptions: authz.QueryOptions{Attributes: make([]rel.Attribute, 2)}}, empty + 2*128},
		{authz.CheckRequest{QueryOptions: authz.QueryOptions{Context: expr.Values{"ab": "cde"}}}, empty + 32 + 2 + 16 + 3},
		{authz.CheckRequest{QueryOptions: authz.QueryOptions{Context: expr.Values{"ab": json.Number("12345")}}}, empty + 32 + 2 + 16 + 5},
		{authz.CheckRequest{QueryOptions: authz.QueryOptions{Context: expr.Values{"ab": []any{"c", true}}}}, empty + 32 + 2 + 16 + 16 + 1 + 16},
		{authz.CheckRequest{QueryOptions: authz.QueryOptions{Context: expr.Values{"ab": map[string]any{"c": 1.5}}}}, empty + 32 + 2 + 16 + 32 + 1 + 16},
	} {
		if got := requestBytes(&c.r); got != c.want {
			t.Errorf("%+v: %d bytes, expected %d", c.r, got, c.want)
		}
	}
}

// TestRecorderKeeps records decisions of random sizes and ages, and compares what is kept
// with a list: the newest ones that fit.
func TestRecorderKeeps(t *testing.T) {
	t.Parallel()
	const seed = 11
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	now := time.Unix(1000, 0)
	for _, decisionsMax := range []int{1, 2, 63, 64, 65, 200} {
		runtime := snapshot.NewRuntime(snapshot.Config{Driver: memory.New(), Clock: func() time.Time { return now }, Bounds: errs.WithDefaults(authz.Bounds{})})
		shared := NewShared(runtime, authz.RecordingOptions{Decisions: decisionsMax, Bytes: 64_000, Age: time.Minute})
		store := func(id, incarnation byte) *Answerer {
			return NewAnswerer(shared, snapshot.NewTimeline(runtime, storage.StoreInfo{ID: storage.StoreID{id}, Incarnation: storage.Incarnation{incarnation}}))
		}
		stores := []*Answerer{store(1, 1), store(2, 1), store(1, 2)}
		type kept struct {
			store int
			name  string
			bytes int64
			at    time.Time
		}
		var model []kept
		for i := range 1000 {
			now = now.Add(time.Duration(rng.IntN(500)) * time.Millisecond)
			k := kept{rng.IntN(3), fmt.Sprintf("%d%s", i, strings.Repeat("x", rng.IntN(4000))), 0, now}
			if i%97 == 0 {
				k.name = strings.Repeat("y", 64_000-400+rng.IntN(2)) // as large as all, and larger
			}
			r := authz.CheckRequest{Relation: k.name}
			k.bytes = requestBytes(&r)
			stores[k.store].record(&r, expr.True, 3)
			if k.bytes <= 64_000 {
				model = append(model, k)
				sum := int64(0)
				for from := len(model) - 1; from >= 0; from-- {
					if sum += model[from].bytes; sum > 64_000 || len(model)-from > decisionsMax {
						model = model[from+1:]
						break
					}
				}
			}
			if i%10 > 0 {
				continue
			}
			age, limit := time.Duration(rng.IntN(70))*time.Second, rng.IntN(8)
			within := age
			if age == 0 || age > time.Minute {
				within = time.Minute
			}
			for s, a := range stores {
				var want []string
				for _, k := range model {
					if k.store == s && !k.at.Before(now.Add(-within)) {
						want = append(want, k.name)
					}
				}
				if limit > 0 && len(want) > limit {
					want = want[len(want)-limit:]
				}
				var got []string
				for _, d := range a.RecordedDecisions(age, limit) {
					got = append(got, d.Question.Relation)
					if d.Decision != expr.True || d.Revision != 3 || d.Time.IsZero() {
						t.Fatalf("decision %+v", d)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d decisions, at %d, store %d, age %v, limit %d: got %d, expected %d", decisionsMax, i, s, age, limit, len(got), len(want))
				}
			}
		}
	}
}

// TestPositions reads positions of pages that are whole, cut, longer and changed.
func TestPositions(t *testing.T) {
	t.Parallel()
	key := rel.Tuple{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "group", ID: "eng", Relation: "member"}}
	whole := positionOf(&key)
	if got, err := readPosition(whole); err != nil || got != key {
		t.Errorf("got %v, %v", got, err)
	}
	for n := range whole {
		if _, err := readPosition(whole[:n]); !errors.Is(err, authz.ErrCursor) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for _, more := range [][]byte{{0}, {1}, {255}} {
		if _, err := readPosition(append(slices.Clone(whole), more...)); !errors.Is(err, authz.ErrCursor) {
			t.Errorf("with %v: %v", more, err)
		}
	}
	at := eval.ExpandPosition{Relations: 300, Slot: 2, After: "x"}
	now := rel.Time(1000)
	expand := appendExpandPosition(nil, now, at)
	for _, current := range []rel.Time{1000, 1001} {
		if gotNow, got, err := readExpandPosition(expand, current); err != nil || got != at || gotNow != now {
			t.Errorf("at %d: got %v at %d, %v", current, got, gotNow, err)
		}
	}
	numbers := len(expand) - len(at.After)
	for n := range numbers {
		if gotNow, got, err := readExpandPosition(expand[:n], now); !errors.Is(err, authz.ErrCursor) || gotNow != 0 {
			t.Errorf("the first %d bytes: %v at %d, %v", n, got, gotNow, err)
		}
	}
	for _, wrong := range [][]byte{
		appendExpandPosition(nil, now+1, at), appendExpandPosition(nil, -1, at),
		appendExpandPosition(nil, now, eval.ExpandPosition{Relations: math.MaxInt32 + 1}), appendExpandPosition(nil, now, eval.ExpandPosition{Slot: math.MaxInt32 + 1}),
	} {
		if _, _, err := readExpandPosition(wrong, now); !errors.Is(err, authz.ErrCursor) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	largest := eval.ExpandPosition{Relations: math.MaxInt32, Slot: math.MaxInt32}
	if _, got, err := readExpandPosition(appendExpandPosition(nil, 0, largest), 0); err != nil || got != largest {
		t.Errorf("the largest numbers: %v, %v", got, err)
	}
}

// nested returns a value of n levels.
func nested(n int, deepest any) any {
	for i := range n {
		if i%2 == 0 {
			deepest = []any{deepest}
		} else {
			deepest = map[string]any{"": deepest}
		}
	}
	return deepest
}

// TestValidInput tries inputs at their bounds and one above.
func TestValidInput(t *testing.T) {
	t.Parallel()
	m := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{
		{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	compiled, err := schema.Compile(&m, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound := &snapshot.BoundSchema{Schema: compiled}
	b := errs.WithDefaults(authz.Bounds{ContextTuples: 2, ContextAttributes: 3, ContextBytes: 20})
	tuple, err := rel.Parse("doc:1#viewer@user:a")
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*rel.Tuple)) []rel.Tuple { x := tuple; change(&x); return []rel.Tuple{tuple, x} }
	attribute := func(value string) []rel.Attribute {
		return []rel.Attribute{{Object: tuple.Object, Name: "n", Value: value}}
	}
	values := func(v any) authz.QueryOptions { return authz.QueryOptions{Context: expr.Values{"": v}} }
	var out strings.Builder
	for _, c := range []struct {
		name string
		o    authz.QueryOptions
	}{
		{"nothing", authz.QueryOptions{}},
		{"2 tuples", authz.QueryOptions{Tuples: []rel.Tuple{tuple, tuple}}},
		{"3 tuples", authz.QueryOptions{Tuples: []rel.Tuple{tuple, tuple, tuple}}},
		{"a malformed tuple", authz.QueryOptions{Tuples: with(func(x *rel.Tuple) { x.Relation = "" })}},
		{"context without a condition", authz.QueryOptions{Tuples: with(func(x *rel.Tuple) { x.Context = `{"a":1}` })}},
		{"context of an unknown relation", authz.QueryOptions{Tuples: with(func(x *rel.Tuple) { x.Relation, x.Condition, x.Context = "owner", "c", `{"a":1}` })}},
		{"context of an unknown condition", authz.QueryOptions{Tuples: with(func(x *rel.Tuple) { x.Condition, x.Context = "c", `{"a":1}` })}},
		{"an unknown condition", authz.QueryOptions{Tuples: with(func(x *rel.Tuple) { x.Condition = "c" })}},
		{"3 attributes", authz.QueryOptions{Attributes: slices.Repeat(attribute("1"), 3)}},
		{"4 attributes", authz.QueryOptions{Attributes: slices.Repeat(attribute("1"), 4)}},
		{"a malformed attribute", authz.QueryOptions{Attributes: []rel.Attribute{{Object: tuple.Object}}}},
		{"an attribute of the largest size", authz.QueryOptions{Attributes: attribute(strings.Repeat("1", authz.AttributeValueBytesMax))}},
		{"an attribute above the largest size", authz.QueryOptions{Attributes: attribute(strings.Repeat("1", authz.AttributeValueBytesMax+1))}},
		{"20 bytes", values(strings.Repeat("x", 20))},
		{"21 bytes", values(strings.Repeat("x", 21))},
		{"a number of 20 bytes", values(json.Number(strings.Repeat("1", 20)))},
		{"a number of 21 bytes", values(json.Number(strings.Repeat("1", 21)))},
		{"a name of 12 bytes and a value", authz.QueryOptions{Context: expr.Values{strings.Repeat("n", 12): true}}},
		{"a name of 13 bytes and a value", authz.QueryOptions{Context: expr.Values{strings.Repeat("n", 13): true}}},
		{"2 values", values([]any{true, nil})},
		{"3 values", values([]any{true, nil, 1.5})},
		{"2 values of a map", values(map[string]any{"a": true, "b": 1.5})},
		{"3 values of a map", values(map[string]any{"a": true, "b": 1.5, "c": nil})},
		{"63 levels", values(nested(62, "x"))},
		{"64 levels", values(nested(63, "x"))},
		{"64 levels, at the end empty", values(nested(62, []any{}))},
		{"65 levels, at the end empty", values(nested(63, []any{}))},
		{"no values", authz.QueryOptions{Context: expr.Values{}}},
	} {
		fmt.Fprintf(&out, "%s: %v\n", c.name, ValidInput(&b, bound, &c.o))
	}
	golden.Equal(t, "testdata/input.txt", out.String())
}

// TestValidQuestion tries ids at their bound and one above.
func TestValidQuestion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", rel.IDBytesMax)
	for _, c := range []struct {
		object, subject string
		ok              bool
	}{
		{"1", "a", true}, {"", "a", false}, {"1", "", false}, {"", "", false}, {long, "a", true}, {"1", long, true}, {long + "x", "a", false}, {"1", long + "x", false},
		{"1", "*", true},
	} {
		err := ValidQuestion(&rel.Object{Type: "doc", ID: c.object}, &rel.Subject{Type: "user", ID: c.subject})
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, rel.ErrName) {
			t.Errorf("ids of %d and %d bytes: %v", len(c.object), len(c.subject), err)
		}
	}
}
