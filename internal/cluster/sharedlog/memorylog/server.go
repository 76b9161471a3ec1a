package memorylog

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/rpc"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Server serves a log to other processes, without authentication.
type Server struct {
	listener net.Listener
	paused   atomic.Bool
}

// Serve serves the data on an address, until Close.
func (t *Tables) Serve(address string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l}
	r := rpc.NewServer()
	if err := r.RegisterName("Log", &handler{t.Open(), s}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.ServeConn(c)
		}
	}()
	return s, nil
}

// Address returns where the server listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Pause makes every call fail until it is called with false, like a database that is
// gone.
func (s *Server) Pause(paused bool) { s.paused.Store(paused) }

// Close ends the server for new connections.
func (s *Server) Close() error { return s.listener.Close() }

// Request has the arguments of all methods; each uses some.
type Request struct {
	Method             string
	After, At          sharedlog.Position
	Sequence           uint64
	Record             sharedlog.Record
	Secrets            []sharedlog.SecretChange
	OldCluster         sharedlog.Cluster
	NewCluster         sharedlog.Cluster
	OldLease, NewLease sharedlog.Lease
	Node               sharedlog.NodeRecord
	Key                sharedlog.SecretKey
	Digest             storage.Hash
	Parts              [][]byte
}

// Response has the results of all methods; each uses some.
type Response struct {
	Kind    int    // index in kinds of the error + 1, conflict, or other
	Text    string // of the error; "" without one
	Cluster sharedlog.Cluster
	Head    sharedlog.Position
	Records []sharedlog.Record
	More    bool // there are more records
	Bytes   []byte
	Lease   sharedlog.Lease
	Nodes   []sharedlog.NodeRecord
	Now     time.Time
	Parts   [][]byte
}

// kinds are the errors that keep their kind.
var kinds = []error{
	sharedlog.ErrSwap, sharedlog.ErrTrimmed, sharedlog.ErrNoSecret, sharedlog.ErrLease, sharedlog.ErrNodeTaken,
	sharedlog.ErrNoSnapshot, storage.ErrTooLarge, storage.ErrDamaged,
}

const (
	kindConflict = -1
	kindOther    = 0

	waitTime     = 500 * time.Millisecond // for which one call waits at most
	readBytesMax = 8 << 20                // of records in one response
)

// handler has the method that package rpc calls.
type handler struct {
	log    *Log
	server *Server
}

// Call runs a method.
func (h *handler) Call(q Request, r *Response) error {
	if h.server.paused.Load() {
		return errors.New("the log is paused")
	}
	err := h.run(context.Background(), &q, r)
	if err == nil {
		return nil
	}
	var conflict *sharedlog.ConflictError
	if errors.As(err, &conflict) {
		r.Kind, r.Head = kindConflict, conflict.Head
	}
	for i, k := range kinds {
		if errors.Is(err, k) {
			r.Kind = i + 1
		}
	}
	r.Text = err.Error()
	return nil
}

func (h *handler) run(ctx context.Context, q *Request, r *Response) (err error) {
	switch q.Method {
	case "Cluster":
		r.Cluster, err = h.log.Cluster(ctx)
	case "SwapCluster":
		err = h.log.SwapCluster(ctx, q.OldCluster, q.NewCluster)
	case "Head":
		r.Head, err = h.log.Head(ctx)
	case "Append":
		err = h.log.Append(ctx, q.After, q.Record, q.Secrets)
	case "Read":
		size := 0
		for record, err := range h.log.Read(ctx, q.Sequence) {
			if err != nil {
				return err
			}
			if size += len(record.Bytes); size > readBytesMax && len(r.Records) > 0 {
				r.More = true
				break
			}
			r.Records = append(r.Records, record)
		}
	case "Wait":
		ctx, cancel := context.WithTimeout(ctx, waitTime)
		defer cancel()
		if err = h.log.Wait(ctx, q.Sequence); ctx.Err() != nil {
			err = nil
		}
	case "Trim":
		err = h.log.Trim(ctx, q.Sequence)
	case "Secret":
		r.Bytes, err = h.log.Secret(ctx, q.Key, q.Digest)
	case "Lease":
		r.Lease, err = h.log.Lease(ctx)
	case "SwapLease":
		err = h.log.SwapLease(ctx, q.OldLease, q.NewLease)
	case "Register":
		err = h.log.Register(ctx, q.Node)
	case "Report":
		err = h.log.Report(ctx, q.Node)
	case "Forget":
		err = h.log.Forget(ctx, q.Node.ID)
	case "Nodes":
		r.Nodes, r.Now, err = h.log.Nodes(ctx)
	case "PutSnapshot":
		err = h.log.PutSnapshot(ctx, q.At, func(yield func([]byte, error) bool) {
			for _, p := range q.Parts {
				if !yield(p, nil) {
					return
				}
			}
		})
	case "Snapshot":
		var parts iter.Seq2[[]byte, error]
		if r.Head, parts, err = h.log.Snapshot(ctx); err != nil {
			return err
		}
		for p, err := range parts {
			if err != nil {
				return err
			}
			r.Parts = append(r.Parts, p)
		}
	}
	return err
}
