package link

import (
	"context"
	"errors"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
)

// joinServer serves the connections without a certificate. It is apart from the server of
// nodes, so that such a caller reaches no other service, and has bounds of its own, which
// hold before anything is decoded. It is a listener whose connections have had their
// handshake.
type joinServer struct {
	server *grpc.Server
	conns  chan net.Conn
	closed chan struct{}
}

// newJoinServer returns a server with the services that register adds.
func newJoinServer(register func(grpc.ServiceRegistrar)) *joinServer {
	j := &joinServer{conns: make(chan net.Conn), closed: make(chan struct{})}
	j.server = grpc.NewServer(
		grpc.Creds(joinCredentials{}),
		grpc.ConnectionTimeout(HandshakeTime),
		grpc.MaxRecvMsgSize(JoinBytesMax),
		grpc.MaxConcurrentStreams(1),
		grpc.MaxHeaderListSize(joinHeaderBytes),
		grpc.InitialWindowSize(joinWindow),
		grpc.InitialConnWindowSize(joinWindow),
		grpc.ReadBufferSize(joinBuffer),
		grpc.WriteBufferSize(joinBuffer),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			p, _ := peer.FromContext(ctx)
			p.AuthInfo.(joining).conn.asks()
			return handler(ctx, request)
		}),
		grpc.WaitForHandlers(true),
	)
	register(j.server)
	return j
}

const (
	joinHeaderBytes = 4 << 10
	joinWindow      = 64 << 10 // the smallest that gRPC has
	joinBuffer      = 4 << 10
)

// serve serves connections until stop is called.
func (j *joinServer) serve() { _ = j.server.Serve(j) }

// stop closes all connections, and waits for calls that run.
func (j *joinServer) stop() {
	_ = j.Close()
	j.server.Stop()
}

// take serves a connection.
func (j *joinServer) take(c joining) {
	select {
	case j.conns <- c:
	case <-j.closed:
		_ = c.Close()
	}
}

// Accept implements [net.Listener].
func (j *joinServer) Accept() (net.Conn, error) {
	select {
	case c := <-j.conns:
		return c, nil
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. The server calls it once, and stop before it.
func (j *joinServer) Close() error {
	select {
	case <-j.closed:
	default:
		close(j.closed)
	}
	return nil
}

// Addr implements [net.Listener].
func (j *joinServer) Addr() net.Addr { return &net.TCPAddr{} }

// joining is a connection without a certificate, after its handshake.
type joining struct {
	net.Conn // encrypts conn
	conn     *conn
	credentials.AuthInfo
}

// joinCredentials are those of connections that have had their handshake.
type joinCredentials struct{}

// ServerHandshake implements [credentials.TransportCredentials].
func (joinCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return raw, raw.(joining), nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (joinCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials do not dial")
}

// Info implements [credentials.TransportCredentials].
func (joinCredentials) Info() credentials.ProtocolInfo { return protocol }

// Clone implements [credentials.TransportCredentials].
func (c joinCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements [credentials.TransportCredentials].
func (joinCredentials) OverrideServerName(string) error { return nil }
