// Command report runs all tests of this module and prints one line for each
// suite: how many tests passed, failed and were skipped, subtests included, and
// how long it took. It then prints the report of the differential and the output
// of each failure. Its arguments are those of go test, before "./...". It exits
// with 1 if a test failed or none ran.
//
//	go run ./report -count=1
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// event is a line of go test -json (see "go doc test2json").
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// suite counts the tests below one top-level test.
type suite struct {
	name                    string
	passed, failed, skipped int
	seconds                 float64
	// output is the output of the top-level test itself.
	output strings.Builder
}

// report gathers events.
type report struct {
	suites  []*suite
	failing map[string]*strings.Builder // by package and test, until it ended
	out     io.Writer
	broken  bool // a package failed without a test
}

func (r *report) suite(e event) *suite {
	top, _, _ := strings.Cut(e.Test, "/")
	name := path.Base(e.Package) + "." + top
	for _, s := range r.suites {
		if s.name == name {
			return s
		}
	}
	s := &suite{name: name}
	r.suites = append(r.suites, s)
	return s
}

func (r *report) take(e event) {
	if e.Test == "" {
		if e.Action == "fail" {
			r.broken = true
		}
		if e.Action == "output" && strings.Contains(e.Output, "FAIL") || e.Action == "build-output" {
			fmt.Fprint(r.out, e.Output)
		}
		return
	}
	s, key := r.suite(e), e.Package+" "+e.Test
	switch e.Action {
	case "output":
		if r.failing[key] == nil {
			r.failing[key] = &strings.Builder{}
		}
		r.failing[key].WriteString(e.Output)
		if !strings.Contains(e.Test, "/") && !strings.HasPrefix(e.Output, "=== ") && !strings.HasPrefix(e.Output, "--- ") {
			s.output.WriteString(e.Output)
		}
		return
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
	case "fail":
		s.failed++
		if text := r.failing[key]; text != nil {
			fmt.Fprint(r.out, text)
		}
	default:
		return
	}
	delete(r.failing, key)
	if !strings.Contains(e.Test, "/") {
		s.seconds = e.Elapsed
	}
}

// print writes the table and reports whether all tests passed.
func (r *report) print() bool {
	var all suite
	slices.SortFunc(r.suites, func(a, b *suite) int { return strings.Compare(a.name, b.name) })
	fmt.Fprintf(r.out, "%-40s %8s %8s %8s %9s\n", "suite", "passed", "failed", "skipped", "seconds")
	for _, s := range r.suites {
		fmt.Fprintf(r.out, "%-40s %8d %8d %8d %9.1f\n", s.name, s.passed, s.failed, s.skipped, s.seconds)
		all.passed, all.failed, all.skipped = all.passed+s.passed, all.failed+s.failed, all.skipped+s.skipped
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", all.passed, all.failed, all.skipped)
	for _, s := range r.suites {
		if s.output.Len() > 0 {
			fmt.Fprintf(r.out, "\n%s output:\n%s", s.name, &s.output)
		}
	}
	return all.failed == 0 && all.passed > 0 && !r.broken
}

func main() {
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, os.Args[1:]...), "./...")...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r := &report{failing: map[string]*strings.Builder{}, out: os.Stdout}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			r.take(e)
		}
	}
	ran := cmd.Wait()
	if !r.print() || ran != nil {
		os.Exit(1)
	}
}
