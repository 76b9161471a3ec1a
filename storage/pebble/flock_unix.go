//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pebble

import (
	"errors"
	"os"
	"syscall"
)

// flock locks an open folder until it is closed. It fails with EWOULDBLOCK if the
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
