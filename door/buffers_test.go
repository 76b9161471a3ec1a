package door

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestBuffers compares with testdata/buffers.txt how large the buffers of bodies are.
func TestBuffers(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	fmt.Fprintln(&out, "the default bound:", BodyBytesMax)
	for class := range classes {
		_, capacity := bodyClass(int64(256<<10<<(class/4)) * int64(4+class%4) / 4)
		same, _ := bodyClass(capacity)
		next, above := bodyClass(capacity + 1)
		fmt.Fprintf(&out, "class %d: %d bytes; one more: class %d, %d bytes\n", same, capacity, next, above)
	}
	for _, n := range []int{4096, 64 << 10, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 1 << 20, 16 << 20} {
		for _, announced := range []int{-1, 0, n - 1, n, n + 1, 2 * n, 5 * n} {
			full := bytes.Repeat([]byte("x"), n)
			grown := grow(full, int64(announced))
			if len(grown) != n || !bytes.Equal(grown, bytes.Repeat([]byte("x"), n)) {
				t.Errorf("%d bytes with %d announced: another content", n, announced)
			}
			fmt.Fprintf(&out, "%d bytes of %d announced: %d bytes\n", n, announced, cap(grown))
		}
	}
	golden.Equal(t, "testdata/buffers.txt", out.String())
}

// parts is a body that records the sizes of the parts that are asked of it.
type parts struct {
	left  int
	sizes []int
}

func (p *parts) Read(b []byte) (int, error) {
	p.sizes = append(p.sizes, len(b))
	n := min(len(b), p.left)
	if p.left -= n; p.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

// TestParts reads bodies into fresh buffers: one that announces megabytes gets
// bodyTrusted bytes until these have arrived, and then a buffer for all.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		bytes     int
		announced int64
		sizes     string
	}{
		{10, 10, "[4096]"}, {4096, 4096, "[4096]"}, {4097, 4097, "[4098]"}, {1 << 20, 1 << 20, "[65536 983552]"}, {10_000, -1, "[4096 4096 8192]"},
	} {
		runtime.GC()
		runtime.GC() // the second one empties the pools of buffers
		body := &parts{left: c.bytes}
		r := httptest.NewRequest("POST", "/", body)
		r.ContentLength = c.announced
		b, err := ReadBody(r)
		if err != nil || len(b.Bytes) != c.bytes || fmt.Sprint(body.sizes) != c.sizes {
			t.Errorf("%d bytes, %d announced: %v, %v, want %s", c.bytes, c.announced, err, body.sizes, c.sizes)
		}
	}
}

// TestBuffersAgain reads bodies again and again: no buffer is allocated for one of them. Those
// of a body that fails are used again as well.
func TestBuffersAgain(t *testing.T) {
	for _, n := range []int{1000, 200_000, 300_000, 1 << 20, 4 << 20} {
		for _, fails := range []bool{false, true} {
			content := make([]byte, n)
			in := bytes.NewReader(content)
			r := httptest.NewRequest("POST", "/", nil)
			r.ContentLength = -1
			r.Body = io.NopCloser(in)
			if fails {
				r.Body = io.NopCloser(io.MultiReader(in, failing{}))
			}
			read := func() {
				in.Reset(content)
				if fails {
					r.Body = io.NopCloser(io.MultiReader(in, failing{}))
				}
				if b, err := ReadBody(r); err == nil {
					b.Free()
				}
			}
			least := uint64(n)
			for range 200 { // a garbage collection may empty the pools now and then
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				read()
				runtime.ReadMemStats(&after)
				if least = min(least, after.TotalAlloc-before.TotalAlloc); least < 1000 {
					break
				}
			}
			if least >= 1000 {
				t.Errorf("a body of %d bytes, fails %v, allocates at least %d bytes", n, fails, least)
			}
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestAwaitHold checks how long a stream waits for memory, and how often it tries.
func TestAwaitHold(t *testing.T) {
	t.Parallel()
	full, late := &Refusal{Reason: TooMany}, &Refusal{Reason: TimedOut}
	for name, c := range map[string]struct {
		free  time.Duration // from when on there is memory
		err   error         // instead of success then
		leave time.Duration // when the context ends
		took  time.Duration
		want  error
		calls int
	}{
		"free at once":     {0, nil, time.Hour, 0, nil, 1},
		"free after 50 ms": {50 * time.Millisecond, nil, time.Hour, 60 * time.Millisecond, nil, 4},
		"another refusal":  {50 * time.Millisecond, late, time.Hour, 60 * time.Millisecond, late, 4},
		"never free":       {time.Hour, nil, time.Hour, holdWait, full, 1500},
		"the context ends": {time.Hour, nil, 55 * time.Millisecond, 55 * time.Millisecond, full, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin, calls := time.Now(), 0
			ctx, cancel := context.WithTimeout(t.Context(), c.leave)
			defer cancel()
			err := AwaitHold(WithHold(ctx, func(bytes int64) error {
				if calls++; bytes != 7 {
					t.Errorf("%d bytes", bytes)
				}
				if time.Since(begin) < c.free {
					return full
				}
				return c.err
			}), 7)
			if err != c.want && (err != nil || c.want != nil) || time.Since(begin) != c.took || calls < c.calls || calls > c.calls+1 {
				t.Errorf("%s: %v after %v and %d calls, want %v after %v and %d", name, err, time.Since(begin), calls, c.want, c.took, c.calls)
			}
		})
	}
	if holdWait != 30*time.Second {
		t.Error("the documented time is 30 seconds, not", holdWait)
	}
}

// TestUnavailable checks the details with the time after which a client may try again.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	s := UnavailableStatus("loading")
	if len(s.Details()) != 1 {
		t.Fatal(s.Details())
	}
	if info, ok := s.Details()[0].(*errdetails.RetryInfo); !ok || info.RetryDelay.AsDuration() != RetryAfter || s.Message() != "loading" || s.Code().String() != "Unavailable" {
		t.Error(s)
	}
}
