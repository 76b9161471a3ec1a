package policy

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/policy/value"
)

// Options are what a decision may use apart from the request. The zero Options
// are valid.
type Options struct {
	// Now returns the time for current-time, current-date and current-dateTime. It
	// is called at most once for each request, and only if a policy asks for one
	// that the request does not have. Nil means that these attributes are missing
	// then.
	Now func() time.Time
	// Zone is the time zone of the clock, and of values that have none. Nil means
	// UTC.
	Zone *time.Location
	// Attributes is asked for attributes that the request lacks. Nil means that
	// they are missing.
	Attributes AttributeSource
	// Related asks the relation graph whether the subject ("user:anne") has the
	// relation to the object ("document:1"). Nil means that there is none.
	Related func(object, relation, subject string) (bool, error)
	// Trace records how the decisions come about. Nil records nothing.
	Trace *Trace
	// Bounds limit the cost of the request.
	Bounds Bounds
}

// AttributeSource finds attributes that a request lacks.
type AttributeSource interface {
	// Attribute returns the values of the attribute that d designates, or none if
	// there is no such attribute. All values must have the type of d. It is called
	// at most once for each attribute and decision. r is the request of this one
	// decision, without repeated categories. Neither d nor r may be changed. An
	// error that is no *status.Error makes the attribute Indeterminate with a
	// processing-error.
	Attribute(ctx context.Context, d *Designator, r *Request) ([]value.Value, error)
}

// Decide returns the decisions that the request asks for: one, unless it has
// repeated categories or references. The order is that of the references; the
// cross product of repeated categories is in document order, and the last
// repeated category changes first. There is always at least one result. A
// request that exceeds a bound, or whose context ends, is Indeterminate with the
// name of the bound, and so is a request with an attribute that asks for one decision
// for each of several nodes, which is not supported.
func (p *Plan) Decide(ctx context.Context, request *Request, o Options) []Result {
	return p.AppendDecisions(ctx, nil, request, o)
}

// AppendDecisions is like [Plan.Decide], but appends the results to dst, which
// saves an allocation.
func (p *Plan) AppendDecisions(ctx context.Context, dst []Result, request *Request, o Options) []Result {
	r := p.start(ctx, request, o)
	defer r.finish()
	if unsupported := asksForNodes(request); unsupported != nil {
		return append(dst, Result{Decision: IndeterminateDP, Status: unsupported})
	}
	if request.Combined {
		return append(dst, combineResults(r.decideAll(nil)))
	}
	return r.decideAll(dst)
}

// decideAll appends all decisions of the request.
func (r *run) decideAll(dst []Result) []Result {
	if len(r.request.References) > 0 {
		return r.decideReferences(dst)
	}
	if repeated(r.request.Categories) {
		return r.decideProduct(dst, pointers(r.request.Categories), r.options.Bounds.Decisions)
	}
	for i := range r.request.Categories {
		r.categories = append(r.categories, &r.request.Categories[i])
	}
	r.single = r.request
	return append(dst, r.decide())
}

// decide returns the decision on the current categories.
func (r *run) decide() Result {
	r.fill()
	v := r.node(r.plan.root)
	if r.aborted != nil {
		v = verdict{IndeterminateDP, r.aborted}
	}
	result := Result{Decision: v.decision, Status: v.status, Categories: r.included()}
	if v.status == nil && len(r.duties) > 0 {
		result.Obligations, result.Advice = r.dutiesOf(false), r.dutiesOf(true)
	}
	if len(r.policies) > 0 && r.aborted == nil {
		result.Policies = append([]PolicyVersion(nil), r.policies...)
	}
	return result
}

// included returns the attributes that the result repeats.
func (r *run) included() []Category {
	var out []Category
	for _, c := range r.categories {
		var attributes []Attribute
		for _, a := range c.Attributes {
			if a.IncludeInResult {
				attributes = append(attributes, a)
			}
		}
		if attributes != nil {
			out = append(out, Category{ID: c.ID, Name: c.Name, Attributes: attributes})
		}
	}
	return out
}
