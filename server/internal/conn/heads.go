package conn

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
)

// errHead makes net/http answer 400 and close the connection.
var errHead = errors.New("a head that servers and proxies read in different ways")

// heads reads along with net/http, and ends a connection at the first line of a head of
// HTTP/1 that has more than one reading: a length after chunks or the reverse, chunks in
// HTTP/1.0, a line that continues the one before, or a line that ends with LF alone.
// net/http accepts all of them, so a proxy in front could pass on as one request what the
// server reads as two. Everything else of a head is checked by net/http alone.
//
// heads does not look for the end of a body: net/http reports when the next head begins.
// A head that arrives together with the request before it is therefore not checked.
// Clients may send requests without waiting for responses, but proxies do not.
type heads struct {
	at atomic.Uint32 // one of the constants below

	// What was read of the head.
	first    bool   // nothing, or a part of the first line
	line     []byte // of an unfinished line, see keep
	old      bool   // its version is HTTP/1.0
	chunked  bool   // it has Transfer-Encoding
	measured bool   // it has Content-Length
}

// What a client sends next.
const (
	headBegins  uint32 = iota // a head
	headGoesOn                // the rest of a head
	headDone                  // a body, or a request that was read before
	headRefused               // what nobody reads
	headOfHTTP2               // frames
)

// read checks the n bytes that a read into p has returned, and returns what the caller
// of that read gets.
func (h *heads) read(p []byte, n int, err error) (int, error) {
	at := h.at.Load()
	switch {
	case at == headRefused:
		return 0, errHead
	case n == 0 || at >= headDone:
		return n, err
	case at == headBegins:
		h.first, h.line, h.old, h.chunked, h.measured = true, h.line[:0], false, false, false
	}
	rest := p[:n]
	for at = headGoesOn; at <= headGoesOn && len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			h.keep(rest)
			at = headGoesOn
			break
		}
		line := rest[:end]
		if len(h.line) > 0 {
			h.keep(line)
			line = h.line
		}
		if at = h.next(line); at == headRefused {
			n, err = n-len(rest)+end-1, errHead // without the end of the line
			break
		}
		h.line, rest = h.line[:0], rest[end:]
	}
	h.at.Store(at)
	return n, err
}

// lineEnd is how much of the beginning and of the end of a line heads keeps, in bytes:
// more than the names and the version that it compares.
const lineEnd = 32

// keep adds a part of an unfinished line. It drops the middle of a long one.
func (h *heads) keep(part []byte) {
	h.line = append(h.line, part[:min(len(part), lineEnd)]...)
	if part = part[min(len(part), lineEnd):]; len(part) > 0 {
		h.line = append(h.line, part[max(len(part)-lineEnd, 0):]...)
	}
	if n := len(h.line); n > 2*lineEnd {
		h.line = append(h.line[:lineEnd], h.line[n-lineEnd:]...)
	}
}

// next returns what follows a line, which ends with LF.
func (h *heads) next(line []byte) uint32 {
	last := len(line) - 1
	switch ended := last > 0 && line[last-1] == '\r'; {
	case h.first && (last == 0 || last == 1 && ended):
		return headBegins // net/http skips an empty line, or refuses it
	case !ended:
		return headRefused
	case h.first:
		h.first, h.old = false, bytes.HasSuffix(line, []byte("HTTP/1.0\r\n"))
		if bytes.HasPrefix(line, []byte("PRI ")) {
			return headOfHTTP2
		}
	case last == 1:
		return headDone
	case line[0] == ' ' || line[0] == '\t':
		return headRefused
	case isField(line, "transfer-encoding:"):
		h.chunked = true
	case isField(line, "content-length:"):
		h.measured = true
	}
	if h.chunked && (h.measured || h.old) {
		return headRefused
	}
	return headGoesOn
}

// isField reports whether a line is the field with a name, which has its colon.
func isField(line []byte, name string) bool {
	colon := len(name) - 1
	return len(line) > colon && line[colon] == ':' && bytes.EqualFold(line[:colon], []byte(name[:colon]))
}

// begun declares that the handler of a request runs: unless a part of another head was
// read since, its body is what follows.
func (h *heads) begun() { h.at.CompareAndSwap(headBegins, headDone) }

// idle is [http.Server.ConnState]: it declares that the response was sent, and the body
// read, so that the next bytes are those of a head.

func Idle(raw net.Conn, state http.ConnState) {
	if c := connOfRaw(raw); c != nil && state == http.StateIdle {
		c.heads.at.CompareAndSwap(headDone, headBegins)
	}
}
