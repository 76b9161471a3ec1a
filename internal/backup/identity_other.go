//go:build !unix

package backup

import "io/fs"

// identity returns "": the system does not identify files, so each backup reads them.
func identity(fs.FileInfo) string { return "" }
