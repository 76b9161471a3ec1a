package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// call is one of the package's requests, read both ways.
type call struct {
	name string
	// ours parses with a request that was used before. theirs returns the request of
	// the protocol's message.
	ours func(body []byte) (any, error)
	// byHand parses without the library; nil if the call has no such way.
	byHand func(body []byte) (any, error)
	empty  func() proto.Message
	theirs func(m proto.Message) any
}

func calls() []call {
	return []call{
		callOf("Check", &CheckRequest{}, (*CheckRequest).Parse, (*CheckRequest).read, (*CheckRequest).FromProto),
		callOf("BatchCheck", &BatchCheckRequest{}, (*BatchCheckRequest).Parse, (*BatchCheckRequest).read, (*BatchCheckRequest).FromProto),
		callOf("ListObjects", &ListObjectsRequest{}, (*ListObjectsRequest).Parse, (*ListObjectsRequest).read, (*ListObjectsRequest).FromProto),
		callOf("StreamedListObjects", &ListObjectsRequest{}, (*ListObjectsRequest).Parse, (*ListObjectsRequest).read, (*ListObjectsRequest).FromStreamed),
		callOf("ListUsers", &ListUsersRequest{}, (*ListUsersRequest).Parse, (*ListUsersRequest).read, (*ListUsersRequest).FromProto),
		callOf("Write", &WriteRequest{}, (*WriteRequest).Parse, (*WriteRequest).read, (*WriteRequest).FromProto),
		callOf("Read", &ReadRequest{}, (*ReadRequest).Parse, nil, (*ReadRequest).FromProto),
		callOf("Expand", &ExpandRequest{}, (*ExpandRequest).Parse, nil, (*ExpandRequest).FromProto),
	}
}

func callOf[R any, M proto.Message](name string, used *R, parse, read func(*R, []byte) error, from func(*R, M)) call {
	c := call{
		name: name,
		ours: func(body []byte) (any, error) {
			err := parse(used, body)
			return used, err
		},
		empty: func() proto.Message {
			var m M
			return m.ProtoReflect().New().Interface()
		},
		theirs: func(m proto.Message) any {
			r := new(R)
			from(r, m.(M))
			return r
		},
	}
	if read != nil {
		c.byHand = func(body []byte) (any, error) {
			err := read(used, body)
			return used, err
		}
	}
	return c
}

// accepts reads a body as the original's gateway does: JSON first, then the
// message, and an empty body is an empty message. Unlike the gateway it refuses
// data after the message.
func accepts(body []byte, m proto.Message) bool {
	if len(bytes.Trim(body, " \t\r\n")) == 0 {
		return true
	}
	return json.Valid(body) && protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m) == nil
}

// same compares the two readings of a body and reports whether both accept it.
func same(t *testing.T, c call, body []byte) bool {
	t.Helper()
	m := c.empty()
	accepted := accepts(body, m)
	got, err := c.ours(body)
	if errors.Is(err, ErrDepth) {
		if n := nesting(body); n <= DepthMax {
			t.Fatalf("%s: %q nests %d deep: %v", c.name, clip(body), n, err)
		}
		return false
	}
	if bracketed(body) && (err == nil) != accepted {
		return false // [name] asks protojson's registry
	}
	if (err == nil) != accepted {
		t.Fatalf("%s: %q: ours: %v, theirs accept: %v", c.name, clip(body), err, accepted)
	}
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Error() == "" {
			t.Fatalf("%s: %q: %T %v", c.name, clip(body), err, err)
		}
		return false
	}
	if want := c.theirs(m); fmt.Sprintf("%#v", alike(got)) != fmt.Sprintf("%#v", alike(want)) {
		t.Fatalf("%s: %q:\n ours: %+v\ntheirs: %+v", c.name, clip(body), alike(got), alike(want))
	}
	return true
}

func clip(b []byte) []byte { return b[:min(len(b), 4096)] }

// alike makes equal requests print equally: it follows pointers, and makes nil
// and empty lists the same.
func alike(v any) any {
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Pointer:
		if rv.IsNil() {
			return nil
		}
		return alike(rv.Elem().Interface())
	case reflect.Struct:
		out := map[string]any{}
		for i := range rv.NumField() {
			out[rv.Type().Field(i).Name] = alike(rv.Field(i).Interface())
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range rv.Len() {
			out = append(out, alike(rv.Index(i).Interface()))
		}
		return out
	}
	return v
}

func nesting(body []byte) int {
	depth, deepest := 0, 0
	for _, c := range body {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

func bracketed(body []byte) bool { return bytes.Contains(body, []byte(`"[`)) }

// bodies are the accepted and refused forms that the fuzzer starts from. A
// body is tried as every request.
var bodies = []string{
	``, ` `, "\n", `{}`, ` { } `, `null`, `[]`, `"x"`, `1`, `{`, `}`, `{}}`, `{} {}`, `{}x`, "{}\x00", "\ufeff{}",
	`{"tuple_key":{"user":"user:anne","relation":"viewer","object":"document:1"},"authorization_model_id":"01HVMMBCMGZNT3SED4Z17ECXCA"}`,
	`{"tuple_key":{"user":"user:anne","relation":"viewer","object":"document:1","condition":{"name":"c","context":{"a":1}}},"store_id":"s"}`,
	`{"tuple_key":null,"context":null,"consistency":null,"trace":null,"contextual_tuples":null,"page_size":null}`,
	`{"tuple_key":null,"tuple_key":{}}`, `{"tuple_key":{"user":"a","user":"a"}}`, `{"x":1,"x":2}`, `{"tuple_key":{"User":"a"}}`,
	`{"tupleKey":{"user":"a"}}`, `{"tuple\u005fkey":{"us\u0065r":"\u00e9\ud83d\ude00"}}`, `{"tuple_key":{"user":"\ud83d"}}`,
	`{"tuple_key":{"user":"\ude00\ud83d"}}`, `{"tuple_key":{"user":"\ud83d\u0041"}}`, `{"tuple_key":{"user":"\ufffd\u0000"}}`,
	"{\"tuple_key\":{\"user\":\"\xff\"}}", "{\"tuple_key\":{\"user\":\"\xed\xa0\x80\"}}", "{\"x\":\"\xc0\x80\"}", "{\"\xff\":1}", "{\"tuple_key\":{\"user\":\"a\x01b\"}}",
	"{\"tuple_key\":{\"user\":\"\x7f\u2028\"}}", `{"tuple_key":{"user":"\/\b\f\n\r\t\\\""}}`, `{"tuple_key":{"user":"\x"}}`, `{"tuple_key":{"user":"\u12"}}`, `{"tuple_key":{"user":"\u+123"}}`,
	`{"tuple_key":{"user":5}}`, `{"tuple_key":{"user":true}}`, `{"tuple_key":"x"}`, `{"tuple_key":[]}`, `{"tuple_key":{},}`, `{,}`, `{"tuple_key" {}}`, `{"a":1 "b":2}`, `{"a"::1}`, `{a:1}`, `{'a':1}`,
	`{"consistency":"HIGHER_CONSISTENCY"}`, `{"consistency":"MINIMIZE_LATENCY"}`, `{"consistency":"UNSPECIFIED"}`, `{"consistency":"nonsense"}`, `{"consistency":""}`, `{"consistency":"100"}`,
	`{"consistency":200}`, `{"consistency":1e2}`, `{"consistency":2.0e2}`, `{"consistency":2000e-1}`, `{"consistency":0.5}`, `{"consistency":-1}`, `{"consistency":2147483648}`, `{"consistency":-2147483648}`, `{"consistency":true}`, `{"consistency":{}}`,
	`{"page_size":50}`, `{"page_size":"50"}`, `{"page_size":"5e1"}`, `{"page_size":" 50"}`, `{"page_size":"\u0035"}`, `{"page_size":""}`, `{"page_size":"\"5\""}`, `{"page_size":{"value":5}}`, `{"page_size":0e999999999999}`, `{"page_size":-0}`, `{"page_size":0.0005e4}`, `{"page_size":1e}`, `{"page_size":"1e"}`, `{"page_size":01}`, `{"page_size":"01"}`, `{"page_size":1.}`, `{"page_size":.5}`, `{"page_size":+5}`, `{"page_size":100e-2}`, `{"page_size":100e-3}`, `{"page_size":1e30}`, `{"page_size":5.}`, `{"page_size":"5,"}`, `{"page_size":NaN}`,
	`{"trace":true}`, `{"trace":false}`, `{"trace":"true"}`, `{"trace":1}`, `{"trace":truex}`, `{"trace":tru`, `{"x":nul}`, `{"x":1e}`, `{"x":-}`, `{"x":1.5e+3}`, `{"x":[1,2,]}`, `{"x":[,1]}`, `{"x":[1 2]}`, `{"x":[{}{}]}`, `{"x":{"a":[{"b":null}]}}`, `{"x":[1}`, `{"x":{]}`,
	`{"context":{"a":null,"b":true,"c":1.5,"d":"x","e":[1,[],{}],"f":{"g":{}}}}`, `{"context":{"a":1,"a":2}}`, `{"context":{"a":{"b":1,"\u0062":2}}}`, `{"context":{"n":1e400}}`, `{"context":{"n":-0}}`, `{"context":{"n":9007199254740993}}`, `{"context":{"n":"NaN"}}`, `{"context":[]}`, `{"context":"x"}`, `{"context":{"":{"":""}}}`, `{"context":{"a":1,}}`, `{"context":{"a"}}`, `{"context":{a:1}}`,
	`{"contextual_tuples":{"tuple_keys":[{"user":"user:a","relation":"r","object":"d:1"},{"user":"u","condition":null}]}}`, `{"contextual_tuples":{"tuple_keys":[null]}}`, `{"contextual_tuples":{"tuple_keys":null}}`, `{"contextual_tuples":{"tuple_keys":{}}}`, `{"contextual_tuples":[{"user":"u","condition":{"name":"n","context":{}}}]}`, `{"contextual_tuples":{}}`, `{"contextual_tuples":[]}`, `{"contextual_tuples":{"tuple_keys":[],"tuple_keys":[]}}`,
	`{"checks":[{"tuple_key":{"user":"a","relation":"b","object":"c"},"correlation_id":"1","context":{"x":1}},{"correlation_id":"2","contextual_tuples":{"tuple_keys":[{}]}},{}]}`, `{"checks":[null]}`, `{"checks":{}}`, `{"checks":[[]]}`,
	`{"writes":{"tuple_keys":[{"user":"a","relation":"b","object":"c","condition":{"name":"n","context":{"a":[1]}}}],"on_duplicate":"ignore"},"deletes":{"tuple_keys":[{"user":"a","relation":"b","object":"c","condition":{"name":5}}],"on_missing":"ignore"}}`, `{"writes":{},"deletes":null}`, `{"writes":[]}`, `{"deletes":{"tuple_keys":[{}]}}`,
	`{"object":{"type":"document","id":"1"},"relation":"viewer","user_filters":[{"type":"user"},{"type":"group","relation":"member"}]}`, `{"object":"document:1"}`, `{"object":{"type":"a","type":"b"}}`, `{"user_filters":[null]}`, `{"user_filters":{}}`,
	`{"type":"document","relation":"viewer","user":"user:anne","continuation_token":"abc"}`,
}

func TestSameAsProtojson(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		for _, body := range bodies {
			same(t, c, []byte(body))
			for cut := range len(body) {
				same(t, c, []byte(body[:cut]))
			}
		}
	}
}

// TestRandomBodies compares bodies built from the protocol's own names, with
// values of fitting and other kinds, and some damaged. OSTIARY_BODIES sets how
// many, OSTIARY_SEED the first.
func TestRandomBodies(t *testing.T) {
	t.Parallel()
	seed, count := number(t, "OSTIARY_SEED", 1), number(t, "OSTIARY_BODIES", 40_000)
	accepted := 0
	all := calls()
	for i := range count {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
		c := all[rng.IntN(len(all))]
		g := generator{rng: rng}
		g.message(c.empty().ProtoReflect().Descriptor(), 0)
		body := g.damage()
		if t.Failed() {
			break
		}
		if same(t, c, body) {
			accepted++
		}
	}
	t.Logf("seed %d: %d of %d bodies accepted by both", seed, accepted, count)
	if accepted < count/10 || accepted > count*9/10 {
		t.Errorf("%d of %d accepted: too one-sided to show something", accepted, count)
	}
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func FuzzSameAsProtojson(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range calls() {
			same(t, c, body)
		}
	})
}

func TestDepth(t *testing.T) {
	t.Parallel()
	nested := func(lead string, n int, trail string) []byte {
		return []byte(lead + strings.Repeat("[", n) + strings.Repeat("]", n) + trail)
	}
	for _, lead := range []string{`{"unknown":`, `{"context":{"a":`} {
		trail := strings.Repeat("}", strings.Count(lead, "{"))
		room := DepthMax - len(trail)
		var r CheckRequest
		if err := r.Parse(nested(lead, room, trail)); err != nil {
			t.Errorf("%s at the bound: %v", lead, err)
		}
		if err := r.Parse(nested(lead, room+1, trail)); !errors.Is(err, ErrDepth) {
			t.Errorf("%s beyond the bound: %v", lead, err)
		}
	}
	var r CheckRequest
	if err := r.Parse([]byte(`{"x":` + strings.Repeat(`{"x":[`, 1<<20))); !errors.Is(err, ErrDepth) {
		t.Errorf("a megabyte of brackets: %v", err)
	}
}

// TestViews shows which strings are parts of the body and which have their own
// memory.
func TestViews(t *testing.T) {
	t.Parallel()
	body := []byte(`{"tuple_key":{"user":"user:a","relation":"r","object":"d:1"},"contextual_tuples":{"tuple_keys":[{"user":"user:b"}]},"context":{"k":"v"}}`)
	var c CheckRequest
	if err := c.Parse(body); err != nil {
		t.Fatal(err)
	}
	var w WriteRequest
	written := []byte(`{"writes":{"tuple_keys":[{"user":"user:a"}]}}`)
	if err := w.Parse(written); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{body, written} {
		for i := range b {
			b[i] = '#'
		}
	}
	if c.Key.User != "######" {
		t.Errorf("the key is a copy: %q", c.Key.User)
	}
	if c.Tuples[0].User != "user:b" || c.Context["k"] != "v" || w.Writes[0].User != "user:a" {
		t.Errorf("tuples, context or writes are views: %v %v %v", c.Tuples, c.Context, w.Writes)
	}
}

func TestPlainCheckAllocatesNothing(t *testing.T) {
	body := []byte(checkBody)
	var r CheckRequest
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Parse(body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"tuple_key":{"user":5}}`:              `proto: (line 1:22): invalid value for string field user: 5`,
		`{"tuple_key":{"user":"a","user":"b"}}`: `proto: (line 1:26): duplicate field "user"`,
		`{"tuple_key":`:                         `unexpected EOF`,
		`{"tuple_key" 1}`:                       `invalid character '1' after object key`,
		`{} x`:                                  `syntax error (line 1:4): unexpected x`,
		"{\n\"a\":\"\xff\"}":                    "proto: syntax error (line 2:5): invalid UTF-8 in string",
		`{"x":` + strings.Repeat("[", DepthMax): `body nests too deep: the bound DepthMax is 500`,
		`{"context":{"` + strings.Repeat("n", 2000) + `":1e999}}`: ``,
	} {
		var r CheckRequest
		err := r.Parse([]byte(body))
		if err == nil || want != "" && err.Error() != want || len(err.Error()) > errorBytesMax {
			t.Errorf("%.40s: %v\nwant %s", body, err, want)
		}
	}
}

var checkBody = `{"tuple_key":{"user":"user:anne-0001","relation":"viewer","object":"document:0042"},"authorization_model_id":"01HVMMBCMGZNT3SED4Z17ECXCA"}`

func TestCheckBodyIsRead(t *testing.T) {
	t.Parallel()
	var r CheckRequest
	if err := r.Parse([]byte(checkBody)); err != nil {
		t.Fatal(err)
	}
	want := CheckRequest{HasKey: true, Key: Key{"user:anne-0001", "viewer", "document:0042"}, ModelID: "01HVMMBCMGZNT3SED4Z17ECXCA"}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v", r)
	}
	var _ proto.Message = (*openfgav1.CheckRequest)(nil)
}
