package relations

import (
	"bytes"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

func TestColor(t *testing.T) {
	t.Parallel()
	if got, want := cli.ColorMarks("✓ a\n✗ b\n", true), "\x1b[32m✓\x1b[0m a\n\x1b[31m✗\x1b[0m b\n"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	if got := cli.ColorMarks("✓ a\n", false); got != "✓ a\n" {
		t.Errorf("without colors: got %q", got)
	}
	for after, want := range map[string]string{"true": "\x1b[32m+ user:a viewer doc:1\x1b[0m\n", "unknown": "? user:a viewer doc:1 (unknown, was false)\n"} {
		var out bytes.Buffer
		c := permissionChange{Object: "doc:1", Subject: "user:a", Before: "false", After: after}
		if c.print(&out, "viewer", true); out.String() != want {
			t.Errorf("got %q, expected %q", out.String(), want)
		}
	}
	a := &app{&cli.App{Out: &bytes.Buffer{}, Lookup: func(string) (string, bool) { return "", false }}}
	if a.Colored() {
		t.Error("an output that is no terminal has colors")
	}
}
