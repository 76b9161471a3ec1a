//go:build linux

package fleet

import (
	"context"
	"time"
)

// killDrain is how long a node that is killed gets no requests of balancers before.
const killDrain = time.Second

// KillHolders kills the node that writes every so often and starts it again, until ctx
// ends, and returns how many it has killed. All nodes run then. A node gets no requests
// of the balancers, whose servers are the nodes in their order, from a moment before it is
// killed until it serves again, as a proxy must do. What other nodes have passed on to it
// is cut off.
func (f *Fleet) KillHolders(ctx context.Context, every time.Duration, balancers ...*Balancer) (kills int, err error) {
	for {
		select {
		case <-ctx.Done():
			return kills, nil
		case <-time.After(every):
		}
		holder := f.Holder(ctx)
		if holder == nil {
			continue
		}
		err := holder.Out(ctx, func() error {
			holder.Kill()
			return holder.Start(context.WithoutCancel(ctx))
		}, balancers...)
		if err != nil {
			return kills, err
		}
		kills++
	}
}

// Out calls f, which restarts the node. From a moment before, the node gets no requests of
// the balancers, whose servers are the nodes in their order. They send it requests again
// if f succeeds.
func (n *Node) Out(ctx context.Context, f func() error, balancers ...*Balancer) error {
	drained, cancel := context.WithTimeout(ctx, killDrain)
	for _, b := range balancers {
		b.takeOut(drained, n.Number)
	}
	cancel()
	if err := f(); err != nil {
		return err
	}
	for _, b := range balancers {
		b.putBack(n.Number)
	}
	return nil
}
