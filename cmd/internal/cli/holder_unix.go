//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package cli

import (
	"os"
	"syscall"
)

// lockHolder locks the file of this server until it is closed. A file system
// without such locks is no error; the id of the process is then what counts.
func lockHolder(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return err
	}
	return nil
}

// holderEnded reports whether the process that made the file has ended, because
// its lock is free.
func holderEnded(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}
