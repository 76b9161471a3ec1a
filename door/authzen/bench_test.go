package authzen_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
)

// discard is a ResponseWriter that keeps only the status and the length.
type discard struct {
	header http.Header
	status int
	n      int
}

func (q *discard) Header() http.Header         { return q.header }
func (q *discard) WriteHeader(status int)      { q.status = status }
func (q *discard) Write(p []byte) (int, error) { q.n += len(p); return len(p), nil }

// replay sends the same request repeatedly, like a kept-open connection: the
// header maps are reused.
func replay(b *testing.B, h http.Handler, path, body string) {
	b.Helper()
	r := httptest.NewRequest("POST", path, nil)
	r.Header.Set("Content-Type", "application/json")
	in := bytes.NewReader([]byte(body))
	r.Body, r.ContentLength = io.NopCloser(in), int64(len(body))
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	before, n := processTime(b), 0
	for b.Loop() {
		n++
		in.Reset([]byte(body))
		w.status, w.n = 0, 0
		h.ServeHTTP(w, r)
		if w.status != 0 && w.status != http.StatusOK || w.n == 0 {
			b.Fatal(w.status)
		}
	}
	b.ReportMetric(float64((processTime(b)-before).Nanoseconds())/float64(n), "cpu-ns")
}

// processTime returns the processor time that the process used. Other load on
// the machine changes it less than the elapsed time.
func processTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEvaluation compares an evaluation with the OpenFGA door's check of
// the same question, both without a network.
func BenchmarkEvaluation(b *testing.B) {
	w := open(b, readFile(b, "testdata/interop/search.txt"))
	other, err := openfga.New(w.engine, openfga.Options{})
	if err != nil {
		b.Fatal(err)
	}
	router, err := door.NewRouter(other.Routes)
	if err != nil {
		b.Fatal(err)
	}
	id := w.store.ID().String()
	b.Run("authzen", func(b *testing.B) {
		replay(b, w, "/authzen/"+id+"/access/v1/evaluation", `{"subject":{"type":"user","id":"alice"},"action":{"name":"view"},"resource":{"type":"record","id":"104"}}`)
	})
	b.Run("authzen, default store", func(b *testing.B) {
		replay(b, w, "/access/v1/evaluation", `{"subject":{"type":"user","id":"alice"},"action":{"name":"view"},"resource":{"type":"record","id":"104"}}`)
	})
	b.Run("openfga", func(b *testing.B) {
		replay(b, &world{engine: w.engine, door: other, router: router}, "/stores/"+id+"/check",
			`{"tuple_key":{"user":"user:alice","relation":"view","object":"record:104"}}`)
	})
}
