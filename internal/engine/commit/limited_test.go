package commit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimited compares limited with a context of package context: before the deadline,
// after it, and after its end, whether a driver waits for its end or only looks.
func TestLimited(t *testing.T) {
	t.Parallel()
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		parent, cancelParent := context.WithCancel(context.WithValue(context.Background(), key{}, "value"))
		cancelParent()
		for _, waits := range []bool{true, false} {
			for _, ends := range []bool{true, false} {
				deadline := time.Now().Add(time.Second)
				ours := &limited{parent: parent, deadline: deadline}
				theirs, cancel := context.WithDeadline(context.WithoutCancel(parent), deadline)
				same := func(when string) {
					t.Helper()
					if got, want := ours.Err(), theirs.Err(); !errors.Is(got, want) || (got == nil) != (want == nil) {
						t.Errorf("waits %v, ends %v, %s: error %v, want %v", waits, ends, when, got, want)
					}
					if got, want := context.Cause(ours), context.Cause(theirs); !errors.Is(got, want) || (got == nil) != (want == nil) {
						t.Errorf("waits %v, ends %v, %s: cause %v, want %v", waits, ends, when, got, want)
					}
					if !waits {
						return
					}
					select {
					case <-ours.Done():
						if theirs.Err() == nil {
							t.Errorf("ends %v, %s: it has ended", ends, when)
						}
					default:
						if theirs.Err() != nil {
							t.Errorf("ends %v, %s: it has not ended", ends, when)
						}
					}
				}
				same("at the beginning")
				child, cancelChild := context.WithCancel(ours)
				time.Sleep(time.Second - 1)
				same("before the deadline")
				if ends {
					ours.end()
					cancel()
					same("after its end")
				}
				time.Sleep(1)
				synctest.Wait()
				same("after the deadline")
				if child.Err() == nil {
					t.Errorf("waits %v, ends %v: a context below it has not ended", waits, ends)
				}
				cancelChild()
				ours.end()
				cancel()
				if ours.Value(key{}) != "value" {
					t.Error("the value of the parent is lost")
				}
				if at, ok := ours.Deadline(); !ok || !at.Equal(deadline) {
					t.Errorf("deadline %v, %v", at, ok)
				}
			}
		}
	})
}
