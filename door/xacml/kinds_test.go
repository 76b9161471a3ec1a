package xacml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

// TestKinds compares the response to each kind of error of a domain, and to errors of
// requests, with testdata/kinds.txt. Package door tests the errors of the engine.
func TestKinds(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	all := []error{cause, &door.Refusal{Reason: door.TooLarge, Bound: "BodyBytes", Limit: 7}, &door.Refusal{Reason: door.ShuttingDown},
		status.Reached(status.ProcessingError, "steps", 5), &authz.BoundError{Name: "Nodes", Max: 1, Got: 2},
		&domain.InvalidError{Name: "p", Reasons: policy.Errors{&policy.Error{Text: "first"}, &policy.Error{Text: "second"}}}}
	for _, k := range domainKinds {
		all = append(all, &authz.Error{Op: "test", Kind: k.kind, Err: cause})
	}
	var table strings.Builder
	for _, err := range all {
		p := describe(err)
		fmt.Fprintf(&table, "%d %s: %s %q %d\n", p.status, p.Code, p.Message, p.Bound, len(p.Reasons))
	}
	golden.Equal(t, "testdata/kinds.txt", table.String())
}
