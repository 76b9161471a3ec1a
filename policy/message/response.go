package message

import (
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

// parseDecision returns the decision with a name.
func parseDecision(name string) (policy.Decision, bool) {
	for d := policy.NotApplicable; d <= policy.Indeterminate; d++ {
		if d.String() == name {
			return d, true
		}
	}
	return 0, false
}

// code returns the status code of a result.
func code(e *status.Error) status.Code {
	if e == nil {
		return status.OK
	}
	return e.Code
}

// runs calls f for each run of values of one data type in an attribute, which a
// response shows as attributes of their own in JSON.
func runs(a *policy.Attribute, f func(from, to int)) {
	for from := 0; from < len(a.Values); {
		to := from + 1
		for to < len(a.Values) && a.Values[to].Type() == a.Values[from].Type() {
			to++
		}
		f(from, to)
		from = to
	}
}
