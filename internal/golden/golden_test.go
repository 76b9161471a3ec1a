package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/internal/golden"
)

// recorder keeps the failure of a test.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) { r.fail(fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }

func (r *recorder) fail(text string) {
	r.failure = text
	runtime.Goexit()
}

// failure returns how compare fails, or "".
func failure(t *testing.T, compare func(testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		compare(r)
	}()
	<-done
	return r.failure
}

// compare returns how Equal fails, or "".
func compare(t *testing.T, file, got string) string {
	return failure(t, func(t testing.TB) { golden.Equal(t, file, got) })
}

// TestArchive plays scripts without a result, with another one, and with the same.
func TestArchive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	play := func(files []txtar.File) string {
		return fmt.Sprintf("%d files, the first: %s", len(files), files[0].Data)
	}
	archive := func() string {
		return failure(t, func(t testing.TB) { golden.Archive(t, file, play) })
	}
	t.Setenv("OSTIARY_REWRITE", "")
	if failure := archive(); !strings.Contains(failure, "no such file") {
		t.Errorf("a missing file: %q", failure)
	}
	for _, c := range []struct{ text, rewrite, failure string }{
		{"", "", "has no files"},
		{"-- want --\n", "", "has no files"},
		{"-- a --\n1\n-- b --\n2\n", "", "script:5: got\n-- want --"},
		{"-- a --\n1\n-- want --\n2 files, the first: 1\n", "", "script:4: got\n1 files, the first: 1"},
		{"-- a --\n1\n-- want --\n1 files, the first: 1\n", "", ""},
		{"text\n-- a --\n1\n", "1", ""},
	} {
		t.Setenv("OSTIARY_REWRITE", c.rewrite)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := archive(); (got == "") != (c.failure == "") || !strings.Contains(got, c.failure) {
			t.Errorf("%q: %q, want %q", c.text, got, c.failure)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "text\n-- a --\n1\n-- want --\n1 files, the first: 1\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

func TestEqual(t *testing.T) {
	t.Setenv("OSTIARY_REWRITE", "")
	file := filepath.Join(t.TempDir(), "want")
	if failure := compare(t, file, "a"); !strings.Contains(failure, "no such file") {
		t.Errorf("a missing file: %q", failure)
	}
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{"a\nb\n": "", "a\nc\n": "want:2: got\nc\nwant\nb", "a\nb\n\n": "want:4: got\n\nwant\n", "a\nb": "got 2 lines, want 3", "": "want:1: got\n\nwant\na"} {
		if failure := compare(t, file, got); (failure == "") != (want == "") || !strings.Contains(failure, want) {
			t.Errorf("%q: %q, want %q", got, failure, want)
		}
	}
	t.Setenv("OSTIARY_REWRITE", "1")
	if failure := compare(t, file, "c"); failure != "" {
		t.Error(failure)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "c" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
