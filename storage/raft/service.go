package raft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// The gRPC service of a node. Each message is a google.protobuf.BytesValue, because
// the consensus and msgpack make the bytes.
const (
	serviceName     = "ostiary.raft.v1.Raft"
	methodConnect   = "Connect" // a connection of the consensus
	methodPropose   = "Propose" // a command in chunks, answered by an outcome
	methodIndex     = "Index"   // answered by an outcome with an index
	methodTerm      = "Term"    // answered by an outcome with a term and a process
	methodMembers   = "Members" // a memberChange, answered by an outcome
	methodParts     = "Parts"   // shard and sequence, answered by the parts of a snapshot
	partBytes       = 512 << 10 // of a part of a large segment
	proposeBytesMax = 2 * sharedlog.SegmentBytesMax
)

// Register adds the service of the node to a gRPC server. The server must let in only
// nodes of the cluster: whoever reaches the service can change the log.
func (n *Node) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: serviceName,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: methodIndex, Handler: unary(func(n *Node, ctx context.Context, _ string, _ []byte) outcome { return n.serveIndex(ctx) })},
			{MethodName: methodTerm, Handler: unary(func(n *Node, _ context.Context, _ string, _ []byte) outcome { return n.serveTerm() })},
			{MethodName: methodMembers, Handler: unary((*Node).serveMembers)},
		},
		Streams: []grpc.StreamDesc{
			{StreamName: methodConnect, Handler: streaming((*Node).serveConnect), ServerStreams: true, ClientStreams: true},
			{StreamName: methodPropose, Handler: streaming((*Node).servePropose), ClientStreams: true},
			{StreamName: methodParts, Handler: streaming((*Node).serveParts), ServerStreams: true},
		},
	}, n)
}

// unary returns the handler of a method. serve gets the id of the node that calls.
func unary(serve func(n *Node, ctx context.Context, from string, request []byte) outcome) grpc.MethodHandler {
	return func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		n := server.(*Node)
		from, err := n.admitted(ctx)
		if err != nil {
			return nil, err
		}
		var in wrapperspb.BytesValue
		if err := decode(&in); err != nil {
			return nil, err
		}
		out := serve(n, ctx, from, in.GetValue())
		b, err := out.encode()
		return wrapperspb.Bytes(b), err
	}
}

func streaming(serve func(n *Node, stream grpc.ServerStream) error) grpc.StreamHandler {
	return func(server any, stream grpc.ServerStream) error {
		n := server.(*Node)
		if _, err := n.admitted(stream.Context()); err != nil {
			return err
		}
		return serve(n, stream)
	}
}

// serverBytes is a stream of a server as a byteStream.
type serverBytes struct{ grpc.ServerStream }

func (s serverBytes) Send(m *wrapperspb.BytesValue) error { return s.SendMsg(m) }

func (s serverBytes) Recv() (*wrapperspb.BytesValue, error) {
	m := &wrapperspb.BytesValue{}
	return m, s.RecvMsg(m)
}

// clientBytes is a stream of a client as a byteStream.
type clientBytes struct{ grpc.ClientStream }

func (s clientBytes) Send(m *wrapperspb.BytesValue) error { return s.SendMsg(m) }

func (s clientBytes) Recv() (*wrapperspb.BytesValue, error) {
	m := &wrapperspb.BytesValue{}
	return m, s.RecvMsg(m)
}

func (n *Node) serveConnect(stream grpc.ServerStream) error {
	ended := make(chan struct{})
	c := newStreamConn(serverBytes{stream}, "", func() { close(ended) })
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
func (n *Node) dialStream(address string, timeout time.Duration) (*streamConn, error) {
	ctx, cancel := context.WithCancel(n.ctx)
	late := time.AfterFunc(timeout, cancel)
	stream, err := n.openStream(ctx, address, methodConnect, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true})
	if !late.Stop() || err != nil {
		cancel()
		return nil, fmt.Errorf("connect to node %s: %w", address, errors.Join(err, context.Cause(ctx)))
	}
	return newStreamConn(clientBytes{stream}, address, cancel), nil
}

func (n *Node) openStream(ctx context.Context, address, method string, desc *grpc.StreamDesc) (grpc.ClientStream, error) {
	conn, err := n.opts.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	stream, err := conn.NewStream(n.outgoing(ctx, address), desc, "/"+serviceName+"/"+method)
	if err != nil {
		return nil, n.refused(err)
	}
	return clientStream{stream, n}, nil
}

func (n *Node) servePropose(stream grpc.ServerStream) error {
	var c []byte
	for {
		m, err := serverBytes{stream}.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if c = append(c, m.GetValue()...); len(c) > proposeBytesMax {
			return fmt.Errorf("%w: a command exceeds %d bytes", storage.ErrTooLarge, proposeBytesMax)
		}
	}
	o := outcomeOf(n.proposeHere(stream.Context(), c))
	b, err := o.encode()
	if err != nil {
		return err
	}
	return stream.SendMsg(wrapperspb.Bytes(b))
}

// proposeHere proposes a command, if this node leads. The leader sets the times, and
// cuts a large segment in parts.
func (n *Node) proposeHere(ctx context.Context, b []byte) error {
	c, err := decodeCommand(b)
	if err != nil {
		return err
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

func (n *Node) serveIndex(ctx context.Context) outcome {
	at, err := n.index(ctx)
	o := outcomeOf(err)
	o.Index, o.Time = at, time.Now()
	return o
}

func (n *Node) serveParts(stream grpc.ServerStream) error {
	m, err := serverBytes{stream}.Recv()
	if err != nil {
		return err
	}
	if b := m.GetValue(); len(b) == 12 {
		shard, sequence := sharedlog.Shard(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint64(b[4:])
		return n.parts(shard, sequence, func(part []byte) error { return stream.SendMsg(wrapperspb.Bytes(part)) })
	}
	return fmt.Errorf("%w: request for parts", storage.ErrDamaged)
}
