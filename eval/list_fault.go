package eval

import "github.com/ostiary/ostiary/internal/fault"

// The mistakes that the walk from the subject could make; all false outside
// of the build that seeds faults.
func unchecked() bool      { return fault.On(fault.EvalListUnchecked) }
func missesWildcard() bool { return fault.On(fault.EvalListWildcardMissed) }
func missesComputed() bool { return fault.On(fault.EvalReverseMissesComputed) }
func missesArrow() bool    { return fault.On(fault.EvalReverseMissesArrow) }
