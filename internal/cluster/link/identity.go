package link

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// identityHeader is the header of calls and responses with a [wire.Identity].
const identityHeader = "ostiary-node-bin"

// identity returns the header of this node for another one.
func (l *Link) identity(to lease.Peer) (metadata.MD, error) {
	b, err := proto.Marshal(&wire.Identity{
		VersionMin: l.opts.versionMin, VersionMax: l.opts.versionMax,
		Cluster: l.opts.Cluster[:], From: peerOut(l.opts.Self), To: peerOut(to),
	})
	return metadata.Pairs(identityHeader, string(b)), err
}

// readIdentity checks the header of another node, and returns the node. The
// certificate and the registry are not checked yet.
func (l *Link) readIdentity(md metadata.MD) (lease.Peer, error) {
	values := md.Get(identityHeader)
	if len(values) != 1 {
		return lease.Peer{}, fmt.Errorf("%w: %d headers %s, expected one", lease.ErrPeer, len(values), identityHeader)
	}
	var m wire.Identity
	if err := proto.Unmarshal([]byte(values[0]), &m); err != nil {
		return lease.Peer{}, fmt.Errorf("%w: header %s: %w", lease.ErrPeer, identityHeader, err)
	}
	from, err := peerIn(m.GetFrom())
	if err != nil {
		return from, err
	}
	to, err := peerIn(m.GetTo())
	if err != nil {
		return from, err
	}
	self := l.opts.Self
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: node %s: %s", lease.ErrPeer, from.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case m.GetVersionMin() > l.opts.versionMax || m.GetVersionMax() < l.opts.versionMin:
		age := "newer"
		if m.GetVersionMax() < l.opts.versionMin {
			age = "older"
		}
		return from, refuse("it is %s: it speaks versions %d to %d of the protocol between nodes, this node %d to %d",
			age, m.GetVersionMin(), m.GetVersionMax(), l.opts.versionMin, l.opts.versionMax)
	case string(m.GetCluster()) != string(l.opts.Cluster[:]):
		return from, refuse("it belongs to cluster %x, this node to cluster %s", m.GetCluster(), l.opts.Cluster)
	case to.ID != self.ID:
		return from, refuse("it looks for node %s, and this is node %s", to.ID, self.ID)
	case to.Start != self.Start:
		return from, refuse("it looks for start %d of this node, and this is start %d", to.Start, self.Start)
	case from.ID == self.ID:
		return from, refuse("it has the id of this node: a data folder was copied")
	}
	return from, nil
}

// admit checks who calls, and returns the record of the node with the address of the
// registry. The host of that address must be in the certificate: a node cannot call in
// the name of another one.
func (l *Link) admit(ctx context.Context) (lease.Peer, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	from, err := l.readIdentity(md)
	if err != nil {
		return from, err
	}
	n, err := l.registry.find(ctx, from)
	if err != nil {
		return from, err
	}
	from.Address = n.Address
	if _, err := CheckCaller(ctx, from.ID.String(), n.Address); err != nil {
		return from, fmt.Errorf("%w: %w", lease.ErrPeer, err)
	}
	return from, nil
}

// CheckCaller fails unless the certificate with which a call came is that of the node with
// an id, which is registered at an address, see [certificate.CheckNode]. An empty address
// is one that is not known. named is true if the certificate names a node.
func CheckCaller(ctx context.Context, id, address string) (named bool, err error) {
	host := ""
	if address != "" {
		if host, _, err = net.SplitHostPort(address); err != nil {
			return false, fmt.Errorf("node %s is registered with the invalid address %q", id, address)
		}
	}
	p, _ := peer.FromContext(ctx)
	if p == nil {
		p = &peer.Peer{}
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return false, fmt.Errorf("node %s has no certificate", id)
	}
	shown := info.State.PeerCertificates[0]
	if err := certificate.CheckNode(shown, id, host); err != nil {
		return certificate.Names(shown), fmt.Errorf("node %s: %w", id, err)
	}
	return certificate.Names(shown), nil
}

// fromKey is the key of the context value with the calling node.
type fromKey struct{}

// calling returns the node that calls.
func calling(ctx context.Context) lease.Peer {
	from, _ := ctx.Value(fromKey{}).(lease.Peer)
	return from
}

// enter admits a call. The context ends when the node is removed, or the link closed.
func (l *Link) enter(ctx context.Context) (context.Context, func(), error) {
	from, err := l.admit(ctx)
	if err != nil {
		remote := ""
		if p, ok := peer.FromContext(ctx); ok {
			remote = p.Addr.String()
		}
		l.opts.Refused(remote, from.ID.String(), err)
		return ctx, nil, failure(err)
	}
	ctx, end := l.registry.begin(context.WithValue(ctx, fromKey{}, from), from)
	return ctx, end, nil
}

// admitStream admits a stream.
func (l *Link) admitStream(srv any, s grpc.ServerStream, handler grpc.StreamHandler) error {
	ctx, end, err := l.enter(s.Context())
	if err != nil {
		return err
	}
	defer end()
	own, err := l.identity(calling(ctx))
	if err == nil {
		err = s.SendHeader(own)
	}
	if err != nil {
		return err
	}
	return failure(handler(srv, admitted{s, ctx}))
}

// admitted is a stream of a node that was admitted.
type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (a admitted) Context() context.Context { return a.ctx }

// admitCall admits a unary call.
func (l *Link) admitCall(ctx context.Context, request any, handler grpc.UnaryHandler) (any, error) {
	ctx, end, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	own, err := l.identity(calling(ctx))
	if err == nil {
		err = grpc.SetHeader(ctx, own)
	}
	if err != nil {
		return nil, err
	}
	response, err := handler(ctx, request)
	return response, failure(err)
}

// verifyAnswer checks the header of a response: it must be from the node that was
// called.
func (l *Link) verifyAnswer(md metadata.MD, to lease.Peer) error {
	from, err := l.readIdentity(md)
	if err != nil {
		return err
	}
	if from.ID != to.ID || from.Start != to.Start {
		return fmt.Errorf("%w: start %d of node %s answers at %s, expected start %d of node %s", lease.ErrPeer, from.Start, from.ID, to.Address, to.Start, to.ID)
	}
	return nil
}

// kinds are the errors that keep their kind on the way to another node.
var kinds = []struct {
	err  error
	code codes.Code
}{
	{lease.ErrPeer, codes.PermissionDenied},
	{forward.ErrNotBegun, codes.FailedPrecondition},
	{sharedlog.ErrSwap, codes.AlreadyExists},
	{errNotReady, codes.Aborted},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// failure returns the status with which a call fails. It keeps errors of gRPC.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return err
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return status.Error(k.code, err.Error())
		}
	}
	return status.Error(codes.Unknown, err.Error())
}

// remoteError is the error of another node, or of the connection to it.
type remoteError struct {
	to   lease.Peer
	kind error // one of kinds, or nil
	text string
}

// Error returns the text with the node and its address.
func (e *remoteError) Error() string {
	return fmt.Sprintf("node %s at %s: %s", e.to.ID, e.to.Address, e.text)
}

// Unwrap returns the kind.
func (e *remoteError) Unwrap() error { return e.kind }

// received returns the error of a call to another node.
func received(to lease.Peer, err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return &remoteError{to, err, err.Error()}
	}
	for _, k := range kinds {
		if s.Code() == k.code {
			return &remoteError{to, k.err, s.Message()}
		}
	}
	return &remoteError{to, nil, s.Message()}
}

func peerOut(p lease.Peer) *wire.Peer {
	return &wire.Peer{Id: p.ID[:], Start: p.Start, Address: p.Address}
}

func peerIn(p *wire.Peer) (lease.Peer, error) {
	out := lease.Peer{Start: p.GetStart(), Address: p.GetAddress()}
	id := p.GetId()
	if len(id) != len(storage.NodeID{}) {
		return out, fmt.Errorf("%w: a node id of %d bytes, expected %d", lease.ErrPeer, len(id), len(storage.NodeID{}))
	}
	out.ID = storage.NodeID(id)
	return out, nil
}
