package openfga

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// inlineProgramsMax bounds the compiled inline expressions kept per schema.
const inlineProgramsMax = 1000

// Conditions is an [expr.Compiler] that also compiles the condition "$expression".
// Each tuple with this condition has its own expression: the stored context of the
// tuple contains "expression" and, optionally, "parameters" with their types. In an
// engine without it, the condition of such a tuple is false.
type Conditions struct {
	// Inner compiles all conditions, and the expressions of tuples.
	Inner expr.Compiler
}

// Compile implements [expr.Compiler].
func (c Conditions) Compile(def expr.Definition) (expr.Program, error) {
	if def.Name == language.InlineCondition {
		return &inline{compiler: c.Inner, programs: map[string]expr.Program{}}, nil
	}
	return c.Inner.Compile(def)
}

// usesInline reports whether a model has a type restriction with "$expression".
func usesInline(m *schema.Model) bool {
	for _, t := range m.Types {
		for _, r := range t.Relations {
			if slices.ContainsFunc(r.Subjects, func(s schema.SubjectType) bool { return s.Condition == language.InlineCondition }) {
				return true
			}
		}
	}
	return false
}

// addInline defines the condition "$expression" in a model, with the parameters that
// a tuple may store. Its expression is "false", for engines without [Conditions].
func addInline(m *schema.Model) {
	for _, d := range m.Conditions {
		if d.Name == language.InlineCondition {
			return
		}
	}
	m.Conditions = append(m.Conditions, expr.Definition{Name: language.InlineCondition, Source: "false", Params: []expr.Param{
		{Name: "expression", Type: expr.Type{Kind: expr.String}},
		{Name: "parameters", Type: expr.Type{Kind: expr.Map, Elem: &expr.Type{Kind: expr.String}}},
	}})
}

// inline is the program of "$expression". It is safe for concurrent use.
type inline struct {
	compiler expr.Compiler

	mu       sync.Mutex
	programs map[string]expr.Program // by definition, as JSON
}

// Eval implements [expr.Program]. It evaluates the expression of the stored values
// on the values of the request.
func (p *inline) Eval(stored, request expr.Values, now rel.Time) expr.Result {
	program, err := p.program(stored)
	if err != nil {
		return expr.Result{Value: expr.Unknown, Err: err}
	}
	return program.Eval(nil, request, now)
}

// withoutParams is the program of an expression without parameters. It ignores the
// request's values, which are for other tuples.
type withoutParams struct{ expr.Program }

func (p withoutParams) Eval(expr.Values, expr.Values, rel.Time) expr.Result {
	return p.Program.Eval(nil, nil, 0)
}

// program returns the compiled expression of a stored context.
func (p *inline) program(stored expr.Values) (expr.Program, error) {
	def, err := inlineDefinition(stored)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(def)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got, ok := p.programs[string(text)]; ok {
		return got, nil
	}
	program, err := p.compiler.Compile(def)
	if err != nil {
		return nil, err
	}
	if len(def.Params) == 0 {
		program = withoutParams{program}
	}
	if len(p.programs) >= inlineProgramsMax {
		clear(p.programs)
	}
	p.programs[string(text)] = program
	return program, nil
}

// inlineDefinition reads a stored context. Parameters that it does not declare are
// strings.
func inlineDefinition(stored expr.Values) (expr.Definition, error) {
	def := expr.Definition{Name: language.InlineCondition, Strict: true}
	def.Source, _ = stored["expression"].(string)
	if def.Source == "" {
		return def, fmt.Errorf("%w: %s: context field \"expression\" must be a non-empty string", expr.ErrCompile, language.InlineCondition)
	}
	declared, ok := stored["parameters"].(map[string]any)
	if _, there := stored["parameters"]; there && !ok {
		return def, fmt.Errorf("%w: %s: context field \"parameters\" must be a struct", expr.ErrCompile, language.InlineCondition)
	}
	for name, v := range declared {
		text, _ := v.(string)
		t, err := inlineType(text)
		if err != nil {
			return def, err
		}
		def.Params = append(def.Params, expr.Param{Name: name, Type: t})
	}
	names, err := identifiers(def.Source)
	if err != nil {
		return def, err
	}
	for _, name := range names {
		if _, ok := declared[name]; !ok {
			def.Params = append(def.Params, expr.Param{Name: name, Type: expr.Type{Kind: expr.String}})
		}
	}
	slices.SortFunc(def.Params, func(a, b expr.Param) int { return strings.Compare(a.Name, b.Name) })
	return def, nil
}

// inlineType parses a type such as "string" or "list<int>".
func inlineType(text string) (expr.Type, error) {
	return inlineTypeWithin(text, language.TypeDepthMax)
}

func inlineTypeWithin(text string, depth int) (expr.Type, error) {
	outer, inner, generic := strings.Cut(text, "<")
	if generic {
		inner, generic = strings.CutSuffix(inner, ">")
	}
	kind, ok := expr.ParseKind(outer)
	if !ok || depth == 0 || (kind == expr.List || kind == expr.Map) != (generic && inner != "") || !generic && outer != text {
		return expr.Type{}, fmt.Errorf("%w: %s: unknown parameter type %q", expr.ErrCompile, language.InlineCondition, clip(text))
	}
	if !generic {
		return expr.Type{Kind: kind}, nil
	}
	elem, err := inlineTypeWithin(inner, depth-1)
	return expr.Type{Kind: kind, Elem: &elem}, err
}

// identifiers returns the free names of an expression, sorted.
func identifiers(source string) ([]string, error) {
	env, err := cel.NewEnv()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w: %s: %v", expr.ErrCompile, language.InlineCondition, issues.Err())
	}
	seen := map[string]bool{}
	addFreeNames(parsed.NativeRep().Expr(), nil, seen)
	var names []string
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// addFreeNames adds the names in e that no surrounding comprehension binds. The
// parser bounds the depth.
func addFreeNames(e ast.Expr, bound []string, seen map[string]bool) {
	switch e.Kind() {
	case ast.IdentKind:
		if !slices.Contains(bound, e.AsIdent()) {
			seen[e.AsIdent()] = true
		}
	case ast.SelectKind:
		addFreeNames(e.AsSelect().Operand(), bound, seen)
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			addFreeNames(e.AsCall().Target(), bound, seen)
		}
		for _, a := range e.AsCall().Args() {
			addFreeNames(a, bound, seen)
		}
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			addFreeNames(x, bound, seen)
		}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			addFreeNames(x.AsMapEntry().Key(), bound, seen)
			addFreeNames(x.AsMapEntry().Value(), bound, seen)
		}
	case ast.StructKind:
		for _, x := range e.AsStruct().Fields() {
			addFreeNames(x.AsStructField().Value(), bound, seen)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		addFreeNames(c.IterRange(), bound, seen)
		inner := append(slices.Clone(bound), c.IterVar(), c.IterVar2(), c.AccuVar())
		for _, x := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			addFreeNames(x, inner, seen)
		}
	}
}
