package rules

import (
	"regexp"
	"strings"
	"testing"
)

// figure is a cell of docs/benchmarks/beside.md: a time, and the server's processor time
// in µs.
var figure = regexp.MustCompile(`^\**([\d.,]+ (?:ns|µs|ms))\** \(([\d.,]+)\)\**$`)

// TestReadmeFigures requires that the figures in README are those of the 3-hop check in
// docs/benchmarks/beside.md, and that both pages name the commit, the date and the load of
// the run.
func TestReadmeFigures(t *testing.T) {
	t.Parallel()
	page, readme := prose(t, "../../../docs/benchmarks/beside.md"), prose(t, "../../../README.md")
	cells := rowOf(t, page, "| 3-hop |")
	for server, column := range map[string]int{"Ostiary": 0, "an HTTP server that does nothing": 1, "OpenFGA v1.22.1": 2} {
		m := figure.FindStringSubmatch(cells[column])
		if m == nil {
			t.Fatalf("docs/benchmarks/beside.md, 3-hop: %q is no time with a processor time", cells[column])
		}
		want := []string{m[1], m[2] + " µs"}
		got := rowOf(t, readme, "| "+server+" |")
		if len(got) < len(want) || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("README, %s: %q, expected %q as in docs/benchmarks/beside.md", server, got, want)
		}
	}
	run := regexp.MustCompile(`commit [0-9a-f]{8}, 20\d\d-\d\d-\d\d, load [\d.]+`)
	measured := run.FindString(page)
	if measured == "" || measured != run.FindString(readme) {
		t.Errorf("the page and README name the run as %q and %q, expected the same, matching %s", measured, run.FindString(readme), run)
	}
}

// rowOf returns the cells of the first row of a table that begins with a text, without the
// first cell.
func rowOf(t *testing.T, page, begin string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "\n"+begin)
	if !ok {
		t.Fatalf("no row of a table begins with %q", begin)
	}
	line, _, _ := strings.Cut(rest, "\n")
	var cells []string
	for cell := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

// readmeWordsMax is the number of words in README, without its blocks and tables: of the
// text of a link only the words count, not the address, and code in a line counts.
const readmeWordsMax = 450

// TestReadmeWords counts the words of README, which a reader should pass in two minutes.
func TestReadmeWords(t *testing.T) {
	t.Parallel()
	text := readText(t, "../../../README.md")
	for _, skipped := range []string{"(?s)```.*?```", `(?m)^\|.*$`, `\]\([^)]*\)`} {
		text = regexp.MustCompile(skipped).ReplaceAllString(text, " ")
	}
	words := regexp.MustCompile(`[\p{L}\p{N}]\S*`).FindAllString(text, -1)
	t.Logf("README has %d words", len(words))
	if len(words) > readmeWordsMax || len(words) < 100 {
		t.Errorf("README has %d words, expected at most %d", len(words), readmeWordsMax)
	}
}
