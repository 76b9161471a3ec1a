// Package cel compiles conditions that are written in the Common Expression
// Language. Its main type is [Compiler], an [expr.Compiler]. The language has
// one additional type, ipaddress with the method in_cidr, as in OpenFGA. An
// expression can read its parameters and nothing else: no clock, no
// environment, no files and no network.
package cel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	exprpb "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// Options are the limits of a [Compiler]. The zero value selects the defaults.
type Options struct {
	// CostMax is the maximum cost of one evaluation, in cost units of CEL: about one
	// for each step. 0 means CostMaxDefault.
	CostMax uint64
	// SourceBytesMax is the maximum length of an expression in bytes. 0 means
	// 16,384.
	SourceBytesMax int
	// ParamsMax is the maximum number of parameters of a condition. 0 means
	// 100.
	ParamsMax int
	// RegexSizeMax is the maximum size of a regular expression, in bytes of its
	// text and in instructions: "a{1,30}" has about 60 of them. A call of matches
	// with a larger one is [expr.ErrCost]. 0 means RegexSizeMaxDefault.
	RegexSizeMax int
	// RegexInputMax is the maximum length in bytes of a string that a regular
	// expression is matched against. A call of matches with a longer one is
	// [expr.ErrCost]. 0 means RegexInputMaxDefault.
	RegexInputMax int
}

// The defaults of [Options].
const (
	CostMaxDefault        = 10_000   // cost units
	sourceBytesMaxDefault = 16 << 10 // bytes
	paramsMaxDefault      = 100      // parameters
	RegexSizeMaxDefault   = 5_000    // bytes and instructions
	RegexInputMaxDefault  = 64 << 10 // bytes
)

// Compiler compiles conditions. It is safe for concurrent use.
type Compiler struct{ limits Options }

// New returns a compiler with the limits o.
func New(o Options) *Compiler {
	if o.CostMax == 0 {
		o.CostMax = CostMaxDefault
	}
	if o.SourceBytesMax == 0 {
		o.SourceBytesMax = sourceBytesMaxDefault
	}
	if o.ParamsMax == 0 {
		o.ParamsMax = paramsMaxDefault
	}
	if o.RegexSizeMax == 0 {
		o.RegexSizeMax = RegexSizeMaxDefault
	}
	if o.RegexInputMax == 0 {
		o.RegexInputMax = RegexInputMaxDefault
	}
	return &Compiler{o}
}

// Compile parses the expression and checks its types. The result of the
// expression must be a bool. Errors wrap [expr.ErrCompile]; a limit that is
// exceeded is such an error, too.
func (c *Compiler) Compile(def expr.Definition) (p expr.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("%w: %v", expr.ErrCompile, r)
		}
	}()
	if n := len(def.Source); n > c.limits.SourceBytesMax {
		return nil, fmt.Errorf("%w: the expression has %d bytes, the maximum is %d", expr.ErrCompile, n, c.limits.SourceBytesMax)
	}
	if n := len(def.Params); n > c.limits.ParamsMax {
		return nil, fmt.Errorf("%w: %d parameters, the maximum is %d", expr.ErrCompile, n, c.limits.ParamsMax)
	}
	opts := []cel.EnvOption{inCIDR(), cel.Lib(zoneLibrary{}), cel.EagerlyValidateDeclarations(true)}
	seen := map[string]bool{}
	for _, param := range def.Params {
		if seen[param.Name] {
			return nil, fmt.Errorf("%w: parameter %q is declared twice", expr.ErrCompile, param.Name)
		}
		seen[param.Name] = true
		t, err := celType(param.Type)
		if err != nil {
			return nil, fmt.Errorf("%w: parameter %q: %v", expr.ErrCompile, param.Name, err)
		}
		opts = append(opts, cel.Variable(param.Name, t))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", expr.ErrCompile, err)
	}
	ast, issues := env.Compile(def.Source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w: %v", expr.ErrCompile, issues.Err())
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("%w: the expression has type %s, expected bool", expr.ErrCompile, t)
	}
	return c.program(env, ast, def)
}

// interruptEvery is the number of iterations of comprehensions after which an
// evaluation looks whether its context has ended.
const interruptEvery = 64

func (c *Compiler) program(env *cel.Env, ast *cel.Ast, def expr.Definition) (expr.Program, error) {
	m := &meter{costMax: c.limits.CostMax, regexSizeMax: c.limits.RegexSizeMax, regexInputMax: c.limits.RegexInputMax}
	charged := []cel.ProgramOption{cel.CustomDecoratorV2(m.decorate), cel.CostTracking(m), cel.CostLimit(m.costMax), cel.InterruptCheckFrequency(interruptEvery)}
	whole, err := env.Program(ast, append(charged, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", expr.ErrCompile, err)
	}
	partial, err := env.Program(ast, append(charged, cel.EvalOptions(cel.OptPartialEval))...)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", expr.ErrCompile, err)
	}
	return &program{ast: ast, whole: whole, partial: partial, params: slices.Clone(def.Params), strict: def.Strict,
		costMax: m.costMax, iterates: iterates(ast)}, nil
}

// iterates reports whether an expression has a comprehension, such as
// list.all(…).
func iterates(a *cel.Ast) bool {
	found := false
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.ComprehensionKind
	}))
	return found
}

// program is the expr.Program of a condition.
type program struct {
	ast      *cel.Ast
	whole    cel.Program  // for evaluations in which every parameter has a value
	partial  cel.Program  // for evaluations in which parameters are missing
	params   []expr.Param // the parameters of the condition
	strict   bool         // see expr.Definition.Strict
	costMax  uint64       // see Options.CostMax
	iterates bool         // true if the expression has a comprehension
}

// CheckedExpr returns the type-checked expression, for protocols that show it.
func (p *program) CheckedExpr() (*exprpb.CheckedExpr, error) { return cel.AstToCheckedExpr(p.ast) }

// Eval implements [expr.Program]. It ignores the time: CEL expressions cannot read
// a clock.
func (p *program) Eval(stored, request expr.Values, now rel.Time) expr.Result {
	return p.Prepare(context.Background(), request).Eval(stored, now)
}

// Prepare implements [expr.Preparer].
func (p *program) Prepare(ctx context.Context, request expr.Values) expr.Prepared {
	return &prepared{program: p, ctx: ctx, request: request}
}

// prepared is a program with the values of a request.
type prepared struct {
	*program
	ctx     context.Context
	request expr.Values
	// converted holds the request's values of the parameters, in their order;
	// nil until one is needed.
	converted []conversion
}

// conversion is a value that was converted, or the error.
type conversion struct {
	done  bool
	value any
	err   error
}

// Eval implements [expr.Prepared].
func (p *prepared) Eval(stored expr.Values, _ rel.Time) (res expr.Result) {
	defer func() {
		if r := recover(); r != nil {
			res = expr.Result{Value: expr.Unknown, Err: fmt.Errorf("condition failed: %v", r)}
		}
	}()
	if p.strict && len(p.params) == 0 && len(stored)+len(p.request) > 0 {
		return expr.Result{Value: expr.Unknown, Err: fmt.Errorf("%w: no parameters defined for the condition", expr.ErrType)}
	}
	vars := make(map[string]any, len(p.params))
	var absent []*cel.AttributePatternType
	var cost uint64
	for i, param := range p.params {
		v, found, err := p.value(i, stored, &cost)
		switch {
		case err != nil:
			return expr.Result{Value: expr.Unknown, Err: fmt.Errorf("%w: parameter %q: %v", expr.ErrType, param.Name, err), Cost: cost}
		case !found:
			absent = append(absent, cel.AttributePattern(param.Name))
		default:
			vars[param.Name] = v
		}
	}
	if absent == nil {
		return p.run(p.whole, vars, cost)
	}
	if p.strict {
		return expr.Result{Value: expr.Unknown, Missing: p.absent(vars), Cost: cost}
	}
	activation, err := cel.PartialVars(vars, absent...)
	if err != nil {
		return expr.Result{Value: expr.Unknown, Err: err, Cost: cost}
	}
	return p.run(p.partial, activation, cost)
}

// value returns the converted value of the i-th parameter, and false if it has
// none. It adds the cost of a conversion to cost.
func (p *prepared) value(i int, stored expr.Values, cost *uint64) (any, bool, error) {
	param := &p.params[i]
	if v, ok := stored[param.Name]; ok {
		*cost += conversionCost(v)
		converted, err := convert(param.Type, v)
		return converted, true, err
	}
	v, ok := p.request[param.Name]
	if !ok {
		return nil, false, nil
	}
	if p.converted == nil {
		p.converted = make([]conversion, len(p.params))
	}
	c := &p.converted[i]
	if !c.done {
		*cost += conversionCost(v)
		c.value, c.err = convert(param.Type, v)
		c.done = true
	}
	return c.value, true, c.err
}

// run evaluates a program. cost is what the values have cost.
func (p *prepared) run(program cel.Program, vars any, cost uint64) expr.Result {
	var res expr.Result
	if p.iterates && p.ctx.Done() != nil {
		res = result(program.ContextEval(p.ctx, vars))
	} else {
		res = result(program.Eval(vars))
	}
	if errors.Is(res.Err, expr.ErrCost) {
		res.Cost = max(res.Cost, p.costMax) // CEL does not report the cost of an evaluation that was stopped
	}
	res.Cost += cost
	return res
}

// absent returns the sorted names of the parameters that vars lacks.
func (p *program) absent(vars map[string]any) (names []string) {
	for _, param := range p.params {
		if _, ok := vars[param.Name]; !ok {
			names = append(names, param.Name)
		}
	}
	slices.Sort(names)
	return names
}

// result converts the result of a CEL program.
func result(out ref.Val, details *cel.EvalDetails, err error) expr.Result {
	var res expr.Result
	if details != nil {
		if cost := details.ActualCost(); cost != nil {
			res.Cost = *cost
		}
	}
	switch v := out.(type) {
	case types.Bool:
		if err == nil {
			if v {
				res.Value = expr.True
			}
			return res
		}
	case *types.Unknown:
		if err == nil {
			res.Value, res.Missing = expr.Unknown, missing(v)
			return res
		}
	}
	res.Value = expr.Unknown
	if err == nil {
		res.Err = fmt.Errorf("the result of the condition is %v, expected a bool", out)
	} else if bound := boundError(err); bound != nil {
		res.Err = bound
	} else {
		res.Err = err
	}
	return res
}

// missing returns the sorted names of the parameters that u depends on.
func missing(u *types.Unknown) []string {
	var names []string
	for _, id := range u.IDs() {
		trails, _ := u.GetAttributeTrails(id)
		for _, t := range trails {
			names = append(names, t.Variable())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// celType returns the CEL type of t.
func celType(t expr.Type) (*cel.Type, error) {
	switch t.Kind {
	case expr.Any:
		return cel.DynType, nil
	case expr.Bool:
		return cel.BoolType, nil
	case expr.String:
		return cel.StringType, nil
	case expr.Int:
		return cel.IntType, nil
	case expr.Uint:
		return cel.UintType, nil
	case expr.Double:
		return cel.DoubleType, nil
	case expr.Duration:
		return cel.DurationType, nil
	case expr.Timestamp:
		return cel.TimestampType, nil
	case expr.IPAddress:
		return ipType, nil
	}
	if t.Elem == nil {
		return nil, errors.New("a list or map must have an element type")
	}
	elem, err := celType(*t.Elem)
	if err != nil {
		return nil, err
	}
	switch t.Kind {
	case expr.List:
		return cel.ListType(elem), nil
	case expr.Map:
		return cel.MapType(cel.StringType, elem), nil
	}
	return nil, fmt.Errorf("unknown type %d", t.Kind)
}
