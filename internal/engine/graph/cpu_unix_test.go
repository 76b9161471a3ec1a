//go:build unix

package graph_test

import (
	"syscall"
	"time"
)

// cpu returns the processor time that the process has used. Other programs on
// the machine change it less than they change the elapsed time.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
