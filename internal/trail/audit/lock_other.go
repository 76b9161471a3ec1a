//go:build !unix

package audit

import "os"

const permissions = false

// lock does nothing on this operating system.
func lock(*os.File) error { return nil }

// unlock does nothing on this operating system.
func unlock(*os.File) {}
