package link

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
)

// TransportOptions are the options of [NewTransport]. All fields without a default are
// required.
type TransportOptions struct {
	// Address is where other nodes reach this one: a host and a port.
	Address string
	// Files are the certificates. NewTransport fails if the certificate is not for the
	// host of the Address.
	Files *certificate.Files
	// Listener is where other nodes connect. The transport closes it, also if
	// NewTransport fails.
	Listener net.Listener
	// Refused is called for each connection and call of another node that is refused,
	// see [Options].
	Refused func(remote, who string, why error)
	// Join, if it is not nil, registers the services that a caller without a certificate
	// reaches, and that check who calls. Such a caller reaches nothing else. nil means that
	// every caller needs a certificate.
	Join func(grpc.ServiceRegistrar)

	service *grpc.ServiceDesc // of tests; nil means that of the link
}

// Transport is the port of a node for other nodes, and the connections to them: with
// certificates on both ends, but without a registry of nodes. A [Link] is on it; so are
// services that the registry itself depends on. All methods are safe for concurrent
// use.
type Transport struct {
	opts   TransportOptions
	server *grpc.Server
	join   *joinServer // nil if every caller needs a certificate
	gate   *gate
	link   atomic.Pointer[Link]

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn // by address, of Dial
	former []*grpc.ClientConn          // see Renew
	closed bool

	background sync.WaitGroup
}

var _ grpc.ServiceRegistrar = (*Transport)(nil)

// window is how many bytes a node may send before the other one has read them: with the 64 KiB
// of gRPC, a segment of many writes takes a round trip more.
const window = 4 << 20

// NewTransport returns a transport. Services are registered before Serve is called.
func NewTransport(o TransportOptions) (*Transport, error) {
	if err := CheckAddress(o.Address, o.Files); err != nil {
		o.Listener.Close()
		return nil, err
	}
	if o.Refused == nil {
		o.Refused = func(string, string, error) {}
	}
	t := &Transport{opts: o, conns: map[string]*grpc.ClientConn{}}
	t.gate = newGate(o.Files, o.Refused)
	if o.Join != nil {
		t.join = newJoinServer(o.Join)
	}
	t.server = grpc.NewServer(
		grpc.Creds(serverCredentials{t.gate, t.join}),
		grpc.ConnectionTimeout(HandshakeTime),
		grpc.MaxRecvMsgSize(MessageBytesMax),
		grpc.MaxSendMsgSize(MessageBytesMax),
		grpc.MaxConcurrentStreams(StreamsMax),
		grpc.MaxHeaderListSize(HeaderBytesMax),
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.StreamInterceptor(t.admitStream),
		grpc.UnaryInterceptor(t.admitCall),
		grpc.WaitForHandlers(true),
	)
	t.server.RegisterService(cmp.Or(o.service, &wire.Link_ServiceDesc), service{t: t})
	return t, nil
}

// RegisterService implements [grpc.ServiceRegistrar]. The service is called by nodes that
// have a certificate; it checks which node it is.
func (t *Transport) RegisterService(desc *grpc.ServiceDesc, impl any) {
	t.server.RegisterService(desc, impl)
}

// Services returns the services that nodes with a certificate reach, and those that callers
// without one reach, by name.
func (t *Transport) Services() (nodes, joining map[string]grpc.ServiceInfo) {
	if t.join != nil {
		joining = t.join.server.GetServiceInfo()
	}
	return t.server.GetServiceInfo(), joining
}

// Serve lets other nodes connect. It returns at once.
func (t *Transport) Serve() {
	if t.join != nil {
		t.background.Go(t.join.serve)
	}
	t.background.Go(func() { _ = t.server.Serve(t.gate.listen(t.opts.Listener)) })
}

// Dial returns the connection to the node at an address, which it opens when it is used.
// The transport closes it.
func (t *Transport) Dial(_ context.Context, address string) (*grpc.ClientConn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errNotReady
	}
	if c := t.conns[address]; c != nil {
		return c, nil
	}
	c, err := t.dial(address, "")
	if err == nil {
		t.conns[address] = c
	}
	return c, err
}

// dial returns a new connection to a node at an address. who is the node, for Refused.
func (t *Transport) dial(address, who string) (*grpc.ClientConn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("node %s has the invalid address %q: expected HOST:PORT", who, address)
	}
	// The address is dialed as it is, without a proxy of the environment.
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithNoProxy(),
		grpc.WithTransportCredentials(clientCredentials{t.gate, host, who}),
		grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MessageBytesMax), grpc.MaxCallSendMsgSize(MessageBytesMax)),
		grpc.WithMaxHeaderListSize(HeaderBytesMax),
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	)
}

// Reload reads the certificates again, see [certificate.Files.Reload]. Connections
// whose certificates are no longer valid are closed.
func (t *Transport) Reload() error {
	if err := t.opts.Files.Reload(); err != nil {
		return err
	}
	t.gate.verify()
	return nil
}

// Renew makes each later call use a connection that is opened with the certificates as they
// are now. Calls that run keep theirs.
func (t *Transport) Renew() {
	t.mu.Lock()
	for _, c := range t.conns {
		t.former = append(t.former, c)
	}
	clear(t.conns)
	t.mu.Unlock()
	if l := t.link.Load(); l != nil {
		l.outgoing.renew()
	}
}

// Close closes the listener and all connections, and waits for calls that run.
func (t *Transport) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, c := range t.conns {
		c.Close()
	}
	for _, c := range t.former {
		c.Close()
	}
	t.mu.Unlock()
	if t.join != nil {
		t.join.stop()
	}
	t.server.Stop()
	t.opts.Listener.Close() // Serve may not have been called
	t.background.Wait()
	return nil
}

// linkMethods is the beginning of the names of the link's methods.
var linkMethods = "/" + wire.Link_ServiceDesc.ServiceName + "/"

// admitStream is the interceptor of streams.
func (t *Transport) admitStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := certified(s.Context()); err != nil {
		return err
	}
	if !strings.HasPrefix(info.FullMethod, linkMethods) {
		return handler(srv, s)
	}
	l := t.link.Load()
	if l == nil {
		return failure(errNotReady)
	}
	return l.admitStream(srv, s, handler)
}

// admitCall is the interceptor of unary calls.
func (t *Transport) admitCall(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := certified(ctx); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(info.FullMethod, linkMethods) {
		return handler(ctx, request)
	}
	l := t.link.Load()
	if l == nil {
		return nil, failure(errNotReady)
	}
	return l.admitCall(ctx, request, handler)
}

// certified fails unless the caller has a certificate. serverCredentials let no other caller
// get here.
func certified(ctx context.Context) error {
	p, _ := peer.FromContext(ctx)
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
		return nil
	}
	return status.Error(codes.PermissionDenied, "the caller has no certificate of this cluster")
}
