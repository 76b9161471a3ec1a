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

// setting reads one of the environment.
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
	worldsDefault = 5000
	seedDefault   = 1
	workersMax    = 2

	worldsLong = 200_000 // from here on the costly laws are thinned out
	thinLong   = 8
)

// TestWorlds holds every law on random worlds. OSTIARY_WORLDS says how many
// (a long run takes 1000000), OSTIARY_SEED where to begin.
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
			keep(t, failures[i])
		}
	}
	t.Logf("\n%s", c.String())
	if c.Worlds >= worldsDefault*9/10 {
		balanced(t, &c)
	}
}

// balanced checks that worlds are worth their time: answers of every kind,
// models that compile, and no cell of the table empty.
func balanced(t *testing.T, c *Coverage) {
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
		t.Errorf("never met: %v", holes)
	}
}

// keep writes each shrunk world of a joined error as a script that is replayed
// for ever, where OSTIARY_KEEP is set.
func keep(t *testing.T, err error) {
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

// TestKept replays the worlds that once broke a law, and those of the
// semantics table, under every law.
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
			t.Errorf("%s: the oracle says %s, want %s", a.Question, got, a.Want)
		}
	}
	for _, law := range append(Laws(), StoreLaws()...) {
		if f := law.try(b); f != nil {
			t.Error(f)
		}
	}
}
