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

// wires are the kept HTTP/1.1 connections to one address, one for each client.
// A client of net/http costs as much processor time as the servers that are
// measured, on the same cores; this one costs two system calls and a scan.
type wires struct {
	address string
	mu      sync.RWMutex
	list    []*wire
}

// of returns a client's connection, which may not be open yet.
func (w *wires) of(client int) *wire {
	w.mu.RLock()
	if client < len(w.list) {
		defer w.mu.RUnlock()
		return w.list[client]
	}
	w.mu.RUnlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for client >= len(w.list) {
		w.list = append(w.list, &wire{address: w.address})
	}
	return w.list[client]
}

func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.list {
		one.close()
	}
	w.list = nil
}

// wire is one connection; one request at a time.
type wire struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
	body    []byte
}

func (w *wire) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// bodyMax bounds an answer's body, in bytes.
const bodyMax = 64 << 20

// do sends a request and returns the answer's status and body, which is valid
// until the next one. After an error the connection is made anew.
func (w *wire) do(ctx context.Context, request []byte) (status int, body []byte, err error) {
	if w.conn == nil {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", w.address)
		if err != nil {
			return 0, nil, wireFailure(ctx, err)
		}
		w.conn, w.in = c, bufio.NewReaderSize(c, 16<<10)
	}
	stop := context.AfterFunc(ctx, func() { w.conn.SetDeadline(time.Unix(1, 0)) })
	keep := false
	if _, err = w.conn.Write(request); err == nil {
		status, keep, err = w.answer()
	}
	if !stop() || err != nil || !keep {
		w.close()
	}
	if err != nil {
		return 0, nil, wireFailure(ctx, err)
	}
	return status, w.body, nil
}

// errProtocol: what came back is not HTTP/1.1.
var errProtocol = errors.New("the answer is not HTTP")

func wireFailure(ctx context.Context, err error) error {
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

// answer reads an answer; keep says whether the connection may be used again.
func (w *wire) answer() (status int, keep bool, err error) {
	line, err := w.line()
	if err != nil {
		return 0, false, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, false, errProtocol
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, errProtocol
	}
	keep = line[7] == '1'
	length, chunked := -1, false
	for {
		if line, err = w.line(); err != nil {
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
		case equalFold(name, "Connection"):
			keep = keep && !equalFold(value, "close")
		}
	}
	w.body = w.body[:0]
	switch {
	case chunked:
		err = w.chunks()
	case length > 0:
		err = w.read(length)
	case length < 0 && status != 204 && status != 304:
		keep, err = false, w.rest()
	}
	return status, keep, err
}

func equalFold(a []byte, b string) bool { return len(a) == len(b) && strings.EqualFold(string(a), b) }

func (w *wire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			err = errProtocol
		}
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// read appends n bytes to the body.
func (w *wire) read(n int) error {
	start := len(w.body)
	if start+n > bodyMax {
		return errProtocol
	}
	if cap(w.body) < start+n {
		w.body = append(w.body, make([]byte, n)...)
	}
	w.body = w.body[:start+n]
	_, err := io.ReadFull(w.in, w.body[start:])
	return err
}

// rest reads until the connection ends.
func (w *wire) rest() error {
	b, err := io.ReadAll(io.LimitReader(w.in, bodyMax))
	w.body = append(w.body, b...)
	return err
}

func (w *wire) chunks() error {
	for {
		line, err := w.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if err != nil {
			return errProtocol
		}
		if n > 0 {
			if err := w.read(int(n)); err != nil {
				return err
			}
		}
		// An empty line ends a chunk; after the last one, trailers come before it.
		for {
			if line, err = w.line(); err != nil {
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
