//go:build unix

package geo

import "syscall"

// freeSpace returns how many bytes the disk of a folder has left for this process.
func freeSpace(folder string) (int64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(folder, &s)
	return int64(s.Bavail) * int64(s.Bsize), err
}
