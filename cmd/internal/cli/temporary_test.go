package cli_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// TestTemporary removes the folder of a process that has ended, and no other one.
func TestTemporary(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	make := func(prefix string) (string, func() error) {
		folder, remove, err := cli.Temporary(prefix)
		if err != nil {
			t.Fatal(err)
		}
		return folder, remove
	}
	keep := func(name string) string {
		folder := filepath.Join(os.TempDir(), name)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	left := func(name string) string { // as a killed process leaves it
		folder := keep(name)
		lock, err := cli.WriteHolder(folder, nil, false)
		if err := errors.Join(err, os.WriteFile(filepath.Join(folder, "rows"), nil, 0o600), lock.Close()); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	killed, other, empty := left("ostiary-here-1"), left("ostiary-there-1"), keep("ostiary-here-2")
	first, removeFirst := make("ostiary-here-")
	second, removeSecond := make("ostiary-here-")
	exists := func(folder string) bool {
		_, err := os.Stat(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	locks := runtime.GOOS != "windows"
	if exists(killed) == locks {
		t.Errorf("the folder of a process that has ended exists: %t", locks)
	}
	for name, folder := range map[string]string{"of another prefix": other, "without a lock": empty, "of a process that runs": first, "of this process": second} {
		if !exists(folder) {
			t.Errorf("the folder %s was removed", name)
		}
	}
	if err := errors.Join(removeFirst(), removeSecond()); err != nil {
		t.Fatal(err)
	}
	if exists(first) || exists(second) {
		t.Error("a folder was not removed")
	}
}
