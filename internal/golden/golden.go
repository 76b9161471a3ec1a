// Package golden compares the results of tests with files: [Equal] with a whole file,
// and [Archive] with the last part of a script. It is for tests only.
package golden

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
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

// Archive plays a script in txtar form: play gets its files and returns the result,
// which is compared with the last file, "want". play does not get that file. With
// [Rewrite] it is written.
func Archive(t testing.TB, file string, play func(files []txtar.File) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(text)
	if last := len(archive.Files) - 1; last >= 0 && archive.Files[last].Name == "want" {
		archive.Files = archive.Files[:last]
	}
	if len(archive.Files) == 0 {
		t.Fatalf("%s has no files", file)
	}
	want := txtar.File{Name: "want", Data: []byte(play(archive.Files))}
	archive.Files = append(archive.Files, want)
	Equal(t, file, string(txtar.Format(archive)))
}
