package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ostiary/ostiary/oracle/faults"
)

// outcome is what became of a mutant.
type outcome int

const (
	survived outcome = iota
	killed
	uncompilable
)

// row counts the mutants of one package.
type row struct {
	room string
	// all counts every mutant of the package. The other numbers count those that
	// were tried.
	all, killed, survived, equivalent, uncompilable int
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
	scratch string // the folder for changed files
	pkg
	row
	print io.Writer
	// limits is the time for each package of tests, see limit.
	limits map[string]time.Duration
}

// try runs the tests on a sample of the mutants of p, and prints a survivor as
// soon as it finds one. Mutants in known are skipped. It fails if the tests fail
// without a mutant.
func try(o options, root string, p pkg, all []Mutant, known map[string]string, print io.Writer) (row, error) {
	t := &trial{options: o, root: root, pkg: p, row: row{room: p.room, all: len(all)}, print: print, limits: map[string]time.Duration{}}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return t.row, err
	}
	defer os.RemoveAll(dir)
	t.scratch = dir
	for _, i := range order(o.seed, p.room, len(all)) {
		m := &all[i]
		if o.sample > 0 && t.killed+t.survived == o.sample {
			break
		}
		if !o.only.MatchString(m.ID) {
			continue
		}
		if _, ok := known[p.room+" "+m.ID]; ok {
			t.equivalent++
			continue
		}
		if err := t.try(m); err != nil {
			return t.row, err
		}
	}
	return t.row, nil
}

// try runs the tests on one mutant and counts the outcome.
func (t *trial) try(m *Mutant) error {
	text, err := os.ReadFile(filepath.Join(t.pkg.dir, m.File))
	if err != nil {
		return err
	}
	overlay, err := faults.WriteOverlay(t.root, t.scratch, map[string]string{path.Join(t.pkg.room, m.File): m.apply(text)})
	if err != nil {
		return err
	}
	packages := t.tests()
	if t.own {
		packages = packages[:1]
	}
	for _, tests := range packages {
		limit, err := t.limit(tests)
		if err != nil {
			return err
		}
		switch out, _ := runTests(t.root, overlay, tests, limit); out {
		case killed:
			t.killed++
			return nil
		case uncompilable:
			t.uncompilable++
			return nil
		}
	}
	t.survived++
	fmt.Fprintf(t.print, "%-8s %s/%s:%d\n\t%s %s\n", "survived", t.pkg.room, m.File, m.Line, t.pkg.room, m.ID)
	return nil
}

// limit returns the time that a package of tests may take with a mutant: ten
// times what it takes without one, and ten seconds. A mutant that takes longer
// is killed. It fails if the tests fail without a mutant.
func (t *trial) limit(tests string) (time.Duration, error) {
	if limit, ok := t.limits[tests]; ok {
		return limit, nil
	}
	// The first run may have to build all dependencies, so the second one counts.
	var took time.Duration
	for range 2 {
		start := time.Now()
		if out, why := runTests(t.root, "", tests, t.timeout); out != survived {
			return 0, fmt.Errorf("%s: the tests fail without a mutant:\n%s", tests, why)
		}
		took = time.Since(start)
	}
	t.limits[tests] = 10*took + 10*time.Second
	return t.limits[tests], nil
}

// order returns the numbers below n in an order that depends on the seed and the
// room.
func order(seed uint64, room string, n int) []int {
	h := fnv.New64a()
	h.Write([]byte(room))
	return rand.New(rand.NewPCG(seed, h.Sum64())).Perm(n)
}

// memoryMaxKilobytes bounds the address space of the tests of a mutant, which may
// allocate without end.
const memoryMaxKilobytes = 12 << 20

// didNotBuild matches the output of go test for a program that does not compile.
var didNotBuild = regexp.MustCompile(`(?m)^FAIL\t.*\[(build|setup) failed\]$`)

// runTests runs the tests of a package. It returns survived if they pass, and
// their output. overlay is the path of an overlay, or "" for none.
func runTests(root, overlay, tests string, timeout time.Duration) (outcome, string) {
	// If go test itself cannot stop the tests, the context stops it.
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout+time.Minute)
	defer cancel()
	const script = `ulimit -v "$1" 2>/dev/null; shift; exec "$@"`
	c := exec.CommandContext(ctx, "sh", "-c", script, "sh", fmt.Sprint(memoryMaxKilobytes),
		"go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-short", "-failfast", "-timeout", timeout.String(), tests)
	var out bytes.Buffer
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = root, &out, &out, time.Second
	switch err := c.Run(); {
	case err == nil:
		return survived, out.String()
	case didNotBuild.Match(out.Bytes()):
		return uncompilable, out.String()
	}
	return killed, out.String()
}
