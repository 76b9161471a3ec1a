package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// failing is a listener that fails: first so that it may be asked again.
type failing struct {
	net.Listener
	errs []error
}

func (l *failing) Accept() (net.Conn, error) {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}

type again struct{ error }

func (again) Timeout() bool   { return false }
func (again) Temporary() bool { return true }

// TestServeFails: a port that accepts no more says why, and net/http behind it
// ends too; one that only has no room is asked again.
func TestServeFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone := errors.New("the network is gone")
	f := newFastPath(&entrance{}, &http.Server{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	broken := &failing{l, []error{again{errors.New("no room")}, again{errors.New("no room")}, gone}}
	if err := f.Serve(broken); err != gone || len(broken.errs) != 0 {
		t.Errorf("%v, %d left", err, len(broken.errs))
	}
	if _, err := f.handed.Accept(); err != net.ErrClosed {
		t.Error("net/http listens on:", err)
	}
}

// TestShutdownBeforeServe: a port that is stopped before it serves ends at once.
func TestShutdownBeforeServe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFastPath(&entrance{}, &http.Server{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := f.Serve(newPatience().listener(l)); err != http.ErrServerClosed {
		t.Error(err)
	}
}
