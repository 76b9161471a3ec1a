//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// killedGoal is the share of the mutants of a room that its tests should kill.
const killedGoal = 0.92

// sample matches a row of the table of samples: the room, the killed and all mutants
// of the last sample, and the share.
var sample = regexp.MustCompile("(?m)^(\\| (?:`([a-z0-9/]+)`|root) \\|.*\\|.*\\| ([0-9]+) of ([0-9]+) \\|.*\\|.*\\|) .* \\|$")

// TestPage computes the shares in the table of samples of docs/testing.md, and checks
// that its rooms exist.
func TestPage(t *testing.T) {
	t.Parallel()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	top := strings.TrimSpace(string(root))
	file := filepath.Join(top, "docs", "testing.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "<!-- samples: ")
	table, after, closed := strings.Cut(rest, "<!-- end of samples -->")
	if !found || !closed {
		t.Fatalf("%s: expected a table of samples between comments", file)
	}
	rows := 0
	table = sample.ReplaceAllStringFunc(table, func(row string) string {
		rows++
		part := sample.FindStringSubmatch(row)
		if _, err := os.Stat(filepath.Join(top, filepath.FromSlash(part[2]))); err != nil {
			t.Errorf("%s: the table of samples has the room %q: %v", file, part[2], err)
		}
		var killed, all int
		if _, err := fmt.Sscan(part[3], &killed); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(part[4], &all); err != nil || killed > all {
			t.Fatalf("%s: %s of %s mutants were killed: %v", file, part[3], part[4], err)
		}
		share := fmt.Sprintf("%.0f %%", 100*float64(killed)/float64(all))
		if float64(killed) < killedGoal*float64(all) {
			share = "**" + share + "**"
		}
		return part[1] + " " + share + " |"
	})
	if rows != strings.Count(table, "\n| ")-1 { // without the head
		t.Errorf("%s: the table of samples has %d rows with a last sample, of %d lines", file, rows, strings.Count(table, "\n| ")-1)
	}
	golden.Equal(t, file, before+"<!-- samples: "+table+"<!-- end of samples -->"+after)
}
