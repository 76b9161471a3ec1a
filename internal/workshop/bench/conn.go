package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// conns are persistent HTTP/1.1 connections to one address, one per client. The
// client of net/http uses as much processor time as the measured servers, on the
// same cores. A conn uses two system calls and one scan per request.
type conns struct {
	address string
	mu      sync.RWMutex
	list    []*conn // by the client's number
}

// of returns the connection of a client, which may not be open yet.
func (c *conns) of(client int) *conn {
	c.mu.RLock()
	if client < len(c.list) {
		defer c.mu.RUnlock()
		return c.list[client]
	}
	c.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for client >= len(c.list) {
		c.list = append(c.list, &conn{address: c.address})
	}
	return c.list[client]
}

func (c *conns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		one.close()
	}
	c.list = nil
}

// conn is one connection. It may have one request in flight.
type conn struct {
	address string
	tcp     net.Conn // nil if not open
	in      *bufio.Reader
	body    []byte    // of the last response
	subject []byte    // header X-Subject-Token of the last response, of the Identity API
	first   time.Time // when the status line of the last response was read
}

func (c *conn) close() {
	if c.tcp != nil {
		c.tcp.Close()
		c.tcp = nil
	}
}

// bodyMax bounds the body of a response, in bytes.
const bodyMax = 64 << 20

// do sends a request and returns the status and body of the response. The body
// is valid until the next call. do opens the connection if it is not open, and
// closes it after an error.
func (c *conn) do(ctx context.Context, request []byte) (status int, body []byte, err error) {
	if c.tcp == nil {
		var d net.Dialer
		tcp, err := d.DialContext(ctx, "tcp", c.address)
		if err != nil {
			return 0, nil, connFailure(ctx, err)
		}
		c.tcp, c.in = tcp, bufio.NewReaderSize(tcp, 16<<10)
	}
	tcp := c.tcp // close sets c.tcp to nil, maybe before the function below runs
	stop := context.AfterFunc(ctx, func() { tcp.SetDeadline(time.Unix(1, 0)) })
	reusable := false
	if _, err = tcp.Write(request); err == nil {
		status, reusable, err = c.response()
	}
	if !stop() || err != nil || !reusable {
		c.close()
	}
	if err != nil {
		return 0, nil, connFailure(ctx, err)
	}
	return status, c.body, nil
}

// errProtocol is returned for a response that is not valid HTTP/1.1.
var errProtocol = errors.New("the response is not HTTP/1.1")

// connFailure returns a [Failure] that is named by the cause.
func connFailure(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return &Failure{What: "timeout", Err: err}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Failure{What: "connection refused", Err: err}
	case errors.Is(err, errProtocol):
		return &Failure{What: "wrong protocol", Err: err}
	}
	return &Failure{What: "connection lost", Err: err}
}

// response reads a response. It returns whether the connection may be used for
// another request.
func (c *conn) response() (status int, reusable bool, err error) {
	line, err := c.line()
	if err != nil {
		return 0, false, err
	}
	c.first = time.Now()
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, false, errProtocol
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, errProtocol
	}
	reusable = line[7] == '1'
	length, chunked := -1, false
	c.subject = c.subject[:0]
	for {
		if line, err = c.line(); err != nil {
			return 0, false, err
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return 0, false, errProtocol
		}
		value = bytes.TrimSpace(value)
		switch {
		case equalFold(name, "Content-Length"):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 || length > bodyMax {
				return 0, false, errProtocol
			}
		case equalFold(name, "Transfer-Encoding"):
			chunked = equalFold(value, "chunked")
		case equalFold(name, "X-Subject-Token"):
			c.subject = append(c.subject, value...)
		case equalFold(name, "Connection"):
			reusable = reusable && !equalFold(value, "close")
		}
	}
	c.body = c.body[:0]
	switch {
	case chunked:
		err = c.chunked()
	case length > 0:
		err = c.read(length)
	case length < 0 && status != 204 && status != 304:
		reusable, err = false, c.rest()
	}
	return status, reusable, err
}

func equalFold(a []byte, b string) bool { return len(a) == len(b) && strings.EqualFold(string(a), b) }

// line reads a line of the head.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errProtocol
		}
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// read appends n bytes to the body.
func (c *conn) read(n int) error {
	start := len(c.body)
	if start+n > bodyMax {
		return errProtocol
	}
	if cap(c.body) < start+n {
		c.body = append(c.body, make([]byte, n)...)
	}
	c.body = c.body[:start+n]
	_, err := io.ReadFull(c.in, c.body[start:])
	return err
}

// rest appends everything up to the end of the connection to the body.
func (c *conn) rest() error {
	b, err := io.ReadAll(io.LimitReader(c.in, bodyMax))
	c.body = append(c.body, b...)
	return err
}

// chunked appends a body in chunks.
func (c *conn) chunked() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return errProtocol
		}
		if n > 0 {
			if err := c.read(int(n)); err != nil {
				return err
			}
		}
		// An empty line ends a chunk. Trailers may precede it after the last chunk.
		for {
			if line, err = c.line(); err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
			if n > 0 {
				return errProtocol
			}
		}
		if n == 0 {
			return nil
		}
	}
}
