package token

import (
	"os"
	"slices"
	"testing"
)

// TestCopy copies a repository, also to a folder that has some of its keys, and not
// to one that has others.
func TestCopy(t *testing.T) {
	t.Parallel()
	from, to, other := Repository{Folder: t.TempDir()}, Repository{Folder: t.TempDir() + "/new"}, Repository{Folder: t.TempDir()}
	if err := from.Copy(to.Folder); err == nil {
		t.Error("an empty repository was copied")
	}
	if err := from.Setup(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is missing
		if err := from.Copy(to.Folder); err != nil {
			t.Fatal(err)
		}
	}
	want, err := from.Load()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := to.Load(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %d keys and error %v, want the %d keys", len(got), err, len(want))
	}
	if info, err := os.Stat(to.file(1)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	if err := other.Setup(); err != nil {
		t.Fatal(err)
	}
	before, err := other.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Copy(other.Folder); err == nil {
		t.Error("other keys were replaced")
	}
	if after, err := other.Load(); err != nil || !slices.Equal(before, after) {
		t.Errorf("the other keys changed: %v", err)
	}
}
