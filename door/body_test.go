package door_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/iotest"

	"github.com/ostiary/ostiary/door"
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
	if _, err := door.ReadBody(r); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}
