package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

const (
	partBytes       = 512 << 10 // of a part of a large segment
	proposeBytesMax = 2 * sharedlog.SegmentBytesMax
)

// Register adds the service of the node to a gRPC server. The server must let in only
// nodes of the cluster: whoever reaches the service can change the log. Its interceptors
// get every call.
func (n *Server) Register(to grpc.ServiceRegistrar) { wire.RegisterRaftServer(to, service{node: n}) }

// service implements [wire.RaftServer]. Each method first admits the node that calls.
type service struct {
	wire.UnimplementedRaftServer
	node *Server
}

// answer returns what a method answers to a node that it admits. serve gets the id of the node.
func (s service) answer(ctx context.Context, serve func(from string) outcome) (*wrapperspb.BytesValue, error) {
	from, err := s.node.admitted(ctx)
	if err != nil {
		return nil, err
	}
	o := serve(from)
	b, err := o.encode()
	return wrapperspb.Bytes(b), err
}

// Index implements [wire.RaftServer].
func (s service) Index(ctx context.Context, _ *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return s.answer(ctx, func(string) outcome { return s.node.serveIndex(ctx) })
}

// Term implements [wire.RaftServer].
func (s service) Term(ctx context.Context, _ *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return s.answer(ctx, func(string) outcome { return s.node.serveTerm() })
}

// Members implements [wire.RaftServer].
func (s service) Members(ctx context.Context, request *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return s.answer(ctx, func(from string) outcome { return s.node.serveMembers(ctx, from, request.GetValue()) })
}

// Propose implements [wire.RaftServer].
func (s service) Propose(stream grpc.ClientStreamingServer[wrapperspb.BytesValue, wrapperspb.BytesValue]) error {
	b, err := s.answer(stream.Context(), func(string) outcome { return outcomeOf(s.node.servePropose(stream)) })
	if err != nil {
		return err
	}
	return stream.SendAndClose(b)
}

// Parts implements [wire.RaftServer].
func (s service) Parts(request *wrapperspb.BytesValue, stream grpc.ServerStreamingServer[wrapperspb.BytesValue]) error {
	if _, err := s.node.admitted(stream.Context()); err != nil {
		return err
	}
	if b := request.GetValue(); len(b) == 12 { // the first four bytes are zeros, see eachPart
		return s.node.parts(binary.BigEndian.Uint64(b[4:]), func(part []byte) error { return stream.Send(wrapperspb.Bytes(part)) })
	}
	return fmt.Errorf("%w: request for parts", storage.ErrDamaged)
}

// Connect implements [wire.RaftServer].
func (s service) Connect(stream grpc.BidiStreamingServer[wrapperspb.BytesValue, wrapperspb.BytesValue]) error {
	n := s.node
	if _, err := n.admitted(stream.Context()); err != nil {
		return err
	}
	ended := make(chan struct{})
	c := newStreamConn(stream, "", func() { close(ended) })
	select {
	case n.incoming <- c:
	case <-n.ctx.Done():
		return storage.ErrClosed
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	look := time.NewTicker(n.opts.Heartbeat)
	defer look.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-n.ctx.Done():
			return nil
		case <-stream.Context().Done():
			return nil
		case <-look.C: // the node may have been removed since, which it hears in no other way
			if _, err := n.admitted(stream.Context()); err != nil {
				return err
			}
		}
	}
}

// dialStream opens a connection of the consensus to another node.
func (n *Server) dialStream(address string, timeout time.Duration) (*streamConn, error) {
	ctx, cancel := context.WithCancel(n.ctx)
	late := time.AfterFunc(timeout, cancel)
	var stream grpc.BidiStreamingClient[wrapperspb.BytesValue, wrapperspb.BytesValue]
	to, err := n.dial(ctx, address)
	if err == nil {
		stream, err = to.Connect(ctx)
	}
	if !late.Stop() || err != nil {
		cancel()
		return nil, fmt.Errorf("connect to node %s: %w", address, errors.Join(err, context.Cause(ctx)))
	}
	return newStreamConn(stream, address, cancel), nil
}

// dial returns the service of the node at an address.
func (n *Server) dial(ctx context.Context, address string) (wire.RaftClient, error) {
	conn, err := n.opts.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	return wire.NewRaftClient(connection{conn, n, address}), nil
}

// Dial returns a connection to the member at an address, for a service next to that of the
// node, which asks [Server.Caller] who calls.
func (n *Server) Dial(ctx context.Context, address string) (grpc.ClientConnInterface, error) {
	conn, err := n.opts.Dial(ctx, address)
	return connection{conn, n, address}, err
}

// Caller returns the id of the member that calls. It fails with the status for the caller if
// that is no member, see Options.Certified.
func (n *Server) Caller(ctx context.Context) (string, error) {
	from, err := n.admitted(ctx)
	if err == nil && !n.isMember(from) {
		err = status.Errorf(codes.PermissionDenied, "node %s is no member", from)
	}
	return from, err
}

// connection is a connection to the node at an address. Its calls have the headers of this
// node, and their errors are those of refused.
type connection struct {
	grpc.ClientConnInterface
	node    *Server
	address string
}

// Invoke implements [grpc.ClientConnInterface].
func (c connection) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	return c.node.refused(c.ClientConnInterface.Invoke(c.node.outgoing(ctx, c.address), method, request, answer, options...))
}

// NewStream implements [grpc.ClientConnInterface].
func (c connection) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(c.node.outgoing(ctx, c.address), desc, method, options...)
	if err != nil {
		return nil, c.node.refused(err)
	}
	return clientStream{stream, c.node}, nil
}

// servePropose proposes the command of another node.
func (n *Server) servePropose(stream grpc.ClientStreamingServer[wrapperspb.BytesValue, wrapperspb.BytesValue]) error {
	var c []byte
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n.proposeHere(stream.Context(), c)
		}
		if err != nil {
			return err
		}
		if c = append(c, m.GetValue()...); len(c) > proposeBytesMax {
			return fmt.Errorf("%w: a command exceeds %d bytes", storage.ErrTooLarge, proposeBytesMax)
		}
	}
}

// proposeHere proposes a command, if this node leads. The leader sets the times, and
// cuts a large segment in parts.
func (n *Server) proposeHere(ctx context.Context, b []byte) error {
	c, err := decodeCommand(b)
	if err != nil {
		return err
	}
	if c.Operation == opAdmit { // a node of an older version passes on what it did not check
		if _, err := n.checkAdmit(ctx, c); err != nil {
			return err
		}
	}
	if !c.setTime(time.Now()) && len(c.Record.Bytes) <= partBytes {
		_, err = n.propose(ctx, b)
		return err
	}
	if len(c.Record.Bytes) > partBytes {
		for part := range slices.Chunk(c.Record.Bytes, partBytes) {
			b, err := (&command{Operation: opPart, Part: part}).encode()
			if err != nil {
				return err
			}
			index, err := n.propose(ctx, b)
			if err != nil {
				return err
			}
			c.Parts = append(c.Parts, index)
		}
		c.Record.Bytes = nil
	}
	if b, err = c.encode(); err == nil {
		_, err = n.propose(ctx, b)
	}
	return err
}

func (n *Server) serveIndex(ctx context.Context) outcome {
	at, err := n.index(ctx)
	o := outcomeOf(err)
	o.Index, o.Time = at, time.Now()
	return o
}
