//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a test program of one package.
type program struct {
	path string
	// dir is the folder in which the tests run.
	dir string
}

// errNoTests is the error of a package without tests.
var errNoTests = errors.New("no tests")

// build builds the tests of a package into the folder to. overlay is the path of
// an overlay, or "" for none. It fails if the program does not compile, and with
// [errNoTests] if the package has no tests.
func build(root, overlay, tests, to string) (program, error) {
	p := program{filepath.Join(to, "tests"), filepath.Join(root, tests)}
	if err := os.RemoveAll(p.path); err != nil {
		return p, err
	}
	_, err := output(root, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", p.path, tests)
	if err != nil {
		return p, err
	}
	if _, err := os.Stat(p.path); err != nil {
		return p, errNoTests
	}
	return p, nil
}

// memoryMaxKilobytes bounds the address space of the tests of a mutant, which may
// allocate without end.
const memoryMaxKilobytes = 12 << 20

// limit bounds a run of tests: the time and the processor time.
type limit struct{ wall, cpu time.Duration }

// result is what a run of tests did.
type result struct {
	failed, timedOut bool
	wall, cpu        time.Duration
	// text is the last part of the output.
	text string
}

// run runs the tests whose names are given, until the first one fails.
func (p program) run(tests []string, chosen int, record string, l limit) (result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.wall)
	defer cancel()
	const script = `ulimit -v "$1" -t "$2" 2>/dev/null; shift 2; exec "$@"`
	c := exec.CommandContext(ctx, "sh", "-c", script, "sh",
		strconv.Itoa(memoryMaxKilobytes), strconv.Itoa(int(l.cpu.Seconds())+1), p.path,
		"-test.v", "-test.short", "-test.failfast", "-test.timeout=0", "-test.run", exactly(tests))
	c.Dir, c.WaitDelay = p.dir, time.Second
	c.Env = append(os.Environ(), chosenVariable+"="+strconv.Itoa(chosen), reachedVariable+"="+record)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	w := &watcher{stop: cancel}
	c.Stdout, c.Stderr = w, w
	start := time.Now()
	err := c.Run()
	r := result{failed: err != nil || w.found, wall: time.Since(start), text: w.last.String()}
	if c.ProcessState == nil {
		return r, err
	}
	r.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	r.timedOut = r.failed && !w.found && (r.wall >= l.wall || r.cpu >= l.cpu)
	return r, nil
}

// exactly returns the regular expression of some names of tests.
func exactly(tests []string) string {
	return "^(" + strings.Join(tests, "|") + ")$"
}

// watcher reads the output of tests. It stops them when one has failed.
type watcher struct {
	stop  func()
	mu    sync.Mutex
	found bool
	last  bytes.Buffer
}

// lastMax bounds the output that a watcher keeps, in bytes.
const lastMax = 4 << 10

// Write looks for a failed test. A mark that two calls share is not found; the
// tests then end by themselves.
func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte("--- FAIL: ")) || bytes.HasPrefix(b, []byte("panic: ")) {
		w.found = true
		w.stop()
	}
	w.last.Write(b)
	w.last.Next(max(0, w.last.Len()-lastMax))
	return len(b), nil
}

// test is a test of a program, without a mutant.
type test struct {
	name      string
	wall, cpu time.Duration
	// reached are the numbers of the mutants that the test reaches.
	reached map[int]bool
}

// notTests matches what -test.list prints besides tests, fuzz targets and
// examples.
var notTests = regexp.MustCompile(`^(Benchmark|ok\b|\?)`)

// profile runs each test of a program alone, and returns them, the fastest first.
// It prints the tests that fail, and omits them.
func (p program) profile(o options, scratch string, print io.Writer) ([]test, error) {
	names, err := p.names()
	if err != nil {
		return nil, err
	}
	var all []test
	record := filepath.Join(scratch, "reached")
	for _, name := range names {
		if !o.run.MatchString(name) {
			continue
		}
		if err := os.RemoveAll(record); err != nil {
			return nil, err
		}
		r, err := p.run([]string{name}, 0, record, limit{o.timeout, o.timeout})
		if err != nil {
			return nil, err
		}
		if r.failed {
			fmt.Fprintf(print, "%s in %s fails without a mutant and is left out:\n%s", name, p.dir, r.text)
			continue
		}
		t := test{name: name, wall: r.wall, cpu: r.cpu}
		if t.reached, err = readReached(record); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b test) int { return int(a.cpu - b.cpu) })
	return all, nil
}

func (p program) names() ([]string, error) {
	text, err := output(p.dir, p.path, "-test.list", ".")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(text)
	return slices.DeleteFunc(names, notTests.MatchString), nil
}

func readReached(record string) (map[int]bool, error) {
	f, err := os.Open(record)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[int]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			return nil, err
		}
		all[n] = true
	}
	return all, nil
}

// kills reports whether one of the tests fails or exceeds a limit with a mutant,
// ten times what it takes without one and some seconds. It runs the fastest tests
// first, in groups of growing length.
func (p program) kills(tests []test, chosen int) (result, error) {
	const slack = 10 * time.Second
	for groupMax := time.Second; len(tests) > 0; groupMax *= 4 {
		var names []string
		var sum limit
		for len(tests) > 0 && (len(names) == 0 || sum.cpu+tests[0].cpu <= groupMax) {
			names = append(names, tests[0].name)
			sum.cpu += tests[0].cpu
			sum.wall += tests[0].wall
			tests = tests[1:]
		}
		r, err := p.run(names, chosen, "", limit{10*sum.wall + 3*slack, 10*sum.cpu + slack})
		if err != nil || r.failed {
			return r, err
		}
	}
	return result{}, nil
}
