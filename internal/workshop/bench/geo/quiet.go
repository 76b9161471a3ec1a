package geo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// OutsideMax is the part of a processor that programs outside of a cell may use while a
// scenario is played. Above it the cell is [Disturbed]. Programs of low priority count: they
// take caches and memory from the others, and the processor until they are interrupted.
const OutsideMax = 0.05

// outsideSlack is added to it: processor times have steps of 10 ms.
const outsideSlack = 50 * time.Millisecond

// ErrLoaded is returned if other programs use the processors before a cell.
var ErrLoaded = errors.New("the machine is not quiet")

// disturbed reports whether programs outside of the cell used more than [OutsideMax].
func (s *Scenario) disturbed() bool {
	played := s.Result.Load.Seconds()
	return s.Outside*played > OutsideMax*played+outsideSlack.Seconds()
}

// Quiet reports whether it is known that no scenario of the record was disturbed. It is not
// known of records before the programs of low priority were counted.
func (r *Record) Quiet() bool {
	return r.Counted && !slices.ContainsFunc(r.Scenarios, func(s Scenario) bool { return s.disturbed() })
}

// urgency orders the cells that are played again: those without a record or with one that
// was disturbed, the middle size, which most verdicts compare, the largest, the others.
func urgency(c Cell, mark Mark) int {
	switch {
	case mark == "" || mark == Disturbed:
		return 0
	case c.Instances == 9:
		return 1
	case c.Instances > 9:
		return 2
	}
	return 3
}

// sortUrgent orders cells by their urgency, otherwise as they are.
func sortUrgent(cells []Cell, have map[Cell]Record) {
	slices.SortStableFunc(cells, func(a, b Cell) int { return cmp.Compare(urgency(a, have[a].Mark), urgency(b, have[b].Mark)) })
}

// How long a machine is watched before a cell, and how long to wait until it is quiet.
const (
	quietWatch = 5 * time.Second
	quietWait  = 3 * time.Minute
)

// awaitQuiet waits until other programs use at most [OutsideMax] of a processor. It fails
// with [ErrLoaded] if they still use more after the longest wait.
func awaitQuiet(ctx context.Context, watch, wait time.Duration) error {
	end := time.Now().Add(wait)
	for {
		begin := time.Now()
		before, err := bench.Outside(os.Getpid())
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watch):
		}
		after, err := bench.Outside(os.Getpid())
		if err != nil {
			return err
		}
		used, passed := max(0, after-before), time.Since(begin)
		if used.Seconds() <= OutsideMax*passed.Seconds()+outsideSlack.Seconds() {
			return nil
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("%w: other programs use %.0f %% of a processor, expected at most %.0f %%", ErrLoaded, 100*used.Seconds()/passed.Seconds(), 100*OutsideMax)
		}
	}
}
