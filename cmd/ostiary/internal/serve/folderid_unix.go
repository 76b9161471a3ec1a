//go:build unix

package serve

import (
	"fmt"
	"os"
	"syscall"
)

// folderID returns what identifies a folder, and what a copy of it does not have: its device and
// its inode.
func folderID(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x-%x", s.Dev, s.Ino)
}
