package turns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestNestedParts makes parts inside each other with one turn. They share it.
func TestNestedParts(t *testing.T) {
	t.Parallel()
	all := New(1)
	ctx, work := With(t.Context(), all)
	if again, own := With(ctx, all); again != ctx || own != nil {
		t.Error("With makes a second work for one request")
	}
	var outer, inner Part
	for i, p := range []*Part{&outer, &inner, &outer} {
		if err := p.Wait(ctx, all, false); err != nil || all.Free() != 0 || all.Taken() != 1 {
			t.Fatalf("wait %d: %v, %d turns are free, %d were taken", i, err, all.Free(), all.Taken())
		}
	}
	if inner.End(); all.Free() != 0 {
		t.Error("the end of the inner part ended the turn of the request")
	}
	outer.End()
	if work.End(); all.Free() != 1 {
		t.Errorf("%d turns are free at the end of the request", all.Free())
	}
	if err := outer.Wait(ctx, all, false); err != nil || all.Taken() != 2 {
		t.Errorf("a turn after the end: %v, %d taken", err, all.Taken())
	}
	if Pause(ctx); all.Free() != 1 {
		t.Errorf("%d turns are free after a pause", all.Free())
	}
}

// TestPartAlone makes a part of a request without Work. It has a turn of its own
// after 4096 steps, until its end.
func TestPartAlone(t *testing.T) {
	t.Parallel()
	all := New(1)
	var p Part
	for i := range 3 * stepsBetween {
		if err := p.Step(t.Context(), all, 1); err != nil {
			t.Fatal(err)
		}
		if want := i+1 < stepsBetween; (all.Free() == 1) != want {
			t.Fatalf("after %d steps %d turns are free", i+1, all.Free())
		}
	}
	p.End()
	if all.Free() != 1 || all.Taken() != 1 {
		t.Errorf("at the end %d turns are free, %d were taken", all.Free(), all.Taken())
	}
	var none Part
	if err := none.Wait(t.Context(), nil, false); err != nil {
		t.Error(err)
	}
	none.Pause()
	none.End()
}

// TestPartWaits makes a part wait for the turn of another request. It ends with its
// context, or gets the turn when the other request pauses.
func TestPartWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := New(1)
		other, work := With(t.Context(), all)
		if err := Hold(other); err != nil || all.Free() != 0 {
			t.Fatal(err, all.Free())
		}
		for _, leaves := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			end := make(chan error, 1)
			go func() {
				var p Part
				defer p.End()
				end <- p.Step(ctx, all, stepsBetween)
			}()
			synctest.Wait()
			if len(end) != 0 {
				t.Fatal("the part did not wait")
			}
			if leaves {
				cancel()
			} else {
				Pause(other)
			}
			if err := <-end; errors.Is(err, context.Canceled) != leaves {
				t.Errorf("left %t: %v", leaves, err)
			}
			cancel()
		}
		synctest.Wait()
		if work.End(); all.Free() != 1 {
			t.Errorf("%d turns are free at the end", all.Free())
		}
	})
}
