//go:build unix

package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

// TestModes requires that nobody else can read a key, and that the files of a node are
// what a node reads.
func TestModes(t *testing.T) {
	t.Parallel()
	f := certificateFlags{folder: filepath.Join(t.TempDir(), "c"), days: 1, authority: 1}
	made, err := f.make([]string{"node1.example"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{made.AuthorityKey, made.Nodes[0].Key} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v; want 0600", name, info.Mode().Perm(), err)
		}
	}
	files, err := certificate.Open(made.Nodes[0].Certificate, made.Nodes[0].Key, made.Authority, nil)
	if err != nil {
		t.Fatal(err)
	}
	if until := files.Expires(); !until.Equal(made.Nodes[0].Until.Truncate(time.Second)) {
		t.Errorf("valid until %s, printed %s", until, made.Nodes[0].Until)
	}
}
