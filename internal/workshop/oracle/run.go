package oracle

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Run tries laws on the worlds of count seeds, starting with first, and adds to
// c what they covered. It shrinks and reports the first failure of each law and
// does not try that law again. It ends early when every law has failed.
//
// Expensive laws are tried thin times more rarely than usual; 1 is as usual.
// The returned error joins one [Broken] for each law that failed.
func Run(first, count, thin uint64, laws []Law, c *Coverage) error {
	failures := make([]error, len(laws))
	broken := 0
	for seed := first; seed < first+count && broken < len(laws); seed++ {
		b, err := NewBench(seed, Random(seed), nil, c)
		if errors.Is(err, ErrInvalid) {
			c.Invalid++
			continue
		}
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		c.addWorld(b)
		for i, law := range laws {
			if failures[i] != nil || !law.due(seed, i, thin) {
				continue
			}
			if f := law.try(b); f != nil {
				failures[i] = shrinkFailure(law, b, f)
				broken++
			}
		}
	}
	return errors.Join(failures...)
}

// textMax bounds the text of a failure, which in a wide world may name many
// tuples.
const textMax = 4000

// try calls l.Holds and turns a panic into a failure.
func (l Law) try(b *Bench) (f *Failure) {
	defer func() {
		if p := recover(); p != nil {
			f = &Failure{Text: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
		if f != nil {
			f.Law = l.Name
			if len(f.Text) > textMax {
				f.Text = f.Text[:textMax] + " [and more]"
			}
		}
	}()
	return l.Holds(b)
}

// Broken is the error for a law that failed, with the shrunk world.
type Broken struct {
	// Law is the law's name.
	Law string
	// Seed is the world's seed.
	Seed   uint64
	First  *Failure // in the world of the seed
	Last   *Failure // in the shrunk world
	Script Script   // the shrunk world
}

// Error returns both failures, the shrunk world and the command that repeats
// the failure.
func (e *Broken) Error() string {
	return fmt.Sprintf("seed %d: %v\nshrunk, %v\n%s\nrepeat with: OSTIARY_SEED=%d OSTIARY_WORLDS=1 go test ./oracle -run TestWorlds",
		e.Seed, e.First, e.Last, e.Script, e.Seed)
}

// shrinkFailure shrinks a failing world.
func shrinkFailure(law Law, b *Bench, f *Failure) *Broken {
	small, last := Shrink(b, law, f)
	e := &Broken{Law: law.Name, Seed: b.Seed, First: f, Last: last, Script: Script{Seed: b.Seed, World: small.World}}
	for _, q := range small.Questions {
		e.Script.Asks = append(e.Script.Asks, Ask{q, small.truth(q)})
	}
	return e
}
