package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// TestForbids finds the refusal of a data folder, of what is in it, and of the files of keys
// next to it, among other errors.
func TestForbids(t *testing.T) {
	refused := func(path string, err error) error {
		return fmt.Errorf("open data folder: %w", &fs.PathError{Op: "mkdir", Path: path, Err: err})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{refused("/var/lib/ostiary/data", fs.ErrPermission), true},
		{refused("/var/lib/ostiary/data/OSTIARY", fs.ErrPermission), true},
		{refused("/var/lib/ostiary/data.fernet", fs.ErrPermission), true},
		{refused("/etc/ostiary/tls.key", fs.ErrPermission), false},
		{refused("/var/lib/ostiary/data", fs.ErrNotExist), false},
		{errors.New("permission denied"), false},
	} {
		if got := forbids(c.err, "/var/lib/ostiary/data/"); got != c.want {
			t.Errorf("%v: %t, expected %t", c.err, got, c.want)
		}
	}
}
