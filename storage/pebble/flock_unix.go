//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pebble

import (
	"errors"
	"os"
	"syscall"
)

// flock locks an open folder until [unflock]. It fails with EWOULDBLOCK if the
// folder is locked already, also by this process. Where the file system has no
// such locks, flock does nothing; the file LOCK still protects the folder.
func flock(dir *os.File) error {
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return err
		}
		return nil
	}
}

// unflock unlocks an open folder. Closing it is not enough: a process that this one
// is starting at the moment has a copy of the descriptor for a short time, and the
// lock is held until that is closed, too.
func unflock(dir *os.File) { syscall.Flock(int(dir.Fd()), syscall.LOCK_UN) }
