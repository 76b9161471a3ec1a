package relations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// sourceError is the failure of a request to the source of an import.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// patiently calls read again while it fails with a *sourceError that may pass.
// copied reports whether the call copied something.
func (m *mover) patiently(ctx context.Context, read func() (copied bool, err error)) error {
	p := m.a.Patience.WithDefaults()
	for failed := 0; ; {
		m.source.allow(p.Silence << failed)
		copied, err := read()
		if copied {
			failed = 0
		}
		if err == nil || ctx.Err() != nil || !mayPass(err) {
			return err
		}
		if failed++; failed >= p.Attempts {
			return fmt.Errorf("%w (in each of %d attempts)", err, p.Attempts)
		}
		m.a.Note("store %s (%s): the source failed, trying again: %v", m.from.ID, m.from.Name, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(p.Pause, 0) << (failed - 1)):
		}
	}
}

// fromSource calls read patiently. An error of read is one of the source.
func (m *mover) fromSource(ctx context.Context, read func() error) error {
	return m.patiently(ctx, func() (bool, error) {
		err := read()
		if err != nil {
			err = &sourceError{err}
		}
		return false, err
	})
}

// mayPass reports whether err is a failure of the source that a later attempt may
// not have: one of the connection, or of the server.
func mayPass(err error) bool {
	if _, ok := errors.AsType[*sourceError](err); !ok {
		return false
	}
	if at, ok := errors.AsType[*client.Error](err); ok {
		// An error in a stream has no status.
		return at.Status != http.StatusNotImplemented && (at.Status >= 500 || at.Status == http.StatusTooManyRequests || at.Status == 0) &&
			!slices.Contains([]string{"importing", "too_old", "token", "damaged"}, at.Code)
	}
	_, isConnection := errors.AsType[*cli.ConnectionError](err)
	_, isRequest := errors.AsType[*url.Error](err)
	return isConnection || isRequest || errors.Is(err, client.ErrIncomplete)
}

// errSilent means that a server sent nothing for too long.
var errSilent = errors.New("the server sent nothing")

// patientTransport sends requests. A request fails if the server sends no byte of
// the response for the time silence. It is not safe for concurrent use.
type patientTransport struct {
	base    http.RoundTripper
	silence time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (t *patientTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	b := &patientBody{ctx: ctx, cancel: cancel, silence: t.silence}
	b.timer = time.AfterFunc(b.silence, func() { cancel(fmt.Errorf("%w for %v", errSilent, b.silence)) })
	resp, err := t.base.RoundTrip(r.WithContext(ctx))
	b.timer.Stop()
	if err != nil {
		err = b.explain(err)
		cancel(nil)
		return nil, err
	}
	b.body, resp.Body = resp.Body, b
	return resp, nil
}

// patientBody is the body of a response of a [patientTransport]. It measures the
// time of reads only, because the reader may write to a slow disk between them.
type patientBody struct {
	body    io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	silence time.Duration
}

// Read implements [io.Reader]. An error other than [io.EOF] is a *ConnectionError.
func (b *patientBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.silence)
	n, err := b.body.Read(p)
	b.timer.Stop()
	if err != nil && err != io.EOF {
		err = b.explain(err)
		err = cli.ConnectionFailed(fmt.Sprintf("the connection was lost: %v", err), err)
	}
	return n, err
}

// Close implements [io.Closer].
func (b *patientBody) Close() error {
	b.timer.Stop()
	err := b.body.Close()
	b.cancel(nil)
	return err
}

// explain returns the reason why the context ended, if the timer ended it.
func (b *patientBody) explain(err error) error {
	if cause := context.Cause(b.ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}
