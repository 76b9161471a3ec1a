package raftlog

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// chunkBytes is the size of the messages in which a connection of the consensus is cut.
const chunkBytes = 256 << 10

// byteStream is a gRPC stream of bytes in both directions.
type byteStream interface {
	Send(*wrapperspb.BytesValue) error
	Recv() (*wrapperspb.BytesValue, error)
}

// streamConn is a network connection over a gRPC stream.
type streamConn struct {
	stream  byteStream
	address net.Addr
	cancel  func() // ends the stream

	received chan []byte // closed when the stream has ended
	rest     []byte      // of the last chunk; used by Read alone

	closing sync.Once
	closed  chan struct{}

	mu      sync.Mutex
	timer   *time.Timer
	expired chan struct{} // closed when the deadline has passed
	writing bool
}

// newStreamConn returns a connection over a stream. cancel ends the stream.
func newStreamConn(stream byteStream, address string, cancel func()) *streamConn {
	c := &streamConn{stream: stream, address: nodeAddress(address), cancel: cancel, received: make(chan []byte), closed: make(chan struct{}), expired: make(chan struct{})}
	go c.receive()
	return c
}

// receive passes on what arrives, until the stream ends.
func (c *streamConn) receive() {
	defer close(c.received)
	for {
		m, err := c.stream.Recv()
		if err != nil {
			return
		}
		select {
		case c.received <- m.GetValue():
		case <-c.closed:
			return
		}
	}
}

// Read implements [net.Conn].
func (c *streamConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		c.mu.Lock()
		expired := c.expired
		c.mu.Unlock()
		var open bool
		select {
		case c.rest, open = <-c.received:
			if !open {
				return 0, io.EOF
			}
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Write implements [net.Conn]. A write that the deadline interrupts ends the connection.
func (c *streamConn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	late := isClosed(c.expired)
	c.writing = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.writing = false
		c.mu.Unlock()
	}()
	if late {
		return 0, os.ErrDeadlineExceeded
	}
	for n < len(p) {
		if isClosed(c.closed) {
			return n, net.ErrClosed
		}
		chunk := p[n:min(len(p), n+chunkBytes)]
		if err := c.stream.Send(wrapperspb.Bytes(chunk)); err != nil {
			if errors.Is(err, io.EOF) {
				err = net.ErrClosed
			}
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}

// Close implements [net.Conn].
func (c *streamConn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.cancel()
	})
	return nil
}

// SetDeadline implements [net.Conn].
func (c *streamConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	expired := make(chan struct{})
	c.expired, c.timer = expired, nil
	if !t.IsZero() {
		c.timer = time.AfterFunc(time.Until(t), func() { c.expire(expired) })
	}
	return nil
}

// expire ends the calls that wait, when their deadline has passed.
func (c *streamConn) expire(expired chan struct{}) {
	c.mu.Lock()
	close(expired)
	stuck := c.writing && c.expired == expired
	c.mu.Unlock()
	if stuck {
		_ = c.Close() // nothing else interrupts a stream that takes no more bytes
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// SetReadDeadline implements [net.Conn]. The deadline is that of writes, too.
func (c *streamConn) SetReadDeadline(t time.Time) error { return c.SetDeadline(t) }

// SetWriteDeadline implements [net.Conn]. The deadline is that of reads, too.
func (c *streamConn) SetWriteDeadline(t time.Time) error { return c.SetDeadline(t) }

// LocalAddr implements [net.Conn].
func (c *streamConn) LocalAddr() net.Addr { return nodeAddress("") }

// RemoteAddr implements [net.Conn].
func (c *streamConn) RemoteAddr() net.Addr { return c.address }

// nodeAddress is the address of a node.
type nodeAddress string

// Network implements [net.Addr].
func (nodeAddress) Network() string { return "ostiary" }

// String implements [net.Addr].
func (a nodeAddress) String() string { return string(a) }
