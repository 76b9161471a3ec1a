package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Floor is the HTTP handler that servers are compared with. It reads the body of
// a request and writes a fixed response, on the same net/http server. The
// difference to a server is the cost of that server's own work.
//
// A process that serves a Floor calls [HoldHeap] first.
type Floor struct {
	response atomic.Pointer[[]byte]
}

// floorBytesMax bounds the response of a Floor, in bytes.
const floorBytesMax = 4 << 20

// ServeHTTP stores the body of a PUT as the response to all POSTs. It answers a
// GET as a healthy server answers it.
func (f *Floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		io.WriteString(w, `{"status":"SERVING"}`)
		return
	case http.MethodPut:
		b, err := io.ReadAll(io.LimitReader(r.Body, floorBytesMax))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.response.Store(&b)
		return
	}
	// io.Discard brings a reused buffer. A new one would cost more than the
	// servers need.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var response []byte
	if a := f.response.Load(); a != nil {
		response = *a
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(response)))
	w.Write(response)
}

// FloorTarget is a [Target] that sends the requests of another HTTP target to a
// [Floor], which answers them with the other server's response. So both servers
// read and write the same bytes.
type FloorTarget struct {
	*HTTP
	like *HTTP
}

// NewFloorTarget returns a target for the floor at base. It sends what like
// sends.
func NewFloorTarget(base string, like *HTTP) (*FloorTarget, error) {
	t, err := NewHTTP(base, "")
	if err != nil {
		return nil, err
	}
	return &FloorTarget{t, like}, nil
}

// Setup does nothing: the floor holds no data.
func (t *FloorTarget) Setup(context.Context, string, Tuples, func(int)) error { return nil }

// Teardown does nothing.
func (t *FloorTarget) Teardown(context.Context) error { return nil }

// Prepare sends r to the other server once, and gives its response to the floor.
func (t *FloorTarget) Prepare(r Request) (Prepared, error) {
	if r.Write != nil || r.Remove != nil {
		// Sending the write would change the data. Its response is always "{}".
		p, err := t.like.Prepare(r)
		if err != nil {
			return nil, err
		}
		return t.withResponse(p, []byte("{}"))
	}
	p, err := t.like.Prepare(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := t.likeServer(ctx, t.like.base.Host, []httpRequest{*p.(*httpRequest)})
	if err != nil {
		return nil, err
	}
	return &out[0], nil
}

// withResponse returns p for the floor, which answers body.
func (t *FloorTarget) withResponse(p Prepared, body []byte) (Prepared, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := t.put(ctx, body); err != nil {
		return nil, err
	}
	one := *p.(*httpRequest)
	one.conns, one.count = &t.conns, -1
	return &one, nil
}

// likeServer returns the requests for the floor. The floor answers each of them
// with the response of the server at address to the first one.
func (t *FloorTarget) likeServer(ctx context.Context, address string, requests []httpRequest) ([]httpRequest, error) {
	sample := &conn{address: address}
	defer sample.close()
	status, body, err := sample.do(ctx, requests[0].bytes)
	if err != nil {
		return nil, err
	}
	if status/100 != 2 {
		return nil, errors.New("bench: the sample request for the floor failed: " + statusOf(status, body))
	}
	if err := t.put(ctx, body); err != nil {
		return nil, err
	}
	out := slices.Clone(requests)
	for i := range out {
		out[i].conns, out[i].count = &t.conns, -1
	}
	return out, nil
}

// put makes body the response of the floor.
func (t *FloorTarget) put(ctx context.Context, body []byte) error {
	w := &conn{address: t.base.Host}
	defer w.close()
	head := "PUT / HTTP/1.1\r\nHost: " + t.base.Host + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	status, _, err := w.do(ctx, append([]byte(head), body...))
	if err == nil && status != http.StatusOK {
		err = errors.New("bench: the floor did not accept its response")
	}
	return err
}
