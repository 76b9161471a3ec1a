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
	var t unix.Timespec
	// The call never blocks, so it can bypass the scheduler of Go.
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		return time.Since(started) // kernels before 2.6.39
	}
	return time.Duration(t.Nano())
}
