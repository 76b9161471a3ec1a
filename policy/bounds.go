package policy

import "github.com/ostiary/ostiary/policy/status"

// Bounds limit what one compilation and one request may cost. A field of 0 has
// its default. A policy that exceeds a bound is rejected. A request that reaches
// one is Indeterminate with a processing-error that names the bound.
type Bounds struct {
	// PolicyDepth is how deep policy sets and references may be nested, with the
	// policy at the end. Default 64.
	PolicyDepth int
	// ExpressionDepth is how deep the expression of a condition, a variable or an
	// assignment may be nested, with the definitions of its variables. Default
	// 128.
	ExpressionDepth int
	// Decisions is the number of decisions that one request may ask for with
	// repeated categories and references. Default 1,000.
	Decisions int
	// Steps is the number of steps of all decisions of one request. An attribute of
	// the request, a use of it, a policy, a rule, a match, a compared value and a
	// function call are one step each. Default 5,000,000.
	Steps int
	// Duties is the number of all obligations and advice of one decision, together
	// with the number of their arguments. Default 10,000.
	Duties int
}

// The defaults of [Bounds].
const (
	policyDepthDefault     = 64
	expressionDepthDefault = 128
	decisionsDefault       = 1_000
	stepsDefault           = 5_000_000
	dutiesDefault          = 10_000
)

// The names of the bounds, as errors mention them.
const (
	BoundPolicyDepth     = "policy depth"     // see Bounds.PolicyDepth
	BoundExpressionDepth = "expression depth" // see Bounds.ExpressionDepth
	BoundDecisions       = "decisions"        // see Bounds.Decisions
	BoundSteps           = "steps"            // see Bounds.Steps
	BoundDuties          = "duties"           // see Bounds.Duties
	BoundTime            = "time"             // the deadline of the request
)

// withDefaults returns the bounds with the default in each field that is 0.
func (b Bounds) withDefaults() Bounds {
	for _, f := range [...]struct {
		field    *int
		standard int
	}{
		{&b.PolicyDepth, policyDepthDefault},
		{&b.ExpressionDepth, expressionDepthDefault},
		{&b.Decisions, decisionsDefault},
		{&b.Steps, stepsDefault},
		{&b.Duties, dutiesDefault},
	} {
		if *f.field <= 0 {
			*f.field = f.standard
		}
	}
	return b
}

// reached returns the status of a request that reaches a bound.
func reached(bound, message string) *status.Error {
	return &status.Error{Code: status.ProcessingError, Message: message, Bound: bound}
}
