package servers

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestFreePort chooses ports on two hosts, for this process and as another one would: each
// is another one, below those that connections take. No test can listen on it: another
// program may be quicker.
func TestFreePort(t *testing.T) {
	t.Parallel()
	var other ports
	t.Cleanup(func() {
		for _, guard := range other.guards {
			_ = guard.Close()
		}
	})
	taken := map[int]bool{}
	for i := range 6 * portBlock {
		choose := FreePort
		if i%3 == 0 {
			choose = other.choose
		}
		at, err := choose([]string{"127.0.0.1", "127.0.0.2"}[i%2])
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := net.SplitHostPort(at)
		port, err := strconv.Atoi(text)
		if err != nil || port < portFirst || port >= portFirst+portsAll || taken[port] {
			t.Errorf("%s: error %v, chosen before: %t", at, err, taken[port])
		}
		taken[port] = true
	}
}

// TestCheckEnter looks at folders below one that other users cannot enter.
func TestCheckEnter(t *testing.T) {
	t.Parallel()
	private := filepath.Join(t.TempDir(), "private")
	inner := filepath.Join(private, "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(inner, link); err != nil {
		t.Fatal(err)
	}
	outside := CheckEnter(filepath.Dir(private)) // what the folder of the test itself lacks
	for rights, refused := range map[os.FileMode]bool{0o700: true, 0o750: true, 0o711: false, 0o755: false} {
		if err := os.Chmod(private, rights); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{private, inner, link} {
			err := CheckEnter(path)
			if outside == nil && refused != (err != nil && strings.Contains(err.Error(), "private: the rights are "+strconv.FormatUint(uint64(rights)|0o10000, 8)[1:]+",")) {
				t.Errorf("rights %o, %s: %v", rights, path, err)
			}
		}
	}
	if err := CheckEnter(filepath.Join(private, "missing")); err == nil {
		t.Error("a missing folder can be entered")
	}
}
