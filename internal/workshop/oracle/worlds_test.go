package oracle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/expr"
)

// setting returns the value of an environment variable, or otherwise if it is
// not set.
func setting(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

const (
	worldsDefault = 2500
	seedDefault   = 1
	workersMax    = 2

	worldsLong = 200_000 // from here on expensive laws are tried more rarely
	thinLong   = 8       // how much more rarely
)

// TestWorlds tries every law on random worlds. OSTIARY_WORLDS is the number of
// worlds (1000000 for a long run), OSTIARY_SEED the first seed.
func TestWorlds(t *testing.T) {
	t.Parallel()
	count, first := setting(t, "OSTIARY_WORLDS", worldsDefault), setting(t, "OSTIARY_SEED", seedDefault)
	workers, thin := uint64(1), uint64(1)
	if count > worldsDefault {
		workers = workersMax
	}
	if count >= worldsLong {
		thin = thinLong
	}
	parts, failures := make([]Coverage, workers), make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers {
		wait.Go(func() {
			from, to := first+count*i/workers, first+count*(i+1)/workers
			failures[i] = Run(from, to-from, thin, append(Laws(), StoreLaws()...), &parts[i])
		})
	}
	wait.Wait()
	var c Coverage
	for i := range parts {
		c.Add(&parts[i])
		if failures[i] != nil {
			t.Error(failures[i])
			saveFailures(t, failures[i])
		}
	}
	t.Logf("\n%s", c.String())
	if c.Worlds >= worldsDefault*9/10 {
		checkBalance(t, &c)
	}
}

// checkBalance checks that the worlds are useful: there are answers of every
// kind, most models compile, and no cell of the coverage is empty.
func checkBalance(t *testing.T, c *Coverage) {
	t.Helper()
	if share := 100 * c.Truths[expr.True] / c.Checks; share < 20 || share > 80 {
		t.Errorf("%d %% of the answers are true", share)
	}
	if c.Truths[expr.Unknown] == 0 || slices.Contains(c.Reasons[:], 0) || slices.Contains(c.Cycles[:], 0) {
		t.Errorf("no unknown of some reason, or no cycle of some class:\n%s", c)
	}
	if total := c.Worlds + c.Invalid; 5*c.Invalid > total {
		t.Errorf("%d of %d models do not compile", c.Invalid, total)
	}
	if holes := c.Holes(); len(holes) > 0 {
		t.Errorf("not covered: %v", holes)
	}
}

// saveFailures writes the shrunk worlds of a joined error to testdata/worlds if
// OSTIARY_KEEP is set. TestKept replays the scripts there.
func saveFailures(t *testing.T, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || os.Getenv("OSTIARY_KEEP") == "" {
		return
	}
	for _, one := range joined.Unwrap() {
		var broken *Broken
		if !errors.As(one, &broken) {
			continue
		}
		name := fmt.Sprintf("%s-%d.txt", strings.ReplaceAll(broken.Law, " ", "-"), broken.Seed)
		text := fmt.Sprintf("# %s\n%s", strings.ReplaceAll(broken.Last.Error(), "\n", " "), broken.Script)
		if err := os.WriteFile(filepath.Join("testdata", "worlds", name), []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// TestKept tries every law on the worlds that once broke one, and on those of
// the table in docs/semantics.md.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"worlds", "semantics"} {
		for name, s := range scripts(t, dir) {
			t.Run(dir+"/"+name, func(t *testing.T) {
				t.Parallel()
				replay(t, s)
			})
		}
	}
}

// replay checks the script's expected answers and tries every law on its world.
func replay(t *testing.T, s Script) {
	t.Helper()
	var questions []Question
	for _, a := range s.Asks {
		questions = append(questions, a.Question)
	}
	b, err := NewBench(s.Seed, s.World, questions, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range s.Asks {
		if got := b.truth(a.Question); got != a.Want {
			t.Errorf("%s: oracle %s, want %s", a.Question, got, a.Want)
		}
	}
	for _, law := range append(Laws(), StoreLaws()...) {
		if f := law.try(b); f != nil {
			t.Error(f)
		}
	}
}
