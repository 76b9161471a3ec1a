//go:build unix

package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"sync"

	"github.com/ostiary/ostiary/internal/workshop/oracle/faults"
)

// row counts the mutants of one package.
type row struct {
	room string
	// all counts every mutant of the package. The other numbers count those that
	// were tried; timedOut those of killed whose tests did not end.
	all, killed, survived, equivalent, uncompilable, timedOut int
}

// share returns the percentage of the mutants that were killed, among those that
// compile and are not equivalent.
func (r row) share() float64 {
	if r.killed+r.survived == 0 {
		return 100
	}
	return 100 * float64(r.killed) / float64(r.killed+r.survived)
}

// trial tries the mutants of one package.
type trial struct {
	options
	root    string // of the repository
	scratch string // the folder for programs and changed files
	pkg
	row
	print   io.Writer
	checker *checker
	// alive are the mutants that no test has killed yet, and reached those that a
	// test has executed.
	alive   []*Mutant
	reached map[*Mutant]bool
}

// try runs the tests on a sample of the mutants of p, and prints those that
// survive. Mutants in known are skipped.
func try(o options, root string, p pkg, all []Mutant, known map[string]string, print io.Writer) (row, error) {
	t := &trial{options: o, root: root, pkg: p, row: row{room: p.room, all: len(all)}, print: print, reached: map[*Mutant]bool{}}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return t.row, err
	}
	defer os.RemoveAll(dir)
	t.scratch = dir
	if t.checker, err = newChecker(root, p); err != nil {
		return t.row, err
	}
	t.choose(all, known)
	if err := t.tryAll(); err != nil {
		return t.row, err
	}
	t.survivors()
	return t.row, nil
}

// choose chooses the mutants to try.
func (t *trial) choose(all []Mutant, known map[string]string) {
	for _, i := range order(t.seed, t.room(), len(all)) {
		m := &all[i]
		if t.sample > 0 && len(t.alive) == t.sample {
			return
		}
		if !t.only.MatchString(m.ID) {
			continue
		}
		if _, ok := known[t.room()+" "+m.ID]; ok {
			t.equivalent++
			continue
		}
		if t.checker.compiles(t.changed(m)) != nil {
			t.uncompilable++
			continue
		}
		t.alive = append(t.alive, m)
	}
}

func (t *trial) room() string { return t.pkg.room }

// changed returns the file that a mutant changes, by its name.
func (t *trial) changed(m *Mutant) map[string]string {
	return map[string]string{m.File: m.apply([]byte(t.checker.texts[m.File]))}
}

// tryAll runs the tests of each package on the mutants that are still alive.
func (t *trial) tryAll() error {
	packages := t.tests()
	if t.own {
		packages = packages[:1]
	}
	code := newSwitched(t.checker, t.room(), t.alive)
	for _, tests := range packages {
		if len(t.alive) == 0 {
			return nil
		}
		if err := t.tryPackage(tests, code); err != nil && !errors.Is(err, errNoTests) {
			return fmt.Errorf("%s: %w", tests, err)
		}
	}
	return nil
}

// tryPackage runs the tests of one package on the mutants that are still alive.
func (t *trial) tryPackage(tests string, code switched) error {
	overlay, err := faults.WriteOverlay(t.root, t.scratch, code.files)
	if err != nil {
		return err
	}
	shared, err := build(t.root, overlay, tests, t.scratch)
	if err != nil {
		return err
	}
	all, err := shared.profile(t.options, t.scratch, t.print)
	if err != nil {
		return err
	}
	var rest []*Mutant
	for _, m := range t.alive {
		if code.number[m] == 0 {
			rest = append(rest, m)
		}
	}
	if err := t.trySwitched(shared, all, code); err != nil {
		return err
	}
	for _, m := range rest {
		if err := t.tryAlone(tests, all, m); err != nil {
			return err
		}
	}
	return nil
}

// trySwitched runs a program on each mutant that it contains.
func (t *trial) trySwitched(p program, all []test, code switched) error {
	jobs := make(chan struct{}, t.jobs)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	for _, m := range t.alive {
		var reaching []test
		for _, one := range all {
			if one.reached[code.number[m]] {
				reaching = append(reaching, one)
			}
		}
		if len(reaching) == 0 {
			continue
		}
		t.reached[m] = true
		jobs <- struct{}{}
		wait.Go(func() {
			defer func() { <-jobs }()
			r, err := p.kills(reaching, code.number[m])
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
			t.count(m, r)
		})
	}
	wait.Wait()
	return errors.Join(failures...)
}

// tryAlone runs the tests of a package on a mutant that no other program contains.
func (t *trial) tryAlone(tests string, all []test, m *Mutant) error {
	files := map[string]string{}
	for name, text := range t.changed(m) {
		files[path.Join(t.room(), name)] = text
	}
	overlay, err := faults.WriteOverlay(t.root, t.scratch, files)
	if err != nil {
		return err
	}
	p, err := build(t.root, overlay, tests, t.scratch)
	if err != nil {
		return err
	}
	t.reached[m] = true
	r, err := p.kills(all, 0)
	t.count(m, r)
	return err
}

// count counts a mutant as killed if a test failed.
func (t *trial) count(m *Mutant, r result) {
	if !r.failed {
		return
	}
	t.killed++
	outcome := "killed"
	if r.timedOut {
		t.timedOut++
		outcome = "timed out"
	}
	if t.verbose {
		t.printMutant(outcome+failedTest(r.text), m)
	}
	alive := make([]*Mutant, 0, len(t.alive))
	for _, other := range t.alive {
		if other != m {
			alive = append(alive, other)
		}
	}
	t.alive = alive
}

// failed matches the line of a test that failed.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// failedTest returns " by" and the name of the test that failed, according to the
// output of tests; "" if none did.
func failedTest(output string) string {
	if found := failed.FindStringSubmatch(output); found != nil {
		return " by " + found[1]
	}
	return ""
}

func (t *trial) survivors() {
	t.survived = len(t.alive)
	for _, m := range t.alive {
		outcome := "survived"
		if !t.reached[m] {
			outcome = "not reached"
		}
		t.printMutant(outcome, m)
	}
}

func (t *trial) printMutant(outcome string, m *Mutant) {
	fmt.Fprintf(t.print, "%s %s/%s:%d\n\t%s %s\n", outcome, t.room(), m.File, m.Line, t.room(), m.ID)
}

// order returns the numbers below n in an order that depends on the seed and the
// room.
func order(seed uint64, room string, n int) []int {
	h := fnv.New64a()
	h.Write([]byte(room))
	return rand.New(rand.NewPCG(seed, h.Sum64())).Perm(n)
}
