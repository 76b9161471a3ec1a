//go:build !linux

package bench

import "os"

// datasync waits until the disk has the bytes of a file, and all else that is known of it.
func datasync(f *os.File) error { return f.Sync() }
