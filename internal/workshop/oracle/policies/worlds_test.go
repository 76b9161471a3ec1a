package policies

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/language"
	"github.com/ostiary/ostiary/policy/message"
)

// setting returns the value of an environment variable, or otherwise if it is not
// set.
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
	worldsDefault = 1500
	workersMax    = 2
)

// TestWorlds tries every law on random worlds. OSTIARY_WORLDS is the number of
// worlds (1000000 for a long run), OSTIARY_SEED the first seed.
func TestWorlds(t *testing.T) {
	t.Parallel()
	count, first := setting(t, "OSTIARY_WORLDS", worldsDefault), setting(t, "OSTIARY_SEED", 1)
	workers := uint64(1)
	if count > worldsDefault {
		workers = workersMax
	}
	start := time.Now()
	parts, failures := make([]Coverage, workers), make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers {
		wait.Go(func() {
			from, to := first+count*i/workers, first+count*(i+1)/workers
			failures[i] = Run(from, to-from, Laws(), &parts[i])
		})
	}
	wait.Wait()
	var c Coverage
	for i := range parts {
		c.Add(&parts[i])
		report(t, failures[i])
	}
	t.Logf("seed %d\n%s\n%.0f policy sets a second", first, c.String(), float64(c.Policies)/time.Since(start).Seconds())
	if holes := c.Holes(); c.Worlds >= worldsDefault && len(holes) > 0 {
		t.Errorf("not covered: %v", holes)
	}
}

// report reports joined failures with their small worlds.
func report(t *testing.T, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, one := range joined.Unwrap() {
		t.Error(one)
		var broken *Broken
		if errors.As(one, &broken) {
			t.Log(printed(t, broken.Small))
		}
	}
}

// printed returns the policies and requests of a world as texts.
func printed(t *testing.T, w *World) string {
	t.Helper()
	var b strings.Builder
	show := func(name string, e policy.Element) {
		text, err := language.PrintText(e)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "\n%s:\n%s", name, text)
	}
	show("root", w.Root)
	for _, e := range w.Library {
		show("library", e)
	}
	for _, c := range w.Changes {
		show("replaced", c.Old)
		show("by", c.New)
	}
	for _, r := range w.Requests {
		fmt.Fprintf(&b, "\nrequest:\n%s", message.PrintXMLRequest(r))
	}
	fmt.Fprintf(&b, "\nunknown category %s, attribute source %t\n", w.Unknown, w.Source != nil)
	return b.String()
}

// TestHunt tries every law on random worlds until one fails. Package faults runs it
// on an evaluator with a seeded fault, and expects it to fail there. OSTIARY_HUNT is
// the number of worlds to try; without it the test is skipped. OSTIARY_SEED is the
// seed of the first world.
func TestHunt(t *testing.T) {
	most := setting(t, "OSTIARY_HUNT", 0)
	if most == 0 {
		t.Skip("OSTIARY_HUNT is not set")
	}
	first := setting(t, "OSTIARY_SEED", 1)
	for seed := first; seed < first+most; seed++ {
		w := Random(seed)
		for _, law := range Laws() {
			if problem := law.try(w, &Coverage{}); problem != "" {
				t.Fatalf("caught: seed %d, worlds %d, law %q\n%s", seed, seed-first+1, law.Name, problem)
			}
		}
	}
}
