//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pebble

import "os"

// flock does nothing on this operating system: the file LOCK protects the folder.
func flock(*os.File) error { return nil }

// unflock does nothing on this operating system.
func unflock(*os.File) {}
