package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// errClosed is the error of a stream that this node has closed.
var errClosed = errors.New("the stream was closed")

// service implements [wire.LinkServer].
type service struct {
	wire.UnimplementedLinkServer
	t *Transport
}

// link returns the link of a call that it has admitted.
func (s service) link() (*Link, error) {
	if l := s.t.link.Load(); l != nil {
		return l, nil
	}
	return nil, errNotReady
}

// Follow implements [wire.LinkServer].
func (s service) Follow(grpcStream grpc.BidiStreamingServer[wire.FollowerMessage, wire.HolderMessage]) error {
	ctx := grpcStream.Context()
	first, err := grpcStream.Recv()
	if err != nil {
		return err
	}
	hello, err := helloIn(first.GetHello(), calling(ctx))
	if err != nil {
		return err
	}
	l, err := s.link()
	if err != nil {
		return err
	}
	node, _ := l.attached()
	if node == nil {
		return errNotReady
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream := &holderStream{grpcStream, ctx, cancel}
	done := make(chan error, 1)
	l.background.Go(func() { done <- node.Serve(ctx, stream, hello.Node, hello) })
	select {
	case err = <-done:
	case <-ctx.Done(): // Serve returns as well, once the stream has ended
		if err = context.Cause(ctx); errors.Is(err, errClosed) {
			err = nil
		}
	}
	return err
}

// holderStream is the holder's end of a stream. It ends when the handler returns.
type holderStream struct {
	stream grpc.BidiStreamingServer[wire.FollowerMessage, wire.HolderMessage]
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Send implements [lease.Stream].
func (s *holderStream) Send(m lease.Message) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	out, err := holderOut(m)
	if err != nil {
		return err
	}
	return s.stream.Send(out)
}

// Recv implements [lease.Stream].
func (s *holderStream) Recv() (lease.Message, error) {
	m, err := s.stream.Recv()
	if err != nil {
		if s.ctx.Err() != nil {
			err = context.Cause(s.ctx)
		}
		return nil, err
	}
	return followerIn(m)
}

// Close implements [lease.Stream].
func (s *holderStream) Close() error {
	s.cancel(errClosed)
	return nil
}

// Follow implements [lease.Link].
func (l *Link) Follow(ctx context.Context, to lease.Peer, hello lease.Hello) (lease.Stream, error) {
	p, err := l.peer(to)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := p.client.Follow(p.call(ctx))
	if err == nil {
		// io.EOF means that the stream has ended; Recv returns why.
		if err = stream.Send(&wire.FollowerMessage{Message: &wire.FollowerMessage_Hello{Hello: helloOut(hello)}}); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		cancel(nil)
		return nil, received(to, err)
	}
	return &followerStream{link: l, to: to, stream: stream, ctx: ctx, cancel: cancel}, nil
}

// followerStream is the follower's end of a stream.
type followerStream struct {
	link     *Link
	to       lease.Peer
	stream   grpc.BidiStreamingClient[wire.FollowerMessage, wire.HolderMessage]
	ctx      context.Context
	cancel   context.CancelCauseFunc
	verified bool // of Recv: the identity of the other node was checked
}

// Send implements [lease.Stream].
func (s *followerStream) Send(m lease.Message) error {
	out, err := followerOut(m)
	if err != nil {
		return err
	}
	return received(s.to, s.stream.Send(out))
}

// Recv implements [lease.Stream].
func (s *followerStream) Recv() (lease.Message, error) {
	if err := s.verify(); err != nil {
		return nil, err
	}
	m, err := s.stream.Recv()
	if err != nil {
		if s.ctx.Err() != nil {
			return nil, context.Cause(s.ctx)
		}
		return nil, received(s.to, err)
	}
	return holderIn(m)
}

// verify checks the header of the stream once.
func (s *followerStream) verify() error {
	if s.verified {
		return nil
	}
	if err := s.link.verifyHeader(s.stream, s.to); err != nil {
		s.cancel(err)
		return err
	}
	s.verified = true
	return nil
}

// verifyHeader waits for the header of a stream and checks it. If the stream ends
// without one, it does nothing, because Recv then returns why.
func (l *Link) verifyHeader(s interface{ Header() (metadata.MD, error) }, to lease.Peer) error {
	md, err := s.Header()
	if err != nil || len(md.Get(identityHeader)) == 0 && md.Len() == 0 {
		return received(to, err)
	}
	return l.verifyAnswer(md, to)
}

// Close implements [lease.Stream].
func (s *followerStream) Close() error {
	s.cancel(errClosed)
	return nil
}

// HandOver implements [lease.Link].
func (l *Link) HandOver(ctx context.Context, to lease.Peer, h lease.HandOver) error {
	p, err := l.peer(to)
	if err != nil {
		return err
	}
	m := &wire.HandOverRequest{
		Cluster: h.Cluster[:], From: peerOut(h.From), To: peerOut(h.To),
		Lease: &wire.Lease{Holder: h.Lease.Holder[:], Epoch: h.Lease.Epoch, Renewals: h.Lease.Renewals},
		Head:  positionOut(h.Head),
	}
	for _, leased := range h.Leased {
		m.Leased = append(m.Leased, &wire.Leased{Node: peerOut(leased.Node), RemainingNanoseconds: int64(leased.Remaining)})
	}
	var header metadata.MD
	if _, err := p.client.HandOver(p.call(ctx), m, grpc.Header(&header)); err != nil {
		return received(to, err)
	}
	return l.verifyAnswer(header, to)
}

// HandOver implements [wire.LinkServer].
func (s service) HandOver(ctx context.Context, m *wire.HandOverRequest) (*wire.HandOverResponse, error) {
	h, err := handOverIn(m, calling(ctx))
	if err != nil {
		return nil, err
	}
	l, err := s.link()
	if err != nil {
		return nil, err
	}
	node, _ := l.attached()
	if node == nil {
		return nil, errNotReady
	}
	return &wire.HandOverResponse{}, node.TakeOver(ctx, h.From, h)
}

func handOverIn(m *wire.HandOverRequest, from lease.Peer) (h lease.HandOver, err error) {
	if h.From, err = sender(m.GetFrom(), from); err != nil {
		return h, err
	}
	if h.To, err = peerIn(m.GetTo()); err != nil {
		return h, err
	}
	holder, err := peerIn(&wire.Peer{Id: m.GetLease().GetHolder()})
	if err != nil {
		return h, err
	}
	h.Lease = sharedlog.Lease{Holder: holder.ID, Epoch: m.GetLease().GetEpoch(), Renewals: m.GetLease().GetRenewals()}
	if h.Cluster, err = clusterIn(m.GetCluster()); err != nil {
		return h, err
	}
	if h.Head, err = positionIn(m.GetHead()); err != nil {
		return h, err
	}
	for _, leased := range m.GetLeased() {
		node, err := peerIn(leased.GetNode())
		if err != nil {
			return h, err
		}
		h.Leased = append(h.Leased, lease.Leased{Node: node, Remaining: time.Duration(leased.GetRemainingNanoseconds())})
	}
	return h, nil
}

// sender returns the node in a message, which must be the one that was authenticated.
// The address is that of the registry.
func sender(m *wire.Peer, from lease.Peer) (lease.Peer, error) {
	p, err := peerIn(m)
	if err == nil && (p.ID != from.ID || p.Start != from.Start) {
		err = fmt.Errorf("%w: a message names start %d of node %s, but start %d of node %s sent it", lease.ErrPeer, p.Start, p.ID, from.Start, from.ID)
	}
	return from, err
}

func helloOut(h lease.Hello) *wire.Hello {
	return &wire.Hello{Version: h.Version, Cluster: h.Cluster[:], Node: peerOut(h.Node), To: peerOut(h.To), Epoch: h.Epoch, Settings: &wire.Settings{
		HolderLeaseNanoseconds: int64(h.Settings.HolderLease), ReadLeaseNanoseconds: int64(h.Settings.ReadLease), Acknowledge: uint32(h.Settings.Acknowledge)}}
}

func helloIn(m *wire.Hello, from lease.Peer) (h lease.Hello, err error) {
	if m == nil {
		return h, fmt.Errorf("%w: node %s: the first message of a stream is no hello", lease.ErrPeer, from.ID)
	}
	h = lease.Hello{Version: m.GetVersion(), Epoch: m.GetEpoch(), Settings: sharedlog.Settings{
		HolderLease: time.Duration(m.GetSettings().GetHolderLeaseNanoseconds()), ReadLease: time.Duration(m.GetSettings().GetReadLeaseNanoseconds()),
		Acknowledge: sharedlog.Acknowledge(min(m.GetSettings().GetAcknowledge(), math.MaxUint8))}}
	if h.Node, err = sender(m.GetNode(), from); err != nil {
		return h, err
	}
	if h.To, err = peerIn(m.GetTo()); err != nil {
		return h, err
	}
	h.Cluster, err = clusterIn(m.GetCluster())
	return h, err
}

func clusterIn(id []byte) (sharedlog.ClusterID, error) {
	if len(id) != len(sharedlog.ClusterID{}) {
		return sharedlog.ClusterID{}, fmt.Errorf("%w: a cluster id of %d bytes, expected %d", lease.ErrPeer, len(id), len(sharedlog.ClusterID{}))
	}
	return sharedlog.ClusterID(id), nil
}

func positionOut(p sharedlog.Position) *wire.Position {
	return &wire.Position{Sequence: p.Sequence, Hash: p.Hash[:]}
}

func positionIn(m *wire.Position) (sharedlog.Position, error) {
	if n := len(m.GetHash()); n != len(storage.Hash{}) {
		return sharedlog.Position{}, fmt.Errorf("%w: a hash of %d bytes, expected %d", lease.ErrPeer, n, len(storage.Hash{}))
	}
	return sharedlog.Position{Sequence: m.GetSequence(), Hash: storage.Hash(m.GetHash())}, nil
}

// followerOut returns a message of a follower.
func followerOut(m lease.Message) (*wire.FollowerMessage, error) {
	switch m := m.(type) {
	case lease.Renew:
		return &wire.FollowerMessage{Message: &wire.FollowerMessage_Renew{Renew: &wire.Renew{Number: m.Number, Applied: m.Applied}}}, nil
	case lease.Applied:
		return &wire.FollowerMessage{Message: &wire.FollowerMessage_Applied{Applied: positionOut(m.Position)}}, nil
	case lease.GiveUp:
		return &wire.FollowerMessage{Message: &wire.FollowerMessage_GiveUpEpoch{GiveUpEpoch: m.Epoch}}, nil
	}
	return nil, fmt.Errorf("a follower does not send a %T", m)
}

func followerIn(m *wire.FollowerMessage) (lease.Message, error) {
	switch of := m.GetMessage().(type) {
	case *wire.FollowerMessage_Renew:
		return lease.Renew{Number: of.Renew.GetNumber(), Applied: of.Renew.GetApplied()}, nil
	case *wire.FollowerMessage_Applied:
		p, err := positionIn(of.Applied)
		return lease.Applied{Position: p}, err
	case *wire.FollowerMessage_GiveUpEpoch:
		return lease.GiveUp{Epoch: of.GiveUpEpoch}, nil
	}
	return nil, fmt.Errorf("%w: a message that no follower sends", lease.ErrPeer)
}

// holderOut returns a message of the holder.
func holderOut(m lease.Message) (*wire.HolderMessage, error) {
	switch m := m.(type) {
	case lease.Segment:
		return &wire.HolderMessage{Message: &wire.HolderMessage_Segment{Segment: &wire.Segment{Position: positionOut(m.Position), Bytes: m.Bytes, Secrets: m.Secrets}}}, nil
	case lease.Grant:
		return &wire.HolderMessage{Message: &wire.HolderMessage_Grant{Grant: &wire.Grant{
			Number: m.Number, Epoch: m.Epoch, Renewals: m.Renewals, Head: positionOut(m.Head), DurationNanoseconds: int64(m.Duration)}}}, nil
	case lease.GiveUp:
		return &wire.HolderMessage{Message: &wire.HolderMessage_GiveUpEpoch{GiveUpEpoch: m.Epoch}}, nil
	}
	return nil, fmt.Errorf("a holder does not send a %T", m)
}

func holderIn(m *wire.HolderMessage) (lease.Message, error) {
	switch of := m.GetMessage().(type) {
	case *wire.HolderMessage_Segment:
		p, err := positionIn(of.Segment.GetPosition())
		s := lease.Segment{Passed: sharedlog.Passed{Record: sharedlog.Record{Position: p}, Secrets: of.Segment.GetSecrets()}}
		if len(of.Segment.GetBytes()) > 0 {
			s.Bytes = of.Segment.GetBytes()
		}
		return s, err
	case *wire.HolderMessage_Grant:
		g := of.Grant
		p, err := positionIn(g.GetHead())
		return lease.Grant{Number: g.GetNumber(), Epoch: g.GetEpoch(), Renewals: g.GetRenewals(), Head: p, Duration: time.Duration(g.GetDurationNanoseconds())}, err
	case *wire.HolderMessage_GiveUpEpoch:
		return lease.GiveUp{Epoch: of.GiveUpEpoch}, nil
	}
	return nil, fmt.Errorf("%w: a message that is neither a segment nor a grant", lease.ErrPeer)
}
