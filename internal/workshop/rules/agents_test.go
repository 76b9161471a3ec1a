package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// agentsLinesMax is the number of lines of AGENTS.md, which is read whole each time.
const agentsLinesMax = 60

// TestAgents checks that AGENTS.md is short, and that the folders, the tests and the
// targets of make that it names exist. README's targets must exist as well.
func TestAgents(t *testing.T) {
	t.Parallel()
	const root = "../../../"
	page, makefile := readText(t, root+"AGENTS.md"), readText(t, root+"Makefile")
	if lines := strings.Count(page, "\n"); lines > agentsLinesMax {
		t.Errorf("AGENTS.md has %d lines, expected at most %d", lines, agentsLinesMax)
	}
	targets := 0
	for _, target := range regexp.MustCompile(`(?m)^make ([a-z-]+)`).FindAllStringSubmatch(page+readText(t, root+"README.md"), -1) {
		targets++
		if !regexp.MustCompile(`(?m)^` + target[1] + `(%| |:)`).MatchString(makefile) {
			t.Errorf("the Makefile has no target %q", target[1])
		}
	}
	folders := 0
	for row := range strings.Lines(page) {
		if _, places, ok := strings.Cut(strings.TrimPrefix(row, "|"), " | "); ok {
			for _, name := range regexp.MustCompile("`([a-z]+(?:/[a-z]+)*)(?:/NAME)?`").FindAllStringSubmatch(places, -1) {
				folders++
				if _, err := os.Stat(filepath.Join(root, name[1])); err != nil && name[1] != "testdata" {
					t.Errorf("AGENTS.md: %v", err)
				}
			}
		}
	}
	if targets < 6 || folders < 12 {
		t.Errorf("found %d targets and %d folders, expected at least 6 and 12", targets, folders)
	}
	tests := ""
	for _, name := range []string{"docs_test.go", "help_test.go"} {
		tests += readText(t, root+"cmd/ostiary/"+name)
	}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(page, -1) {
		if !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("AGENTS.md names %s, which is not in cmd/ostiary", name)
		}
	}
}
