package policies

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/ostiary/ostiary/policy"
)

// Broken is the error for a law that failed, with the world that was made smaller.
type Broken struct {
	Law   string // the name of the law
	Seed  uint64 // the seed of the world
	First string // how the world of the seed breaks the law
	Last  string // how the small world breaks it
	Small *World // the small world
}

// Error returns both failures and the command that repeats them.
func (e *Broken) Error() string {
	return fmt.Sprintf("seed %d, law %q: %s\nsmaller: %s\nrepeat with: OSTIARY_SEED=%d OSTIARY_WORLDS=1 go test ./internal/workshop/oracle/policies -run TestWorlds",
		e.Seed, e.Law, e.First, e.Last, e.Seed)
}

// Run tries laws on the worlds of count seeds, beginning with first. It reports the
// first failure of each law as a [Broken], joined, and then leaves that law out. It
// adds to c what the worlds have shown.
func Run(first, count uint64, laws []Law, c *Coverage) error {
	failures := make([]error, len(laws))
	for seed := first; seed < first+count; seed++ {
		w := Random(seed)
		c.Worlds++
		c.Policies += 1 + len(w.Changes)
		if widest(w.Root) >= 8 {
			c.Wide++
		}
		for i, law := range laws {
			if failures[i] != nil {
				continue
			}
			if problem := law.try(w, c); problem != "" {
				b := &Broken{Law: law.Name, Seed: seed, First: problem}
				b.Small, b.Last = shrink(w, law)
				failures[i] = b
			}
		}
	}
	return errors.Join(failures...)
}

// try returns how a world breaks the law. A panic breaks it.
func (l Law) try(w *World, c *Coverage) (problem string) {
	defer func() {
		if p := recover(); p != nil {
			problem = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.Holds(w, c)
}

// widest returns the largest number of members of a policy set in an element.
func widest(e policy.Element) int {
	s, ok := e.(*policy.PolicySet)
	if !ok {
		return 0
	}
	n := len(s.Children)
	for _, child := range s.Children {
		n = max(n, widest(child))
	}
	return n
}

// rejected reports whether a problem is a policy that the compiler rejects.
func rejected(problem string) bool { return strings.Contains(problem, "are rejected") }
