package server

import (
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// drainMin is the size from which the server reads the rest of a body that
	// its handler did not read, in bytes. net/http reads smaller ones itself.
	drainMin = 256 << 10
	// drainBytesMax and drainTime bound that reading.
	drainBytesMax = 16 << 20
	drainTime     = 5 * time.Second
)

// keepBody prepares the request so that a response can be sent while the client
// still sends a large body: many clients read no response before they have sent
// the body, and a connection that is closed earlier loses it.
func (q *request) keepBody(r *http.Request) {
	small := 0 <= r.ContentLength && r.ContentLength <= drainMin
	if small || r.ProtoMajor != 1 || r.Header["Expect"] != nil {
		return
	}
	if http.NewResponseController(q.ResponseWriter).EnableFullDuplex() == nil {
		q.body = &trackedBody{ReadCloser: r.Body}
		r.Body = q.body
	}
}

// drain sends the response and then reads what is left of the body, within
// drainBytesMax and drainTime.
func (q *request) drain() {
	if q.body == nil || q.body.ended {
		return
	}
	control := http.NewResponseController(q.ResponseWriter)
	if control.Flush() != nil {
		return
	}
	control.SetReadDeadline(time.Now().Add(drainTime))
	io.CopyN(io.Discard, q.body, drainBytesMax)
}

// refuseBody lets the connection end after the response to a request without accepted
// credentials, if it has a body: the server reads nothing more of it.
func (q *request) refuseBody(r *http.Request) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		q.Header().Set("Connection", "close")
		q.unread = true
	}
}

// abandon sends the response and ends all reading of the body, also by net/http, which
// would wait for the rest of a small one. net/http then ends its sending, and closes the
// connection half a second later, so that the client can read the response.
func (q *request) abandon() {
	control := http.NewResponseController(q.ResponseWriter)
	if control.Flush() == nil {
		control.SetReadDeadline(time.Unix(1, 0))
	}
	q.body = &trackedBody{} // for closeUnread: it was not read
}

// closeUnread makes net/http close the connection after the response if a part of the
// body was not read, or if the end of the caller's key has ended its reads: net/http then
// cancels the contexts of all later requests. It would read an unread part as the next
// request: while a response may be sent before the body is read, net/http itself looks only
// at bodies that no handler has replaced.
func (q *request) closeUnread() {
	if !q.removed.Load() && (q.body == nil || q.body.whole) {
		return
	}
	// A reader whose bound is exceeded is the only way to say so after the head was sent.
	over := http.MaxBytesReader(q.ResponseWriter, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = over.Read(make([]byte, 1))
}

// trackedBody is a request's body that remembers whether it was read to its end.
type trackedBody struct {
	io.ReadCloser
	ended bool // nothing more can be read: whole is true, or the body broke off
	whole bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	b.whole = b.whole || err == io.EOF
	return n, err
}
