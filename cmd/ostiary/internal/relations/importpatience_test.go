package relations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// roundTrip is a function as an [http.RoundTripper].
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slowBody sends bytes, each after a pause, and then nothing until its request ends.
type slowBody struct {
	ctx   context.Context
	bytes int
	pause time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.bytes == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	b.bytes--
	select {
	case <-time.After(b.pause):
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
	p[0] = 'x'
	return 1, nil
}

func (b *slowBody) Close() error { return nil }

// A response may take any time, and its reader too, if the server is never silent for
// too long.
func TestPatientTransport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &patientTransport{silence: time.Minute, base: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return &http.Response{Body: &slowBody{r.Context(), 100, 59 * time.Second}}, nil
		})}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://source", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if n, err := resp.Body.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Fatalf("got %d bytes and %v, want 1", n, err)
			}
			time.Sleep(time.Hour) // the reader may be slow
		}
		begin := time.Now()
		_, err = io.ReadAll(resp.Body)
		if waited := time.Since(begin); !errors.Is(err, errSilent) || waited != time.Minute || !mayPass(&sourceError{err}) {
			t.Errorf("got %v after %v, want errSilent after a minute", err, waited)
		}
		resp.Body.Close()
		req.Method, begin = http.MethodPost, time.Now()
		if _, err := transport.RoundTrip(req); !errors.Is(err, errSilent) || time.Since(begin) != time.Minute {
			t.Errorf("without a response: got %v after %v, want errSilent after a minute", err, time.Since(begin))
		}
	})
}

// allowing is a source that records how long it may be silent.
type allowing struct {
	moveSource
	allowed []time.Duration
}

func (s *allowing) allow(silence time.Duration) { s.allowed = append(s.allowed, silence) }

// An import tries again after a failure that may pass, with longer times after each
// one in a row, and not after another failure.
func TestPatiently(t *testing.T) {
	t.Parallel()
	lost := &sourceError{cli.ConnectionFailed("lost", io.ErrUnexpectedEOF)}
	for _, c := range []struct {
		name     string
		attempts []error // the outcome of each; after "copied" something was copied
		copied   int     // the number of the attempt that copied something
		calls    int
		pauses   time.Duration
		fails    bool
	}{
		{"at once", []error{nil}, 0, 1, 0, false},
		{"later", []error{lost, lost, nil}, 0, 3, 3 * time.Second, false},
		{"never", []error{lost, lost, lost, lost}, 0, 4, 7 * time.Second, true},
		{"after progress", []error{lost, lost, lost, lost, lost, lost, nil}, 4, 7, (1 + 2 + 4 + 1 + 2 + 4) * time.Second, false},
		{"refused", []error{&sourceError{&client.Error{Status: 404, Code: "no_store"}}}, 0, 1, 0, true},
		{"too old", []error{&sourceError{&client.Error{Code: "too_old"}}}, 0, 1, 0, true},
		{"overloaded", []error{&sourceError{&client.Error{Status: 429}}, &sourceError{&client.Error{Status: 503, Code: "busy"}}, nil}, 0, 3, 3 * time.Second, false},
		{"the source is incomplete", []error{&sourceError{&client.Error{Status: 503, Code: "importing"}}}, 0, 1, 0, true},
		{"the target", []error{cli.ConnectionFailed("lost", io.EOF)}, 0, 1, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := &allowing{}
				m := &mover{a: &app{&cli.App{Err: io.Discard, Patience: cli.Patience{Attempts: 4, Pause: time.Second}}}, source: source}
				calls, begin := 0, time.Now()
				err := m.patiently(t.Context(), func() (bool, error) {
					calls++
					return calls == c.copied, c.attempts[calls-1]
				})
				if calls != c.calls || (err != nil) != c.fails || time.Since(begin) != c.pauses {
					t.Errorf("%d attempts in %v, error %v; want %d in %v, failed %v", calls, time.Since(begin), err, c.calls, c.pauses, c.fails)
				}
				want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute}
				if c.copied == 0 && !slices.Equal(source.allowed, want[:calls]) {
					t.Errorf("the source may be silent for %v, want %v", source.allowed, want[:calls])
				}
			})
		})
	}
}

// The user can interrupt an import that waits for its next attempt.
func TestPatientlyInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		m := &mover{a: &app{&cli.App{Err: io.Discard, Patience: cli.Patience{Pause: time.Hour}}}, source: &allowing{}}
		err := m.patiently(ctx, func() (bool, error) { return false, &sourceError{cli.ConnectionFailed("lost", fmt.Errorf("cut"))} })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}
