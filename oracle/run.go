package oracle

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Run tries laws on the worlds of count seeds, beginning with first, and adds
// to c what they covered. A law that fails is shrunk, reported and left out
// from there on; the run ends where none is left.
func Run(first, count uint64, laws []Law, c *Coverage) error {
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
			if failures[i] != nil || (seed+uint64(i))%law.Every != 0 {
				continue
			}
			if f := law.try(b); f != nil {
				failures[i] = report(seed, law, b, f)
				broken++
			}
		}
	}
	return errors.Join(failures...)
}

// try is Holds; a panic is a failure too.
func (l Law) try(b *Bench) (f *Failure) {
	defer func() {
		if p := recover(); p != nil {
			f = &Failure{Text: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
		if f != nil {
			f.Law = l.Name
		}
	}()
	return l.Holds(b)
}

// report shrinks a failing world and tells how to repeat it.
func report(seed uint64, law Law, b *Bench, f *Failure) error {
	small, last := Shrink(b, law, f)
	s := Script{World: small.World}
	for _, q := range small.Questions {
		s.Asks = append(s.Asks, Ask{q, small.truth(q)})
	}
	return fmt.Errorf("seed %d: %w\nshrunk, %s: %s\n%s\nrepeat with: OSTIARY_SEED=%d OSTIARY_WORLDS=1 go test ./oracle -run TestWorlds",
		seed, f, law.Name, last.Error(), s, seed)
}
