package door

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/ostiary/ostiary/internal/tool/turns"
)

// BodyBytesMax bounds a request's body, in bytes, if neither the route nor the
// server sets another bound.
const BodyBytesMax = 4 << 20

// BodyLarge is the size in bytes above which the work on a request takes turns with
// that on others from the beginning. To read a smaller body takes less than a
// millisecond.
const BodyLarge = 16 << 10

// Body is a complete request body. Free recycles its memory, so a door must
// copy what it keeps longer.
type Body struct {
	// Bytes is the content. It is valid until Free.
	Bytes []byte
}

// bodies recycles buffers of at most bodySmallMax bytes.
var bodies = sync.Pool{New: func() any { return &Body{Bytes: make([]byte, 0, 4096)} }}

// largeBodies recycles larger buffers, by their class. A server that gets many
// large bodies would otherwise hold several times their size as garbage.
var largeBodies [classes]sync.Pool

// bodyTrusted bounds the memory that is allocated for an announced length
// before any content arrives, in bytes. Without it, a client could make the
// server allocate memory with a header alone.
const bodyTrusted = 64 << 10

// bodySmallMax is the capacity of the largest buffer that bodies recycles, in
// bytes.
const bodySmallMax = 256 << 10

const (
	// classSlack is what a buffer has more than its class: one byte is needed to
	// detect the end of a body, and most large bodies have a round bound.
	classSlack = 512
	// classShift: the smallest class has 1<<classShift bytes, bodySmallMax.
	classShift = 18
	// classes is the number of classes, four for each doubling, up to 28 MiB.
	classes = 28
)

// bodyClass returns the least class of buffers with at least n bytes, and their
// capacity. The class is -1 if there is none, and the capacity then n.
func bodyClass(n int64) (class int, capacity int64) {
	for class = range classes {
		capacity = int64(4+class%4)<<(classShift-2+class/4) + classSlack
		if capacity >= n {
			return class, capacity
		}
	}
	return -1, n
}

// largeBuffer returns an empty buffer of at least n bytes.
func largeBuffer(n int64) []byte {
	class, capacity := bodyClass(n)
	if class >= 0 {
		if b, ok := largeBodies[class].Get().(*Body); ok {
			return b.Bytes[:0]
		}
	}
	return make([]byte, 0, capacity)
}

// ReadBody reads a request's body completely. It returns a *[Refusal] with the
// reason [TooLarge] if the body exceeds the bound that the server or the route
// set, and with [BrokenBody] if it breaks off. After a body of more than [BodyLarge]
// bytes it waits for a turn, and returns the error of the request's context if that
// ends before. The caller must call [Body.Free] when it no longer needs the body.
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
			if len(b.Bytes) > BodyLarge {
				if err := turns.Hold(r.Context()); err != nil {
					b.Free()
					return nil, err
				}
			}
			return b, nil
		}
		b.Free()
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &Refusal{Reason: TooLarge, Bound: "BodyBytes", Limit: large.Limit}
		}
		if _, refused := errors.AsType[*Refusal](err); refused {
			return nil, err
		}
		return nil, &Refusal{Reason: BrokenBody}
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
	if size <= bodySmallMax {
		return append(make([]byte, 0, size), b...)
	}
	grown := append(largeBuffer(size), b...)
	(&Body{Bytes: b}).Free()
	return grown
}

// Free recycles the buffer. The Body must not be used afterwards.
func (b *Body) Free() {
	if cap(b.Bytes) <= bodySmallMax {
		bodies.Put(b)
	} else if class, capacity := bodyClass(int64(cap(b.Bytes))); class >= 0 && capacity == int64(cap(b.Bytes)) {
		largeBodies[class].Put(b)
	}
}
