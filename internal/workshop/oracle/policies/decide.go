package policies

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// Source is where a decision finds attributes that the request lacks.
type Source interface {
	// Attribute returns the values of an attribute, or why they are unknown.
	Attribute(ctx context.Context, d *policy.Designator, r *policy.Request) ([]value.Value, error)
}

// Policies are the tree of policies that decides, with the library of its
// references.
type Policies struct {
	Root    policy.Element   // where a decision begins
	Library []policy.Element // policies and sets that references name
	Now     time.Time        // the instant of each request
	Zone    *time.Location   // the time zone of the clock, and of values that have none
	Source  Source           // nil if there is none
}

// Decide returns the decisions on a request: one for each request reference, or
// else one for each choice among repeated categories, where the last repeated
// category changes first. It follows sections 7 and C of XACML 3.0, and the
// multiple decision profile. References must be resolvable and types correct.
func Decide(p *Policies, r *policy.Request) []policy.Result {
	results := decideAll(p, r)
	if r.Combined {
		return []policy.Result{combined(results)}
	}
	return results
}

// decideAll returns all decisions that a request asks for.
func decideAll(p *Policies, r *policy.Request) []policy.Result {
	if len(r.References) == 0 {
		return decideProduct(p, r, r.Categories)
	}
	var results []policy.Result
	for _, ids := range r.References {
		categories, ok := named(r, ids)
		if !ok {
			results = append(results, policy.Result{Decision: policy.IndeterminateDP, Status: fail(status.SyntaxError)})
			continue
		}
		results = append(results, decideProduct(p, r, categories)...)
	}
	return results
}

// named returns the categories with the ids, or false if an id does not name
// exactly one.
func named(r *policy.Request, ids []string) ([]policy.Category, bool) {
	var out []policy.Category
	for _, id := range ids {
		count := 0
		for _, c := range r.Categories {
			if c.ID == id {
				out = append(out, c)
				count++
			}
		}
		if count != 1 {
			return nil, false
		}
	}
	return out, true
}

// decideProduct decides on each choice of one category of each name.
func decideProduct(p *Policies, r *policy.Request, categories []policy.Category) []policy.Result {
	choices := [][]policy.Category{nil}
	done := map[string]bool{}
	for _, c := range categories {
		if done[c.Name] {
			continue
		}
		done[c.Name] = true
		var longer [][]policy.Category
		for _, choice := range choices {
			for _, other := range categories {
				if other.Name == c.Name {
					longer = append(longer, append(choice[:len(choice):len(choice)], other))
				}
			}
		}
		choices = longer
	}
	var results []policy.Result
	for _, choice := range choices {
		results = append(results, decideOne(p, r.ReturnPolicyIDs, choice))
	}
	return results
}

// decision is the work on one decision.
type decision struct {
	policies  *Policies
	request   *policy.Request
	variables []policy.Variable // variables of the policy that is evaluated
}

// decideOne decides on categories of which no two have the same name.
func decideOne(p *Policies, returnIDs bool, categories []policy.Category) policy.Result {
	d := &decision{policies: p, request: &policy.Request{Categories: categories}}
	a := d.element(p.Root)
	result := policy.Result{Decision: a.decision, Status: a.status, Obligations: a.obligations, Advice: a.advice}
	if returnIDs {
		result.Policies = a.policies
	}
	for _, c := range categories {
		shown := policy.Category{ID: c.ID, Name: c.Name}
		for _, attribute := range c.Attributes {
			if attribute.IncludeInResult {
				shown.Attributes = append(shown.Attributes, attribute)
			}
		}
		if len(shown.Attributes) > 0 {
			result.Categories = append(result.Categories, shown)
		}
	}
	return result
}

// combined returns one result for all: their decision if all show the same one and
// none has a duty.
func combined(results []policy.Result) policy.Result {
	out := policy.Result{Decision: results[0].Decision, Status: results[0].Status}
	for _, r := range results {
		if r.Decision.String() != out.Decision.String() || len(r.Obligations) > 0 || len(r.Advice) > 0 {
			return policy.Result{Decision: policy.IndeterminateDP, Status: fail(status.ProcessingError)}
		}
		for _, id := range r.Policies {
			known := false
			for _, other := range out.Policies {
				known = known || other == id
			}
			if !known {
				out.Policies = append(out.Policies, id)
			}
		}
	}
	return out
}

// fail returns a status with a code.
func fail(code status.Code) *status.Error { return &status.Error{Code: code} }

// bag returns the values of an attribute (section 7.3.5).
func (d *decision) bag(x *policy.Designator) (function.Operand, *status.Error) {
	var values []value.Value
	for _, c := range d.request.Categories {
		for _, a := range c.Attributes {
			if c.Name != x.Category || a.ID != x.ID || x.Issuer != "" && a.Issuer != x.Issuer {
				continue
			}
			if a.Issuer != "" && d.now(x) != nil {
				continue // another authority's clock does not replace ours
			}
			for _, v := range a.Values {
				if v.Type() == x.Type {
					values = append(values, v)
				}
			}
		}
	}
	if len(values) == 0 {
		values = d.now(x)
	}
	if source := d.policies.Source; len(values) == 0 && source != nil {
		found, err := source.Attribute(context.Background(), x, d.request)
		if err != nil {
			return function.Operand{}, statusOf(err)
		}
		values = found
	}
	if len(values) == 0 && x.MustBePresent {
		missing := status.Missing{Category: x.Category, ID: x.ID, Type: x.Type, Issuer: x.Issuer}
		return function.Operand{}, &status.Error{Code: status.MissingAttribute, Missing: []status.Missing{missing}}
	}
	return function.Bag(x.Type, values), nil
}

// now returns the time, if the designator asks for the clock (section 10.2.5).
func (d *decision) now(x *policy.Designator) []value.Value {
	if x.Category != policy.CategoryEnvironment || x.Issuer != "" {
		return nil
	}
	now := d.policies.Now.In(d.policies.Zone)
	switch {
	case x.ID == policy.AttributeCurrentTime && x.Type == value.Time:
		return []value.Value{value.NewTime(now)}
	case x.ID == policy.AttributeCurrentDate && x.Type == value.Date:
		return []value.Value{value.NewDate(now)}
	case x.ID == policy.AttributeCurrentDateTime && x.Type == value.DateTime:
		return []value.Value{value.NewDateTime(now)}
	}
	return nil
}
