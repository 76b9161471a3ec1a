package conn

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDelayRefusal checks how long refusals wait, that the wait ends when the request
// or the server does, and that a connection is closed that has more than
// delayedPerConnection of them, or whose refusal is one above delayedMax.
func TestDelayRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stopping, beginStop := context.WithCancel(t.Context())
		all := NewConnections(Bounds{Max: 10, PerAddress: 10})
		took := func(ctx context.Context, c *Conn) time.Duration {
			begin := time.Now()
			c.DelayRefusal(ctx, stopping)
			return time.Since(begin)
		}
		c := NewDetached(all)
		if d := took(t.Context(), c); d != 0 || c.refusals.Load() != 0 { // of a connection that was accepted
			t.Error("a refusal on a connection with an accepted request waits", d)
		}
		c.Trusted.Store(false)
		for i := range 150 {
			want := min(max(time.Duration(i+1-refusalsFree)*refusalStep, 0), refusalWaitMax)
			if d := took(t.Context(), c); d != want || all.waiting.Load() != 0 || c.delayed.Load() != 0 {
				t.Errorf("refusal %d: %v, expected %v; %d wait", i+1, d, want, all.waiting.Load())
			}
		}
		gone, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		if d := took(gone, c); d != time.Millisecond {
			t.Error("a client that leaves:", d)
		}
		closed := func() bool {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.gone
		}
		var waiting sync.WaitGroup
		for range delayedPerConnection {
			waiting.Go(func() { c.DelayRefusal(t.Context(), stopping) })
		}
		synctest.Wait()
		if n := c.delayed.Load(); n != delayedPerConnection || all.waiting.Load() != delayedPerConnection || all.Unauthenticated.Load() != 0 || closed() {
			t.Errorf("%d of %d wait, and the connection is closed", n, all.waiting.Load())
		}
		if d := took(t.Context(), c); d != 0 || all.Unauthenticated.Load() != 1 || !closed() {
			t.Error("the connection was not closed above the bound", d)
		}
		waiting.Wait()

		c = NewDetached(all)
		c.Trusted.Store(false)
		c.refusals.Store(refusalsFree)
		all.waiting.Store(delayedMax - 1)
		if d := took(t.Context(), c); d != refusalStep || closed() {
			t.Error("at the bound of all connections:", d)
		}
		all.waiting.Store(delayedMax)
		if d := took(t.Context(), c); d != 0 || all.Unauthenticated.Load() != 2 || !closed() {
			t.Error("above the bound of all connections:", d)
		}
		if all.waiting.Load() != delayedMax || c.delayed.Load() != 0 {
			t.Error(all.waiting.Load(), c.delayed.Load())
		}
		if all.waiting.Store(0); took(t.Context(), c) != 0 {
			t.Error("a refusal on a closed connection waits")
		}
		c = NewDetached(all)
		c.Trusted.Store(false)
		c.refusals.Store(refusalsFree)
		time.AfterFunc(time.Millisecond, beginStop)
		if d := took(t.Context(), c); d != time.Millisecond {
			t.Error("a server that stops:", d)
		}
	})
}

// TestDelayRefusalsOfAddress checks that the refusals of an address are delayed after
// refusalsPerAddress of them, also on new connections; how many of them may wait; that
// other addresses do not; and that the address gets more with time.
func TestDelayRefusalsOfAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := NewConnections(Bounds{Max: 10, PerAddress: 10})
		refuse := func(address string) (time.Duration, *Conn) {
			c := NewDetached(all)
			c.Trusted.Store(false)
			c.Address = netip.MustParseAddr(address)
			begin := time.Now()
			c.DelayRefusal(t.Context(), t.Context())
			return time.Since(begin), c
		}
		for i := range refusalsPerAddress {
			if d, _ := refuse("10.0.0.1"); d != 0 {
				t.Error("refusal", i, "waits", d)
			}
		}
		for range 3 { // each waits as long as the address needs for a tenth of one
			if d, _ := refuse("10.0.0.1"); d < refusalStep || d > 3*refusalStep {
				t.Error("a refusal above the bound waits", d)
			}
		}
		if d, _ := refuse("10.0.0.2"); d != 0 {
			t.Error("another address waits", d)
		}
		all.Standings.all[netip.MustParseAddr("10.0.0.1")].refusals.level = 10_000
		var waiting sync.WaitGroup
		for range delayedPerAddress {
			waiting.Go(func() {
				if d, _ := refuse("10.0.0.1"); d != refusalWaitMax {
					t.Error("a refusal far above the bound waits", d)
				}
			})
		}
		synctest.Wait()
		d, c := refuse("10.0.0.1")
		synctest.Wait()
		if c.mu.Lock(); d != 0 || !c.gone || all.Unauthenticated.Load() != 1 {
			t.Error("one above those that may wait:", d, c.gone)
		}
		c.mu.Unlock()
		waiting.Wait()
		time.Sleep(time.Duration((refusalsPerAddress + refusalsLongest) / refusalsPerSecond * float64(time.Second)))
		if d, _ := refuse("10.0.0.1"); d != 0 {
			t.Error("a refusal later waits", d)
		}
	})
}

// TestPace checks how long the answers wait that limits refuse, and that a wait ends with its
// request and with the server.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{All: &Connections{}}
		stopping, stop := context.WithCancel(t.Context())
		took := func(ctx context.Context) time.Duration {
			began := time.Now()
			c.Pace(ctx, stopping)
			return time.Since(began)
		}
		for i := range 60 {
			want := max(min(time.Duration(i+1-pacedFree)*paceStep, paceMax), 0)
			if got := took(t.Context()); got != want || c.All.paced.Load() != 0 {
				t.Errorf("refusal %d waits %v, expected %v; %d wait afterwards", i+1, got, want, c.All.paced.Load())
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if got := took(gone); got != 0 {
			t.Errorf("waits %v for a client that has left", got)
		}
		c.All.paced.Store(pacedMax)
		if got := took(t.Context()); got != 0 {
			t.Errorf("waits %v although as many wait as may", got)
		}
		c.All.paced.Store(0)
		stop()
		if got := took(t.Context()); got != 0 {
			t.Errorf("waits %v while the server stops", got)
		}
	})
}
