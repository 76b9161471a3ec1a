package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"
)

// TestDelayRefusal checks which refusals wait, that the wait ends when the
// request or the server does, and that a connection with more than
// delayedPerConnection of them is closed.
func TestDelayRefusal(t *testing.T) {
	t.Parallel()
	s := &shared{}
	s.stopping, s.beginStop = context.WithCancel(context.Background())
	all := newConnections(&Options{ConnectionsMax: 10, ConnectionsPerAddress: 10})
	gone, leave := context.WithCancel(context.Background())
	leave()
	c := newDetached(all)
	s.delayRefusal(context.Background(), c) // of a connection that was accepted
	if c.refusals.Load() != 0 {
		t.Error("a refusal on a connection with an accepted request counts")
	}
	c.trusted.Store(false)
	for range refusalsFree + 1 {
		s.delayRefusal(gone, c)
	}
	if n := c.refusals.Load(); n != refusalsFree+1 || all.waiting.Load() != 0 {
		t.Error(n, all.waiting.Load())
	}
	c.refusals.Store(1 << 20)
	var waiting sync.WaitGroup
	for range delayedPerConnection {
		waiting.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for s.stopping.Err() == nil { // each wait is refusalWaitMax
				s.delayRefusal(ctx, c)
			}
		})
	}
	for c.delayed.Load() < delayedPerConnection {
		time.Sleep(time.Millisecond)
	}
	if all.unauthenticated.Load() != 0 {
		t.Error("the connection was closed at the bound")
	}
	s.delayRefusal(context.Background(), c)
	if all.unauthenticated.Load() == 0 {
		t.Error("the connection was not closed above the bound")
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Error("the connection is open:", err)
	}
	s.beginStop()
	waiting.Wait()
	if c.delayed.Load() != 0 || all.waiting.Load() != 0 {
		t.Error(c.delayed.Load(), all.waiting.Load())
	}
}
