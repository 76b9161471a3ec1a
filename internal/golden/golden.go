// Package golden compares the results of tests with files: [Equal] with a whole file.
// It is for tests only.
package golden

import (
	"os"
	"strings"
	"testing"
)

// Rewrite reports whether tests write their results into the files, because the
// environment variable OSTIARY_REWRITE is set.
func Rewrite() bool { return os.Getenv("OSTIARY_REWRITE") != "" }

// Equal compares a text with a file and fails at the first line that differs. With
// [Rewrite] it writes the file.
func Equal(t testing.TB, file, got string) {
	t.Helper()
	if Rewrite() {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) == got {
		return
	}
	want, lines := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i, line := range lines {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s\nOSTIARY_REWRITE=1 writes the file", file, i+1, line, want[min(i, len(want)-1)])
		}
	}
	t.Fatalf("%s: got %d lines, want %d\nOSTIARY_REWRITE=1 writes the file", file, len(lines), len(want))
}
