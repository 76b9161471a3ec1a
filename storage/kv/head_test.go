package kv

import (
	"context"
	"errors"
	"testing"

	"github.com/ostiary/ostiary/storage"
)

// TestStoreLocks uses the locks of several stores. A store without a writer has no
// lock in memory, except the one that was used last.
func TestStoreLocks(t *testing.T) {
	t.Parallel()
	locks := storeLocks{used: map[storage.StoreID]*storeLock{}}
	lock := func(n byte) *storeLock {
		t.Helper()
		l, err := locks.lock(t.Context(), storage.StoreID{n})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ended, end := context.WithCancel(t.Context())
	end()
	refused := func(n byte) {
		t.Helper()
		if _, err := locks.lock(ended, storage.StoreID{n}); !errors.Is(err, context.Canceled) {
			t.Errorf("lock of store %d, which is held, with a context that has ended: %v", n, err)
		}
	}
	kept := func(want ...byte) {
		t.Helper()
		if len(locks.used) != len(want) {
			t.Errorf("%d locks, want those of %v", len(locks.used), want)
		}
		for _, n := range want {
			if locks.used[storage.StoreID{n}] == nil {
				t.Errorf("the lock of store %d is gone", n)
			}
		}
	}
	one, two := lock(1), lock(2)
	refused(1)
	refused(2)
	kept(1, 2)
	one.unlock()
	kept(1, 2) // 1 is idle
	if again := lock(1); again != one {
		t.Error("the idle lock is not used again")
	}
	refused(1)
	two.unlock() // 1 is in use, so it stays
	kept(1, 2)
	refused(1)
	one.unlock()
	kept(1) // and 2 is not idle any more
	lock(3).unlock()
	kept(3)
	three := lock(3)
	refused(3)
	three.unlock()
	kept(3)
}
