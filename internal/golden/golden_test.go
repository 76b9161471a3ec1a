package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

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

// compare returns how Equal fails, or "".
func compare(t *testing.T, file, got string) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		golden.Equal(r, file, got)
	}()
	<-done
	return r.failure
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
