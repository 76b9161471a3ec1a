package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// errFrames ends a connection over gRPC that has sent too many frames.
var errFrames = errors.New("too many frames of HTTP/2 without an accepted request")

const (
	http2Preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	http2HeaderBytes = 9 // of a frame
	http2LengthBytes = 3 // of these, the first are the length of the rest
)

// http2Refused is the header of a frame that is too long for any server. A server that
// reads it ends the connection with GOAWAY, after what it is writing.
var http2Refused = []byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0}

// framed is a connection without its encryption. It bounds how many frames of HTTP/2 the
// client sends before one of its requests is accepted: no library bounds those that
// cost work but begin no request (SETTINGS, PING, RST_STREAM, CONTINUATION and others).
// All count alike. A connection of HTTP/1 passes.
type framed struct {
	net.Conn
	conn *Conn
	// ending is what the server reads instead of further frames, and then io.EOF; nil
	// means errFrames at once. Its bytes are shared and never change.
	ending []byte

	free    bool // nothing is counted: the client speaks HTTP/1
	over    bool // the bound was reached
	preface int  // bytes of it that were read
	header  int  // bytes of a frame's length that were read
	length  int  // made of them
	skip    int  // bytes of the frame that were not read yet
	left    int  // frames that were counted in advance
	level   leak // frames of the connection
}

// Read reads from the client.
func (f *framed) Read(p []byte) (int, error) {
	if f.free {
		return f.Conn.Read(p)
	}
	if !f.over {
		n, err := f.Conn.Read(p)
		if n = f.count(p[:n]); !f.over || n > 0 {
			return n, err
		}
	}
	if f.ending == nil {
		return 0, errFrames
	}
	n := copy(p, f.ending)
	if f.ending = f.ending[n:]; n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// count counts the frames that begin in p. It returns how much of p is allowed. A trusted
// connection may send any number, but it is read along with, because it may become untrusted.
func (f *framed) count(p []byte) int {
	trusted := f.conn.Trusted.Load()
	for i := 0; i < len(p); {
		switch {
		case f.preface < len(http2Preface):
			if p[i] != http2Preface[f.preface] {
				f.free = true
				return len(p)
			}
			f.preface++
			i++
		case f.skip > 0:
			n := min(f.skip, len(p)-i)
			f.skip -= n
			i += n
		default:
			if f.header == 0 && !trusted && !f.allow() {
				f.over = true
				return i
			}
			f.length = f.length<<8 | int(p[i])
			i++
			if f.header++; f.header == http2LengthBytes {
				f.skip = http2HeaderBytes - http2LengthBytes + f.length
				f.header, f.length = 0, 0
			}
		}
	}
	return len(p)
}

// allow counts a frame, and reports whether the connection and its address may send it.
func (f *framed) allow() bool {
	if f.left == 0 {
		f.left = int(max(f.conn.answered.Swap(0)-f.conn.crowded.Swap(0), 0)) * framesPerAnswer
	}
	if f.left == 0 {
		now := f.conn.All.FrameClock()
		first := f.level.at.IsZero()
		if f.level.refused(framesLot, framesPerConnection, framesPerSecond, now) || !first && !f.conn.All.Standings.takeFrames(f.conn.Address, framesLot, now) {
			f.conn.All.Unauthenticated.Add(1)
			return false
		}
		f.left = framesLot
	}
	f.left--
	return true
}

// framedCredentials bounds the frames of the connections of gRPC.
type framedCredentials struct {
	credentials.TransportCredentials
	shaken shaken
}

// shaken is called when a handshake has ended, with its error. own is nil for a connection
// that no listener of [Connections] has accepted, and state without TLS. It returns an error
// if the connection must be closed.
type shaken func(own *Conn, remote net.Addr, state *tls.ConnectionState, err error) error

// NewCredentials returns the credentials of gRPC ports whose handshakes are those of t.
func NewCredentials(t credentials.TransportCredentials, shaken shaken) credentials.TransportCredentials {
	return framedCredentials{t, shaken}
}

// ServerHandshake is that of the credentials.
func (c framedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	plain, info, err := c.TransportCredentials.ServerHandshake(raw)
	own, ok := raw.(*Conn)
	var state *tls.ConnectionState
	if secured, ours := info.(credentials.TLSInfo); ours {
		state = &secured.State
	}
	if err = c.shaken(own, raw.RemoteAddr(), state, err); err != nil {
		return nil, nil, err
	}
	if ok {
		plain = &framed{Conn: plain, conn: own}
	}
	return plain, info, nil
}

// Clone returns credentials that are the same.
func (c framedCredentials) Clone() credentials.TransportCredentials {
	return framedCredentials{c.TransportCredentials.Clone(), c.shaken}
}

// securedListener returns connections of HTTPS.
type securedListener struct {
	net.Listener
	config *tls.Config
	shaken shaken
}

// NewSecuredListener returns a listener of connections of HTTPS over those of l, which a
// listener of [Connections] has accepted.
func NewSecuredListener(l net.Listener, config *tls.Config, shaken shaken) net.Listener {
	return securedListener{l, config, shaken}
}

// Accept returns a connection with TLS, whose frames are bounded.
func (l securedListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := &secured{tls: tls.Server(raw, l.config), shaken: l.shaken}
	s.framed = framed{Conn: s.tls, ending: http2Refused}
	s.conn, _ = raw.(*Conn)
	s.conn.secured = true
	return s, nil
}

// secured is a connection of HTTPS. For net/http, it is one without TLS, which may
// speak HTTP/2: net/http would read the frames of a [TLS.Conn] itself.
type secured struct {
	framed
	tls       *tls.Conn
	shaken    shaken
	handshake sync.Once
	failed    error // of the handshake
}

// Read does the handshake, and then reads from the client.
func (s *secured) Read(p []byte) (int, error) {
	s.handshake.Do(s.shake)
	if s.failed != nil {
		return 0, s.failed
	}
	n, err := s.framed.Read(p)
	return s.conn.heads.read(p, n, err)
}

// shake does the handshake, within the time that net/http has set for reading the first
// request.
func (s *secured) shake() {
	_ = s.tls.SetWriteDeadline(s.conn.opened.Add(s.conn.All.HeaderTimeout))
	s.failed = s.tls.HandshakeContext(context.Background())
	if header := (tls.RecordHeaderError{}); errors.As(s.failed, &header) && header.Conn != nil && looksLikeHTTP(header.RecordHeader) {
		_, _ = io.WriteString(header.Conn, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	state := s.tls.ConnectionState()
	if s.failed = s.shaken(s.conn, s.conn.RemoteAddr(), &state, s.failed); s.failed != nil {
		return
	}
	_ = s.tls.SetWriteDeadline(time.Time{})
	s.conn.TLS = &state
}

// looksLikeHTTP reports whether a client begins with a request instead of TLS.
func looksLikeHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// CloseWrite ends the sending, see [Conn.CloseWrite].
func (s *secured) CloseWrite() error { return s.tls.CloseWrite() }
