package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unescaped are calls that print the arguments of a command as they are.
var unescaped = regexp.MustCompile(`fmt\.(Fprint|Print)(f|ln)?\(|\b(a|m)\.(Out|Err)\.Write\(`)

// Commands print through the frame, which escapes what stored names may have. The frame
// itself and the benchmarks, which print no stored name, may print otherwise.
func TestPrinting(t *testing.T) {
	files, err := filepath.Glob("../../../cmd/*/internal/*/*.go")
	more, err2 := filepath.Glob("../../../cmd/internal/*/*.go")
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(more) == 0 {
		t.Fatal(files, more, err)
	}
	files = append(files, more...)
	for _, file := range files {
		room := filepath.Base(filepath.Dir(file))
		if strings.HasSuffix(file, "_test.go") || room == "cli" || room == "benchmark" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if unescaped.MatchString(line) {
				t.Errorf("%s:%d: %s: print with Printf, Println, PrintLines or Verbatim of internal/cli", file, i+1, strings.TrimSpace(line))
			}
		}
	}
}
