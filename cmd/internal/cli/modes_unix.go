//go:build unix

package cli

import (
	"io/fs"
	"syscall"
)

// restrictNewFiles makes every file that the process creates readable and
// writable for its owner alone.
func restrictNewFiles() { syscall.Umask(0o077) }

// ownerOf returns the number of the user to whom a file belongs.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return 0
}
