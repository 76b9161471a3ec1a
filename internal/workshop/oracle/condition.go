package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// Conditions compiles the conditions of worlds. Their language is small, so
// that a test of a million worlds is fast. An expression is a disjunction
// ("||") of conjunctions ("&&") of tests. A test is a bool parameter, "x < 5"
// for an int or `s == "text"` for a string, each perhaps with "!" before it.
// Missing parameters are unknown, by Kleene's logic.
type Conditions struct{}

// literal is one test of one parameter.
type literal struct {
	negated bool
	param   string
	kind    expr.Kind
	less    float64
	equal   string
}

// program is a disjunction of conjunctions.
type program [][]literal

// Compile compiles a condition. It fails with [expr.ErrCompile].
func (Conditions) Compile(def expr.Definition) (expr.Program, error) {
	var p program
	for _, disjunct := range strings.Split(def.Source, "||") {
		var all []literal
		for _, text := range strings.Split(disjunct, "&&") {
			l, err := parseLiteral(strings.TrimSpace(text), def.Params)
			if err != nil {
				return nil, fmt.Errorf("%w: %s: %v", expr.ErrCompile, def.Name, err)
			}
			all = append(all, l)
		}
		p = append(p, all)
	}
	return p, nil
}

func parseLiteral(text string, params []expr.Param) (literal, error) {
	var l literal
	var err error
	text, l.negated = strings.CutPrefix(text, "!")
	l.param = text
	if name, number, ok := strings.Cut(text, "<"); ok {
		l.param, l.kind = strings.TrimSpace(name), expr.Int
		l.less, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	} else if name, quoted, ok := strings.Cut(text, "=="); ok {
		l.param, l.kind = strings.TrimSpace(name), expr.String
		l.equal, err = strconv.Unquote(strings.TrimSpace(quoted))
	} else {
		l.kind = expr.Bool
	}
	if err != nil {
		return l, err
	}
	if !slices.Contains(params, expr.Param{Name: l.param, Type: expr.Type{Kind: l.kind}}) {
		return l, fmt.Errorf("no parameter %q of type %s", l.param, l.kind)
	}
	return l, nil
}

// Eval implements [expr.Program].
func (p program) Eval(stored, request expr.Values, _ rel.Time) expr.Result {
	var r expr.Result
	for _, conjunction := range p {
		all := expr.True
		for _, l := range conjunction {
			v, ok := stored[l.param]
			if !ok {
				v, ok = request[l.param]
			}
			if !ok {
				r.Missing = append(r.Missing, l.param)
				all = min(all, expr.Unknown)
				continue
			}
			truth, err := l.eval(v)
			if err != nil {
				r.Err = err
			}
			all = min(all, truth)
		}
		r.Value = max(r.Value, all)
	}
	if r.Value != expr.Unknown { // missing parameters do not change this result
		return expr.Result{Value: r.Value}
	}
	slices.Sort(r.Missing)
	r.Missing = slices.Compact(r.Missing)
	return r
}

func (l literal) eval(v any) (expr.Tristate, error) {
	var holds bool
	ok := true
	switch l.kind {
	case expr.Bool:
		holds, ok = v.(bool)
	case expr.String:
		var s string
		s, ok = v.(string)
		holds = s == l.equal
	case expr.Int:
		var f float64
		f, ok = number(v)
		holds = f < l.less
	}
	if !ok {
		return expr.Unknown, fmt.Errorf("%w: %s is not %s", expr.ErrType, l.param, l.kind)
	}
	if holds != l.negated {
		return expr.True, nil
	}
	return expr.False, nil
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}
