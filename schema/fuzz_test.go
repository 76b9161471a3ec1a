package schema

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

type always struct{}

func (always) Compile(expr.Definition) (expr.Program, error) { return always{}, nil }
func (always) Eval(_, _ expr.Values, _ rel.Time) expr.Result { return expr.Result{Value: expr.True} }

// Compile either rejects a model with ErrModel, or compiles it. The JSON form of
// a compiled model compiles to the same schema.
func FuzzCompile(f *testing.F) {
	for _, m := range []Model{
		{Types: []TypeDef{{Name: "user"}, {Name: "doc", Relations: []RelationDef{
			relation("parent", Direct(), "doc"), relation("viewer", Union(Direct(), Arrow("parent", "viewer")), "user", "doc#viewer"),
			{Name: "x", Rewrite: Rewrite{Op: OpArrow, Relation: "parent", Children: []Rewrite{Exclusion(Computed("viewer"), Computed("x"))}}}}}}},
		{Conditions: []expr.Definition{{Name: "c", Params: []expr.Param{{Name: "p"}}}}, Types: []TypeDef{
			{Name: "u", Attributes: []AttributeDef{{"on", expr.Type{Kind: expr.Bool}}}, Relations: []RelationDef{
				{Name: "r", Rewrite: Rewrite{Op: OpRule, Rule: &RuleCall{"c", []RuleArg{{Param: "p", Attribute: "on"}}}}},
				{Name: "a", Rewrite: Rewrite{Op: OpAttribute, Attribute: "on"}}}}}},
	} {
		text, _ := json.Marshal(m)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var m Model
		if json.Unmarshal(text, &m) != nil {
			return
		}
		s, err := Compile(&m, always{})
		if err != nil {
			if !errors.Is(err, ErrModel) {
				t.Fatalf("error %v does not wrap ErrModel", err)
			}
			return
		}
		again, err := json.Marshal(s.Model())
		if err != nil {
			t.Fatal(err)
		}
		var m2 Model
		if err := json.Unmarshal(again, &m2); err != nil {
			t.Fatal(err)
		}
		s2, err := Compile(&m2, always{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s.Relations, s2.Relations) || !reflect.DeepEqual(s.Kinds, s2.Kinds) {
			t.Fatal("the JSON form of the model compiles to another schema")
		}
	})
}
