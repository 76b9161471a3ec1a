package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
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

// TestScript plays scripts without a result, with another one, and with the same.
func TestScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	play := func(text []byte) string { return fmt.Sprintf("%d bytes\n", len(text)) }
	script := func() string {
		return failure(t, func(t testing.TB) { golden.Script(t, file, play) })
	}
	t.Setenv("OSTIARY_REWRITE", "")
	if failure := script(); !strings.Contains(failure, "no such file") {
		t.Errorf("a missing file: %q", failure)
	}
	for _, c := range []struct{ text, rewrite, failure string }{
		{"", "", "has no script"},
		{"-- want --\n", "", "has no script"},
		{"a\n", "", "script:2: got\n-- want --"},
		{"a\n-- want --\n1 bytes\n", "", "script:3: got\n2 bytes"},
		{"a\n-- want --\n2 bytes\n", "", ""},
		{"a-- want --\n", "", "script:2: got\n-- want --"},
		{"a\n", "1", ""},
	} {
		t.Setenv("OSTIARY_REWRITE", c.rewrite)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := script(); (got == "") != (c.failure == "") || !strings.Contains(got, c.failure) {
			t.Errorf("%q: %q, want %q", c.text, got, c.failure)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "a\n-- want --\n2 bytes\n" {
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
