package commit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/storage/memory"
)

// TestReturning requires that writers of a near log that come back at once share one group, and
// are not two halves that take turns.
func TestReturning(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		writers  int
		away     time.Duration // from an answer to the next write
		distance time.Duration
		groups   int // at most, for each round of writes
	}{
		{writers: 1, groups: 1},
		{writers: 2, groups: 1},
		{writers: 10, groups: 1},
		{writers: 64, groups: 1},
		{writers: 64, away: 5 * time.Millisecond, groups: 1},
		{writers: 64, distance: 3 * time.Millisecond, groups: 1},
	} {
		t.Run(fmt.Sprint(x.writers, " after ", x.away+x.distance), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &remote{Driver: memory.New(), commit: 3 * time.Millisecond, distance: time.Millisecond + x.distance}
				w := newRemoteWorld(t, d, 0)
				d.appended = nil
				var wait sync.WaitGroup
				const each = 40
				for n := range x.writers {
					wait.Go(func() {
						for i := range each {
							if _, err := w.queue.Write(context.Background(), new(one(n*each+i))); err != nil {
								t.Error(err)
							}
							time.Sleep(x.away + 200*time.Microsecond)
						}
					})
				}
				wait.Wait()
				const first = 3 // until the writers are together
				if got := len(d.appended); got > each*x.groups+first {
					t.Errorf("%d groups for %d rounds, expected at most %d a round", got, each, x.groups)
				}
				t.Logf("%d groups for %d rounds; the last wait was followed by %d groups that did not wait", len(d.appended), each, w.queue.returning.skipped)
			})
		})
	}
}

// TestReturningWaits requires for which writers the next group waits.
func TestReturningWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const append = 2 * time.Millisecond
		for _, x := range []struct {
			name                string
			last, have, waiting int
			answered            bool
			skip                int
			since               time.Duration
			needed              int // 0: it does not wait
			wait                time.Duration
		}{
			{name: "the other half", last: 32, have: 30, waiting: 2, needed: 34, wait: append},
			{name: "few are missing", last: 8, have: 32, needed: 8, wait: append / 4},
			{name: "few are missing for some time", last: 8, have: 32, needed: 8, since: append / 5, wait: append/4 - append/5},
			{name: "few are missing for too long", last: 8, have: 32, since: append / 4},
			{name: "many are missing", last: 32, have: 1, waiting: 1, needed: 33, wait: returnMax},
			{name: "all were in the last group", last: 64, waiting: 1, answered: true, needed: 64, wait: returnMax},
			{name: "all have come back", last: 64, waiting: 64, answered: true},
			{name: "a writer alone", last: 1, waiting: 1, answered: true},
			{name: "two writers in turns", last: 1, have: 1, needed: 1, wait: append},
			{name: "the last wait was in vain", last: 32, have: 32, skip: 1},
			{name: "a full group", last: groupWritersMax, have: groupWritersMax},
			{name: "no group before"},
		} {
			q := &Queue{waiting: make([]*writer, x.waiting), returning: returning{writers: x.last, within: append, at: time.Now().Add(-x.since), skip: x.skip}}
			_, wait := q.beginAwait(&writer{}, x.have, x.answered)
			if got := q.returning.needed; got != x.needed || wait != x.wait {
				t.Errorf("%s: it waits for %d writers, %s, expected %d, %s", x.name, got, wait, x.needed, x.wait)
			}
			if q.returning.skip != max(x.skip-1, 0) {
				t.Errorf("%s: %d more groups do not wait", x.name, q.returning.skip)
			}
		}
	})
}

// TestReturningInVain requires that after a wait in vain more and more groups do not wait, until
// one has waited with success.
func TestReturningInVain(t *testing.T) {
	t.Parallel()
	q := &Queue{}
	end := func(came, want int) {
		t.Helper()
		q.returning.leader = &writer{ready: make(chan struct{}, 1)}
		q.endAwait(came, 12)
		if got := q.returning.skip; got != want {
			t.Errorf("%d groups do not wait, expected %d", got, want)
		}
		q.returning.skip = 0
	}
	for _, want := range []int{1, 3, 7, 15, 31, 63, 63} {
		end(5, want)
	}
	end(6, 0)
	end(5, 1)
}
