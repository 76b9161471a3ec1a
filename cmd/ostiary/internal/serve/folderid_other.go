//go:build !unix

package serve

// folderID returns "": the system does not identify folders.
func folderID(string) string { return "" }
