package rel

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestRefusedTexts compares the errors of texts that no parser accepts with
// testdata/refused.txt, whose lines are a parser, a quoted text and an error.
// OSTIARY_REWRITE=1 writes the errors into the file.
func TestRefusedTexts(t *testing.T) {
	t.Parallel()
	parsers := map[string]func(string) (any, error){
		"object":  func(s string) (any, error) { o, err := ParseObject(s); return o, err },
		"subject": func(s string) (any, error) { u, err := ParseSubject(s); return u, err },
		"tuple":   func(s string) (any, error) { u, err := Parse(s); return u, err },
		"expiry":  func(s string) (any, error) { u, err := ParseExpiry(s); return u, err },
	}
	const file = "testdata/refused.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		in, _ := strconv.Unquote(quoted)
		_, err = parsers[name](in)
		if err == nil {
			t.Errorf("%s %s is accepted", name, quoted)
		}
		fmt.Fprintf(&out, "%s %s %v\n", name, quoted, err)
	}
	golden.Equal(t, file, out.String())
}

// TestBoundsOfNames checks the values that docs/format.md and the protocols give
// for the longest names.
func TestBoundsOfNames(t *testing.T) {
	t.Parallel()
	if got, want := [...]int{TypeBytesMax, RelationBytesMax, IDBytesMax, ContextBytesMax}, [...]int{254, 200, 1024, 32768}; got != want {
		t.Errorf("bounds %v, want %v", got, want)
	}
}

// TestZeroTime checks that the zero Time, which means never, is the zero
// [time.Time] and back.
func TestZeroTime(t *testing.T) {
	t.Parallel()
	if at := Time(0).Time(); !at.IsZero() || TimeOf(time.Time{}) != 0 {
		t.Errorf("the zero time is %v and %v", at, TimeOf(time.Time{}))
	}
	if at := Time(1).Time(); at.IsZero() || TimeOf(at) != 1 {
		t.Errorf("the first time is %v and %v", at, TimeOf(at))
	}
}
