package link

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

// protocol is what both credentials say about themselves.
var protocol = credentials.ProtocolInfo{SecurityProtocol: "tls", SecurityVersion: "1.3"}

// serverCredentials accepts connections of other nodes, and hands those without a
// certificate over to join, if that is not nil. Each handshake uses the files as they are
// then.
type serverCredentials struct {
	gate *gate
	join *joinServer
}

// ServerHandshake implements [credentials.TransportCredentials].
func (s serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	time.Sleep(raw.(*conn).wait)
	config := s.gate.files.Listen()
	if s.join != nil {
		config = s.gate.files.ListenJoining()
	}
	c, info, err := credentials.NewTLS(config).ServerHandshake(raw)
	if err == nil {
		if s.join != nil && len(info.(credentials.TLSInfo).State.PeerCertificates) == 0 {
			s.gate.join(raw.(*conn))
			s.join.take(joining{c, raw.(*conn), info})
			return nil, nil, credentials.ErrConnDispatched
		}
		err = s.gate.verified(raw.(*conn), info)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) { // a health check of the port sends nothing
			s.gate.refused(raw.RemoteAddr().String(), "", err)
		}
		raw.Close()
		return nil, nil, err
	}
	return c, info, nil
}

// ClientHandshake implements [credentials.TransportCredentials].
func (serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials do not dial")
}

// Info implements [credentials.TransportCredentials].
func (serverCredentials) Info() credentials.ProtocolInfo { return protocol }

// Clone implements [credentials.TransportCredentials].
func (s serverCredentials) Clone() credentials.TransportCredentials { return s }

// OverrideServerName implements [credentials.TransportCredentials].
func (serverCredentials) OverrideServerName(string) error { return nil }

// clientCredentials opens connections to a node, who, that others reach at host.
type clientCredentials struct {
	gate *gate
	host string
	who  string
}

// ClientHandshake implements [credentials.TransportCredentials].
func (c clientCredentials) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	tracked := &conn{Conn: raw, gate: c.gate}
	done, info, err := credentials.NewTLS(c.gate.files.Dial(c.host)).ClientHandshake(ctx, c.host, tracked)
	if err == nil {
		err = c.answers(info)
	}
	if err == nil {
		err = c.gate.verified(tracked, info)
	}
	if err != nil {
		tracked.Close()
		if errors.Is(err, certificate.ErrRefused) {
			c.gate.refused(raw.RemoteAddr().String(), c.who, err)
		}
		return nil, nil, err
	}
	return done, info, nil
}

// answers fails if the certificate of the other end names another node than the one that
// is called. Its host was compared in the handshake.
func (c clientCredentials) answers(info credentials.AuthInfo) error {
	if c.who == "" {
		return nil
	}
	return certificate.CheckNode(info.(credentials.TLSInfo).State.PeerCertificates[0], c.who, c.host)
}

// ServerHandshake implements [credentials.TransportCredentials].
func (clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials do not listen")
}

// Info implements [credentials.TransportCredentials].
func (clientCredentials) Info() credentials.ProtocolInfo { return protocol }

// Clone implements [credentials.TransportCredentials].
func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements [credentials.TransportCredentials].
func (clientCredentials) OverrideServerName(string) error { return nil }
