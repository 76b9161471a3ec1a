//go:build !unix

package backup

import "io/fs"

// FileID returns "": the system does not identify files, so each backup reads them.
func FileID(fs.FileInfo) string { return "" }
