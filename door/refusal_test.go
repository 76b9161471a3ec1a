package door_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestRefusals compares the text, the HTTP status and the gRPC code of each reason,
// without and with a bound, with testdata/refusals.txt. The values below and above the
// reasons are errors of the server.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for reason := door.Reason(0); reason <= door.Limited+1; reason++ {
		for _, r := range []door.Refusal{{Reason: reason}, {Reason: reason, Bound: "requests", Limit: 1234}, {Reason: reason, Bound: "time", Time: 1500 * time.Millisecond}, {Reason: reason, Limit: 1234}} {
			fmt.Fprintf(&out, "%d %s %s\n", r.Status(), r.Code(), r.Error())
		}
	}
	golden.Equal(t, "testdata/refusals.txt", out.String())
	last := door.Refusal{Reason: math.MaxUint8}
	if got := fmt.Sprintf("%d %s %s", last.Status(), last.Code(), last.Error()); got != "500 Internal refused" {
		t.Errorf("the last value is %s", got)
	}
}

// TestRefusalIs compares refusals with errors.Is.
func TestRefusalIs(t *testing.T) {
	t.Parallel()
	late := fmt.Errorf("check: %w", &door.Refusal{Reason: door.TimedOut, Bound: "time", Time: time.Second})
	for target, want := range map[error]bool{
		&door.Refusal{Reason: door.TimedOut}:    true,
		&door.Refusal{Reason: door.TooMany}:     false,
		&door.Refusal{}:                         false,
		context.DeadlineExceeded:                true,
		context.Canceled:                        false,
		errors.New("the request took too long"): false,
	} {
		if got := errors.Is(late, target); got != want {
			t.Errorf("errors.Is(%v, %v) is %v", late, target, got)
		}
	}
	if errors.Is(&door.Refusal{Reason: door.TooMany}, context.DeadlineExceeded) {
		t.Error("a refusal of too many requests is a deadline")
	}
}

// TestHold calls the function of the context with the bytes, and nothing without one.
func TestHold(t *testing.T) {
	t.Parallel()
	full := &door.Refusal{Reason: door.TooLarge, Bound: "unsent bytes", Limit: 1}
	var held []int64
	ctx := door.WithHold(context.Background(), func(n int64) error {
		if held = append(held, n); n > 1 {
			return full
		}
		return nil
	})
	if err := door.Hold(ctx, 1); err != nil {
		t.Error(err)
	}
	if err := door.Hold(ctx, 2); !errors.Is(err, full) {
		t.Errorf("%v, expected the error of the function", err)
	}
	if err := door.AwaitHold(ctx, 3); !errors.Is(err, full) {
		t.Errorf("%v, expected the error of the function, at once", err)
	}
	if err := door.Hold(context.Background(), 5); err != nil || fmt.Sprint(held) != "[1 2 3]" {
		t.Errorf("%v, held %v", err, held)
	}
	// Memory that becomes free, and a context that ends while it is not.
	calls := 0
	busy := func(int64) error {
		if calls++; calls < 3 {
			return &door.Refusal{Reason: door.TooMany}
		}
		return nil
	}
	if err := door.AwaitHold(door.WithHold(context.Background(), busy), 1); err != nil || calls != 3 {
		t.Errorf("%v after %d calls, expected success after 3", err, calls)
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	err := door.AwaitHold(door.WithHold(canceled, func(int64) error { return &door.Refusal{Reason: door.TooMany} }), 1)
	if !errors.Is(err, &door.Refusal{Reason: door.TooMany}) {
		t.Errorf("%v, expected the refusal", err)
	}
}
