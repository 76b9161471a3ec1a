// Package golden compares the results of tests with files: [Equal] with a whole file,
// [Script] with the last part of a script, and [Metrics] with metrics. [Each] plays all scripts of a folder.
// It is for tests only.
package golden

import (
	"bytes"
	"os"
	"path/filepath"
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

// Each calls play with each file whose name matches a pattern of [filepath.Match], in
// parallel subtests with the names of the files without their ends. It fails if there
// are fewer than least files.
func Each(t *testing.T, pattern string, least int, play func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("%d files match %s, expected at least %d: %v", len(files), pattern, least, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Parallel()
			play(t, file)
		})
	}
}

// Script plays a script: play gets the text of the file before the line "-- want --",
// and returns what must follow this line. In txtar form the rest is the file "want".
// With [Rewrite] it is written.
func Script(t testing.TB, file string, play func(text []byte) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const line = "-- want --\n"
	if i := bytes.LastIndex(text, []byte(line)); i == 0 || i > 0 && text[i-1] == '\n' {
		text = text[:i]
	}
	if len(text) == 0 {
		t.Fatalf("%s has no script", file)
	}
	Equal(t, file, string(text)+line+play(text))
}
