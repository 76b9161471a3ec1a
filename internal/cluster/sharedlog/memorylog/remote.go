package memorylog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Remote is a connection to a [Server]. It implements [sharedlog.Log]. It connects again
// after the connection broke.
type Remote struct {
	address string
	mu      sync.Mutex
	closed  bool
	client  *rpc.Client // nil without a connection
}

var _ sharedlog.Log = (*Remote)(nil)

// Dial returns a connection to the server at an address.
func Dial(ctx context.Context, address string) (*Remote, error) {
	l := &Remote{address: address}
	_, err := l.Cluster(ctx)
	return l, err
}

func (l *Remote) connection(ctx context.Context) (*rpc.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, storage.ErrClosed
	}
	if l.client == nil {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", l.address)
		if err != nil {
			return nil, fmt.Errorf("log server: %w", err)
		}
		l.client = rpc.NewClient(c)
	}
	return l.client, nil
}

// call runs a method at the server.
func (l *Remote) call(ctx context.Context, q Request) (*Response, error) {
	r := &Response{}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	c, err := l.connection(ctx)
	if err != nil {
		return r, err
	}
	call := c.Go("Log.Call", q, r, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
	case <-ctx.Done():
		return &Response{}, ctx.Err()
	}
	if call.Error != nil {
		return r, l.broken(c, call.Error)
	}
	switch {
	case r.Kind == kindConflict:
		return r, &sharedlog.ConflictError{Head: r.Head}
	case r.Kind != kindOther:
		return r, fmt.Errorf("%w (%s)", kinds[r.Kind-1], r.Text)
	case r.Text != "":
		return r, errors.New(r.Text)
	}
	return r, nil
}

// broken drops a connection that is of no use any more.
func (l *Remote) broken(c *rpc.Client, err error) error {
	if _, answered := err.(rpc.ServerError); answered {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return storage.ErrClosed
	}
	if l.client == c {
		l.client = nil
		c.Close()
	}
	return fmt.Errorf("log server: %w", err)
}

// Cluster implements [sharedlog.Log].
func (l *Remote) Cluster(ctx context.Context) (sharedlog.Cluster, error) {
	r, err := l.call(ctx, Request{Method: "Cluster"})
	return r.Cluster, err
}

// SwapCluster implements [sharedlog.Log].
func (l *Remote) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	_, err := l.call(ctx, Request{Method: "SwapCluster", OldCluster: old, NewCluster: new})
	return err
}

// Head implements [sharedlog.Log].
func (l *Remote) Head(ctx context.Context) (sharedlog.Position, error) {
	r, err := l.call(ctx, Request{Method: "Head"})
	return r.Head, err
}

// Append implements [sharedlog.Log].
func (l *Remote) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	_, err := l.call(ctx, Request{Method: "Append", After: after, Record: record, Secrets: secrets})
	return err
}

// Read implements [sharedlog.Log].
func (l *Remote) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		for {
			r, err := l.call(ctx, Request{Method: "Read", Sequence: from})
			if err != nil {
				yield(sharedlog.Record{}, err)
				return
			}
			for _, record := range r.Records {
				if err := ctx.Err(); err != nil {
					yield(sharedlog.Record{}, err)
					return
				}
				if !yield(record, nil) {
					return
				}
				from = record.Sequence + 1
			}
			if !r.More {
				return
			}
		}
	}
}

// Wait implements [sharedlog.Log].
func (l *Remote) Wait(ctx context.Context, after uint64) error {
	_, err := l.call(ctx, Request{Method: "Wait", Sequence: after})
	return err
}

// Trim implements [sharedlog.Log].
func (l *Remote) Trim(ctx context.Context, below uint64) error {
	_, err := l.call(ctx, Request{Method: "Trim", Sequence: below})
	return err
}

// Secret implements [sharedlog.Log].
func (l *Remote) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	r, err := l.call(ctx, Request{Method: "Secret", Key: key, Digest: digest})
	return r.Bytes, err
}

// Lease implements [sharedlog.Log].
func (l *Remote) Lease(ctx context.Context) (sharedlog.Lease, error) {
	r, err := l.call(ctx, Request{Method: "Lease"})
	return r.Lease, err
}

// SwapLease implements [sharedlog.Log].
func (l *Remote) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	_, err := l.call(ctx, Request{Method: "SwapLease", OldLease: old, NewLease: new})
	return err
}

// Register implements [sharedlog.Log].
func (l *Remote) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	_, err := l.call(ctx, Request{Method: "Register", Node: n})
	return err
}

// Report implements [sharedlog.Log].
func (l *Remote) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	_, err := l.call(ctx, Request{Method: "Report", Node: n})
	return err
}

// Forget implements [sharedlog.Log].
func (l *Remote) Forget(ctx context.Context, id storage.NodeID) error {
	_, err := l.call(ctx, Request{Method: "Forget", Node: sharedlog.NodeRecord{ID: id}})
	return err
}

// Nodes implements [sharedlog.Log].
func (l *Remote) Nodes(ctx context.Context) ([]sharedlog.NodeRecord, time.Time, error) {
	r, err := l.call(ctx, Request{Method: "Nodes"})
	return r.Nodes, r.Now, err
}

// PutSnapshot implements [sharedlog.Log].
func (l *Remote) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	q := Request{Method: "PutSnapshot", At: at}
	for part, err := range parts {
		if err != nil {
			return err
		}
		q.Parts = append(q.Parts, append([]byte(nil), part...))
	}
	_, err := l.call(ctx, q)
	return err
}

// Snapshot implements [sharedlog.Log].
func (l *Remote) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	r, err := l.call(ctx, Request{Method: "Snapshot"})
	return r.Head, func(yield func([]byte, error) bool) {
		for _, part := range r.Parts {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(part, nil) {
				return
			}
		}
	}, err
}

// Close implements [sharedlog.Log].
func (l *Remote) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if c := l.client; c != nil {
		l.client = nil
		return c.Close()
	}
	return nil
}
