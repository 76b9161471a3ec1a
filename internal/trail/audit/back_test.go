package audit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// TestReadBack reads files whose lines cross the blocks, in pages of every kind: each line comes
// once, the newest first, and what is no whole line is left out.
func TestReadBack(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var want []string
	for _, first := range []int{1, 4, 9, 2000} {
		var text strings.Builder
		for i := range 5 {
			line := fmt.Sprintf("%d-%d-%s", first, i, strings.Repeat("x", first*i*70))
			want = append(want, line)
			text.WriteString(line + "\n")
		}
		if first == 4 {
			text.WriteString("torn")
		}
		writeFile(t, filepath.Join(folder, fmt.Sprintf("some-%012d.jsonl", first)), text.String())
	}
	writeFile(t, filepath.Join(folder, "some-000000003000.jsonl"), "")
	writeFile(t, filepath.Join(folder, "other-000000000001.jsonl"), "other\n")
	slices.Reverse(want)
	for _, c := range []struct {
		most  int64
		lines int
	}{{1 << 40, 1 << 30}, {1, 1 << 30}, {1 << 40, 1}, {1 << 20, 3}} {
		var got []string
		from, calls := "", 0
		for {
			n := 0
			next, err := audit.ReadBack(folder, "some", from, c.most, func(line []byte) bool {
				got = append(got, string(line))
				n++
				return n < c.lines
			})
			if err != nil {
				t.Fatal(err)
			}
			if calls++; next == "" || calls > 100 {
				break
			}
			from = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d bytes and %d lines a page: got %d lines, want %d", c.most, c.lines, len(got), len(want))
		}
	}
	// A line that no log has is passed over. Positions elsewhere show no part of a line.
	writeFile(t, filepath.Join(folder, "long-000000000001.jsonl"), "first\n"+strings.Repeat("x", 3<<20)+"\nlast\n")
	for from, want := range map[string][]string{"": {"last", "first"}, "1.8": {"first"}, "1.3": nil, "7.100": {"last", "first"}, "0.5": nil, "1.99999999": {"last", "first"}} {
		var got []string
		if _, err := audit.ReadBack(folder, "long", from, 1<<40, func(line []byte) bool { got = append(got, string(line)); return true }); err != nil || !slices.Equal(got, want) {
			t.Errorf("from %q: %d lines, want %q: %v", from, len(got), want, err)
		}
	}
	for _, from := range []string{"x", "1", "1.", ".1", "1.-2", "01.5", "1.5.5", "-1.5", "99999999999999999999.1", "1.0x5", "some-1.5"} {
		if _, err := audit.ReadBack(folder, "long", from, 1, func([]byte) bool { return true }); !errors.Is(err, audit.ErrPosition) {
			t.Errorf("from %q: %v", from, err)
		}
	}
	if _, err := audit.ReadBack(filepath.Join(folder, "none"), "some", "", 1, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
