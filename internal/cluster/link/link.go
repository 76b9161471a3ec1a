// Package link connects the nodes of a cluster with each other: it carries the
// messages of package lease and the requests that one node forwards to another, as a
// service of gRPC over TLS 1.3, in which both ends have certificates. Its main type is
// [Link], one for each node, which listens on one port and dials the other nodes.
//
// Both ends of each call check the other one: the certificate, the id of the cluster,
// the id of the node and the number of its start, which must be in the registry of the
// log, and the versions of the messages. The package decides nothing: it neither knows
// who the holder is, nor when a write is acknowledged.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// The versions of the protocol that this package speaks. Nodes whose ranges have no
// version in common refuse each other.
const (
	VersionMin = 1
	VersionMax = 1
)

// Bounds of a link.
const (
	// MessageBytesMax is the maximum size of a message in bytes: a segment, and its
	// frame.
	MessageBytesMax = sharedlog.SegmentBytesMax + 1<<10
	// PartBytesMax is the maximum size of a part of a forwarded body in bytes.
	PartBytesMax = 64 << 10
	// HeaderBytesMax is the maximum size of the headers of a call in bytes. The headers
	// of a forwarded request are none of these.
	HeaderBytesMax = 16 << 10
	// StreamsMax is the maximum number of concurrent calls on one connection.
	StreamsMax = 4096
	// ConnectionsMax is the maximum number of connections that other nodes have opened,
	// and ConnectionsPerCertificate that of the connections with one certificate.
	ConnectionsMax            = 1024
	ConnectionsPerCertificate = 64
	// PendingMax is the maximum number of connections in the handshake, and PendingPerAddress
	// that of one address. One more replaces the oldest one of the address that has most.
	PendingMax        = 128
	PendingPerAddress = 64
	// JoiningMax and JoiningPerAddress are the same for connections without a certificate
	// after the handshake. They take no place of nodes that have one.
	JoiningMax        = 64
	JoiningPerAddress = 16
	// HandshakesPerAddress is how many connections of one address have their handshake at
	// once, and HandshakesPerSecond how many more each second. A further one waits for its
	// turn, and is closed if that is later than handshakeWait.
	HandshakesPerAddress = 200
	HandshakesPerSecond  = 50
	// JoinBytesMax is the maximum size in bytes of a message of a caller without a
	// certificate. A larger one is refused before it is read.
	JoinBytesMax = 16 << 10
	// HandshakeTime is how long a connection may take to show its certificate, and one
	// without a certificate to send its request. JoinTime is how long the answer may take.
	HandshakeTime = 5 * time.Second
	JoinTime      = 15 * time.Second
)

const (
	// refreshInterval is the time between two rounds of [Link.refreshNow].
	refreshInterval = 5 * time.Second
	// handshakeWait is how long a connection waits for the turn of its handshake at most.
	handshakeWait = 2 * time.Second
	// addressesMax bounds the addresses whose handshakes are counted apart.
	addressesMax = 10_000
	// endInterval is the time between two reads of the registry while calls of other nodes
	// run, which end the calls of nodes that were removed. Most calls are to the holder, so
	// it is about one read a second for the whole cluster.
	endInterval = time.Second
)

// Registry has the nodes of the cluster. Every sharedlog.Log is one.
type Registry interface {
	Nodes(ctx context.Context) ([]sharedlog.NodeRecord, time.Time, error)
}

// Keeper is what a link needs of a [lease.Keeper].
type Keeper interface {
	// Serve serves a follower until the stream ends. Its error is sent to the follower.
	Serve(ctx context.Context, stream lease.Stream, from lease.Peer, hello lease.Hello) error
	// TakeOver takes the role of the holder over.
	TakeOver(ctx context.Context, from lease.Peer, h lease.HandOver) error
	// Reached returns the last sequence of the log that an answer of the node can rest on. It
	// fails if the node has stopped serving: its copy may then lack what it has written.
	Reached() (uint64, error)
	// WaitShown returns once the engines of the node show a sequence, or when ctx ends, with
	// an error.
	WaitShown(ctx context.Context, sequence uint64) error
}

// Receiver is what a link needs of a [server.Server]: it runs what other nodes forward.
// Both methods fail with an error that wraps [forward.ErrNotBegun] if they have not
// begun with the request.
type Receiver interface {
	ServeForwarded(w http.ResponseWriter, r *http.Request, as forward.Head) error
	InvokeForwarded(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error)
}

// Options are the options of [New]. All fields without a default are required.
type Options struct {
	// Self is this node. Other nodes reach its Address, a host and a port.
	Self lease.Peer
	// Cluster is the id of the cluster.
	Cluster sharedlog.ClusterID
	// Registry has the nodes that may connect.
	Registry Registry
	// Transport is the port of the node, and its connections. The link does not close it.
	// nil means that the link makes one with Files and Listener.
	Transport *Transport
	// Files are the certificates. New fails if the certificate is not for the host of
	// the Address.
	Files *certificate.Files
	// Listener is where other nodes connect. The link closes it.
	Listener net.Listener
	// Refused is called for each connection and call of another node that the link
	// refuses, with the address of the other end, what is known about it ("" if
	// nothing), and the reason. It may be called concurrently. nil ignores them.
	Refused func(remote, who string, why error)

	versionMin, versionMax uint32 // of tests; 0 means the constants
}

// Link is the connection of a node to all others. It implements [lease.Link] and,
// with [Link.Target], forwards requests. All methods are safe for concurrent use.
type Link struct {
	opts      Options
	transport *Transport
	registry  *registry
	outgoing  outgoing

	mu       sync.Mutex
	node     Keeper   // nil before Attach
	receiver Receiver // nil before Attach

	ctx        context.Context // ends when the link is closed
	cancel     context.CancelFunc
	background sync.WaitGroup
}

var _ lease.Link = (*Link)(nil)

// CheckAddress fails if the address of a node has no host, or if its certificate is not
// for the host.
func CheckAddress(address string, files *certificate.Files) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return fmt.Errorf("invalid address of this node %q: expected HOST:PORT, for example node1.example:7443", address)
	}
	if err := files.Covers(host); err != nil {
		return fmt.Errorf("own certificate: %w, the host of this node's address", err)
	}
	return nil
}

// New returns a link that listens, and refuses calls of other nodes until Attach. It
// starts goroutines, which Close ends.
func New(o Options) (*Link, error) {
	if o.versionMax == 0 {
		o.versionMin, o.versionMax = VersionMin, VersionMax
	}
	if o.Refused == nil {
		o.Refused = func(string, string, error) {}
	}
	l := &Link{opts: o, transport: o.Transport}
	if l.transport == nil {
		t, err := NewTransport(TransportOptions{Address: o.Self.Address, Files: o.Files, Listener: o.Listener, Refused: o.Refused})
		if err != nil {
			return nil, err
		}
		l.transport = t
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.registry = &registry{source: o.Registry}
	l.outgoing.peers = map[string]*outgoingPeer{}
	l.transport.link.Store(l)
	if o.Transport == nil {
		l.transport.Serve()
	}
	l.background.Go(l.refresh)
	return l, nil
}

const (
	keepaliveTime    = 10 * time.Second // the shortest that gRPC allows
	keepaliveTimeout = 5 * time.Second
)

// Attach sets what serves calls of other nodes. Either may be nil, for a node that does
// not serve these calls yet.
func (l *Link) Attach(node Keeper, receiver Receiver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node, l.receiver = node, receiver
}

func (l *Link) attached() (Keeper, Receiver) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node, l.receiver
}

// Transport returns the port of the node, and its connections.
func (l *Link) Transport() *Transport { return l.transport }

// Reload reads the certificates again, see [certificate.Files.Reload]. Connections
// to and from nodes whose certificates are no longer valid are closed.
func (l *Link) Reload() error { return l.transport.Reload() }

// refresh ends the calls of nodes that are no longer in the registry, and connections to
// them or with expired certificates, until the link is closed.
func (l *Link) refresh() {
	all, end := time.NewTicker(refreshInterval), time.NewTicker(endInterval)
	defer all.Stop()
	defer end.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-all.C:
			l.refreshNow()
		case <-end.C:
			l.endRemoved()
		}
	}
}

// endRemoved ends the calls of nodes that are no longer in the registry, if there are
// calls of other nodes at all.
func (l *Link) endRemoved() {
	if !l.registry.serves() {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, refreshInterval)
	defer cancel()
	_ = l.registry.read(ctx) // what was read before counts on
}

// refreshNow verifies certificates, reads the registry, and ends the calls and
// connections that are no longer valid.
func (l *Link) refreshNow() {
	ctx, cancel := context.WithTimeout(l.ctx, refreshInterval)
	defer cancel()
	l.transport.gate.verify()
	if err := l.registry.read(ctx); err != nil {
		return // what was read before counts on
	}
	l.outgoing.close(func(p *outgoingPeer) bool { return !l.registry.has(p.to) })
}

// Close ends all calls in both directions and waits for them. It closes the transport if
// the link has made it.
func (l *Link) Close() error {
	l.cancel()
	l.transport.link.CompareAndSwap(l, nil)
	l.registry.endAll()
	l.outgoing.close(func(*outgoingPeer) bool { return true })
	if l.opts.Transport == nil {
		l.transport.Close()
	}
	l.background.Wait()
	return nil
}

// errNotReady is the error of a call to a node that does not serve it yet.
var errNotReady = errors.New("the node is starting or stopping")
