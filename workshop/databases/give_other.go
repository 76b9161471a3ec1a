//go:build !unix

package databases

import (
	"errors"
	"os"
	"runtime"
)

// give fails: servers run as another user on Unix only.
func give(string, os.FileInfo) error {
	return errors.New("a file can be given to another user on Unix only, not on " + runtime.GOOS)
}
