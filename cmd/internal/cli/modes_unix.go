//go:build unix

package cli

import "syscall"

// restrictNewFiles makes every file that the process creates readable and
// writable for its owner alone.
func restrictNewFiles() { syscall.Umask(0o077) }
