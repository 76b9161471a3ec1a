//go:build unix

package permify

import (
	"syscall"
	"time"
)

// cpu returns the processor time that this process used. Other load on the
// machine changes it less than it changes the elapsed time.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
