package server

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	// answerKeptMax is the buffer that a connection keeps between its answers, and
	// answerWholeMax the body that waits to be sent with its length; a longer one
	// goes out in chunks. Both in bytes.
	answerKeptMax  = 16 << 10
	answerWholeMax = 64 << 10
)

// answer writes a connection's answers, one after the other. It is a
// http.ResponseWriter with net/http's rules, as far as unary answers need them:
// headers count as they are at WriteHeader, a body whose length nobody said has
// the length that it has when the handler returns, and a long one is sent in
// chunks.
type answer struct {
	c       *fastConn
	header  http.Header
	out     []byte // the head, from WriteHeader on
	body    []byte // what waits
	status  int
	length  int64 // Content-Length, as the handler said; -1 if it did not
	written int64 // of the body
	typed   bool
	dated   bool
	sent    bool // the head is; the body follows as it comes
	over    bool // more was written than the length says: nobody knows what is right
	err     error
}

func (a *answer) begin() {
	if a.header == nil {
		a.header = http.Header{}
	}
	clear(a.header)
	if cap(a.out) > answerKeptMax {
		a.out = nil
	}
	if cap(a.body) > answerKeptMax {
		a.body = nil
	}
	a.out, a.body = a.out[:0], a.body[:0]
	a.status, a.length, a.written, a.typed, a.dated, a.sent, a.over, a.err = 0, -1, 0, false, false, false, false, nil
}

// Header is http.ResponseWriter's.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader is http.ResponseWriter's. Only the first one counts; informational
// ones are left out.
func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	a.status = status
	a.out = append(a.out, "HTTP/1.1 "...)
	a.out = strconv.AppendInt(a.out, int64(status), 10)
	a.out = append(a.out, ' ')
	a.out = append(a.out, http.StatusText(status)...)
	a.out = append(a.out, crlf...)
	for name, values := range a.header {
		switch name {
		case "Content-Length":
			if n, err := strconv.ParseInt(strings.Join(values, ","), 10, 64); err == nil && n >= 0 {
				a.length = n
			}
			continue
		case "Connection":
			if slices.ContainsFunc(values, func(v string) bool { return strings.EqualFold(v, "close") }) {
				a.c.closeBehind = true
			}
			continue
		case "Transfer-Encoding":
			continue
		case "Content-Type":
			a.typed = true
		case "Date":
			a.dated = true
		}
		a.line(name, values)
	}
}

// line writes a header, if it has a name that can be one. What would end a line
// in a value is a space, as for net/http.
func (a *answer) line(name string, values []string) {
	for i := range len(name) {
		if !tokenByte[name[i]] {
			return
		}
	}
	for _, v := range values {
		a.out = append(a.out, name...)
		a.out = append(a.out, ':', ' ')
		start := len(a.out)
		a.out = append(a.out, v...)
		for i, c := range a.out[start:] {
			if c == '\r' || c == '\n' {
				a.out[start+i] = ' '
			}
		}
		a.out = append(a.out, crlf...)
	}
}

// bodyless says whether an answer with this status has no body.
func bodyless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// Write is http.ResponseWriter's.
func (a *answer) Write(p []byte) (int, error) { return put(a, p) }

// WriteString is io.StringWriter's.
func (a *answer) WriteString(s string) (int, error) { return put(a, s) }

func put[T []byte | string](a *answer, p T) (int, error) {
	if err := a.room(int64(len(p))); err != nil {
		return 0, err
	}
	if !a.sent && len(a.body)+len(p) <= answerWholeMax {
		a.body = append(a.body, p...)
		return len(p), nil
	}
	return len(p), a.send([]byte(p))
}

// room begins the answer, if nobody did, and says whether n more bytes belong
// to it.
func (a *answer) room(n int64) error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.err != nil:
		return a.err
	case bodyless(a.status):
		return http.ErrBodyNotAllowed
	case a.length >= 0 && a.written+n > a.length:
		a.over = true
		return http.ErrContentLength
	}
	a.written += n
	return nil
}

// send sends the head, if it was not sent yet, what waits, and p behind it.
func (a *answer) send(p []byte) error {
	if !a.sent {
		a.sent = true
		a.rest(a.length, p)
	}
	if n := len(a.body) + len(p); a.length < 0 && n > 0 { // an empty chunk would be the last
		a.out = strconv.AppendInt(a.out, int64(n), 16)
		a.out = append(a.out, crlf...)
		p = append(p[:len(p):len(p)], crlf...)
	}
	all := net.Buffers{a.out, a.body, p}
	_, a.err = all.WriteTo(a.c.Conn) // the connection itself takes them together
	a.out, a.body = a.out[:0], a.body[:0]
	return a.err
}

// Flush is http.Flusher's.
func (a *answer) Flush() {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.err == nil && !bodyless(a.status) {
		a.send(nil)
	}
}

// rest ends the head: what the handler leaves to the server. A length of -1 is
// chunks.
func (a *answer) rest(length int64, more []byte) {
	begin := a.body
	if len(begin) == 0 {
		begin = more
	}
	if !a.typed && len(begin) > 0 {
		a.out = append(a.out, "Content-Type: "...)
		a.out = append(a.out, http.DetectContentType(begin)...)
		a.out = append(a.out, crlf...)
	}
	if !a.dated {
		a.out = append(a.out, "Date: "...)
		a.out = a.c.p.appendDate(a.out)
		a.out = append(a.out, crlf...)
	}
	switch {
	case bodyless(a.status):
	case length < 0:
		a.out = append(a.out, "Transfer-Encoding: chunked\r\n"...)
	default:
		a.out = append(a.out, "Content-Length: "...)
		a.out = strconv.AppendInt(a.out, length, 10)
		a.out = append(a.out, crlf...)
	}
	if a.c.closeBehind {
		a.out = append(a.out, "Connection: close\r\n"...)
	}
	a.out = append(a.out, crlf...)
}

// finish sends what is left of the answer. One that is not as long as the
// handler said is an error: the connection must end.
func (a *answer) finish() error {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	switch {
	case a.err != nil:
	case a.length > a.written && !bodyless(a.status):
		a.err = http.ErrContentLength
	case !a.sent:
		a.rest(int64(len(a.body)), nil)
		a.out = append(a.out, a.body...)
		_, a.err = a.c.Conn.Write(a.out)
	case a.length < 0:
		_, a.err = a.c.Conn.Write([]byte("0\r\n\r\n"))
	}
	if a.err == nil && a.over {
		a.err = http.ErrContentLength
	}
	return a.err
}
