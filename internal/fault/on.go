//go:build faults

package fault

import "sync/atomic"

var current atomic.Uint32 // the one fault of a test run; tests of this build run one at a time

// On says whether f is switched on.
func On(f Fault) bool { return Fault(current.Load()) == f }

// Switch turns f on and every other fault off; None turns all off.
func Switch(f Fault) { current.Store(uint32(f)) }
