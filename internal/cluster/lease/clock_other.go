//go:build !linux

package lease

import "time"

// BootClock is the [Clock] of the machine. On this system it may not count the time at
// which the machine is suspended, so a machine that has a node must not be.
type BootClock struct{}

// Now implements [Clock].
func (BootClock) Now() time.Duration { return time.Since(started) }

// MayStop reports whether the clock may stop while the machine is suspended.
func (BootClock) MayStop() bool { return true }
