package oracle

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Run tries laws on the worlds of count seeds, beginning with first, and adds
// to c what they covered. A law that fails is shrunk, reported and left out
// from there on; the run ends where none is left.
//
// thin is how much more rarely than usual the costly laws are tried; 1 is as
// usual.
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
		c.world(b)
		for i, law := range laws {
			if failures[i] != nil || !law.due(seed, i, thin) {
				continue
			}
			if f := law.try(b); f != nil {
				failures[i] = report(law, b, f)
				broken++
			}
		}
	}
	return errors.Join(failures...)
}

// textMax bounds a failure's text, where a wide world is named in it.
const textMax = 4000

// try is Holds; a panic is a failure too.
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

// Broken is a law that failed on a seed's world, and that world, shrunk.
type Broken struct {
	Law    string
	Seed   uint64
	First  *Failure // on the seed's world
	Last   *Failure // on the shrunk one
	Script Script
}

func (e *Broken) Error() string {
	return fmt.Sprintf("seed %d: %v\nshrunk, %v\n%s\nrepeat with: OSTIARY_SEED=%d OSTIARY_WORLDS=1 go test ./oracle -run TestWorlds",
		e.Seed, e.First, e.Last, e.Script, e.Seed)
}

// report shrinks a failing world.
func report(law Law, b *Bench, f *Failure) *Broken {
	small, last := Shrink(b, law, f)
	e := &Broken{Law: law.Name, Seed: b.Seed, First: f, Last: last, Script: Script{Seed: b.Seed, World: small.World}}
	for _, q := range small.Questions {
		e.Script.Asks = append(e.Script.Asks, Ask{q, small.truth(q)})
	}
	return e
}
