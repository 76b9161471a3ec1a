package faults

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestPage counts the faults of docs/testing.md, and compares the names of those of
// several nodes with it. The examples, and the runs that a hunt needed, are by hand.
func TestPage(t *testing.T) {
	t.Parallel()
	root, engine := load(t, engineFaults, engineFaultsMin)
	_, policies := load(t, policyFaults, policyFaultsMin)
	_, doors := load(t, doorFaults, doorFaultsMin)
	_, nodes := load(t, nodeFaults, nodeFaultsMin)
	file := filepath.Join(root, "docs", "testing.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := part(t, string(text), "faults", func(old string) string {
		written := cells(old)
		var out strings.Builder
		out.WriteString("| faults in | number | for example |\n|---|---|---|\n")
		row := func(room string, all []Fault) {
			example := strings.ToLower(all[0].Mistake[:1]) + strings.TrimSuffix(all[0].Mistake[1:], ".")
			fmt.Fprintf(&out, "| %s | %d | %s |\n", room, len(all), cmp.Or(written[room], example))
		}
		row("the engine", engine)
		row("the evaluator of XACML policies", policies)
		row("several nodes", nodes)
		rooms := map[string][]Fault{}
		for _, f := range doors {
			room := "`" + path.Dir(f.Edits[0].File) + "`"
			rooms[room] = append(rooms[room], f)
		}
		for _, room := range slices.Sorted(maps.Keys(rooms)) {
			row(room, rooms[room])
		}
		return out.String()
	})
	page = part(t, page, "faults of nodes", func(old string) string {
		measured := cells(old)
		var out strings.Builder
		fmt.Fprintf(&out, "| fault | runs, of at most %d |\n|---|---|\n", runsMax)
		for _, f := range nodes {
			name := strings.TrimSuffix(f.Mistake, ".")
			fmt.Fprintf(&out, "| %s | %s |\n", name, cmp.Or(measured[name], "not measured"))
		}
		return out.String()
	})
	golden.Equal(t, file, page)
}

// part replaces the part of a page between two comments with a name.
func part(t *testing.T, page, name string, make func(old string) string) string {
	t.Helper()
	begin, end := "<!-- "+name+": made by OSTIARY_REWRITE=1 go test -run TestPage ./internal/workshop/oracle/faults -->\n", "<!-- end of "+name+" -->\n"
	before, rest, found := strings.Cut(page, begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("docs/testing.md: expected %q and %q", begin, end)
	}
	return before + begin + make(old) + end + after
}

// lineOfTable matches a line of a table: its first and its last cell.
var lineOfTable = regexp.MustCompile(`(?m)^\| (.*?) \|(?:.* \|)? (.*) \|$`)

// cells returns the last cell of each line of a table, by its first cell.
func cells(table string) map[string]string {
	out := map[string]string{}
	for _, line := range lineOfTable.FindAllStringSubmatch(table, -1) {
		out[line[1]] = line[2]
	}
	return out
}
