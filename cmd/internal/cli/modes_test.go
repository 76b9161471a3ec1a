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
