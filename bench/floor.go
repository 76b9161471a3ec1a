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

// Floor is the handler that requests are compared with: it reads the body and
// writes an answer that it was given, on the same HTTP server that everything
// else runs on. What a server costs above it, its own work costs.
type Floor struct {
	answer atomic.Pointer[[]byte]
}

// floorMax bounds the answer that a Floor is given, in bytes.
const floorMax = 4 << 20

// ServeHTTP takes a PUT's body as the answer to all POSTs. A GET is told that it
// is healthy.
func (f *Floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		io.WriteString(w, `{"status":"SERVING"}`)
		return
	case http.MethodPut:
		b, err := io.ReadAll(io.LimitReader(r.Body, floorMax))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.answer.Store(&b)
		return
	}
	// Reading into a buffer of its own would cost what the servers do not pay.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer []byte
	if a := f.answer.Load(); a != nil {
		answer = *a
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.Write(answer)
}

// FloorTarget asks a Floor what another HTTP target was asked. It counts the
// same bytes in and out.
type FloorTarget struct {
	*HTTP
	like *HTTP
}

// NewFloorTarget returns a target over the floor at base that is asked what
// like is asked.
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

// Prepare asks the other target once, and gives its answer to the floor.
func (t *FloorTarget) Prepare(r Request) (Prepared, error) {
	if r.Write != nil || r.Remove != nil {
		// A write would have to be done to see its answer, which is always this.
		p, err := t.like.Prepare(r)
		if err != nil {
			return nil, err
		}
		return t.as(p, []byte("{}"))
	}
	p, err := t.like.Prepare(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := t.asked(ctx, t.like.base.Host, []httpRequest{*p.(*httpRequest)})
	if err != nil {
		return nil, err
	}
	return &out[0], nil
}

// as sends p's bytes to the floor, which answers body.
func (t *FloorTarget) as(p Prepared, body []byte) (Prepared, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := t.put(ctx, body); err != nil {
		return nil, err
	}
	one := *p.(*httpRequest)
	one.wires, one.count = &t.wires, -1
	return &one, nil
}

// asked returns the requests as they are sent to the floor, which answers what
// the server at address answers to the first of them.
func (t *FloorTarget) asked(ctx context.Context, address string, requests []httpRequest) ([]httpRequest, error) {
	sample := &wire{address: address}
	defer sample.close()
	status, body, err := sample.do(ctx, requests[0].bytes)
	if err != nil {
		return nil, err
	}
	if status/100 != 2 {
		return nil, errors.New("bench: the sample for the floor got " + statusOf(status, body))
	}
	if err := t.put(ctx, body); err != nil {
		return nil, err
	}
	out := slices.Clone(requests)
	for i := range out {
		out[i].wires, out[i].count = &t.wires, -1
	}
	return out, nil
}

func (t *FloorTarget) put(ctx context.Context, body []byte) error {
	w := &wire{address: t.base.Host}
	defer w.close()
	head := "PUT / HTTP/1.1\r\nHost: " + t.base.Host + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	status, _, err := w.do(ctx, append([]byte(head), body...))
	if err == nil && status != http.StatusOK {
		err = errors.New("bench: the floor refused its answer")
	}
	return err
}
