//go:build unix

package permify

import (
	"syscall"
	"time"
)

// cpu is the processor time that the process has taken. Other programs on the
// machine change it less than they change the time that passes.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
