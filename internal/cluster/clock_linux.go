package cluster

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootClock is the [Clock] of the machine: the time since it was started, with the
// times at which it was suspended.
type BootClock struct{}

// Now implements [Clock]. It asks the kernel with each call.
func (BootClock) Now() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return time.Since(started) // kernels before 2.6.39
	}
	return time.Duration(t.Nano())
}
