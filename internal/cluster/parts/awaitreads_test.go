package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// TestAwaitReads starts a node that has no read lease at first, as one that is far from
// the others.
func TestAwaitReads(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		without  int           // calls without a lease
		then     error         // the result of later calls
		patience time.Duration // of the node
		calls    int           // expected
		want     error
	}{
		"at once":      {0, nil, time.Minute, 1, nil},
		"later":        {3, nil, time.Minute, 4, nil},
		"never":        {1000, nil, 0, 1, storage.ErrNoLease},
		"another kind": {1, broken, time.Minute, 2, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			err := awaitReads(t.Context(), c.patience, func(context.Context) error {
				if calls++; calls <= c.without {
					return fmt.Errorf("%w: so far", storage.ErrNoLease)
				}
				return c.then
			}, slog.New(slog.DiscardHandler))
			if !errors.Is(err, c.want) || calls != c.calls {
				t.Errorf("got %v after %d calls, expected %v after %d", err, calls, c.want, c.calls)
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	err := awaitReads(ctx, time.Minute, func(context.Context) error {
		stop()
		return storage.ErrNoLease
	}, slog.New(slog.DiscardHandler))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a node that is told to end: %v", err)
	}
}
