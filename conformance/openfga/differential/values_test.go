package differential

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// parameter is a type and an expression over a parameter v of it.
type parameter struct {
	ref    *openfgav1.ConditionParamTypeRef
	source string
}

func parameterTypes() []parameter {
	of := func(name openfgav1.ConditionParamTypeRef_TypeName, elem ...*openfgav1.ConditionParamTypeRef) *openfgav1.ConditionParamTypeRef {
		return &openfgav1.ConditionParamTypeRef{TypeName: name, GenericTypes: elem}
	}
	text := of(openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING)
	integer := of(openfgav1.ConditionParamTypeRef_TYPE_NAME_INT)
	return []parameter{
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "v == 'a'"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "v == 5"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "v == 5.5"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "v == true"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "'a' in v"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "v.a == 'b'"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY), "v == null"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_BOOL), "v"},
		{text, "v == 'a'"},
		{text, "v.startsWith('5')"},
		{integer, "v == 5"},
		{integer, "v < 0"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_UINT), "v == 5u"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_DOUBLE), "v == 5.5"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_DOUBLE), "v > 1e18"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_DURATION), "v == duration('5s')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_DURATION), "v < duration('1h')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_TIMESTAMP), "v < timestamp('2024-01-01T00:00:00Z')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_TIMESTAMP), "v.getFullYear() == 2023"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_IPADDRESS), "v.in_cidr('10.0.0.0/8')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_IPADDRESS), "v.in_cidr('2001:db8::/32')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_IPADDRESS), "v == ipaddress('10.1.2.3')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_BOOL), "v && ipaddress('10.1.2.3').in_cidr('10.0.0.0/8')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING), "ipaddress(v).in_cidr('10.0.0.0/8')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING), "v.matches('^[a-z]$')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING), "timestamp(v) < timestamp('2024-01-01T00:00:00Z')"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING), "int(v) == 5"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST, text), "'a' in v"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST, integer), "v.exists(x, x == 5)"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST, of(openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST, integer)), "size(v) == 1"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_MAP, text), "v.a == 'b'"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_MAP, text), "v['a'] == 'b' || size(v) == 0"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_MAP, integer), "v.a > 1"},
		{of(openfgav1.ConditionParamTypeRef_TYPE_NAME_MAP, of(openfgav1.ConditionParamTypeRef_TYPE_NAME_ANY)), "v.a == 'b'"},
	}
}

// values are contexts: of v, of another name, and of none.
func values(t *testing.T) []*structpb.Struct {
	t.Helper()
	var out []*structpb.Struct
	for _, text := range []string{
		`{}`, `{"w":1}`, `{"v":null}`, `{"v":true}`, `{"v":false}`, `{"v":"true"}`,
		`{"v":"a"}`, `{"v":""}`, `{"v":"5"}`, `{"v":"-5"}`, `{"v":"5.0"}`, `{"v":"5.5"}`, `{"v":"0x5"}`, `{"v":"1e3"}`, `{"v":" 5"}`,
		`{"v":5}`, `{"v":-5}`, `{"v":5.5}`, `{"v":0}`, `{"v":-0.0}`, `{"v":9007199254740993}`, `{"v":"9007199254740993"}`,
		`{"v":9223372036854775807}`, `{"v":"9223372036854775807"}`, `{"v":9223372036854775808}`, `{"v":"9223372036854775808"}`,
		`{"v":18446744073709551615}`, `{"v":"18446744073709551615"}`, `{"v":"18446744073709551616"}`, `{"v":1e300}`, `{"v":"1e400"}`, `{"v":"NaN"}`, `{"v":"Infinity"}`,
		`{"v":"5s"}`, `{"v":"1h2m3.5s"}`, `{"v":"-3m"}`, `{"v":"5"}`, `{"v":"5d"}`, `{"v":"9999999h"}`,
		`{"v":"2023-01-01T00:00:00Z"}`, `{"v":"2023-01-01T00:00:00.123456789+02:00"}`, `{"v":"2023-01-01"}`, `{"v":"2023-01-01 00:00:00"}`, `{"v":"2025-02-30T00:00:00Z"}`, `{"v":"0001-01-01T00:00:00Z"}`,
		`{"v":"10.1.2.3"}`, `{"v":"192.168.1.1"}`, `{"v":"10.1.2"}`, `{"v":"010.1.2.3"}`, `{"v":"::ffff:10.1.2.3"}`, `{"v":"2001:db8::1"}`, `{"v":"fe80::1%eth0"}`, `{"v":"10.1.2.3/8"}`,
		`{"v":[]}`, `{"v":["a"]}`, `{"v":["a",5]}`, `{"v":[5]}`, `{"v":["5"]}`, `{"v":[[5]]}`, `{"v":[null]}`, `{"v":[5.5]}`,
		`{"v":{}}`, `{"v":{"a":"b"}}`, `{"v":{"a":5}}`, `{"v":{"a":"5"}}`, `{"v":{"a":null}}`, `{"v":{"a":{"b":"c"}}}`,
		`{"v":"a","w":1}`,
	} {
		s := &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(text), s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, s)
	}
	return out
}

// exactMax is where whole numbers stop being doubles.
const exactMax = 1 << 53

// extreme reports whether v is a number, or the text of one, from exactMax on.
// They clamp it to int64, or refuse a double that is not exact. Ours accepts what
// the type can hold and refuses the rest.
func extreme(v *structpb.Struct) bool {
	x := v.GetFields()["v"]
	n := x.GetNumberValue()
	if text := x.GetStringValue(); text != "" {
		var err error
		if n, err = strconv.ParseFloat(text, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
			return false
		}
	}
	return math.Abs(n) >= exactMax || n != n
}

// conditionWorld has one tuple under a condition, doc:plain, without values.
func conditionWorld(p parameter) *World {
	return &World{
		Model: &openfgav1.AuthorizationModel{
			SchemaVersion: "1.1",
			Conditions: map[string]*openfgav1.Condition{
				"cond": {Name: "cond", Expression: p.source, Parameters: map[string]*openfgav1.ConditionParamTypeRef{"v": p.ref}},
			},
			TypeDefinitions: []*openfgav1.TypeDefinition{{Type: "user"}, {
				Type: "doc", Relations: map[string]*openfgav1.Userset{"viewer": this()},
				Metadata: &openfgav1.Metadata{Relations: map[string]*openfgav1.RelationMetadata{
					"viewer": {DirectlyRelatedUserTypes: []*openfgav1.RelationReference{{Type: "user", Condition: "cond"}}},
				}},
			}},
		},
		Stored: []*openfgav1.TupleKey{underCondition("doc:plain", nil)},
	}
}

func underCondition(object string, values *structpb.Struct) *openfgav1.TupleKey {
	return &openfgav1.TupleKey{
		Object: object, Relation: "viewer", User: "user:1",
		Condition: &openfgav1.RelationshipCondition{Name: "cond", Context: values},
	}
}

// TestConditionValues stores and asks every value with every type of
// parameter: both must accept the same ones, and answer alike.
func TestConditionValues(t *testing.T) {
	ours, err := Ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := Theirs()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	answers, beyond := map[string]int{}, 0
	contexts := values(t)
	for _, typ := range parameterTypes() {
		w := conditionWorld(typ)
		at, err := theirs.Load(t.Context(), w)
		if err != nil {
			t.Fatalf("%s: theirs: %v", typ.source, err)
		}
		of, err := ours.Load(t.Context(), w)
		if err != nil {
			t.Errorf("%s: ours: %v", typ.source, err)
			continue
		}
		for i, value := range contexts {
			for _, way := range []string{"stored", "asked", "both"} {
				a, b := playValue(t, theirs, at, w, i, way, value), playValue(t, ours, of, w, i, way, value)
				answers[fmt.Sprint(uint32(a.Code), a.Allowed)]++
				switch {
				case a.Equal(b):
				case extreme(value):
					beyond++
				default:
					t.Errorf("%s with %v %s: theirs %v, ours %v", typ.source, value.AsMap(), way, a, b)
				}
			}
		}
	}
	t.Logf("answers: %v, %d differ on numbers beyond 2^53", answers, beyond)
}

// playValue checks doc:plain with the value asked, a document with the value
// stored, or one with it stored while another value is asked.
func playValue(t *testing.T, s Side, p Place, w *World, i int, way string, value *structpb.Struct) Answer {
	q := Question{Kind: Check, Object: "doc:plain", Relation: "viewer", User: "user:1"}
	asked := *w
	asked.Context = &structpb.Struct{}
	switch way {
	case "asked":
		asked.Context = value
	case "both":
		asked.Context = &structpb.Struct{Fields: map[string]*structpb.Value{"v": structpb.NewStringValue("a")}}
	}
	if way != "asked" {
		q.Object = fmt.Sprint("doc:", way, i)
		if err := s.Put(t.Context(), p, underCondition(q.Object, value)); err != nil {
			return listed(nil, err)
		}
	}
	return s.Ask(t.Context(), p, &asked, q)
}
