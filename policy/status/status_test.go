package status_test

import (
	"testing"

	"github.com/ostiary/ostiary/policy/status"
)

// TestReached checks every field of the error of a bound.
func TestReached(t *testing.T) {
	t.Parallel()
	e := status.Reached(status.SyntaxError, "policy depth", 5)
	if e.Code != status.SyntaxError || e.Bound != "policy depth" || e.Error() != "the bound policy depth is reached: expected at most 5" || e.Missing != nil {
		t.Errorf("%+v", e)
	}
}
