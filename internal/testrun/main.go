// Command testrun runs go test and counts: it prints a line a package, the
// whole output of every test that failed, and at its end what was skipped by
// reason, which tests failed with what they last printed, and "N passed, N
// failed, N skipped". Its arguments are go test's. With -C DIR as the first two,
// it runs there. It exits with 1 where a test or a build failed, or none ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// event is a line of go test -json (see "go doc test2json").
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// counter counts tests, subtests included, and keeps what each printed until
// it is known to have passed.
type counter struct {
	passed, failed, skipped int
	output                  map[string]*strings.Builder
	out                     io.Writer
	failures                []string            // a name and the end of its output, each
	skips                   map[string][]string // the tests of a package and a reason
}

func (c *counter) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		if c.output[key] == nil {
			c.output[key] = &strings.Builder{}
		}
		c.output[key].WriteString(e.Output)
	case "build-output":
		fmt.Fprint(c.out, e.Output)
	case "pass", "fail", "skip":
		c.end(e, key)
	}
}

func (c *counter) end(e event, key string) {
	text := c.output[key]
	delete(c.output, key)
	if e.Action == "fail" && text != nil {
		fmt.Fprint(c.out, text.String())
		c.failures = append(c.failures, key+"\n"+ending(text.String()))
	}
	if e.Test == "" {
		fmt.Fprintf(c.out, "%-4s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
		if e.Action == "fail" && text == nil {
			c.failed++ // a package that does not build has no failing test
		}
		return
	}
	switch e.Action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
	case "skip":
		c.skipped++
		if text != nil {
			why := e.Package + ": " + reason(text.String())
			c.skips[why] = append(c.skips[why], e.Test)
		}
	}
}

// sum prints what a reader wants to find at the end of a long output. Tests
// skipped for one reason are named together, the first three by name.
func (c *counter) sum() {
	for _, why := range slices.Sorted(maps.Keys(c.skips)) {
		tests := c.skips[why]
		names := strings.Join(tests[:min(3, len(tests))], ", ")
		if more := len(tests) - 3; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(c.out, "skip %s (%s)\n", why, names)
	}
	if len(c.failures) > 0 {
		fmt.Fprintln(c.out, "failed tests:")
	}
	for _, failure := range c.failures {
		fmt.Fprintln(c.out, strings.TrimSpace(failure))
	}
	fmt.Fprintf(c.out, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
}

// ending cuts a test's output to its last lines.
func ending(output string) string {
	const most = 4000
	if len(output) > most {
		output = "…" + strings.ToValidUTF8(output[len(output)-most:], "")
	}
	return output
}

// reason picks what a skipped test said.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			return line
		}
	}
	return "no reason given"
}

func main() {
	args := os.Args[1:]
	dir := "."
	if len(args) > 1 && args[0] == "-C" {
		dir, args = args[1], args[2:]
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stdout
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	c := &counter{output: map[string]*strings.Builder{}, out: os.Stdout, skips: map[string][]string{}}
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if line != "" && json.Unmarshal([]byte(line), &e) == nil {
			c.take(e)
		} else if line != "" {
			fmt.Print(line)
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	if err != nil && c.failed == 0 {
		c.failed++
	}
	c.sum()
	if c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}
