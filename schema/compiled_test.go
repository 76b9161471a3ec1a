package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// printer prints schemas and errors.
type printer struct{ strings.Builder }

func (p *printer) line(indent int, format string, args ...any) {
	fmt.Fprintf(p, "%s%s\n", strings.Repeat("  ", indent), fmt.Sprintf(format, args...))
}

// kindText returns a kind as it is in a type restriction.
func kindText(s *Schema, id KindID) string {
	if id == None {
		return "none"
	}
	k := s.Kinds[id]
	return SubjectType{Type: k.Type, Relation: k.Relation, Wildcard: k.Wildcard}.String()
}

func relationText(s *Schema, id RelationID) string {
	if id == None {
		return "none"
	}
	return s.Types[s.Relations[id].Type].Name + "#" + s.Relations[id].Name
}

func restrictionText(s *Schema, x *Restriction) string {
	return fmt.Sprintf("%s from %s, bare %v, conditions %q", kindText(s, x.Kind), relationText(s, x.Relation), x.Bare, x.Conditions)
}

// schema prints all that a schema consists of.
func (p *printer) schema(s *Schema) {
	p.line(0, "namespace %q, options %+v, %d bytes", s.Namespace, s.Options, s.Bytes())
	for i := range s.Types {
		t := &s.Types[i]
		p.line(0, "type %d %s: %s, %s", t.ID, t.Name, kindText(s, t.Plain), kindText(s, t.Wildcard))
		for _, name := range slices.Sorted(maps.Keys(t.Attributes)) {
			p.line(1, "attribute %s %s", name, t.Attributes[name])
		}
		for _, id := range s.RelationsOf(t) {
			found, ok := s.Relation(t.Name, s.Relations[id].Name)
			p.line(1, "relation %s, found %v", relationText(s, id), ok && found.ID == id)
		}
	}
	for i := range s.Kinds {
		id, ok := s.Kind(s.Kinds[i])
		p.line(0, "kind %d %s, found %v", i, kindText(s, KindID(i)), ok && id == KindID(i))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Conditions)) {
		p.line(0, "condition %s: %s, program %v", name, s.Conditions[name].Definition.Source, s.Conditions[name].Program != nil)
	}
	for i := range s.Relations {
		p.relation(s, &s.Relations[i])
	}
	back := s.Backward()
	for k, relations := range back.Naming {
		for _, r := range relations {
			p.line(0, "%s is named by tuples of %s", kindText(s, KindID(k)), relationText(s, r))
		}
	}
	p.uses(s, "read", back.Uses)
	p.uses(s, "followed", back.Arrows)
	for _, r := range back.Valued {
		p.line(0, "%s reads a value", relationText(s, r))
	}
}

func (p *printer) uses(s *Schema, how string, all [][]Use) {
	for r, uses := range all {
		for _, u := range uses {
			p.line(0, "%s is %s by %s: %s", relationText(s, RelationID(r)), how, relationText(s, u.To), stepText(s, u.Step))
		}
	}
}

func stepText(s *Schema, step Step) string {
	text := fmt.Sprintf("%s from %s, tuples of %s", step.Op, relationText(s, step.From), relationText(s, step.Tupleset))
	if step.Restriction != nil {
		text += ", " + restrictionText(s, step.Restriction)
	}
	return text
}

func (p *printer) relation(s *Schema, r *Relation) {
	p.line(0, "relation %d %s: hidden %v, kind %s, component %d, recursive %v, cycle %d, monotone %v, probe %v",
		r.ID, relationText(s, r.ID), r.Hidden, kindText(s, r.Kind), r.Component, r.Recursive, r.Cycle, r.Monotone, r.Probe)
	var reach []string
	for k := range KindID(len(s.Kinds)) {
		if r.Reach.Has(k) {
			reach = append(reach, kindText(s, k))
		}
	}
	p.line(1, "reach %s, any %v", strings.Join(reach, " "), r.ReachAny)
	for i := range r.Restrictions {
		p.line(1, "restriction %s", restrictionText(s, &r.Restrictions[i]))
	}
	p.expr(s, r.Expr, 1)
}

func (p *printer) expr(s *Schema, e *Expr, indent int) {
	text := e.Op.String() + " " + relationText(s, e.Relation)
	if e.Attribute != "" {
		text += " attribute " + e.Attribute
	}
	if e.Rule != nil {
		text += fmt.Sprintf(" rule %s%+v", e.Rule.Condition.Definition.Name, e.Rule.Args)
	}
	p.line(indent, "%s", text)
	for step := range e.Steps() {
		p.line(indent+1, "step %s", stepText(s, step))
	}
	for _, ch := range e.Children {
		p.expr(s, ch, indent+1)
	}
}

func arrowTo(relation string, r Rewrite) Rewrite {
	return Rewrite{Op: OpArrow, Relation: relation, Children: []Rewrite{r}}
}

func ruleOf(name string, args ...RuleArg) Rewrite {
	return Rewrite{Op: OpRule, Rule: &RuleCall{Name: name, Args: args}}
}

// definition returns a condition with parameters.
func definition(name string, params ...string) expr.Definition {
	d := expr.Definition{Name: name, Source: "source of " + name}
	for _, p := range params {
		d.Params = append(d.Params, expr.Param{Name: p, Type: expr.Type{Kind: expr.String}})
	}
	return d
}

// everyOperator returns a model with every operator, kind of restriction and class of
// cycles.
func everyOperator(o Options) *Model {
	conditional := relation("member", Direct(), "user", "group#member", "user:*")
	conditional.Subjects = append(conditional.Subjects, SubjectType{Type: "user", Condition: "c"}, SubjectType{Type: "user", Condition: "d"}, SubjectType{Type: "robot", Condition: "c"})
	attribute := Rewrite{Op: OpAttribute, Attribute: "public"}
	return &Model{Namespace: "ns", Options: o, Conditions: []expr.Definition{definition("c", "x", "y"), definition("d")}, Types: []TypeDef{
		{Name: "user"},
		{Name: "robot"},
		{Name: "group", Relations: []RelationDef{conditional, relation("owner", Direct(), "user")}},
		{Name: "folder", Attributes: []AttributeDef{{Name: "public", Type: expr.Type{Kind: expr.Bool}}}, Relations: []RelationDef{
			relation("parent", Direct(), "folder", "drive", "user", "folder:*"),
			relation("owner", Direct(), "user"),
			relation("viewer", Union(Direct(), Computed("owner"), Arrow("parent", "viewer")), "user", "group#member"),
			relation("banned", Direct(), "user"),
			relation("open", attribute),
		}},
		{Name: "drive", Relations: []RelationDef{relation("viewer", Direct(), "robot"), relation("owner", Direct(), "robot:*")}},
		{Name: "doc", Attributes: []AttributeDef{{Name: "public", Type: expr.Type{Kind: expr.Bool}}, {Name: "tags", Type: expr.Type{Kind: expr.List, Elem: &expr.Type{Kind: expr.String}}}}, Relations: []RelationDef{
			relation("parent", Direct(), "folder", "drive", "folder:*"),
			relation("owner", Direct(), "user"),
			relation("viewer", Union(Direct(), Exclusion(arrowTo("parent", Exclusion(Computed("viewer"), Computed("banned"))), Computed("owner"))), "user:*", "group#owner"),
			relation("open", attribute),
			relation("ruled", ruleOf("c", RuleArg{Param: "x", Attribute: "tags"}, RuleArg{Param: "y", Context: "key"})),
			relation("both", Intersection(Computed("owner"), Computed("viewer"), Computed("open"))),
			relation("apart", Intersection(Computed("owner"), Arrow("parent", "owner"))),
			relation("deep", arrowTo("parent", arrowTo("parent", Union(Computed("viewer"), Computed("owner"))))),
			relation("anyone", Union(Computed("ruled"), Intersection(Computed("open"), Computed("ruled")))),
			relation("folders", Arrow("parent", "open")),
			relation("this", Union(Direct(), Computed("that")), "user"),
			relation("that", Union(Direct(), Computed("this")), "robot"),
			relation("mixed", Intersection(Computed("mixes"), Computed("owner"))),
			relation("mixes", Direct(), "user", "doc#mixed"),
			relation("base", Exclusion(Direct(), Computed("owner")), "user", "doc#base"),
			relation("negative", Exclusion(Direct(), Union(Computed("owner"), Intersection(Computed("back"), Computed("owner")))), "user", "robot"),
			relation("back", Union(Computed("negative"), Computed("both"))),
		}},
	}}
}

// TestCompiled compares whole compiled schemas with a file.
func TestCompiled(t *testing.T) {
	t.Parallel()
	var p printer
	for _, o := range []Options{{}, {Dialect: "star", StarIsOrdinary: true, RequireEntrypoints: true}} {
		s, err := Compile(everyOperator(o), always{})
		if err != nil {
			t.Fatal(err)
		}
		p.schema(s)
	}
	golden.Equal(t, "testdata/compiled.txt", p.String())
}

// picky refuses some conditions.
type picky struct{ always }

var errPicky = errors.New("refused")

func (p picky) Compile(d expr.Definition) (expr.Program, error) {
	if strings.HasPrefix(d.Name, "bad") {
		return nil, fmt.Errorf("%w: %s", errPicky, d.Name)
	}
	return p.always.Compile(d)
}

// TestRefusedTexts compares the errors of refused models with a file: all parts of
// each error.
func TestRefusedTexts(t *testing.T) {
	t.Parallel()
	str := expr.Type{Kind: expr.String}
	doc := func(relations ...RelationDef) *Model {
		return &Model{Conditions: []expr.Definition{definition("c", "x")}, Types: []TypeDef{{Name: "user"},
			{Name: "group", Relations: []RelationDef{relation("member", Direct(), "user"), relation("none", Computed("member"))}},
			{Name: "doc", Attributes: []AttributeDef{{Name: "text", Type: str}}, Relations: relations}}}
	}
	subjects := func(all ...SubjectType) RelationDef {
		return RelationDef{Name: "r", Rewrite: Direct(), Subjects: all}
	}
	types := func(all ...TypeDef) *Model { return &Model{Types: all} }
	conditions := func(names ...string) *Model {
		m := types(TypeDef{Name: "user"})
		for _, n := range names {
			m.Conditions = append(m.Conditions, definition(n))
		}
		return m
	}
	strict, entry := doc(relation("p", Direct(), "group", "group:*"), relation("r", Arrow("p", "member"))), doc(
		relation("p", Direct(), "group"), relation("x", Direct(), "doc#y"), relation("y", Direct(), "doc#x"),
		relation("fine", Arrow("p", "member")), relation("z", Intersection(Computed("fine"), Computed("x"))), relation("w", Exclusion(Computed("fine"), Computed("x"))), relation("v", Union(Computed("x"), Computed("y"))))
	strict.Options.StrictTuplesets, entry.Options.RequireEntrypoints = true, true
	slash := types(TypeDef{Name: "a/b"})
	slash.Namespace = "ns"
	var p printer
	for _, c := range []struct {
		name  string
		model *Model
	}{
		{"conditions", conditions("a", "bad", "a", "b", "bad2", "bad")},
		{"type names", types(TypeDef{Name: ""}, TypeDef{Name: "a b"}, TypeDef{Name: "a:b"}, TypeDef{Name: "a#b"}, TypeDef{Name: "a@b"}, TypeDef{Name: "a/b"}, TypeDef{Name: "fine"}, TypeDef{Name: "fine"})},
		{"slash with a namespace", slash},
		{"attributes", types(TypeDef{Name: "a", Attributes: []AttributeDef{{"x", str}, {"x", str}, {"", str}, {"y:", str}, {"z", expr.Type{Kind: expr.Map}}}})},
		{"relation names", doc(relation("", Direct(), "user"), relation("a b", Direct(), "user"), relation("a:b", Direct(), "user"), relation("a/b", Direct(), "user"), relation("f", Direct(), "user"), relation("f", Direct(), "user"))},
		{"restrictions", doc(
			subjects(), RelationDef{Name: "s", Rewrite: Computed("r"), Subjects: plain("user")},
			RelationDef{Name: "t", Rewrite: Direct(), Subjects: []SubjectType{{Type: "robot"}, {Type: "user", Condition: "none"}, {Type: "group", Relation: "member", Wildcard: true},
				{Type: "group", Relation: "boss"}, {Type: "user"}, {Type: "user"}, {Type: "user", Condition: "c"}, {Type: "user", Condition: "c"}, {Type: "group", Relation: "member", Condition: "c"}}},
			RelationDef{Name: "nested", Rewrite: Union(Computed("s"), Intersection(Direct(), Computed("s")))})},
		{"rewrites", doc(relation("r", Computed("none")), relation("s", Union(Computed("r"), Computed("gone"))), relation("t", Rewrite{Op: OpAttribute, Attribute: "text"}), relation("u", Rewrite{Op: OpAttribute, Attribute: "none"}),
			relation("v", Rewrite{Op: 99}), relation("w", Rewrite{}))},
		{"rules", doc(relation("r", Rewrite{Op: OpRule}), relation("s", ruleOf("none")), relation("t", ruleOf("c", RuleArg{Param: "y", Context: "k"}, RuleArg{Param: "x", Attribute: "none"}, RuleArg{Param: "x"}, RuleArg{Param: "x", Attribute: "text", Context: "k"})))},
		{"arrows", doc(relation("p", Direct(), "group"), relation("q", Computed("p")), relation("a", Arrow("none", "member")), relation("b", Arrow("q", "member")), relation("c", arrowTo("p", Union(Computed("member"), Computed("none")))),
			relation("d", Arrow("p", "boss")), relation("e", arrowTo("p", Intersection(Computed("member"), Computed("boss")))), relation("f", arrowTo("p", arrowTo("none", Computed("x")))),
			relation("g", arrowTo("p", Rewrite{Op: OpAttribute, Attribute: "text"})))},
		{"strict tuplesets", strict},
		{"operands", doc(relation("wide", Union(slices.Repeat([]Rewrite{Union()}, OperandsMax+1)...)), relation("r", Union()), relation("s", Exclusion(Direct(), Intersection()), "user"), relation("t", Rewrite{Op: OpArrow}), relation("u", Rewrite{Op: OpComputed, Children: []Rewrite{Direct()}}))},
		{"entrypoints", entry},
	} {
		_, err := Compile(c.model, picky{})
		p.line(0, "%s", c.name)
		all, ok := err.(interface{ Unwrap() []error })
		if !ok {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, err := range all.Unwrap() {
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrModel) {
				t.Fatalf("%s: %v", c.name, err)
			}
			p.line(1, "%s", e)
			p.line(2, "reason %s, type %q, relation %q, condition %q, bound %v, of the compiler %v", e.Reason, e.Type, e.Relation, e.Condition, errors.Is(err, ErrBound), errors.Is(err, errPicky))
		}
	}
	golden.Equal(t, "testdata/refused.txt", p.String())
}

// TestStoppedAnywhere stops a compilation at each of its steps, by a bound and by its
// context. It returns one error only, since what it finds afterwards may be wrong.
func TestStoppedAnywhere(t *testing.T) {
	t.Parallel()
	m := chain(12, true, true, OpUnion)
	for _, name := range []string{"mixed", "wide"} {
		more := chain(12, name == "mixed", name == "mixed", OpIntersection).Types[1]
		more.Name = name
		m.Types = append(m.Types, more)
	}
	for i := range m.Types[2].Relations { // so that all relations have an entrypoint
		m.Types[2].Relations[i].Rewrite.Op = OpUnion
	}
	m.Types[2].Relations = append(m.Types[2].Relations,
		RelationDef{Name: "x", Rewrite: Union(Direct(), Intersection(Computed("y"), Computed("r0"))), Subjects: plain("user")},
		RelationDef{Name: "y", Rewrite: Union(Direct(), Computed("x")), Subjects: plain("user")},
		relation("parent", Direct(), "mixed", "wide"), relation("z", arrowTo("parent", Union(Computed("r1"), Computed("x")))))
	whole := newCompilation(t.Context(), m)
	if _, err := whole.run(nil); err != nil {
		t.Fatal(err)
	}
	stop := func(what string, steps, worked int) {
		c := newCompilation(t.Context(), m)
		c.steps, c.worked = steps, worked
		_, err := c.run(nil)
		if !errors.Is(err, ErrBound) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for n := range whole.steps {
		stop(fmt.Sprintf("after %d steps", n), StepsMax-n, 0)
	}
	for n := range whole.worked {
		stop(fmt.Sprintf("after %d steps of the analysis", n), 0, AnalysisMax-n)
	}
}
