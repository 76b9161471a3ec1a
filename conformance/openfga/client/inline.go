package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// inlineName is the condition that a tuple brings with it: its stored context
// holds "expression" and, optionally, "parameters" with their types.
const inlineName = "$expression"

// inlineProgramsMax bounds the compiled inline expressions kept per schema.
const inlineProgramsMax = 1000

// Conditions is an expr.Compiler with OpenFGA's habits around another one:
// every declared parameter must be there, even one that the expression would
// not come to read; and "$expression" compiles what the tuple brings.
type Conditions struct{ Inner expr.Compiler }

// Compile is expr.Compiler's.
func (c Conditions) Compile(def expr.Definition) (expr.Program, error) {
	if def.Name == inlineName {
		return &inline{compiler: c.Inner, programs: map[string]expr.Program{}}, nil
	}
	p, err := c.Inner.Compile(def)
	if err != nil {
		return nil, err
	}
	return strict{p, def.Params}, nil
}

// addInline defines "$expression" in a model that restricts by it.
func addInline(m *schema.Model) {
	for _, d := range m.Conditions {
		if d.Name == inlineName {
			return
		}
	}
	for _, t := range m.Types {
		for _, r := range t.Relations {
			if slices.ContainsFunc(r.Subjects, func(s schema.SubjectType) bool { return s.Condition == inlineName }) {
				m.Conditions = append(m.Conditions, inlineDeclared())
				return
			}
		}
	}
}

// inlineDeclared is how the schema knows "$expression": by what a tuple of it
// may store.
func inlineDeclared() expr.Definition {
	return expr.Definition{Name: inlineName, Source: "true", Params: []expr.Param{
		{Name: "expression", Type: expr.Type{Kind: expr.String}},
		{Name: "parameters", Type: expr.Type{Kind: expr.Map, Elem: &expr.Type{Kind: expr.String}}},
	}}
}

// strict wants every parameter.
type strict struct {
	inner  expr.Program
	params []expr.Param
}

// Eval is expr.Program's.
func (p strict) Eval(stored, request expr.Values, now rel.Time) expr.Result {
	if len(p.params) == 0 && len(stored)+len(request) > 0 {
		return expr.Result{Truth: expr.Unknown, Err: fmt.Errorf("%w: no parameters defined for the condition", expr.ErrType)}
	}
	res := p.inner.Eval(stored, request, now)
	if errors.Is(res.Err, expr.ErrType) {
		return res
	}
	var missing []string
	for _, param := range p.params {
		_, own := stored[param.Name]
		_, asked := request[param.Name]
		if !own && !asked {
			missing = append(missing, param.Name)
		}
	}
	if missing != nil {
		slices.Sort(missing)
		return expr.Result{Truth: expr.Unknown, Missing: missing, Cost: res.Cost}
	}
	return res
}

// inline is the program of "$expression". Safe for concurrent use.
type inline struct {
	compiler expr.Compiler

	mu       sync.Mutex
	programs map[string]expr.Program // by definition, as JSON
}

// Eval is expr.Program's: only the request's values are the expression's.
func (p *inline) Eval(stored, request expr.Values, now rel.Time) expr.Result {
	program, err := p.program(stored)
	if err != nil {
		return expr.Result{Truth: expr.Unknown, Err: err}
	}
	if s, ok := program.(strict); ok && len(s.params) == 0 {
		request = nil // values meant for other tuples do not disturb
	}
	return program.Eval(nil, request, now)
}

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
	if len(p.programs) >= inlineProgramsMax {
		clear(p.programs)
	}
	p.programs[string(text)] = strict{program, def.Params}
	return p.programs[string(text)], nil
}

// inlineDefinition reads a tuple's stored context. Names that it does not
// declare are strings.
func inlineDefinition(stored expr.Values) (expr.Definition, error) {
	def := expr.Definition{Name: inlineName}
	def.Source, _ = stored["expression"].(string)
	if def.Source == "" {
		return def, fmt.Errorf("%w: %s: context field \"expression\" must be a non-empty string", expr.ErrCompile, inlineName)
	}
	declared, ok := stored["parameters"].(map[string]any)
	if _, there := stored["parameters"]; there && !ok {
		return def, fmt.Errorf("%w: %s: context field \"parameters\" must be a struct", expr.ErrCompile, inlineName)
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
	slices.SortFunc(def.Params, func(a, b expr.Param) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return def, nil
}

// inlineType reads "string", "list<int>" and the like.
func inlineType(text string) (expr.Type, error) {
	outer, inner := text, ""
	if i := len(text) - 1; i > 0 && text[i] == '>' {
		for j := range text {
			if text[j] == '<' {
				outer, inner = text[:j], text[j+1:i]
				break
			}
		}
	}
	kind, ok := expr.ParseKind(outer)
	generic := kind == expr.List || kind == expr.Map
	if !ok || generic != (inner != "") {
		return expr.Type{}, fmt.Errorf("%w: %s: unknown parameter type %q", expr.ErrCompile, inlineName, text)
	}
	if !generic {
		return expr.Type{Kind: kind}, nil
	}
	elem, err := inlineType(inner)
	return expr.Type{Kind: kind, Elem: &elem}, err
}

// identifiers lists the free names of an expression, sorted.
func identifiers(source string) ([]string, error) {
	env, err := cel.NewEnv()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w: %s: %v", expr.ErrCompile, inlineName, issues.Err())
	}
	seen := map[string]bool{}
	free(parsed.NativeRep().Expr(), nil, seen)
	var names []string
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// free adds the names that e reads and that no comprehension around binds.
// The parser bounds the depth.
func free(e ast.Expr, bound []string, seen map[string]bool) {
	switch e.Kind() {
	case ast.IdentKind:
		if !slices.Contains(bound, e.AsIdent()) {
			seen[e.AsIdent()] = true
		}
	case ast.SelectKind:
		free(e.AsSelect().Operand(), bound, seen)
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			free(e.AsCall().Target(), bound, seen)
		}
		for _, a := range e.AsCall().Args() {
			free(a, bound, seen)
		}
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			free(x, bound, seen)
		}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			free(x.AsMapEntry().Key(), bound, seen)
			free(x.AsMapEntry().Value(), bound, seen)
		}
	case ast.StructKind:
		for _, x := range e.AsStruct().Fields() {
			free(x.AsStructField().Value(), bound, seen)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		free(c.IterRange(), bound, seen)
		inner := append(slices.Clone(bound), c.IterVar(), c.IterVar2(), c.AccuVar())
		for _, x := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			free(x, inner, seen)
		}
	}
}
