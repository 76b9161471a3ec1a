package sharedlogtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// Ahead begins appends one after the other on a log that keeps their order, whose server makes
// them and does not answer, or whose connections are cut. Each is settled once.
func (open SQL) Ahead(t *testing.T, url string) {
	t.Helper()
	way, l := open.through(t, url)
	way.mu.Lock()
	target := way.target
	way.mu.Unlock()
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

// cuts is in how many places Cuts cuts the connections.
const cuts = 40

// Cuts lets the connections end while three appends with secrets are on their way: after each part of
// the bytes of a log that sends them, so also between two statements of a transaction. Each is made
// once, with its secret. overlaps is that the log keeps the order of appends.
func (open SQL) Cuts(t *testing.T, url string, overlaps bool) {
	t.Helper()
	way, l := open.through(t, url)
	k, total, late := &aheadKit{T: t, l: l}, 0, 0
	for cut := range cuts {
		wait.Until(t, "an append is begun before another one is answered", func() bool { return k.begin(t.Context()) || !overlaps })
		k.settle()
		before := way.Sent()
		if total > 0 {
			way.CutAfter(1 + total*cut/cuts)
		}
		var all []sharedlog.SecretChange
		for range 3 {
			c := secretChange(fmt.Sprint(k.at.Sequence), fmt.Sprint(cut))
			all = append(all, c)
			k.begin(t.Context(), c)
		}
		k.settle()
		if way.CutAfter(0) {
			late++
		}
		if total == 0 {
			total = way.Sent() - before
		}
		if head, err := l.Head(t.Context()); err != nil || head != k.at {
			t.Fatalf("cut %d of %d bytes: the head is %s, error %v, want %s", cut, total, head, err, k.at)
		}
		for _, c := range all {
			if body, err := l.Secret(t.Context(), c.SecretKey, c.Digest); err != nil || string(body) != fmt.Sprint(cut) {
				t.Fatalf("cut %d of %d bytes: the secret %s is %q, error %v", cut, total, c.Key, body, err)
			}
		}
	}
	if late > cuts/4 {
		t.Errorf("%d of %d cuts did not come before the appends were made", late, cuts)
	}
	n := uint64(0)
	for _, err := range sharedlog.Segments(t.Context(), l, sharedlog.Position{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != k.at.Sequence {
		t.Errorf("the log has %d segments, want %d", n, k.at.Sequence)
	}
	way.Reset()
	if err := l.Close(); err != nil {
		t.Errorf("connections that were reset are closed: %v", err)
	}
}

// aheadKit is a log, and the appends that were begun.
type aheadKit struct {
	*testing.T
	l     sharedlog.Log
	at    sharedlog.Position // after them
	begun []func()           // settle those that are not settled
}

// begin begins an append that follows the last one, with changes of secrets, and reports whether the
// next one may be begun before this one is answered. The first attempt ends with ctx.
func (k *aheadKit) begin(ctx context.Context, secrets ...sharedlog.SecretChange) (ordered bool) {
	k.Helper()
	after, r := k.at, record(k.at, 1)
	k.at = r.Position
	outcome, ordered := sharedlog.BeginAppend(ctx, k.l, after, r, secrets)
	if !ordered {
		k.settle()
	}
	k.begun = append(k.begun, func() {
		k.Helper()
		first := outcome()
		if err := sharedlog.Settle(k.Context(), k.l, after, r, secrets, first); err != nil {
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
