package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestOwnerWarning warns root about the folder of another user, and about one that root
// would make in a folder of another user.
func TestOwnerWarning(t *testing.T) {
	t.Parallel()
	if os.Geteuid() < 0 {
		t.Skip("the system has no numbers of users")
	}
	theirs, owner := t.TempDir(), os.Geteuid()
	data := filepath.Join(theirs, "data")
	if owner == 0 {
		if got := ownerWarning(0, data); got != "" {
			t.Errorf("root's folder: %s", got)
		}
		owner = 12345
		if err := os.Chown(theirs, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	if got := ownerWarning(owner, data); got != "" {
		t.Errorf("the owner: %s", got)
	}
	for _, dir := range []string{theirs, data} {
		got := ownerWarning(0, dir)
		if user := strconv.Itoa(owner); !strings.Contains(got, theirs+" belongs to user "+user) || !strings.Contains(got, "chown -R "+user+" "+dir+" ") {
			t.Errorf("root on %s: %q, expected a warning with the owner and the command", dir, got)
		}
	}
	if got := ownerWarning(0, filepath.Join(data, "deeper")); got != "" {
		t.Errorf("a folder in no folder: %s", got)
	}
}

// TestGiveTo gives a folder that root has made to the owner of another one.
func TestGiveTo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
	theirs, made := t.TempDir(), t.TempDir()
	file := filepath.Join(made, "deep", "file")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []int{0, 12345} {
		if err := os.Chown(theirs, owner, -1); err != nil {
			t.Fatal(err)
		}
		if err := GiveTo(theirs, made); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{made, filepath.Dir(file), file} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := ownerOf(info); got != owner {
				t.Errorf("%s belongs to %d, expected %d", name, got, owner)
			}
		}
	}
}
