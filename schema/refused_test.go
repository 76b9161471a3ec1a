package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/expr"
)

// TestErrorTexts checks the whole text of errors: the part of the model and the
// reason.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	strict := Options{StrictTuplesets: true}
	arrow := func(r Rewrite) Rewrite { return Rewrite{Op: OpArrow, Relation: "p", Children: []Rewrite{r}} }
	for _, c := range []struct {
		want      string
		options   Options
		relations []RelationDef
	}{
		{`doc#r: the arrow's first relation "p" is not defined on type "doc"`, Options{}, []RelationDef{relation("r", Arrow("p", "x"))}},
		{`doc#r: "p" is the first relation of an arrow, but it cannot have tuples`, Options{}, []RelationDef{relation("q", Direct(), "group"), relation("p", Computed("q")), relation("r", Arrow("p", "member"))}},
		{`doc#r: "p" is the first relation of an arrow, so it must be direct only and admit plain types only`, strict,
			[]RelationDef{relation("p", Direct(), "group", "group#member"), relation("r", Arrow("p", "member"))}},
		{`doc#r: "p" is the first relation of an arrow, so it must be direct only and admit plain types only`, strict,
			[]RelationDef{relation("p", Direct(), "group:*"), relation("r", Arrow("p", "member"))}},
		{`doc#r: "p" is the first relation of an arrow, so it must be direct only and admit plain types only`, strict,
			[]RelationDef{relation("other", Direct(), "user"), relation("p", Union(Direct(), Computed("other")), "group"), relation("r", Arrow("p", "member"))}},
		{"", strict, []RelationDef{relation("other", Direct(), "user:*"), relation("p", Direct(), "group"), relation("r", Arrow("p", "member"))}},
		{"doc#r: an expression under an arrow cannot be direct", Options{}, []RelationDef{relation("p", Direct(), "group"), relation("r", arrow(Direct()), "user")}},
		{`doc#r: none of the types that "p" admits has the relation under the arrow (boss)`, Options{}, []RelationDef{relation("p", Direct(), "group"), relation("r", Arrow("p", "boss"))}},
		{"doc#r: union has 0 operands, expected one or more", Options{}, []RelationDef{relation("r", Union())}},
		{"doc#r: exclusion has 1 operands, expected 2", Options{}, []RelationDef{relation("r", Rewrite{Op: OpExclusion, Children: []Rewrite{Direct()}}, "user")}},
		{"doc#r: direct has 1 operands, expected 0", Options{}, []RelationDef{relation("r", Rewrite{Op: OpDirect, Children: []Rewrite{Direct()}}, "user")}},
	} {
		_, err := Compile(&Model{Options: c.options, Types: []TypeDef{{Name: "user"},
			{Name: "group", Relations: []RelationDef{relation("member", Direct(), "user")}}, {Name: "doc", Relations: c.relations}}}, nil)
		if (err != nil || c.want != "") && (err == nil || err.Error() != "invalid model: "+c.want) {
			t.Errorf("got  %v\nwant invalid model: %s", err, c.want)
		}
	}
}

// TestModelBounds compiles models at each bound of a model and one above.
func TestModelBounds(t *testing.T) {
	t.Parallel()
	if got, want := [...]int{TypesMax, RelationsMax, RestrictionsMax, OperandsMax, RewriteDepthMax, ConditionsMax, AttributesMax, TypeLevelsMax, StepsMax, AnalysisMax},
		[...]int{10_000, 20_000, 1_000, 1_000, 100, 1_000, 1_000, 100, 500_000, 5_000_000}; got != want {
		t.Errorf("the bounds are %v, want %v", got, want)
	}
	name := func(prefix string, i int) string { return fmt.Sprintf("%s%d", prefix, i) }
	for what, c := range map[string]struct {
		max  int
		make func(n int) *Model
	}{
		"types": {TypesMax, func(n int) *Model {
			m := &Model{}
			for i := range n {
				m.Types = append(m.Types, TypeDef{Name: name("t", i)})
			}
			return m
		}},
		"relations": {RelationsMax, func(n int) *Model {
			m := &Model{Types: []TypeDef{{Name: "user"}, {Name: "doc"}}}
			for i := range n {
				d := &m.Types[i%2]
				d.Relations = append(d.Relations, relation(name("r", i), Direct(), "user"))
			}
			return m
		}},
		"type restrictions": {RestrictionsMax, func(n int) *Model {
			m := &Model{}
			var subjects []string
			for i := range n {
				m.Types = append(m.Types, TypeDef{Name: name("t", i)})
				subjects = append(subjects, name("t", i))
			}
			m.Types[0].Relations = []RelationDef{relation("r", Direct(), subjects...)}
			return m
		}},
		"conditions": {ConditionsMax, func(n int) *Model {
			m := &Model{Types: []TypeDef{{Name: "user"}}}
			for i := range n {
				m.Conditions = append(m.Conditions, expr.Definition{Name: name("c", i), Source: "true"})
			}
			return m
		}},
		"levels of a type": {TypeLevelsMax, func(n int) *Model {
			deep := expr.Type{Kind: expr.Bool}
			for range n - 1 {
				of := deep
				deep = expr.Type{Kind: expr.List, Elem: &of}
			}
			return &Model{Types: []TypeDef{{Name: "user"}}, Conditions: []expr.Definition{{Name: "c", Source: "true", Params: []expr.Param{{Name: "p", Type: deep}}}}}
		}},
		"attributes": {AttributesMax, func(n int) *Model {
			m := &Model{Types: []TypeDef{{Name: "user"}}}
			for i := range n {
				m.Types[0].Attributes = append(m.Types[0].Attributes, AttributeDef{Name: name("a", i), Type: expr.Type{Kind: expr.Bool}})
			}
			return m
		}},
	} {
		if _, err := Compile(c.make(c.max), always{}); err != nil {
			t.Errorf("%d %s: %v", c.max, what, err)
		}
		_, err := Compile(c.make(c.max+1), always{})
		var e *Error
		if want := fmt.Sprintf("%d %s, the maximum is %d", c.max+1, what, c.max); !errors.As(err, &e) || !errors.Is(err, ErrBound) || e.Reason != ReasonBound || !strings.HasSuffix(e.Text, want) {
			t.Errorf("%d %s: %v, want %q", c.max+1, what, err, want)
		}
	}
}

// TestAttributeTypes checks which types an attribute may have: scalars and lists
// of scalars.
func TestAttributeTypes(t *testing.T) {
	t.Parallel()
	kind := func(k expr.Kind) *expr.Type { return &expr.Type{Kind: k} }
	list := func(of *expr.Type) expr.Type { return expr.Type{Kind: expr.List, Elem: of} }
	for _, c := range []struct {
		typ  expr.Type
		want bool
	}{
		{*kind(expr.Bool), true}, {*kind(expr.String), true}, {*kind(expr.IPAddress), true}, {list(kind(expr.Bool)), true}, {list(kind(expr.IPAddress)), true},
		{expr.Type{}, false}, {*kind(expr.List), false}, {*kind(expr.Map), false}, {*kind(expr.IPAddress + 1), false}, {list(kind(expr.List)), false}, {list(kind(expr.Map)), false},
		{list(&expr.Type{Kind: expr.String, Elem: kind(expr.String)}), false}, {expr.Type{Kind: expr.Bool, Elem: kind(expr.Bool)}, false},
	} {
		_, err := Compile(&Model{Types: []TypeDef{{Name: "user", Attributes: []AttributeDef{{Name: "a", Type: c.typ}}}}}, nil)
		if (err == nil) != c.want {
			t.Errorf("type %v: %v, want accepted %v", c.typ, err, c.want)
		}
	}
}

// TestEntrypoints checks which relations can get a member, if RequireEntrypoints is
// set: an arrow can if one of the relations at its end can.
func TestEntrypoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want   bool
		member []RelationDef
	}{
		"an arrow to a relation with members":       {true, []RelationDef{relation("member", Direct(), "user")}},
		"an arrow to a relation of only its own":    {false, []RelationDef{relation("member", Direct(), "group#member")}},
		"a union of both":                           {true, []RelationDef{relation("own", Direct(), "group#own", "user"), relation("member", Union(Computed("own"), Direct()), "group#member")}},
		"an intersection with one that has none":    {false, []RelationDef{relation("own", Direct(), "user"), relation("member", Intersection(Computed("own"), Direct()), "group#member")}},
		"an exclusion of one that has none":         {true, []RelationDef{relation("own", Direct(), "user"), relation("none", Direct(), "group#own"), relation("member", Exclusion(Computed("own"), Computed("none")))}},
		"an exclusion from one that has none":       {false, []RelationDef{relation("own", Direct(), "user"), relation("member", Exclusion(Direct(), Computed("own")), "group#member")}},
		"two relations that only lead to the other": {false, []RelationDef{relation("other", Direct(), "group#member"), relation("member", Direct(), "group#other")}},
	} {
		_, err := Compile(&Model{Options: Options{RequireEntrypoints: true}, Types: []TypeDef{{Name: "user"}, {Name: "group", Relations: c.member},
			{Name: "doc", Relations: []RelationDef{relation("p", Direct(), "group"), relation("r", Arrow("p", "member"))}}}}, nil)
		var e *Error
		if (err == nil) != c.want || err != nil && (!errors.As(err, &e) || e.Reason != ReasonEntrypoint) {
			t.Errorf("%s: %v, want accepted %v", name, err, c.want)
		}
	}
}

// TestFirstErrors checks that at most ErrorsMax errors are reported.
func TestFirstErrors(t *testing.T) {
	t.Parallel()
	wrong := slices.Repeat([]RelationDef{relation("r", Direct(), "robot")}, 3*ErrorsMax)
	for i := range wrong {
		wrong[i].Name = fmt.Sprintf("r%d", i)
	}
	_, err := Compile(&Model{Types: []TypeDef{{Name: "doc", Relations: wrong}}}, nil)
	if n := strings.Count(err.Error(), `type "robot"`); n != ErrorsMax {
		t.Errorf("%d errors, want %d: %v", n, ErrorsMax, err)
	}
	for _, name := range []string{"same", "bad"} { // each after the first is a duplicate; none of them compiles
		_, err := Compile(&Model{Conditions: slices.Repeat([]expr.Definition{definition(name)}, 2*ErrorsMax)}, picky{})
		if n := len(unwrapped(err)); n != ErrorsMax {
			t.Errorf("conditions %s: %d errors, want %d: %v", name, n, ErrorsMax, err)
		}
	}
}
