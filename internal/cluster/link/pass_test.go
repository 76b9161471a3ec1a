package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/internal/workshop/wait"
)

// whole returns a request with its body in memory.
func whole(ctx context.Context, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "POST", "/stores/a%2Fb?q=a+b", nil)
	r.Body, r.ContentLength = forward.NewWhole([]byte(body)), int64(len(body))
	return r
}

// echo answers with the body of the request.
func echo(w http.ResponseWriter, r *http.Request, _ forward.Head) error {
	_, err := io.Copy(w, r.Body)
	return err
}

// passes returns how many requests a node passes to another one.
func (n *node) passes(t *testing.T, to *node) int {
	t.Helper()
	on := n.Link.passing(to.self)
	if on == nil {
		t.Fatal("the node passes no request")
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	return len(on.all)
}

// TestPassTogether requires that many requests on one stream are answered each with its own
// response, over HTTP and gRPC, and that nothing is left of them.
func TestPassTogether(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		if as.Door != forwarded.Door || r.URL.EscapedPath() != "/stores/a%2Fb" || r.URL.Query().Get("q") != "a b" || r.ContentLength < 0 {
			t.Errorf("received %+v, %s, %d bytes", as, r.URL, r.ContentLength)
		}
		w.Header()["X-Two"] = []string{"1", "2"}
		w.WriteHeader(http.StatusTeapot)
		return echo(w, r, as)
	}
	one.call = func(_ context.Context, c forward.Call, _ forward.Head) (forward.Answer, error) {
		return forward.Answer{Message: c.Message}, nil
	}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			text := strings.Repeat(fmt.Sprint(i, " "), i)
			w := httptest.NewRecorder()
			if err := two.Target(one.self).HTTP(w, whole(t.Context(), text), forwarded); err != nil || w.Code != http.StatusTeapot || w.Body.String() != text || len(w.Header()["X-Two"]) != 2 {
				t.Errorf("request %d: status %d, %d bytes, %v, error %v", i, w.Code, w.Body.Len(), w.Header(), err)
			}
			a, err := two.Target(one.self).RPC(t.Context(), forward.Call{Method: "/a/b", Message: []byte(text)}, forwarded)
			if err != nil || string(a.Message) != text {
				t.Errorf("call %d: %d bytes, error %v", i, len(a.Message), err)
			}
		})
	}
	all.Wait()
	if n := two.passes(t, one); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}

// TestForwardQuery requires that a query with bytes that are no text arrives, on both kinds of
// streams.
func TestForwardQuery(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		if q := r.URL.Query(); q.Get("q") != "\xff b" || q.Get("é") != "é" {
			t.Errorf("received %q", r.URL.RawQuery)
		}
		return nil
	}
	for _, body := range []string{"small", strings.Repeat("large", PartBytesMax)} {
		r := whole(t.Context(), body)
		r.URL.RawQuery = "q=\xff+b&é=%C3%A9"
		if err := two.Target(one.self).HTTP(httptest.NewRecorder(), r, forwarded); err != nil {
			t.Error(err)
		}
	}
}

// slow is a client that reads a response once it may.
type slow struct {
	http.ResponseWriter
	wrote, may chan struct{}
	once       sync.Once
}

func (s *slow) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.wrote) })
	<-s.may
	return s.ResponseWriter.Write(p)
}

// TestPassSlowClient requires that a client that does not read a large response holds up its
// own request only, and that the other node does not send more of it than the window.
func TestPassSlowClient(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 4*passWindow*PartBytesMax/16)
	ended := make(chan struct{})
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		if r.ContentLength > 0 {
			return echo(w, r, as)
		}
		defer close(ended)
		_, err := w.Write(large)
		return err
	}
	w := httptest.NewRecorder()
	reader := &slow{ResponseWriter: w, wrote: make(chan struct{}), may: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- two.Target(one.self).HTTP(reader, whole(t.Context(), ""), forwarded) }()
	<-reader.wrote
	for range 10 {
		other := httptest.NewRecorder()
		if err := two.Target(one.self).HTTP(other, whole(t.Context(), "other"), forwarded); err != nil || other.Body.String() != "other" {
			t.Fatalf("read %q, error %v", other.Body, err)
		}
	}
	select {
	case <-ended:
		t.Error("the response was sent although the client does not read")
	default:
	}
	close(reader.may)
	if err := <-done; err != nil || !bytes.Equal(w.Body.Bytes(), large) {
		t.Errorf("read %d bytes, error %v", w.Body.Len(), err)
	}
}

// TestPassFlush requires that what is flushed arrives before the response ends.
func TestPassFlush(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	goOn := make(chan struct{})
	one.http = inTwoParts(goOn)
	w := httptest.NewRecorder()
	reader := &slow{ResponseWriter: w, wrote: make(chan struct{}), may: make(chan struct{})}
	close(reader.may)
	done := make(chan error, 1)
	go func() { done <- two.Target(one.self).HTTP(reader, whole(t.Context(), ""), forwarded) }()
	<-reader.wrote
	close(goOn)
	if err := <-done; err != nil || w.Body.String() != "firstsecond" {
		t.Errorf("read %q, error %v", w.Body, err)
	}
}

// TestPassLeave requires that a client that leaves ends its own request at the other node, and
// no other one.
func TestPassLeave(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
			begun <- struct{}{}
			return r.Context().Err()
		case <-goOn:
			return echo(w, r, as)
		}
	}
	w, done := httptest.NewRecorder(), make(chan error, 1)
	go func() { done <- two.Target(one.self).HTTP(w, whole(t.Context(), "stays"), forwarded) }()
	<-begun
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		left <- two.Target(one.self).HTTP(httptest.NewRecorder(), whole(ctx, "leaves"), forwarded)
	}()
	<-begun
	leave()
	err := <-left
	if wants(t, err, context.Canceled); errors.Is(err, forward.ErrNotBegun) {
		t.Errorf("error %v of a request that has begun", err)
	}
	<-begun // the end of the one that has left
	close(goOn)
	if err := <-done; err != nil || w.Body.String() != "stays" {
		t.Errorf("read %q, error %v", w.Body, err)
	}
}

// TestPassEnds requires that the outcome of requests is unknown when their stream ends, that
// the other node ends them, and that the next request opens another stream.
func TestPassEnds(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	const count = 5
	begun, ended := make(chan struct{}, count), make(chan struct{}, count)
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		if r.ContentLength == 0 {
			return nil
		}
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
		return r.Context().Err()
	}
	done := make(chan error, count)
	for range count {
		go func() {
			done <- two.Target(one.self).HTTP(httptest.NewRecorder(), whole(t.Context(), "waits"), forwarded)
		}()
	}
	for range count {
		<-begun
	}
	two.Link.outgoing.mu.Lock()
	for _, p := range two.Link.outgoing.peers {
		p.conn.Close()
	}
	clear(two.Link.outgoing.peers)
	two.Link.outgoing.mu.Unlock()
	for range count {
		<-ended
		if err := <-done; err == nil || errors.Is(err, forward.ErrNotBegun) {
			t.Errorf("error %v of a request that has begun", err)
		}
	}
	if err := two.Target(one.self).HTTP(httptest.NewRecorder(), whole(t.Context(), ""), forwarded); err != nil {
		t.Error(err)
	}
}

// TestPassOlderNode requires that requests to a node of an earlier version, which has no Pass,
// go on streams of their own.
func TestPassOlderNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	older := wire.Link_ServiceDesc
	older.Streams = slices.DeleteFunc(slices.Clone(older.Streams), func(s grpc.StreamDesc) bool { return s.StreamName == "Pass" })
	one := r.start(t, 1, change{options: func(o *Options) {
		tr, err := NewTransport(TransportOptions{Address: o.Self.Address, Files: o.Files, Listener: o.Listener, Refused: o.Refused, service: &older})
		if err != nil {
			t.Fatal(err)
		}
		tr.Serve()
		t.Cleanup(func() { tr.Close() })
		o.Transport = tr
	}})
	two := r.start(t, 2)
	one.http = echo
	one.call = func(_ context.Context, c forward.Call, _ forward.Head) (forward.Answer, error) {
		return forward.Answer{Message: c.Message}, nil
	}
	for range 3 {
		w := httptest.NewRecorder()
		if err := two.Target(one.self).HTTP(w, whole(t.Context(), "body"), forwarded); err != nil || w.Body.String() != "body" {
			t.Errorf("read %q, error %v", w.Body, err)
		}
		if a, err := two.Target(one.self).RPC(t.Context(), forward.Call{Method: "/a/b", Message: []byte("call")}, forwarded); err != nil || string(a.Message) != "call" {
			t.Errorf("read %q, error %v", a.Message, err)
		}
	}
	if two.Link.passing(one.self) != nil {
		t.Error("the node is passed requests")
	}
	two.http = echo
	w := httptest.NewRecorder()
	if err := one.Target(two.self).HTTP(w, whole(t.Context(), "back"), forwarded); err != nil || w.Body.String() != "back" || one.passes(t, two) != 0 {
		t.Errorf("read %q, error %v", w.Body, err)
	}
}

// TestPassWrongMessages requires that a node ends a stream with messages that break the
// protocol, and that none of them begins a request.
func TestPassWrongMessages(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	head := headOut(forwarded)
	head.Request = &wire.RequestHead_Http{Http: &wire.HTTPRequest{Method: "POST", Target: "/"}}
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		<-r.Context().Done()
		return r.Context().Err()
	}
	encoded := func(m *wire.Passed) []byte {
		text, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	peer, err := two.Link.peer(one.self)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		sent [][]byte
	}{
		{"a request: proto", [][]byte{{0xff}}},
		{"it runs already", [][]byte{encoded(&wire.Passed{Number: 1, Head: head}), encoded(&wire.Passed{Number: 1, Head: head})}},
		{"has 65537 bytes, expected at most 65536 (PartBytesMax)", [][]byte{encoded(&wire.Passed{Number: 1, Head: head, Body: make([]byte, PartBytesMax+1)})}},
		{"a response was taken that was not sent", [][]byte{encoded(&wire.Passed{Number: 1, Head: head}), encoded(&wire.Passed{Number: 1, Taken: true})}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		stream, err := peer.client.Pass(peer.call(ctx))
		if err == nil {
			err = stream.Send(&wire.PassRequest{Passed: c.sent})
		}
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		wants(t, received(one.self, err), lease.ErrPeer, c.what)
		cancel()
	}
	// What is about a request that has ended is ignored.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := peer.client.Pass(peer.call(ctx))
	if err != nil {
		t.Fatal(err)
	}
	bad := headOut(forwarded)
	sent := [][]byte{encoded(&wire.Passed{Number: 7}), encoded(&wire.Passed{Number: 8, Taken: true}), encoded(&wire.Passed{Number: 9, Head: bad})}
	if err := stream.Send(&wire.PassRequest{Passed: sent}); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil || len(m.GetResponses()) != 1 {
		t.Fatalf("received %d responses, error %v", len(m.GetResponses()), err)
	}
	var r wire.PassedResponse
	if err := proto.Unmarshal(m.GetResponses()[0], &r); err != nil || r.GetNumber() != 9 {
		t.Fatalf("received %v, error %v", &r, err)
	}
	why, err := statusIn(r.GetFailure())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, received(one.self, why), lease.ErrPeer, "neither one of HTTP nor a call")
}

// TestPassBounds requires that a node runs at most PassedMax requests of a stream, that the
// other node forwards further ones with streams of their own, and that no goroutine of them
// is left.
func TestPassBounds(t *testing.T) {
	t.Parallel()
	one, two, _, _ := forwardPair(t)
	var begun sync.WaitGroup
	begun.Add(PassedMax)
	goOn := make(chan struct{})
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		if r.ContentLength > 0 {
			return echo(w, r, as)
		}
		begun.Done()
		<-goOn
		return nil
	}
	var all sync.WaitGroup
	for range PassedMax {
		all.Go(func() {
			if err := two.Target(one.self).HTTP(httptest.NewRecorder(), whole(t.Context(), ""), forwarded); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	w := httptest.NewRecorder()
	if err := two.Target(one.self).HTTP(w, whole(t.Context(), "more"), forwarded); err != nil || w.Body.String() != "more" {
		t.Errorf("read %q, error %v", w.Body, err)
	}
	close(goOn)
	all.Wait()
	wait.Until(t, "the requests have ended", func() bool { return two.passes(t, one) == 0 })
}

// TestPassRemovedNode requires that the requests of a node that was removed end with its
// stream.
func TestPassRemovedNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	begun := make(chan struct{})
	one.http = func(w http.ResponseWriter, r *http.Request, as forward.Head) error {
		close(begun)
		<-r.Context().Done()
		return r.Context().Err()
	}
	done := make(chan error, 1)
	go func() {
		done <- two.Target(one.self).HTTP(httptest.NewRecorder(), whole(t.Context(), ""), forwarded)
	}()
	<-begun
	if err := r.log.Forget(t.Context(), two.self.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || errors.Is(err, forward.ErrNotBegun) {
		t.Errorf("error %v of a request that has begun", err)
	}
	wants(t, two.Target(one.self).HTTP(httptest.NewRecorder(), whole(t.Context(), ""), forwarded), forward.ErrNotBegun, "is not registered")
}
