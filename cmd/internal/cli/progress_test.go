package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// TestProgressLine checks that there is one line at a time, that updates of one
// title are rare, and that nothing remains at the end.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &ProgressLine{w: &out, now: func() time.Time { return now }}
	p.Show("loading ostiary", 0, 200)
	p.Show("loading ostiary", 100, 200) // too soon
	now = now.Add(progressEvery)
	p.Show("loading ostiary", 150, 200)
	p.Show("cell 1 of 2: x", 0, 0)
	p.End()
	if got, want := out.String(), "\rloading ostiary, 0 %\rloading ostiary, 75 %\rcell 1 of 2: x"+strings.Repeat(" ", 7)+"\r"+strings.Repeat(" ", 14)+"\r"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	var none *ProgressLine
	none.Show("x", 1, 2)
	none.End()
	if text, err := io.ReadAll(none.reader(strings.NewReader("text"), "x", 4)); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	out.Reset()
	counted := &ProgressLine{w: &out, now: func() time.Time { return now }}
	for range counted.Count(func(yield func(rel.Tuple, error) bool) {
		_ = yield(rel.Tuple{}, nil) && yield(rel.Tuple{}, io.ErrUnexpectedEOF)
	}, "exporting") {
	}
	if counted.End(); out.String() != "\rexporting, 1 done\r"+strings.Repeat(" ", 17)+"\r" {
		t.Errorf("got %q", out.String())
	}
	counted.wait("loading")() // shorter than one update
	none.wait("loading")()
	out.Reset()
	if _, err := io.ReadAll((&ProgressLine{w: &out, now: time.Now}).reader(strings.NewReader(strings.Repeat("x", 4096)), "importing", 4096)); err != nil || !strings.Contains(out.String(), "importing, ") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
