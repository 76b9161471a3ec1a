//go:build unix

package audit

import (
	"os"
	"syscall"
)

// permissions is true if files have the permissions of Unix.
const permissions = true

// lock locks an open file until it is closed. It fails if another process has locked it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
