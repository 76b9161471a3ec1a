//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package cli

import "os"

// lockHolder does nothing: the system has no locks that end with their process.
func lockHolder(*os.File) error { return nil }

// holderEnded reports false: only the id of the process shows whether it has ended.
func holderEnded(*os.File) bool { return false }
