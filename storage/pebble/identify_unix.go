//go:build unix

package pebble

import (
	"io/fs"
	"syscall"
)

// fileID is what a file keeps while it is renamed, and no other file has.
type fileID struct{ device, inode uint64 }

// identify returns the id of the file at a path. It is called before each write, so it
// makes no os.FileInfo.
func identify(path string) (fileID, error) {
	for {
		var s syscall.Stat_t
		switch err := syscall.Stat(path, &s); err {
		case nil:
			return fileID{uint64(s.Dev), s.Ino}, nil
		case syscall.EINTR:
		default:
			return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
		}
	}
}

func (id fileID) same(as fileID) bool { return id == as }
