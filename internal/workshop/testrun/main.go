// Command testrun runs go test and counts the tests. It prints one line for each
// package and the whole output of each failed test. At the end it prints a
// summary: the skipped tests by reason, the failed tests with the end of their
// output, the packages that skipped tests need, and "N passed, N failed, N skipped".
//
// Options come before the arguments of go test. -C DIR runs go test in that folder.
// -complete counts a test that is skipped for want of a package, which a registry has, as
// failed. -note FILE writes the names of these tests to a file, and -noted FILE runs only
// the tests of such a file; the arguments are flags of go test then.
//
// The exit code is 1 if a test or a build failed, or if no test passed.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// event is one line of the output of go test -json (see "go doc test2json").
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// counter counts tests, including subtests.
type counter struct {
	passed, failed, skipped int
	complete                bool                        // a test that needs a package fails
	output                  map[string]*strings.Builder // of running tests and packages, by package and test
	out                     io.Writer
	failures                []string            // failed tests: name and end of the output
	skips                   map[string][]string // names of skipped tests, by package and reason
	needs                   map[string]int      // the number of tests that need a package, by its name and registry
	needing                 []string            // these tests, as "PACKAGE TEST"
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
		why := "no reason given"
		if text != nil {
			why = reason(text.String())
		}
		c.skip(e, key, why)
	}
}

// skip counts a skipped test.
func (c *counter) skip(e event, key, why string) {
	pkg, registry, ok := servers.Needed(why)
	if ok {
		c.needs[pkg+" of "+registry]++
		c.needing = append(c.needing, key)
	}
	if ok && c.complete {
		c.failed++
		c.failures = append(c.failures, key+" was skipped, although a registry has what it needs: "+why)
		return
	}
	c.skipped++
	group := e.Package + ": " + why
	c.skips[group] = append(c.skips[group], e.Test)
}

// crash matches the first line that the Go runtime writes when a process ends by itself.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+: |runtime: out of memory)`)

// cut counts the tests of an ended package that did not end as failed: the package
// ran into its timeout, or its process ended. The failures have one entry for all of them:
// why it ended, which is in the output of whichever test ran last, and their names.
func (c *counter) cut(ended string) {
	why, names := "", []string(nil)
	for _, key := range slices.Sorted(maps.Keys(c.output)) {
		name, test, _ := strings.Cut(key, " ")
		if name != ended || test == "" {
			continue
		}
		text := c.output[key].String()
		delete(c.output, key)
		c.failed++
		fmt.Fprintf(c.out, "%s did not end; its output:\n%s", key, text)
		names = append(names, test)
		if at := crash.FindStringIndex(text); at != nil {
			text = text[at[0]:]
			why = strings.ToValidUTF8(text[:min(len(text), bytesMax)], "")
		}
	}
	if len(names) > 0 {
		c.failures = append(c.failures, fmt.Sprintf("%s: %d tests did not end, for the package ran into the timeout of go test, or its process ended: %s\n%s", ended, len(names), strings.Join(names, ", "), why))
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
	if len(c.needing) > 0 {
		var all []string
		for _, pkg := range slices.Sorted(maps.Keys(c.needs)) {
			all = append(all, fmt.Sprintf("%s (%d)", pkg, c.needs[pkg]))
		}
		fmt.Fprintf(c.out, "tests that need a package which is not installed: %s; \"make test-servers\" installs those of Debian as root, and \"make test-skipped\" then runs the tests that \"make test\" has skipped\n", strings.Join(all, ", "))
	}
	fmt.Fprintf(c.out, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
}

// bytesMax is how much of an output the summary repeats.
const bytesMax = 4000

// ending returns the last bytesMax bytes of a test's output.
func ending(output string) string {
	if len(output) > bytesMax {
		output = "…" + strings.ToValidUTF8(output[len(output)-bytesMax:], "")
	}
	return output
}

// reason returns the message of a skipped test: the line of its output that names a
// package, or else the first one that go test did not write.
func reason(output string) string {
	first := "no reason given"
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if _, _, ok := servers.Needed(line); ok {
			return line
		}
		if first == "no reason given" && line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			first = line
		}
	}
	return first
}

// selected returns the arguments of go test that select tests, which are given as
// "PACKAGE TEST": an expression of all their names, and their packages. A test of the same
// name in another of these packages is selected too.
func selected(tests []string) []string {
	var names, packages []string
	for _, test := range tests {
		pkg, name, _ := strings.Cut(test, " ")
		parts := strings.Split(name, "/")
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		names, packages = append(names, strings.Join(parts, "/")), append(packages, pkg)
	}
	slices.Sort(names)
	slices.Sort(packages)
	return append([]string{"-run", strings.Join(slices.Compact(names), "|")}, slices.Compact(packages)...)
}

// run runs go test with the options and arguments of the command line. It reports whether
// the tests have passed.
func run(line []string) (bool, error) {
	options := flag.NewFlagSet("testrun", flag.ContinueOnError)
	dir := options.String("C", ".", "")
	complete := options.Bool("complete", false, "")
	note, noted := options.String("note", "", ""), options.String("noted", "", "")
	own := 0 // the number of words before the flags of go test
	for own < len(line) && options.Lookup(strings.TrimPrefix(line[own], "-")) != nil {
		if own++; line[own-1] != "-complete" {
			own++
		}
	}
	if err := options.Parse(line[:min(own, len(line))]); err != nil {
		return false, err
	}
	args := line[min(own, len(line)):]
	c := &counter{complete: *complete, output: map[string]*strings.Builder{}, out: os.Stdout, skips: map[string][]string{}, needs: map[string]int{}}
	if *noted != "" {
		text, err := os.ReadFile(*noted)
		if err != nil {
			return false, fmt.Errorf("the tests that \"make test\" has skipped: %w", err)
		}
		tests := slices.DeleteFunc(strings.Split(string(text), "\n"), func(name string) bool { return name == "" })
		if len(tests) == 0 {
			c.summary()
			return true, nil
		}
		args = append(args[:len(args):len(args)], selected(tests)...)
	}
	if err := c.run(*dir, args); err != nil && c.failed == 0 {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			return false, err
		}
		c.failed++
	}
	c.summary()
	var err error
	if *note != "" {
		slices.Sort(c.needing)
		err = os.WriteFile(*note, []byte(strings.Join(append(c.needing, ""), "\n")), 0o644)
	}
	return c.failed == 0 && c.passed > 0, err
}

// run runs go test in a folder and counts its tests.
func (c *counter) run(dir string, args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stdout
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
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
	return cmd.Wait()
}

func main() {
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Println(err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
