package failing

import (
	"context"
	"sync"
)

// Context is a context that ends while it is used, so that a test can end it at each
// use of a call in turn. It is safe for concurrent use.
type Context struct {
	context.Context
	mu    sync.Mutex
	uses  int
	ended chan struct{}
}

// EndAfter returns a context that is canceled when its error is asked for once more
// than uses times.
func EndAfter(ctx context.Context, uses int) *Context {
	return &Context{Context: ctx, uses: uses, ended: make(chan struct{})}
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.ended }

// Err implements context.Context. It counts as a use.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses < 0 {
		return context.Canceled
	}
	if c.uses--; c.uses < 0 {
		close(c.ended)
		return context.Canceled
	}
	return nil
}

// Ended reports whether the context has ended. It does not count as a use.
func (c *Context) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uses < 0
}
