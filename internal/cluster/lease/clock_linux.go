package lease

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BootClock is the [Clock] of the machine: the time since it was started, with the
// times at which it was suspended.
type BootClock struct{}

// Now implements [Clock]. It asks the kernel with each call.
func (BootClock) Now() time.Duration {
	now, ok := sinceBoot()
	if !ok {
		return time.Since(started)
	}
	return now
}

// MayStop reports whether the clock may stop while the machine is suspended: the kernel, or
// a sandbox in its place, does not have the clock that counts that time.
func (BootClock) MayStop() bool {
	_, ok := sinceBoot()
	return !ok
}

// sinceBoot returns the time since the machine was started, if the kernel has this clock.
func sinceBoot() (time.Duration, bool) {
	var t unix.Timespec
	// The call never blocks, so it can bypass the scheduler of Go.
	_, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), err == 0
}
