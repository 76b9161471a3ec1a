package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

// forwarded has every field.
var forwarded = forward.Head{
	Door: "native", Keys: []forward.KeyID{{1, 2}, {3}}, After: 3, Repeated: true, Remote: "192.0.2.1:5", ID: "id", Secure: true, Timeout: time.Minute,
	Origin: storage.Origin{Caller: "anne", Reason: "ticket 1", Request: storage.RequestID{Node: storage.NodeID{4}, Number: 5}},
}

func TestForwardedFields(t *testing.T) {
	t.Parallel()
	for v, i := reflect.ValueOf(forwarded), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Fatalf("the example has no %s", v.Type().Field(i).Name)
		}
	}
	if have, err := headIn(headOut(forwarded)); err != nil || !reflect.DeepEqual(have, forwarded) {
		t.Errorf("received %+v, error %v, want %+v", have, err, forwarded)
	}
}

func readsBody(done chan<- error) func(http.ResponseWriter, *http.Request, forward.Head) error {
	return func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		_, err := io.Copy(io.Discard, r.Body)
		done <- err
		return err
	}
}

// pair starts two nodes. The second one forwards with the function that it returns, as
// the handler of a real server of HTTP.
func forwardPair(t *testing.T) (one, two *node, url string, last func() error) {
	t.Helper()
	r := newRig(t)
	one, two = r.start(t, 1), r.start(t, 2)
	errs := make(chan error, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		errs <- two.Target(one.self).HTTP(w, r, forwarded)
	}))
	t.Cleanup(s.Close)
	return one, two, s.URL, func() error { return <-errs }
}

// TestForwardHTTP requires that a request and its response arrive as they were sent,
// with bodies of several parts.
func TestForwardHTTP(t *testing.T) {
	t.Parallel()
	one, _, url, last := forwardPair(t)
	large := bytes.Repeat([]byte("0123456789"), PartBytesMax/2)
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(as, forwarded) || r.Host == "" || r.RemoteAddr != forwarded.Remote || r.URL.Query().Get("q") != "a b" || r.URL.EscapedPath() != "/stores/a%2Fb" {
			t.Errorf("received %+v, %s %s from %s, host %q", as, r.Method, r.URL, r.RemoteAddr, r.Host)
		}
		if _, ok := r.Context().Deadline(); !ok {
			t.Error("no deadline")
		}
		w.Header()["X-Two"] = []string{"1", "2"}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s ", r.Method, r.Header.Get("X-Asked"))
		_, err = w.Write(body)
		return err
	}
	for _, body := range [][]byte{nil, []byte("small"), large} {
		for _, chunked := range []bool{false, true} {
			var reader io.Reader = bytes.NewReader(body)
			if chunked {
				reader = struct{ io.Reader }{reader}
			}
			q, _ := http.NewRequest("PUT", url+"/stores/a%2Fb?q=a+b", reader)
			q.Header.Set("X-Asked", "yes")
			response, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			have, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusTeapot || string(have) != "PUT yes "+string(body) || !reflect.DeepEqual(response.Header["X-Two"], []string{"1", "2"}) {
				t.Errorf("received %s, %d bytes, %v, error %v", response.Status, len(have), response.Header, err)
			}
			if err := last(); err != nil {
				t.Error(err)
			}
		}
	}
}

// inTwoParts writes a part and flushes it, and another one when goOn is closed.
func inTwoParts(goOn <-chan struct{}) func(http.ResponseWriter, *http.Request, forward.Head) error {
	return func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		fmt.Fprint(w, "first")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		<-goOn
		fmt.Fprint(w, "second")
		return nil
	}
}

// TestForwardStreams requires that what is flushed arrives before the response ends.
func TestForwardStreams(t *testing.T) {
	t.Parallel()
	one, _, url, last := forwardPair(t)
	goOn := make(chan struct{})
	one.http = inTwoParts(goOn)
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 5)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first" {
		t.Fatalf("read %q, error %v", first, err)
	}
	close(goOn)
	if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "second" {
		t.Errorf("read %q, error %v", rest, err)
	}
	if err := last(); err != nil {
		t.Error(err)
	}
}

// TestForwardEarly requires that a response that comes before the body was read does not
// wait for the rest of the body.
func TestForwardEarly(t *testing.T) {
	t.Parallel()
	one, _, url, last := forwardPair(t)
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return nil
	}
	body, write := io.Pipe()
	defer write.Close()
	go func() { _, _ = write.Write([]byte("never ends")) }()
	response, err := http.Post(url, "text/plain", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %s", response.Status)
	}
	if err := last(); err != nil {
		t.Error(err)
	}
}

// TestForwardWaits requires that a response waits until this node shows what the other
// one has.
func TestForwardWaits(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error { return nil }
	begun := make(chan struct{}, 2)
	one.call = func(context.Context, forward.Call, forward.Head) (forward.Answer, error) {
		begun <- struct{}{}
		return forward.Answer{}, nil
	}
	one.shown.Store(5)
	two.shown.Store(4)
	done := make(chan error, 2)
	w := httptest.NewRecorder()
	go func() {
		done <- two.Target(one.self).HTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), forwarded)
	}()
	go func() {
		_, err := two.Target(one.self).RPC(t.Context(), forward.Call{}, forwarded)
		done <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-begun
		<-begun
		cancel()
	}()
	_, err := two.Target(one.self).RPC(ctx, forward.Call{}, forwarded)
	wants(t, err, context.Canceled)
	if errors.Is(err, forward.ErrNotBegun) || len(done) > 0 {
		t.Errorf("error %v; %d answers before the node shows them", err, len(done))
	}
	two.shown.Store(5)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestForwardNotBegun requires that a request that the other node did not begin with is
// told apart from one that broke off, and that nothing was written then.
func TestForwardNotBegun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two, stranger := r.start(t, 1), r.start(t, 2), r.start(t, 3, change{quiet: true})
	begun := errors.New("disk")
	ask := func(from *node, to lease.Peer) error {
		w := httptest.NewRecorder()
		err := from.Target(to).HTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("body")), forwarded)
		if w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("written %q", w.Body)
		}
		_, errCall := from.Target(to).RPC(t.Context(), forward.Call{Message: []byte("body")}, forwarded)
		if errors.Is(err, forward.ErrNotBegun) != errors.Is(errCall, forward.ErrNotBegun) {
			t.Errorf("errors %v of HTTP, %v of a call", err, errCall)
		}
		return err
	}
	serve := func(err error) {
		one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error { return err }
		one.call = func(context.Context, forward.Call, forward.Head) (forward.Answer, error) {
			return forward.Answer{}, err
		}
	}
	serve(fmt.Errorf("%w: not the holder", forward.ErrNotBegun))
	wants(t, ask(two, one.self), forward.ErrNotBegun, "not the holder")
	serve(begun)
	if err := ask(two, one.self); errors.Is(err, forward.ErrNotBegun) || err == nil {
		t.Errorf("error %v after the request has begun", err)
	}
	wants(t, ask(stranger, one.self), forward.ErrNotBegun, "is not registered")
	one.Attach(nil, nil)
	wants(t, ask(two, one.self), forward.ErrNotBegun)
	one.Link.Close()
	wait.Until(t, "the node knows that the connection has ended", func() bool {
		two.outgoing.mu.Lock()
		on := two.outgoing.peers[peerKey(one.self)].passing
		two.outgoing.mu.Unlock()
		return on.hasEnded() && !two.Health()[0].Connected
	})
	wants(t, ask(two, one.self), forward.ErrNotBegun, one.self.Address)
}

// TestForwardStopped requires that a node that stops serving answers nothing, because
// its copy may lack what the request has written, and that it begins with nothing later.
func TestForwardStopped(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	full := errors.New("the disk is full")
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		one.stopped.Store(&full)
		fmt.Fprint(w, "written")
		return nil
	}
	one.call = func(context.Context, forward.Call, forward.Head) (forward.Answer, error) {
		one.stopped.Store(&full)
		return forward.Answer{}, nil
	}
	http := func() error {
		w := httptest.NewRecorder()
		err := two.Target(one.self).HTTP(w, httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader("body")), forwarded)
		if w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("written %q", w.Body)
		}
		return err
	}
	call := func() error {
		_, err := two.Target(one.self).RPC(t.Context(), forward.Call{Message: []byte("body")}, forwarded)
		return err
	}
	for _, ask := range []func() error{http, call} {
		one.stopped.Store(nil)
		err := ask()
		if wants(t, err, nil, "the answer is lost", full.Error()); errors.Is(err, forward.ErrNotBegun) {
			t.Errorf("error %v after the request was served", err)
		}
		wants(t, ask(), forward.ErrNotBegun, full.Error())
	}
}

// TestForwardBreaks requires that a response that breaks off is an error, also if
// the other node ends, and that the other node notices when the client has gone.
func TestForwardBreaks(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	waiting := make(chan struct{})
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		fmt.Fprint(w, "some")
		_ = http.NewResponseController(w).Flush()
		close(waiting)
		<-r.Context().Done()
		return r.Context().Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waiting; cancel() }()
	err := two.Target(one.self).HTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil), forwarded)
	wants(t, err, nil)
	waiting = make(chan struct{})
	go func() { <-waiting; one.Link.Close() }()
	err = two.Target(one.self).HTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), forwarded)
	if wants(t, err, nil); errors.Is(err, forward.ErrNotBegun) {
		t.Errorf("error %v after the response has begun", err)
	}
}

func TestForwardRPC(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	large := bytes.Repeat([]byte{7}, 3*PartBytesMax+1)
	one.call = func(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error) {
		if !reflect.DeepEqual(as, forwarded) || c.Method != "/a/b" || !reflect.DeepEqual(c.Metadata, metadata.MD{"k-bin": {"\xff", "2"}}) {
			t.Errorf("received %+v, %q, %v", as, c.Method, c.Metadata)
		}
		a := forward.Answer{Metadata: metadata.MD{"h": {"1"}}, Message: c.Message}
		if len(c.Message) == 0 {
			s, _ := status.New(codes.NotFound, "no store").WithDetails(status.New(codes.Internal, "detail").Proto())
			a.Message, a.Err = nil, s.Err()
		}
		return a, nil
	}
	c := forward.Call{Method: "/a/b", Metadata: metadata.MD{"k-bin": {"\xff", "2"}}, Message: large}
	a, err := two.Target(one.self).RPC(t.Context(), c, forwarded)
	if err != nil || a.Err != nil || !bytes.Equal(a.Message, large) || !reflect.DeepEqual(a.Metadata, metadata.MD{"h": {"1"}}) {
		t.Errorf("%d bytes, %v, errors %v, %v", len(a.Message), a.Metadata, a.Err, err)
	}
	c.Message = nil
	a, err = two.Target(one.self).RPC(t.Context(), c, forwarded)
	if s := status.Convert(a.Err); err != nil || s.Code() != codes.NotFound || s.Message() != "no store" || len(s.Details()) != 1 {
		t.Errorf("status %v, error %v", a.Err, err)
	}
}

// TestForwardBrokenBody requires that the other node does not take a request for complete
// whose body broke off, and that the error is that of the body.
func TestForwardBrokenBody(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	read, begun := make(chan error, 1), make(chan struct{})
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		close(begun)
		return readsBody(read)(w, r, as)
	}
	gone := errors.New("the client has gone")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, "POST", "/", io.MultiReader(strings.NewReader("some"), brokenReader{gone, begun}))
	wants(t, two.Target(one.self).HTTP(httptest.NewRecorder(), r, forwarded), gone)
	if err := <-read; err == nil {
		t.Error("the other node read the body to its end")
	}
}

// brokenReader fails with err once after is closed.
type brokenReader struct {
	err   error
	after chan struct{}
}

func (b brokenReader) Read([]byte) (int, error) {
	<-b.after
	return 0, b.err
}
