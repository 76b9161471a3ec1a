//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// TestCompare plays one short turn of each path on the program of the work tree and on
// itself. Each path must have figures.
func TestCompare(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "ostiary")
	if out, err := exec.Command("go", "build", "-o", folder+"/", "../../../cmd/ostiary", "../../../cmd/ostiary-bench").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows, err := compare(t.Context(), folder, [2]string{program, program}, options{turns: 1, time: 50 * time.Millisecond, clients: 2}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 10 || len(rows) != len(paths) {
		t.Errorf("%d paths have figures, expected 10", len(rows))
	}
	for _, r := range rows {
		if len(r.turns) != 1 || r.turns[0][0].clock <= 0 || r.turns[0][1].clock <= 0 {
			t.Errorf("%s: %v", r.name, r.turns)
		}
	}
}

// TestPrint prints rows with known ratios, and one without processor times.
func TestPrint(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	us := time.Microsecond
	err := print(&out, []row{
		{"a", [][2]figure{{{100 * us, 10 * us}, {50 * us, 20 * us}}, {{100 * us, 10 * us}, {100 * us, 30 * us}}, {{200 * us, 20 * us}, {400 * us, 40 * us}}}},
		{"b", [][2]figure{{{clock: us}, {clock: us}}}},
	})
	want := "" +
		"| path | base     | tree     | ratio               | processor, base | tree    | ratio               |\n" +
		"|---   |---       |---       |---                  |---              |---      |---                  |\n" +
		"| a    | 100.0 µs | 100.0 µs | 1.00 (0.75 to 1.50) | 10.0 µs         | 30.0 µs | 2.00 (2.00 to 2.50) |\n" +
		"| b    | 1.0 µs   | 1.0 µs   | 1.00 (1.00 to 1.00) | –               | –       | –                   |\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%swant\n%s", err, out.String(), want)
	}
}

// noted is a target that notes the objects of the tuples which it gets.
type noted struct {
	bench.Nothing
	objects map[string]int
}

func (n noted) Prepare(r bench.Request) (bench.Prepared, error) {
	for _, one := range r.Write {
		n.objects[one.Object.ID]++
	}
	return n.Nothing.Prepare(r)
}

// TestWritesAreNew sends the requests of two turns, in the second of which the second client is
// the first to send one. Each writes a tuple of its own.
func TestWritesAreNew(t *testing.T) {
	t.Parallel()
	target := noted{objects: map[string]int{}}
	send := (&side{}).writes(target)
	for _, i := range []int{0, 1, 1, 0} {
		if err := send(t.Context(), i, i); err != nil {
			t.Fatal(err)
		}
	}
	if len(target.objects) != 4 {
		t.Errorf("4 requests write %v", target.objects)
	}
}
