package snapshot

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// publisher publishes entries of one store to its subscriptions.
type publisher struct {
	timeline *Timeline
	revision storage.Revision
}

func (p *publisher) publish(changes ...int) {
	var entries []storage.Entry
	var heads []storage.Head
	for _, n := range changes {
		p.revision++
		entries = append(entries, storage.Entry{Revision: p.revision, Changes: make([]storage.Change, n)})
		heads = append(heads, storage.Head{Revision: p.revision})
	}
	p.timeline.subscriptions.push(entries, heads)
}

// TestWatchChanges lets the watchers of two stores lag behind, up to the bound on all
// of them and above it. The one that lags most is ended and loses its entries, so the
// other one gets all.
func TestWatchChanges(t *testing.T) {
	t.Parallel()
	r := NewRuntime(Config{Driver: memory.New(), Bounds: errs.WithDefaults(authz.Bounds{WatchChanges: 10})})
	defer r.Close()
	a, b := publisher{timeline: &Timeline{Runtime: r}}, publisher{timeline: &Timeline{Runtime: r}}
	lagging, other := a.timeline.Subscribe(100), b.timeline.Subscribe(100)
	count := func(when string, changes, subscriptions int64) {
		t.Helper()
		if got := r.lag.changes.Load(); got != changes {
			t.Errorf("%s: %d changes are counted, expected %d", when, got, changes)
		}
		if got := r.lag.lagging.Load(); got != subscriptions {
			t.Errorf("%s: %d subscriptions hold changes, expected %d", when, got, subscriptions)
		}
	}
	receive := func(when string, s *Subscription, entries int, want error) {
		t.Helper()
		items, err := s.Next(t.Context())
		if len(items) != entries || !errors.Is(err, want) {
			t.Errorf("%s: %d entries and the error %v, expected %d and %v", when, len(items), err, entries, want)
		}
	}

	a.publish(4, 4)
	b.publish(1, 1)
	count("at the bound", 10, 2)
	b.publish(1)
	count("above the bound, within the share", 11, 2)
	a.publish(1)
	count("above the share", 3, 1)
	receive("the watcher that lags", lagging, 0, authz.ErrWatchBehind)
	receive("the other watcher", other, 3, nil)
	count("taken", 3, 1)
	other.Done(1)
	count("one is done", 2, 1)
	b.publish(2)
	count("one more", 4, 1)
	receive("again", other, 1, nil)
	count("taken again", 2, 1)
	other.Close()
	other.Close()
	count("closed", 0, 0)
	b.publish(5)
	count("without watchers", 0, 0)

	one, two := b.timeline.Subscribe(100), b.timeline.Subscribe(100)
	b.publish(6)
	count("two watchers of one entry", 6, 2)
	one.Close()
	count("one of them left", 6, 1)
	receive("the second", two, 1, nil)
	two.Done(0)
	two.Done(0)
	two.Done(7)
	count("done", 0, 0)
	b.publish(50)
	count("an entry above the bound, for a watcher that keeps up", 50, 1)
	b.publish(1)
	count("and one more", 0, 0)
	receive("behind", two, 0, authz.ErrWatchBehind)
}
