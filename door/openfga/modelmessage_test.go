package openfga

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/door/openfga/language"
)

// firstViolation returns the field and the reason of a rule's error, as the
// language package words them.
func firstViolation(err error) string {
	field := ""
	for {
		e, ok := err.(interface {
			Field() string
			Reason() string
			Cause() error
		})
		if !ok {
			return field + ": " + err.Error()
		}
		field = strings.TrimPrefix(field+"."+e.Field(), ".")
		if e.Cause() == nil {
			return field + ": " + e.Reason()
		}
		err = e.Cause()
	}
}

// FuzzModelJSON compares how the language package reads a model's JSON form with
// how the protocol's own library reads it.
func FuzzModelJSON(f *testing.F) {
	files, err := filepath.Glob("language/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scripts in language/testdata: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			if strings.HasSuffix(a.Name, ".json") {
				f.Add(a.Data)
			}
		}
	}
	def := func(text string) string {
		return `{"type_definitions":[{"type":"user"},{"type":"d","relations":{"a":` + text + `}}]}`
	}
	for _, s := range []string{
		``, ` `, `null`, `[]`, `{}`, `{} x`, `{"id":"x","id":"y"}`, `{"id":null,"id":"y"}`, `{"x":1,"x":{"x":[],"x":1e999}}`, `{"schema_version":"\ud800"}`, `{"schema_version":1}`,
		`{"schema\u005fversion":"1.1","schemaVersion":2}`, `{"type_definitions":[null]}`, `{"type_definitions":null,"conditions":{"c":null}}`, `{"type_definitions":{}}`,
		def(`{"this":{},"this":{}}`), def(`{"this":{},"union":{}}`), def(`{"this":null,"union":null}`), def(`{"computed_userset":{"relation":"b"},"computedUserset":{}}`),
		def(`{"computed_userset":{"object":"d:1","relation":"b"}}`), def(`{"tuple_to_userset":{"tupleset":{},"computed_userset":{"relation":"b"}}}`), def(`{"difference":{"base":{"this":{}},"subtract":null}}`),
		`{"type_definitions":[{"type":"user"}],"conditions":{"c":{"name":"c","expression":"true","parameters":{"p":{"type_name":"TYPE_NAME_INT"},"q":{"type_name":"NONE"},"r":{"type_name":4.0},"s":{"type_name":-1}}}}}`,
		`{"type_definitions":[{"type":"user","metadata":{"relations":{"a":{"directly_related_user_types":[{"type":"u","relation":""},{"type":"u","wildcard":{"x":1}},{"type":"u","relation":"a","wildcard":{}}]}},"source_info":{"file":"a.fga"}}}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		theirs := &openfgav1.AuthorizationModel{}
		accepted := json.Valid(src) && protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(src, theirs) == nil
		_, ours, err := language.ParseJSON(src)
		if errors.Is(err, language.ErrBound) {
			return
		}
		if refused := errors.Is(err, language.ErrSyntax); refused == accepted {
			t.Fatalf("%q: %v, but the protocol's library accepts it: %v", src, err, accepted)
		}
		if err != nil {
			return
		}
		theirs.Id = ""
		want, err := canonicalJSON(theirs)
		if err != nil || !bytes.Equal(ours, want) {
			t.Fatalf("%q: canonical JSON\n%s\nthe protocol's library gives\n%s, %v", src, ours, want, err)
		}
	})
}

// TestModelRules compares the language package's rules and sizes of models with
// those of the protocol's messages.
func TestModelRules(t *testing.T) {
	t.Parallel()
	m := maker{rand.New(rand.NewPCG(3, 4))}
	fit, refused := 0, 0
	for range 3000 {
		in := m.model()
		text, err := canonicalJSON(in)
		if err != nil {
			t.Fatal(err)
		}
		n := proto.Size(in)
		small, exact := language.Bounds{ModelBytes: n - 1}, language.Bounds{ModelBytes: n}
		if _, _, err := small.ParseJSON(text); n > 1 && !errors.Is(err, language.ErrBound) {
			t.Fatalf("%s has %d bytes, and is accepted with a bound of one less: %v", text, n, err)
		}
		_, _, err = exact.ParseJSON(text)
		if errors.Is(err, language.ErrBound) {
			t.Fatalf("%s has %d bytes, and is refused at this bound: %v", text, n, err)
		}
		request := &openfgav1.WriteAuthorizationModelRequest{
			StoreId: "01ARZ3NDEKTSV4RRFFQ69G5FAV", SchemaVersion: "1.1", TypeDefinitions: in.GetTypeDefinitions(), Conditions: in.GetConditions(),
		}
		rule := request.Validate()
		var ours *language.Error
		switch isForm := errors.Is(err, language.ErrForm); {
		case rule == nil && !isForm:
			fit++
		case rule == nil || !isForm || !errors.As(err, &ours):
			t.Fatalf("%s: %v, the protocol's rules return %v", text, err, rule)
		case ours.Text != clip(firstViolation(rule)):
			t.Fatalf("%s: %q, the protocol's rules return %q", text, ours.Text, firstViolation(rule))
		default:
			refused++
		}
	}
	if fit < 300 || refused < 300 {
		t.Errorf("%d models fit, %d do not: too few to prove much", fit, refused)
	}
}

// rarely is like good, but returns a random text less often: a model has many
// texts.
func (m maker) rarely(s string) string {
	if m.IntN(12) == 0 {
		return m.text()
	}
	return s
}

// model returns a model whose texts and numbers may break the protocol's rules.
func (m maker) model() *openfgav1.AuthorizationModel {
	out := &openfgav1.AuthorizationModel{SchemaVersion: "1.1", Conditions: map[string]*openfgav1.Condition{}}
	for range m.IntN(3) {
		d := &openfgav1.TypeDefinition{Type: m.rarely("document"), Relations: map[string]*openfgav1.Userset{}}
		for _, name := range []string{"a", "b"}[:m.IntN(3)] {
			d.Relations[m.rarely(name)] = m.userset(3)
		}
		if m.IntN(3) > 0 {
			d.Metadata = &openfgav1.Metadata{Module: m.rarely(""), SourceInfo: m.source(), Relations: map[string]*openfgav1.RelationMetadata{
				m.rarely("a"): {Module: m.rarely(""), SourceInfo: m.source(), DirectlyRelatedUserTypes: m.references()},
			}}
		}
		out.TypeDefinitions = append(out.TypeDefinitions, d)
	}
	for _, name := range []string{"c", "d"}[:m.IntN(3)] {
		c := &openfgav1.Condition{Name: m.rarely(name), Expression: m.rarely("true"), Parameters: map[string]*openfgav1.ConditionParamTypeRef{}}
		if m.IntN(3) == 0 {
			c.Metadata = &openfgav1.ConditionMetadata{Module: m.rarely(""), SourceInfo: m.source()}
		}
		for range m.IntN(3) {
			c.Parameters[m.rarely(name)] = m.parameter(3)
		}
		if m.IntN(20) == 0 {
			c.Expression = strings.Repeat("x", 511+m.IntN(3))
		}
		out.Conditions[m.rarely(name)] = c
	}
	return out
}

func (m maker) source() *openfgav1.SourceInfo {
	if m.IntN(2) == 0 {
		return nil
	}
	return &openfgav1.SourceInfo{File: m.rarely([]string{"", "a/b-C_1.fga", ".fga", "a.b.fga", "a", strings.Repeat("x", 99+m.IntN(3)) + ".fga"}[m.IntN(12)%6*m.IntN(2)])}
}

func (m maker) references() (out []*openfgav1.RelationReference) {
	for range m.IntN(3) {
		r := &openfgav1.RelationReference{Type: m.rarely("user"), Condition: m.rarely("")}
		switch m.IntN(3) {
		case 0:
			r.RelationOrWildcard = &openfgav1.RelationReference_Relation{Relation: m.rarely("member")}
		case 1:
			r.RelationOrWildcard = &openfgav1.RelationReference_Wildcard{Wildcard: &openfgav1.Wildcard{}}
		}
		out = append(out, r)
	}
	return out
}

func (m maker) relation() *openfgav1.ObjectRelation {
	r := &openfgav1.ObjectRelation{Object: m.rarely(""), Relation: m.rarely("member")}
	if m.IntN(20) == 0 {
		r.Object = strings.Repeat("é", 128+m.IntN(2))
	}
	return r
}

func (m maker) userset(depth int) *openfgav1.Userset {
	operands := func() *openfgav1.Usersets {
		u := &openfgav1.Usersets{}
		for range m.IntN(4) {
			u.Child = append(u.Child, m.userset(depth-1))
		}
		return u
	}
	n := 8
	if depth == 0 {
		n = 3
	}
	switch m.IntN(n) {
	case 0:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}
	case 1:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_ComputedUserset{ComputedUserset: m.relation()}}
	case 2:
		u := &openfgav1.TupleToUserset{Tupleset: m.relation(), ComputedUserset: m.relation()}
		if m.IntN(12) == 0 {
			u.Tupleset = nil
		}
		if m.IntN(12) == 0 {
			u.ComputedUserset = nil
		}
		return &openfgav1.Userset{Userset: &openfgav1.Userset_TupleToUserset{TupleToUserset: u}}
	case 3:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Union{Union: operands()}}
	case 4:
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Intersection{Intersection: operands()}}
	case 5, 6:
		d := &openfgav1.Difference{Base: m.userset(depth - 1), Subtract: m.userset(depth - 1)}
		if m.IntN(12) == 0 {
			d.Base = nil
		}
		if m.IntN(12) == 0 {
			d.Subtract = nil
		}
		return &openfgav1.Userset{Userset: &openfgav1.Userset_Difference{Difference: d}}
	}
	return &openfgav1.Userset{}
}

func (m maker) parameter(depth int) *openfgav1.ConditionParamTypeRef {
	p := &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TypeName(m.IntN(12))}
	if m.IntN(20) == 0 {
		p.TypeName = openfgav1.ConditionParamTypeRef_TypeName([]int32{-1, 12, 1 << 20}[m.IntN(3)])
	}
	if depth > 0 && m.IntN(3) == 0 {
		for range 1 + m.IntN(6)*m.IntN(2) {
			p.GenericTypes = append(p.GenericTypes, m.parameter(depth-1))
		}
	}
	return p
}
