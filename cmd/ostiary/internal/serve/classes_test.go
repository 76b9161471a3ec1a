package serve

import (
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestClasses lists the class of each operation of each door, so that a new operation is looked
// at, and checks that each name in the tables is that of an operation.
func TestClasses(t *testing.T) {
	t.Parallel()
	var lines []string
	known := map[string]bool{"": true}
	for _, d := range openEveryDoor(t).doors {
		byClass := map[string][]string{}
		for _, name := range operations(d) {
			class := classOf(d.Name, name)
			byClass[class] = append(byClass[class], name)
			_, method, _ := strings.Cut(name, ".")
			known[name], known[method] = true, true
		}
		for class, names := range byClass {
			if class == classAdmin && len(names) > 30 {
				names = []string{"all others"}
			}
			if class == classNone {
				class = "-"
			}
			lines = append(lines, d.Name+" "+class+" "+strings.Join(names, " "))
		}
	}
	slices.Sort(lines)
	golden.Equal(t, "testdata/routes.classes", strings.Join(lines, "\n")+"\n")
	tables := []map[string][]string{classes}
	for _, table := range doorClasses {
		tables = append(tables, table)
	}
	for _, table := range tables {
		for class, names := range table {
			for _, name := range names {
				if !known[name] {
					t.Errorf("class %s has the operation %q, which no door has", class, name)
				}
			}
		}
	}
}
