package turns

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsOfTheWaiting gives turns to questions that wait. Of four turns in a
// row, three go to questions that had none, and one to a question that had one.
func TestTurnsOfTheWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{}
		var order strings.Builder
		for range 6 {
			for first, name := range map[bool]string{true: "f", false: "l"} {
				go func() {
					if err := turns.take(t.Context(), first); err != nil {
						t.Error(err)
					}
					order.WriteString(name)
				}()
			}
		}
		synctest.Wait()
		for range 12 {
			turns.give()
			synctest.Wait()
		}
		if got := order.String(); got != "ffflffflllll" {
			t.Errorf("turns of questions without an earlier turn (f) and with one (l): %s", got)
		}
		turns.give()
		if turns.free != 1 || turns.take(t.Context(), true) != nil || turns.free != 0 {
			t.Errorf("%d turns are free after one was returned and taken", turns.free)
		}
	})
}

// TestTurnAtTheEnd gives a turn to a question whose context ends at the same
// moment. The question has the turn, or the next one gets it.
func TestTurnAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			turns := &Turns{}
			ctx, cancel := context.WithCancel(t.Context())
			end := make(chan error)
			go func() { end <- turns.take(ctx, false) }()
			synctest.Wait()
			cancel()
			turns.give()
			if err := <-end; err == nil {
				turns.give()
			}
			if turns.free != 1 || len(turns.later) != 0 {
				t.Errorf("%d turns are free, %d questions wait", turns.free, len(turns.later))
			}
		})
	}
}

// TestTurnDue tables after which time a question must give its turn up.
func TestTurnDue(t *testing.T) {
	t.Parallel()
	waiting := []chan struct{}{make(chan struct{}, 1)}
	none, first, later := &Turns{}, &Turns{first: waiting}, &Turns{later: waiting}
	for _, c := range []struct {
		turns *Turns
		had   time.Duration
		large bool
		want  bool
	}{
		{none, time.Hour, false, false},
		{first, short - 1, false, false},
		{first, short, false, true},
		{first, fullLarge - 1, true, false},
		{first, fullLarge, true, true},
		{later, short, false, false},
		{later, full - 1, false, false},
		{later, full, false, true},
		{later, fullLarge - 1, true, false},
		{later, fullLarge, true, true},
	} {
		if got := c.turns.due(c.had, c.large); got != c.want {
			t.Errorf("first %d, later %d, after %v, large %t: got %t", len(c.turns.first), len(c.turns.later), c.had, c.large, got)
		}
	}
}
