//go:build !unix

package pebble

import "os"

// fileID is what a file keeps while it is renamed, and no other file has.
type fileID struct{ os.FileInfo }

// identify returns the id of the file at a path.
func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	return fileID{info}, err
}

func (id fileID) same(as fileID) bool { return os.SameFile(id.FileInfo, as.FileInfo) }
