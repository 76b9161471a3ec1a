package door_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/tool/turns"
)

// TestReadBody: bodies of any size come whole, whatever length was announced
// and however they come in.
func TestReadBody(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 4095, 4096, 4097, 64<<10 - 1, 64 << 10, 64<<10 + 1, 256 << 10, 256<<10 + 511, 256<<10 + 512, 300_000, door.BodyBytesMax, 29 << 20} {
		want := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
		for _, announced := range []int64{-1, int64(n)} {
			for name, in := range map[string]io.Reader{"whole": bytes.NewReader(want), "halves": iotest.HalfReader(bytes.NewReader(want)),
				"with its end": iotest.DataErrReader(bytes.NewReader(want))} {
				r := httptest.NewRequest("POST", "/", in)
				r.ContentLength = announced
				b, err := door.ReadBody(r)
				if err != nil || !bytes.Equal(b.Bytes, want) {
					t.Fatalf("%d bytes, %d announced, %s: %v", n, announced, name, err)
				}
				b.Free()
			}
		}
	}
}

// TestReadBodyAnnounced: an announced length costs little until it arrives.
func TestReadBodyAnnounced(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, 10)))
	r.ContentLength = door.BodyBytesMax
	b, err := door.ReadBody(r)
	if err != nil || len(b.Bytes) != 10 || cap(b.Bytes) > 64<<10 {
		t.Fatal(err, len(b.Bytes), cap(b.Bytes))
	}
}

func TestReadBodyFails(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/", nil)
	r.Body = http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(bytes.NewReader(make([]byte, 11))), 10)
	_, err := door.ReadBody(r)
	var why *door.Refusal
	if !errors.As(err, &why) || why.Reason != door.TooLarge || why.Bound != "BodyBytes" || why.Limit != 10 || !errors.Is(err, &door.Refusal{Reason: door.TooLarge}) {
		t.Error(err)
	}
	r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := door.ReadBody(r); !errors.Is(err, &door.Refusal{Reason: door.BrokenBody}) {
		t.Error(err)
	}
}

// TestReadBodyTakesTurns: the request of a large body has a turn after it was read.
func TestReadBodyTakesTurns(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{door.BodyLarge: 0, door.BodyLarge + 1: 1} {
		all := turns.New(1)
		ctx, work := turns.With(t.Context(), all)
		b, err := door.ReadBody(httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, n))).WithContext(ctx))
		if err != nil || all.Taken() != want {
			t.Errorf("%d bytes: %v, %d turns", n, err, all.Taken())
		}
		b.Free()
		work.End()
		if err := turns.Hold(ctx); err != nil {
			t.Fatal(err)
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		left, _ = turns.With(left, all)
		b, err = door.ReadBody(httptest.NewRequest("POST", "/", bytes.NewReader(make([]byte, n))).WithContext(left))
		if (err != nil) != (want == 1) || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes of a client that has left: %v", n, err)
		}
		if b != nil {
			b.Free()
		}
	}
}
