//go:build unix

package audit

import (
	"os"
	"syscall"
)

// permissions is true if files have the permissions of Unix.
const permissions = true

// lock locks an open file until [unlock]. It fails if another process has locked it.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// unlock unlocks an open file. Closing it is not enough: a process that this one is starting at
// the moment has a copy of the descriptor for a short time.
func unlock(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
