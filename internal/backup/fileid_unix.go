//go:build unix

package backup

import (
	"fmt"
	"io/fs"
	"syscall"
)

// FileID returns what a file or a folder has and no other one that is there, such as a copy of it:
// its device and its inode. It returns "" if the system does not identify files.
func FileID(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x-%x", s.Dev, s.Ino)
}
