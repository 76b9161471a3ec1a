package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// holdDoor returns a door whose streams hold as many bytes as their path names,
// answer "held" or the refusal, and stay open.
func holdDoor() *door.Door {
	hold := func(ctx context.Context, n string) (text string, held bool) {
		bytes, _ := strconv.Atoi(n)
		err := door.Hold(ctx, bytes)
		var why *door.Refusal
		if errors.As(err, &why) {
			return why.Error(), false
		}
		return "held", true
	}
	return &door.Door{Name: "hold", Prefixes: []string{"/hold"},
		Refuse: func(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
			w.WriteHeader(why.Status())
			fmt.Fprint(w, why)
		},
		Routes: []door.Route{
			{Method: "GET", Pattern: "/hold/{bytes}", Name: "Hold", Streams: true, Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
				text, held := hold(r.Context(), p.At(0))
				fmt.Fprintln(w, text)
				w.(http.Flusher).Flush()
				if held {
					fmt.Fprintln(w) // stays in a buffer
					<-r.Context().Done()
				}
			}},
			{Method: "GET", Pattern: "/hold/write/{bytes}", Name: "Write", Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
				n, _ := strconv.Atoi(p.At(0))
				w.Header().Set("Content-Length", p.At(0))
				w.WriteHeader(http.StatusOK)
				w.Write(make([]byte, n))
			}},
			{Method: "GET", Pattern: "/hold/stream/{bytes}", Name: "Stream", Streams: true, Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
				n, _ := strconv.Atoi(p.At(0))
				if _, err := w.Write(make([]byte, n)); err != nil {
					fmt.Fprint(w, "error: ", err)
				}
			}},
		},
		Services: []door.Service{{Impl: struct{}{}, Desc: &grpc.ServiceDesc{ServiceName: "test.Hold", HandlerType: (*any)(nil),
			Streams: []grpc.StreamDesc{{StreamName: "Hold", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				var in wrapperspb.StringValue
				if err := s.RecvMsg(&in); err != nil {
					return err
				}
				text, held := hold(s.Context(), in.Value)
				err := s.SendMsg(wrapperspb.String(text))
				if held && err == nil {
					<-s.Context().Done()
				}
				return err
			}}}}}},
	}
}

// held opens a stream that holds n bytes and returns its first line.
func (r *running) held(t testing.TB, n int) (conn net.Conn, line string) {
	t.Helper()
	conn = r.connect(t)
	conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET /hold/%d HTTP/1.1\r\nHost: localhost\r\n\r\n", n)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return conn, strings.TrimSpace(line)
}

// unsent waits until so many bytes are unsent.
func (r *running) unsent(t testing.TB, want int) {
	t.Helper()
	wait(t, func() bool {
		return strings.TrimSpace(r.metric(t, "ostiary_unsent_bytes")) == fmt.Sprint("ostiary_unsent_bytes ", want)
	})
}

// TestHoldTotal checks the bound on what streams keep for slow clients, over HTTP
// and gRPC together, at the bound and one byte above it. When the bound is
// reached, a client that has read nothing for a second loses its connection.
func TestHoldTotal(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Doors: []*door.Door{holdDoor()}, UnsentBytesTotal: 300_000})
	stalled, line := r.held(t, 200_000)
	if line != "held" {
		t.Fatal(line)
	}
	if _, line := r.held(t, 100_001); !strings.Contains(line, "the bound UnsentBytesTotal is 300000") {
		t.Error(line)
	}
	stream, err := r.dial(t).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/test.Hold/Hold")
	if err != nil {
		t.Fatal(err)
	}
	var out wrapperspb.StringValue
	stream.SendMsg(wrapperspb.String("100001"))
	if err := stream.RecvMsg(&out); err != nil || !strings.Contains(out.Value, "the bound UnsentBytesTotal is 300000") {
		t.Error(out.Value, err)
	}
	r.unsent(t, 200_000)
	kept, line := r.held(t, 100_000)
	if line != "held" {
		t.Error(line)
	}
	kept.Close()
	r.unsent(t, 200_000)
	wait(t, func() bool { // once the first is older than a second
		conn, line := r.held(t, 200_000)
		conn.Close()
		return line == "held"
	})
	if _, err := io.Copy(io.Discard, stalled); err != nil && !errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), "timeout") {
		t.Error("the stalled connection is open:", err)
	}
	r.unsent(t, 0)
}

// TestWriteTotal checks that a response above the bound is replaced by the
// refusal, and that a stream gets the refusal as the error of its write.
func TestWriteTotal(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Doors: []*door.Door{holdDoor()}, UnsentBytesTotal: 100_000})
	for path, want := range map[string]string{
		"write/100000": "200 \x00", "write/100001": "429 the server has too many requests: the bound UnsentBytesTotal is 100000",
		"stream/100000": "200 \x00", "stream/100001": "200 error: the server has too many requests: the bound UnsentBytesTotal is 100000",
	} {
		status, _, body := r.ask(t, "GET", "/hold/"+path, "")
		if got := fmt.Sprint(status, " ", body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.100q, want %q", path, got, want)
		}
	}
	r.unsent(t, 0)
}

// certificate returns a certificate for localhost.
func certificate(t testing.TB) *server.Certificate {
	t.Helper()
	cert, key := certify(t, t.TempDir(), "hold", 1)
	c, err := server.NewCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSocketBound checks that the system takes little for a client that does not
// read, so that what waits is counted.
func TestSocketBound(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has this bound")
	}
	var taken atomic.Int64
	blocked := make(chan struct{})
	flood := &door.Door{Name: "flood", Prefixes: []string{"/flood"}, Routes: []door.Route{{Method: "GET", Pattern: "/flood", Name: "Flood", Streams: true,
		Serve: func(w http.ResponseWriter, _ *http.Request, _ door.Params) {
			defer close(blocked)
			for {
				n, err := w.Write(make([]byte, 4096))
				if err != nil {
					return
				}
				taken.Add(int64(n))
			}
		}}}}
	r := start(t, server.Options{Doors: []*door.Door{flood}, TransferTime: 500 * time.Millisecond})
	conn := r.connect(t)
	conn.(*net.TCPConn).SetReadBuffer(4096)
	io.WriteString(conn, "GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-blocked
	if n := taken.Load(); n < 4096 || n > 1<<20 {
		t.Errorf("%d bytes were taken for a client that does not read, want at most 1 MiB", n)
	}
}
