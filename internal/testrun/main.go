// Command testrun runs go test and counts the tests. It prints one line for each
// package and the whole output of each failed test. At the end it prints a
// summary: the skipped tests by reason, the failed tests with the end of their
// output, and "N passed, N failed, N skipped".
//
// The arguments are those of go test. If the first two are -C DIR, go test runs
// in that folder. The exit code is 1 if a test or a build failed, or if no test
// passed.
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

// event is one line of the output of go test -json (see "go doc test2json").
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// counter counts tests, including subtests.
type counter struct {
	passed, failed, skipped int
	output                  map[string]*strings.Builder // of running tests and packages, by package and test
	out                     io.Writer
	failures                []string            // failed tests: name and end of the output
	skips                   map[string][]string // names of skipped tests, by package and reason
}

// add handles one event.
func (c *counter) add(e event) {
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

// end handles the end of a test, or of a package if e.Test is "".
func (c *counter) end(e event, key string) {
	text := c.output[key]
	delete(c.output, key)
	if e.Action == "fail" && text != nil {
		fmt.Fprint(c.out, text.String())
		c.failures = append(c.failures, key+"\n"+ending(text.String()))
	}
	if e.Test == "" {
		fmt.Fprintf(c.out, "%-4s %s %.1fs\n", e.Action, e.Package, e.Elapsed)
		c.cut(e.Package)
		if e.Action == "fail" && text == nil {
			c.failed++ // the package does not build, so no test of it fails
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

// cut counts the tests of an ended package that did not end as failed: the package
// ran into its timeout, or its process ended.
func (c *counter) cut(ended string) {
	for _, key := range slices.Sorted(maps.Keys(c.output)) {
		if name, test, _ := strings.Cut(key, " "); name != ended || test == "" {
			continue
		}
		text := c.output[key].String()
		delete(c.output, key)
		c.failed++
		fmt.Fprintf(c.out, "%s did not end; its output:\n%s", key, text)
		c.failures = append(c.failures, key+" did not end: its package ran into the timeout of go test, or its process ended\n"+ending(text))
	}
}

// summary prints the summary. It groups skipped tests by reason and names the
// first three of each group.
func (c *counter) summary() {
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

// ending returns the last 4000 bytes of a test's output.
func ending(output string) string {
	const bytesMax = 4000
	if len(output) > bytesMax {
		output = "…" + strings.ToValidUTF8(output[len(output)-bytesMax:], "")
	}
	return output
}

// reason returns the message of a skipped test: the first line of its output that
// go test did not write.
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
			c.add(e)
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
	c.summary()
	if c.failed > 0 || c.passed == 0 {
		os.Exit(1)
	}
}
