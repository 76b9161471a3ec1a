package eval

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// stepsPerCost is the number of steps, as counted by query.tick, that take about
// as long as one unit of cost of a condition.
const stepsPerCost = 2

// preparedCondition is a condition or a rule with the values of the question's
// context.
type preparedCondition struct {
	// of is the *schema.Condition or *schema.Rule.
	of any
	// program is nil if the condition cannot be prepared.
	program expr.Prepared
}

// preparedMax bounds the conditions that a question keeps. The values of the
// context are converted again for each evaluation of any others.
const preparedMax = 64

// errBound is the error of a condition that is not evaluated because the
// question has reached a bound, or has failed.
type errBound string

func (e errBound) Error() string { return "not evaluated: the bound on " + string(e) + " is reached" }

// notEvaluated is the result of a condition that is not evaluated.
func (q *query) notEvaluated() expr.Result {
	return expr.Result{Value: expr.Unknown, Err: errBound(q.boundReached())}
}

// evaluate evaluates a condition or a rule, which has the program p. It looks
// for the end of the context before each evaluation, because one may take long.
// Once the question has failed or is exhausted, nothing is evaluated; nor does
// the evaluation that exhausts it have a result.
func (q *query) evaluate(of any, p expr.Program, stored, request expr.Values) expr.Result {
	if q.err == nil {
		q.err = q.ctx.Err()
	}
	if q.err != nil || q.exhausted() {
		return q.notEvaluated()
	}
	q.stats.Conditions++
	var res expr.Result
	if prepared := q.prepareCondition(of, p, request); prepared != nil {
		res = prepared.Eval(stored, q.env.Now)
	} else {
		res = p.Eval(stored, request, q.env.Now)
	}
	cost := authz.ConditionCostBase + int(min(res.Cost, math.MaxInt32))
	q.stats.ConditionCost += cost
	if q.exhausted() {
		return q.notEvaluated()
	}
	if res.Err != nil {
		q.err = q.ctx.Err() // the end of the context interrupts an evaluation
	}
	if q.err == nil {
		q.tick(stepsPerCost * cost)
	}
	return res
}

// prepareCondition returns the prepared program of a condition or a rule; nil
// if it has none.
func (q *query) prepareCondition(of any, p expr.Program, request expr.Values) expr.Prepared {
	for i := range q.prepared {
		if q.prepared[i].of == of {
			return q.prepared[i].program
		}
	}
	if len(q.prepared) >= preparedMax {
		return nil
	}
	c := preparedCondition{of: of}
	if preparer, ok := p.(expr.Preparer); ok {
		c.program = preparer.Prepare(q.ctx, request)
	}
	q.prepared = append(q.prepared, c)
	return c.program
}

// conditionReasons returns why a condition's result is unknown.
func conditionReasons(res expr.Result, condition string, tuple rel.Key) *authz.Reasons {
	r := &authz.Reasons{}
	if bound, ok := res.Err.(errBound); ok {
		r.Bound = string(bound)
		return r
	}
	for _, m := range res.Missing {
		mergeReasons(r, &authz.Reasons{Missing: []string{m}})
	}
	if res.Err != nil {
		r.Errors = []authz.ConditionError{{Condition: condition, Tuple: tuple, Err: res.Err}}
		var bound *expr.BoundError
		if errors.As(res.Err, &bound) {
			r.Bound = bound.Bound
		}
	}
	return r
}

// attribute evaluates schema.OpAttribute: whether a bool attribute of an
// object is true. The reasons explain an Unknown result. n may be 0; the
// object then has the id objectID.
func (q *query) attribute(t *schema.Type, n graph.Node, objectID, name string) (expr.Tristate, *authz.Reasons) {
	value, ok := "", false
	if n != 0 {
		value, ok = q.r.Attribute(n, name)
	}
	switch {
	case value == "true":
		return expr.True, nil
	case value == "false" || !ok && q.b.s.Options.UnsetAttributeIsZero:
		return expr.False, nil
	case !ok:
		return expr.Unknown, &authz.Reasons{Missing: []string{t.Name + "." + name}}
	}
	if n != 0 {
		objectID = q.r.ID(n)
	}
	on := rel.Key{Object: rel.Object{Type: t.Name, ID: objectID}}
	return expr.Unknown, &authz.Reasons{Errors: []authz.ConditionError{{Condition: name, Tuple: on, Err: expr.ErrType}}}
}

// rule evaluates schema.OpRule on an object of type t. The reasons explain an
// Unknown result. n may be 0; the object then has the id objectID.
func (q *query) rule(rule *schema.Rule, t *schema.Type, n graph.Node, objectID string) (expr.Tristate, *authz.Reasons) {
	stored, request := expr.Values{}, expr.Values{}
	absent := map[string]string{} // by parameter: its name in the request or the schema
	if n != 0 {
		objectID = q.r.ID(n)
	}
	on := rel.Key{Object: rel.Object{Type: t.Name, ID: objectID}}
	name := rule.Condition.Definition.Name
	for _, a := range rule.Args {
		if a.Attribute == "" {
			if v, ok := q.env.Context[a.Context]; ok {
				request[a.Param] = v
			} else {
				absent[a.Param] = a.Context
			}
			continue
		}
		v, ok, err := q.attributeValue(t, n, a.Attribute)
		switch {
		case err != nil:
			return expr.Unknown, &authz.Reasons{Errors: []authz.ConditionError{{Condition: name, Tuple: on, Err: err}}}
		case ok:
			stored[a.Param] = v
		default:
			absent[a.Param] = t.Name + "." + a.Attribute
		}
	}
	res := q.evaluate(rule, rule.Condition.Program, stored, request)
	if res.Value != expr.Unknown {
		return res.Value, nil
	}
	missing := slices.Clone(res.Missing)
	for i, m := range missing {
		if known, ok := absent[m]; ok {
			missing[i] = known
		}
	}
	res.Missing = missing
	return expr.Unknown, conditionReasons(res, name, on)
}

// attributeValue returns a decoded attribute. An absent one has its type's
// zero value under schema.Options.UnsetAttributeIsZero; otherwise
// attributeValue returns false.
func (q *query) attributeValue(t *schema.Type, n graph.Node, name string) (any, bool, error) {
	if n != 0 {
		if text, ok := q.r.Attribute(n, name); ok {
			q.stats.ConditionCost += len(text) / attributeBytes
			v, err := decode(text)
			return v, err == nil, err
		}
	}
	if q.b.s.Options.UnsetAttributeIsZero {
		return zero(t.Attributes[name]), true, nil
	}
	return nil, false, nil
}

// attributeBytes is the number of bytes of an attribute that are decoded for
// one unit of cost.
const attributeBytes = 64

// decode reads canonical JSON. Numbers keep all their digits.
func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// zero returns a type's zero value, as decoded JSON.
func zero(t expr.Type) any {
	switch t.Kind {
	case expr.Bool:
		return false
	case expr.String:
		return ""
	case expr.Int, expr.Uint, expr.Double:
		return json.Number("0")
	case expr.Duration:
		return "0s"
	case expr.Timestamp:
		return "1970-01-01T00:00:00Z"
	case expr.IPAddress:
		return "0.0.0.0"
	case expr.List:
		return []any{}
	}
	return nil
}
