//go:build unix

package bench

import (
	"syscall"
	"time"
)

// OwnTime returns the processor time that this process has used.
func OwnTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
