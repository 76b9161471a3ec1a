package sharedlogtest

import (
	"context"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// Ahead begins appends one after the other on a log that keeps their order, whose server makes
// them and does not answer, or whose connections are cut. Each is settled once.
func (open SQL) Ahead(t *testing.T, url string) {
	t.Helper()
	way := NewWay(t, url)
	way.mu.Lock()
	target := way.target
	way.mu.Unlock()
	l, err := open(t.Context(), way.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := &aheadKit{T: t, l: l}
	mute := func(d time.Duration) func() {
		return func() {
			way.Mute()
			time.AfterFunc(d, func() { way.To(target) })
		}
	}
	for name, cut := range map[string]func(){
		"nothing":                                  func() {},
		"the connections are cut":                  func() { way.To(target) },
		"no answer, and the connections are cut":   mute(50 * time.Millisecond),
		"no answer until the first attempts ended": mute(600 * time.Millisecond),
	} {
		wait.Until(t, "an append is begun before another one is answered", func() bool { return k.begin(t.Context()) })
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		for i := range 5 {
			if i == 2 {
				cut()
			}
			k.begin(ctx)
		}
		k.settle()
		cancel()
		if head, err := l.Head(t.Context()); err != nil || head != k.at {
			t.Fatalf("%s: the head is %s, error %v, want %s", name, head, err, k.at)
		}
	}
}

// aheadKit is a log, and the appends that were begun.
type aheadKit struct {
	*testing.T
	l     sharedlog.Log
	at    sharedlog.Position // after them
	begun []func()           // settle those that are not settled
}

// begin begins an append that follows the last one, and reports whether the next one may be begun
// before this one is answered. The first attempt ends with ctx.
func (k *aheadKit) begin(ctx context.Context) (ordered bool) {
	k.Helper()
	after, r := k.at, record(k.at, 1)
	k.at = r.Position
	outcome, ordered := sharedlog.BeginAppend(ctx, k.l, after, r, nil)
	if !ordered {
		k.settle()
	}
	k.begun = append(k.begun, func() {
		k.Helper()
		first := outcome()
		if err := sharedlog.Settle(k.Context(), k.l, after, r, nil, first); err != nil {
			k.Fatalf("segment %s: %v, after %v", r.Position, err, first)
		}
	})
	if !ordered {
		k.settle()
	}
	return ordered
}

// settle settles the appends in their order.
func (k *aheadKit) settle() {
	k.Helper()
	for _, settle := range k.begun {
		settle()
	}
	k.begun = nil
}
