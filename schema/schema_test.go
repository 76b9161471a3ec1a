package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

func plain(names ...string) (out []SubjectType) {
	for _, n := range names {
		typ, relation, _ := strings.Cut(n, "#")
		typ, star := strings.CutSuffix(typ, ":*")
		out = append(out, SubjectType{Type: typ, Relation: relation, Wildcard: star})
	}
	return out
}

func relation(name string, r Rewrite, subjects ...string) RelationDef {
	return RelationDef{Name: name, Rewrite: r, Subjects: plain(subjects...)}
}

func compile(t *testing.T, relations ...RelationDef) *Schema {
	t.Helper()
	s, err := Compile(&Model{Types: []TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []RelationDef{relation("member", Direct(), "user", "group#member")}},
		{Name: "doc", Relations: relations},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func doc(t *testing.T, s *Schema, name string) *Relation {
	t.Helper()
	r, ok := s.Relation("doc", name)
	if !ok {
		t.Fatalf("the schema has no relation doc#%s", name)
	}
	return r
}

func TestReach(t *testing.T) {
	s := compile(t,
		relation("owner", Direct(), "user"),
		relation("shared", Direct(), "user:*", "group#member"),
		relation("both", Intersection(Computed("owner"), Computed("shared"))),
		relation("groups", Intersection(Computed("shared"), Computed("team"))),
		relation("team", Direct(), "group#member"),
		relation("not", Exclusion(Computed("team"), Computed("owner"))),
	)
	reaches := func(name, subject string) bool {
		sub, err := rel.ParseSubject(subject)
		if err != nil {
			t.Fatal(err)
		}
		return doc(t, s, name).Reaches(s.SubjectKind(sub))
	}
	for _, c := range []struct {
		relation, subject string
		want              bool
	}{
		{"owner", "user:1", true},
		{"owner", "user:*", false},
		{"owner", "group:1", false},
		{"owner", "group:1#member", false},
		{"owner", "doc:1#owner", true}, // a userset is a member of itself
		{"shared", "user:1", true},     // by the wildcard
		{"shared", "user:*", true},
		{"shared", "group:1#member", true},
		{"both", "user:1", true},
		{"both", "group:1#member", false},
		{"both", "doc:1#both", true},
		{"groups", "group:1#member", true},
		{"not", "group:1#member", true},
		{"not", "robot:1", false},
	} {
		if got := reaches(c.relation, c.subject); got != c.want {
			t.Errorf("doc#%s.Reaches(%s) = %v, want %v", c.relation, c.subject, got, c.want)
		}
	}
}

func TestCycleClasses(t *testing.T) {
	s := compile(t,
		relation("plain", Direct(), "user", "doc#plain"),
		relation("flat", Direct(), "user"),
		relation("mixed", Intersection(Computed("mx"), Computed("flat"))),
		relation("mx", Direct(), "user", "doc#mixed"),
		relation("base", Exclusion(Direct(), Computed("flat")), "user", "doc#base"),
		relation("negative", Exclusion(Direct(), Computed("n2")), "user"),
		relation("n2", Computed("negative")),
		relation("stratified", Exclusion(Direct(), Computed("plain")), "user"),
	)
	for _, c := range []struct {
		name      string
		recursive bool
		cycle     CycleClass
		monotone  bool
		probe     bool
	}{
		{"plain", true, CyclePlain, true, false},
		{"flat", false, CyclePlain, true, true},
		{"mixed", true, CycleMixed, false, false},
		{"mx", true, CycleMixed, false, false},
		{"base", true, CycleMixed, false, false},
		{"negative", true, CycleNegative, false, false},
		{"stratified", false, CyclePlain, false, false},
	} {
		r := doc(t, s, c.name)
		if r.Recursive != c.recursive || r.Cycle != c.cycle || r.Monotone != c.monotone || r.Probe != c.probe {
			t.Errorf("%s: recursive %v, cycle %v, monotone %v, probe %v; want %+v", c.name, r.Recursive, r.Cycle, r.Monotone, r.Probe, c)
		}
	}
	if doc(t, s, "stratified").Component <= doc(t, s, "plain").Component {
		t.Error("the component of a relation is not above the component of its dependency")
	}
}

func TestArrowOverExpression(t *testing.T) {
	m := &Model{Namespace: "p1", Types: []TypeDef{
		{Name: "user"},
		{Name: "folder", Relations: []RelationDef{
			relation("reader", Direct(), "user"), relation("banned", Direct(), "user")}},
		{Name: "drive", Relations: []RelationDef{relation("reader", Direct(), "user")}},
		{Name: "doc", Relations: []RelationDef{
			relation("parent", Direct(), "folder", "drive", "user"),
			{Name: "read", Rewrite: Rewrite{Op: OpArrow, Relation: "parent",
				Children: []Rewrite{Exclusion(Computed("reader"), Computed("banned"))}}},
		}},
	}}
	s, err := Compile(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := s.Relation("p1/doc", "read")
	if len(r.Expr.Via) != 2 {
		t.Fatalf("the arrow has %d targets, want 2: on folder and on drive", len(r.Expr.Via))
	}
	folder, drive := &s.Relations[r.Expr.Via[0].Target], &s.Relations[r.Expr.Via[1].Target]
	if !folder.Hidden || folder.Expr.Op != OpExclusion {
		t.Errorf("the target on folder is %+v, want a hidden exclusion", folder)
	}
	if drive.Expr.Op != OpComputed {
		t.Errorf("the target on drive is %+v, want the base of the exclusion, because drive lacks banned", drive.Expr)
	}
	if typ, _ := s.Type("p1/doc"); len(s.RelationsOf(typ)) != 2 {
		t.Error("RelationsOf lists hidden relations")
	}
}

func TestErrors(t *testing.T) {
	deep := Direct()
	for range RewriteDepthMax {
		deep = Union(deep)
	}
	wide := Union(make([]Rewrite, OperandsMax+1)...)
	for _, c := range []struct {
		name      string
		relations []RelationDef
		options   Options
		reason    Reason
	}{
		{"no restrictions", []RelationDef{relation("r", Direct())}, Options{}, ReasonRestrictions},
		{"needless restrictions", []RelationDef{relation("r", Direct(), "user"), relation("s", Computed("r"), "user")}, Options{}, ReasonRestrictions},
		{"unknown type", []RelationDef{relation("r", Direct(), "robot")}, Options{}, ReasonUndefinedType},
		{"unknown userset", []RelationDef{relation("r", Direct(), "group#boss")}, Options{}, ReasonUndefinedRelation},
		{"unknown computed", []RelationDef{relation("r", Computed("x"))}, Options{}, ReasonUndefinedRelation},
		{"unknown before arrow", []RelationDef{relation("r", Arrow("p", "x"))}, Options{}, ReasonUndefinedRelation},
		{"unknown after arrow", []RelationDef{relation("p", Direct(), "user"), relation("r", Arrow("p", "x"))}, Options{}, ReasonUndefinedRelation},
		{"computed before arrow", []RelationDef{relation("q", Direct(), "group"), relation("p", Computed("q")), relation("r", Arrow("p", "member"))}, Options{}, ReasonTupleset},
		{"usersets before a strict arrow", []RelationDef{relation("p", Direct(), "group", "group#member"), relation("r", Arrow("p", "member"))}, Options{StrictTuplesets: true}, ReasonTupleset},
		{"twice", []RelationDef{relation("r", Direct(), "user"), relation("r", Direct(), "user")}, Options{}, ReasonDuplicate},
		{"restriction twice", []RelationDef{relation("r", Direct(), "user", "user")}, Options{}, ReasonDuplicate},
		{"name", []RelationDef{relation("a b", Direct(), "user")}, Options{}, ReasonName},
		{"no entry", []RelationDef{relation("r", Direct(), "doc#r")}, Options{RequireEntrypoints: true}, ReasonEntrypoint},
		{"loop", []RelationDef{relation("r", Computed("s")), relation("s", Computed("r"))}, Options{RequireEntrypoints: true}, ReasonEntrypoint},
		{"one operand", []RelationDef{relation("r", Rewrite{Op: OpExclusion, Children: []Rewrite{Direct()}}, "user")}, Options{}, ReasonRewrite},
		{"deep", []RelationDef{relation("r", deep, "user")}, Options{}, ReasonBound},
		{"wide", []RelationDef{relation("r", wide, "user")}, Options{}, ReasonBound},
	} {
		_, err := Compile(&Model{Options: c.options, Types: []TypeDef{{Name: "user"},
			{Name: "group", Relations: []RelationDef{relation("member", Direct(), "user")}},
			{Name: "doc", Relations: c.relations}}}, nil)
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrModel) || e.Reason != c.reason {
			t.Errorf("%s: %v, want reason %q", c.name, err, c.reason)
		}
	}
}

func TestBoundsAreReached(t *testing.T) {
	deep := Direct()
	for range RewriteDepthMax - 1 {
		deep = Union(deep)
	}
	operands := slices.Repeat([]Rewrite{Computed("flat")}, OperandsMax)
	compile(t, relation("flat", Direct(), "user"), relation("deep", deep, "user"), relation("wide", Union(operands...)))
}

func TestHostileDepth(t *testing.T) {
	deep := Direct()
	for range 100_000 {
		deep = Rewrite{Op: OpUnion, Children: []Rewrite{deep}}
	}
	_, err := Compile(&Model{Types: []TypeDef{{Name: "user"}, {Name: "doc", Relations: []RelationDef{relation("r", deep, "user")}}}}, nil)
	if !errors.Is(err, ErrBound) {
		t.Fatal(err)
	}
}

// Each way from a subject to a relation is found backwards, under every
// operator, and a relation that is read twice is listed twice.
func TestBackward(t *testing.T) {
	s := compile(t,
		relation("parent", Direct(), "doc"),
		relation("owner", Direct(), "user", "group#member"),
		relation("viewer", Union(Direct(), Exclusion(Computed("owner"), Arrow("parent", "viewer"))), "user", "user:*"),
		relation("both", Intersection(Computed("owner"), Arrow("parent", "owner"), Computed("owner"))),
	)
	id := func(name string) RelationID { return doc(t, s, name).ID }
	back := s.Backward()
	group, _ := s.Relation("group", "member")
	for subject, want := range map[string][]RelationID{
		"user:1":         {group.ID, id("owner"), id("viewer")},
		"user:*":         {id("viewer")},
		"group:1#member": {group.ID, id("owner")},
		"doc:1":          {id("parent")},
		"doc:1#viewer":   nil,
	} {
		sub, err := rel.ParseSubject(subject)
		if err != nil {
			t.Fatal(err)
		}
		if got := back.Naming[s.SubjectKind(sub)]; !slices.Equal(got, want) {
			t.Errorf("tuples of the relations %v may name %s, want %v", got, subject, want)
		}
	}
	type use struct {
		to RelationID
		op Op
	}
	short := func(uses []Use) (out []use) {
		for _, u := range uses {
			out = append(out, use{u.To, u.Op})
		}
		return out
	}
	viewer, both := id("viewer"), id("both")
	if got, want := short(back.Uses[id("owner")]), []use{{viewer, OpComputed}, {both, OpComputed}, {both, OpArrow}, {both, OpComputed}}; !slices.Equal(got, want) {
		t.Errorf("uses of owner: %v, want %v", got, want)
	}
	if got, want := short(back.Uses[viewer]), []use{{viewer, OpArrow}}; !slices.Equal(got, want) {
		t.Errorf("uses of viewer: %v, want %v", got, want)
	}
	if got, want := short(back.Arrows[id("parent")]), []use{{viewer, OpArrow}, {both, OpArrow}}; !slices.Equal(got, want) {
		t.Errorf("arrows from parent: %v, want %v", got, want)
	}
}

// TestUnionsOnly checks which expressions contain no operator but unions.
func TestUnionsOnly(t *testing.T) {
	t.Parallel()
	leaf := &Expr{Op: OpComputed}
	for name, c := range map[string]struct {
		e    *Expr
		want bool
	}{
		"leaf":               {leaf, true},
		"union":              {&Expr{Op: OpUnion, Children: []*Expr{leaf, {Op: OpUnion, Children: []*Expr{leaf}}}}, true},
		"arrow":              {&Expr{Op: OpArrow, Children: []*Expr{leaf}}, true},
		"intersection":       {&Expr{Op: OpIntersection, Children: []*Expr{leaf, leaf}}, false},
		"exclusion":          {&Expr{Op: OpExclusion, Children: []*Expr{leaf, leaf}}, false},
		"attribute":          {&Expr{Op: OpAttribute}, false},
		"rule":               {&Expr{Op: OpRule}, false},
		"under a union":      {&Expr{Op: OpUnion, Children: []*Expr{leaf, {Op: OpIntersection, Children: []*Expr{leaf}}}}, false},
		"first of a union":   {&Expr{Op: OpUnion, Children: []*Expr{{Op: OpRule}, leaf}}, false},
		"under two of these": {&Expr{Op: OpUnion, Children: []*Expr{{Op: OpUnion, Children: []*Expr{leaf, {Op: OpAttribute}}}, leaf}}, false},
	} {
		if got := unionOnly(c.e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestKindSet adds, joins, compares and removes kinds at the edges of the words and
// the blocks of a set, and checks that a change of one set does not change another.
func TestKindSet(t *testing.T) {
	t.Parallel()
	const kinds = 1600
	edges := []KindID{0, 1, 63, 64, 127, 128, 191, 511, 512, 1023, 1024, 1599}
	build := func(ids ...KindID) *kindSetBuilder {
		b := newKindSetBuilder(kinds)
		for _, id := range ids {
			b.add(id)
		}
		return b
	}
	expect := func(what string, s KindSet, ids ...KindID) {
		t.Helper()
		for k := KindID(-2); k < kinds+600; k++ {
			if s.Has(k) != slices.Contains(ids, k) {
				t.Errorf("%s: %d: %v", what, k, s.Has(k))
			}
		}
	}
	all := build(append(edges, None)...)
	expect("added", all.set, edges...)

	lower, upper := build(edges[:6]...), build(edges[6:]...)
	joined := build(7)
	joined.addAll(lower.set)
	joined.addAll(upper.set)
	joined.addAll(nil)
	expect("joined", joined.set, append([]KindID{7}, edges...)...)
	expect("lower", lower.set, edges[:6]...)

	shared := build()
	shared.addAll(all.set)
	if shared.set[0] != all.set[0] {
		t.Error("a block is copied although the sets share it")
	}
	shared.add(5)
	shared.add(600)
	expect("changed", shared.set, append([]KindID{5, 600}, edges...)...)
	expect("not changed", all.set, edges...)

	shared.keep(lower.set)
	expect("kept", shared.set, edges[:6]...)
	joined.keep(all.set)
	expect("kept of both", joined.set, edges...)
	expect("all", all.set, edges...)
	shared.keep(nil)
	expect("nothing kept", shared.set)
	if !joined.set.equal(all.set) || joined.set.equal(lower.set) || lower.set.equal(joined.set) || !KindSet(nil).equal(build().set) || all.set.equal(nil) {
		t.Error("equal")
	}
}

// TestRefusedModels checks errors of types, attributes, conditions and rules, and that
// all of them are found.
func TestRefusedModels(t *testing.T) {
	t.Parallel()
	condition := []expr.Definition{{Name: "c", Source: "true"}}
	rule := func(r *RuleCall) []TypeDef {
		return []TypeDef{{Name: "doc", Relations: []RelationDef{{Name: "r", Rewrite: Rewrite{Op: OpRule, Rule: r}}}}}
	}
	attribute := func(name string) []TypeDef {
		return []TypeDef{{Name: "doc", Attributes: []AttributeDef{{Name: "ok", Type: expr.Type{Kind: expr.Bool}}, {Name: "n", Type: expr.Type{Kind: expr.Int}}},
			Relations: []RelationDef{{Name: "r", Rewrite: Rewrite{Op: OpAttribute, Attribute: name}}}}}
	}
	for name, c := range map[string]struct {
		model Model
		want  []Reason
	}{
		"no compiler":      {Model{Conditions: condition, Types: []TypeDef{{Name: "user"}}}, nil},
		"type twice":       {Model{Types: []TypeDef{{Name: "a"}, {Name: "a"}, {Name: "b c"}}}, []Reason{ReasonDuplicate, ReasonName}},
		"rule of nothing":  {Model{Types: rule(nil)}, []Reason{ReasonRewrite}},
		"unknown rule":     {Model{Types: rule(&RuleCall{Name: "none"})}, []Reason{ReasonUndefinedCondition}},
		"attribute":        {Model{Types: attribute("ok")}, []Reason{}},
		"no attribute":     {Model{Types: attribute("none")}, []Reason{ReasonUndefinedAttribute}},
		"no bool":          {Model{Types: attribute("n")}, []Reason{ReasonUndefinedAttribute}},
		"several mistakes": {Model{Types: append(attribute("ok"), TypeDef{Name: "doc"}, TypeDef{Name: "x#y"})}, []Reason{ReasonDuplicate, ReasonName}},
	} {
		s, err := Compile(&c.model, nil)
		if c.want == nil {
			if !errors.Is(err, ErrNoCompiler) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if len(c.want) == 0 {
			if _, known := s.Relation("nothing", "r"); err != nil || known {
				t.Errorf("%s: %v", name, err)
			}
			if _, known := s.Relation("doc", "none"); known {
				t.Errorf("%s: an unknown relation is found", name)
			}
			continue
		}
		var found []Reason
		for _, line := range unwrapped(err) {
			if e, ok := errors.AsType[*Error](line); ok {
				found = append(found, e.Reason)
			}
		}
		slices.Sort(found)
		slices.Sort(c.want)
		if !slices.Equal(found, c.want) {
			t.Errorf("%s: %v, want %v (%v)", name, found, c.want, err)
		}
	}
}

// unwrapped returns the errors that err joins.
func unwrapped(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var out []error
		for _, e := range all.Unwrap() {
			out = append(out, unwrapped(e)...)
		}
		return out
	}
	return []error{err}
}

// TestSuggestions checks the similar names that error texts give.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	s := compile(t, relation("viewer", Direct(), "user"), relation("can_view", Computed("viewer")))
	for names, want := range map[[2]string]string{
		{"docs", ""}: ` (did you mean "doc"?)`, {"grop", ""}: ` (did you mean "group"?)`, {"planet", ""}: "", {"doc", "veiwer"}: ` (did you mean "viewer"?)`,
		{"doc", "can_veiw"}: ` (did you mean "can_view"?)`, {"doc", "zzz"}: "", {"docs", "viewer"}: "",
	} {
		if got := s.Suggestion(names[0], names[1]); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
	many := &Model{}
	for i := range 5000 { // more than are compared
		many.Types = append(many.Types, TypeDef{Name: fmt.Sprintf("type%d", i)})
	}
	s, err := Compile(many, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Suggestion("tpye7", ""); got != ` (did you mean "type7"?)` {
		t.Errorf("the best of the first types is %q", got)
	}
}

// TestPrune leaves out of a rewrite the relations that a type lacks.
func TestPrune(t *testing.T) {
	t.Parallel()
	has := func(name string) bool { return name == "a" || name == "b" }
	a, b, x := Computed("a"), Computed("b"), Computed("x")
	for name, c := range map[string]struct {
		in   Rewrite
		want Rewrite
		ok   bool
	}{
		"known":                 {a, a, true},
		"unknown":               {x, x, false},
		"union":                 {Union(x, a, x, b), Union(a, b), true},
		"empty union":           {Union(x, x), Union(), false},
		"intersection":          {Intersection(a, b), Intersection(a, b), true},
		"no intersection":       {Intersection(a, x), Intersection(a), false},
		"exclusion":             {Exclusion(a, b), Exclusion(a, b), true},
		"nothing excluded":      {Exclusion(a, x), a, true},
		"excluded from nothing": {Exclusion(x, a), Exclusion(x, a), false},
		"nested":                {Union(Intersection(a, x), Exclusion(b, Union(x))), Union(b), true},
	} {
		got, ok := prune(&c.in, has)
		if ok != c.ok || ok && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, c.want)
		}
	}
}

// TestBadNames checks the characters that names must not have.
func TestBadNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": " ", "a": "", "a b": " ", "a\n": "\n", "\x7f": "\x7f", "a:b": ":", "é": "", "a~!": "", "\x1f": "\x1f"} {
		if got := badName(name, ":#"); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestAdmits checks which conditions of a tuple a restriction admits, and that a caller
// may stop reading steps.
func TestAdmits(t *testing.T) {
	t.Parallel()
	for _, bare := range []bool{false, true} {
		r := Restriction{Bare: bare, Conditions: []string{"a", "b"}}
		for condition, want := range map[string]bool{"": bare, "a": true, "b": true, "c": false} {
			if got := r.Admits(condition); got != want {
				t.Errorf("%+v admits %q: %v", r, condition, got)
			}
		}
	}
	two := []Restriction{{}, {}}
	for _, e := range []*Expr{{Op: OpDirect, Direct: two}, {Op: OpArrow, Via: []Via{{}, {}}}, {Op: OpComputed}} {
		n := 0
		for range e.Steps() {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%s has no steps", e.Op)
		}
	}
}
