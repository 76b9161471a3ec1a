//go:build unix

package backup

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity returns what a file has, and no other file that is there or was there before has:
// device, inode and time of change.
func identity(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x", s.Dev, s.Ino, info.ModTime().UnixNano())
}
