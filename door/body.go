package door

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// BodyBytesMax bounds a request's body, in bytes, if neither the route nor the
// server sets another bound.
const BodyBytesMax = 4 << 20

// Body is a complete request body. Free recycles its memory, so a door must
// copy what it keeps longer.
type Body struct {
	// Bytes is the content. It is valid until Free.
	Bytes []byte
}

// bodies recycles buffers of at most bodyKeptMax bytes.
var bodies = sync.Pool{New: func() any { return &Body{Bytes: make([]byte, 0, 4096)} }}

// bodyTrusted bounds the memory that is allocated for an announced length
// before any content arrives, in bytes. Without it, a client could make the
// server allocate memory with a header alone.
const bodyTrusted = 64 << 10

// bodyKeptMax is the capacity of the largest buffer that is recycled, in bytes.
const bodyKeptMax = 256 << 10

// ReadBody reads a request's body completely. It returns a *[Refusal] with the
// reason [TooLarge] if the body exceeds the bound that the server or the route
// set, and otherwise the connection's error. The caller must call [Body.Free]
// when it no longer needs the body.
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

// grow returns a copy of a full buffer with more capacity: the announced length
// plus one byte, which is needed to detect the end, or else twice as much. The
// server has charged an announced length to its budget by then, and a buffer
// that grows in several steps would leave as much garbage again.
func grow(b []byte, announced int64) []byte {
	size := 2 * int64(cap(b))
	if announced > int64(cap(b)) {
		size = announced + 1
	}
	return append(make([]byte, 0, size), b...)
}

// Free recycles the buffer. The Body must not be used afterwards.
func (b *Body) Free() {
	if cap(b.Bytes) <= bodyKeptMax {
		bodies.Put(b)
	}
}
