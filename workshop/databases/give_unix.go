//go:build unix

package databases

import (
	"os"
	"syscall"
)

// give makes the owner of one file that of another.
func give(name string, of os.FileInfo) error {
	owner := of.Sys().(*syscall.Stat_t)
	return os.Chown(name, int(owner.Uid), int(owner.Gid))
}
