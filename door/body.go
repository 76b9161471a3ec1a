package door

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
)

func pathUnescape(s string) string {
	if u, err := url.PathUnescape(s); err == nil {
		return u
	}
	return s
}

// BodyBytesMax is the bound of a request's body where neither the route nor the
// server names another, in bytes.
const BodyBytesMax = 4 << 20

// Body is a request's body, whole, in memory that is used again after Free.
// What a door keeps beyond Free it must copy.
type Body struct {
	Bytes []byte
}

// bodies keeps buffers for reuse; large ones are left to the collector.
var bodies = sync.Pool{New: func() any { return &Body{Bytes: make([]byte, 0, 4096)} }}

// bodyTrusted is how much of an announced length is made room for before any of
// it has arrived, in bytes: announcing costs a client nothing.
const bodyTrusted = 64 << 10

// bodyKeptMax is the largest buffer that is kept, in bytes.
const bodyKeptMax = 256 << 10

// ReadBody reads a request's body whole. A body beyond the bound that the
// server or the route set is a *Refusal (TooLarge); another error is the
// connection's. Call Free when it is no longer needed.
func ReadBody(r *http.Request) (*Body, error) {
	b := bodies.Get().(*Body)
	b.Bytes = b.Bytes[:0]
	if n := r.ContentLength; n > int64(cap(b.Bytes)) {
		b.Bytes = make([]byte, 0, min(n+1, bodyTrusted))
	}
	for {
		if len(b.Bytes) == cap(b.Bytes) {
			b.Bytes = grow(b.Bytes, r.ContentLength)
		}
		n, err := r.Body.Read(b.Bytes[len(b.Bytes):cap(b.Bytes)])
		b.Bytes = b.Bytes[:len(b.Bytes)+n]
		if err == nil {
			continue
		}
		if err == io.EOF {
			return b, nil
		}
		b.Free()
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &Refusal{Reason: TooLarge, Bound: "BodyBytes", Limit: large.Limit}
		}
		return nil, err
	}
}

// grow doubles a full buffer, no further than the announced length and the one
// byte that finds the end.
func grow(b []byte, announced int64) []byte {
	size := 2 * int64(cap(b))
	if announced > int64(cap(b)) {
		size = min(size, announced+1)
	}
	return append(make([]byte, 0, size), b...)
}

// Free gives the buffer back. The Body must not be used afterwards.
func (b *Body) Free() {
	if cap(b.Bytes) <= bodyKeptMax {
		bodies.Put(b)
	}
}
