package bench

import (
	"os"
	"syscall"
)

// datasync waits until the disk has the bytes of a file.
func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
