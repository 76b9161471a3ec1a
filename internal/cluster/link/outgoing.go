package link

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
)

// outgoing are the connections to other nodes, by address, id and start.
type outgoing struct {
	mu    sync.Mutex
	ended bool
	peers map[string]*outgoingPeer

	renewals int // of connections
}

// renew makes each later call of a node open a new connection.
func (o *outgoing) renew() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, p := range o.peers {
		if !p.former {
			p.former = true
			delete(o.peers, key)
			o.renewals++
			o.peers[fmt.Sprintf("%s renewed %d", key, o.renewals)] = p
		}
	}
}

// outgoingPeer is the connection to another node. It opens when it is used, and again
// after it broke, with pauses that grow.
type outgoingPeer struct {
	to       lease.Peer
	identity metadata.MD // header of each call
	conn     *grpc.ClientConn
	client   wire.LinkClient
	former   bool // only calls that run use it, see renew

	// The fields below belong to the mutex of outgoing.
	passing *passing // nil before the first request
	noPass  bool     // the node has no Pass
}

// The pauses between two attempts to open a connection, and the time of one attempt.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: HandshakeTime,
}

// peerKey returns the key of the connection to a node.
func peerKey(to lease.Peer) string { return fmt.Sprintf("%s %d %s", to.ID, to.Start, to.Address) }

// peer returns the connection to a node.
func (l *Link) peer(to lease.Peer) (*outgoingPeer, error) {
	key := peerKey(to)
	l.outgoing.mu.Lock()
	defer l.outgoing.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, errNotReady
	}
	if p := l.outgoing.peers[key]; p != nil {
		return p, nil
	}
	p := &outgoingPeer{to: to}
	var err error
	if p.identity, err = l.identity(to); err != nil {
		return nil, err
	}
	if p.conn, err = l.transport.dial(to.Address, to.ID.String()); err != nil {
		return nil, fmt.Errorf("node %s at %s: %w", to.ID, to.Address, err)
	}
	p.client = wire.NewLinkClient(p.conn)
	l.outgoing.peers[key] = p
	return p, nil
}

// close closes the connections that match.
func (o *outgoing) close(match func(*outgoingPeer) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, p := range o.peers {
		if match(p) {
			p.conn.Close()
			delete(o.peers, key)
		}
	}
}

// call returns ctx with the header of a call.
func (p *outgoingPeer) call(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, p.identity)
}

// PeerHealth is the state of the connection to another node.
type PeerHealth struct {
	// Node is the other node.
	Node lease.Peer
	// Connected is true while the connection is open.
	Connected bool
	// Failing is true if the last attempt to open the connection has failed.
	Failing bool
}

// Health returns the state of the connections that this node has opened, in no order.
func (l *Link) Health() []PeerHealth {
	l.outgoing.mu.Lock()
	defer l.outgoing.mu.Unlock()
	var out []PeerHealth
	for _, p := range l.outgoing.peers {
		if p.former {
			continue
		}
		s := p.conn.GetState()
		out = append(out, PeerHealth{p.to, s == connectivity.Ready, s == connectivity.TransientFailure})
	}
	return out
}
