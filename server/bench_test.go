package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/server"
)

// childEnv makes the test binary a server of the given kind, which another
// process measures.
const childEnv = "OSTIARY_SERVER_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childEnv); kind != "" {
		child(kind)
		return
	}
	os.Exit(m.Run())
}

// answer is the response body of all servers.
var answer = []byte(`{"allowed":true,"resolution":""}`)

// noop reads the body and writes the answer, the least that any handler does.
func noop(w http.ResponseWriter, r *http.Request) {
	b, err := door.ReadBody(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	b.Free()
	h := w.Header()
	h["Content-Type"] = jsonType
	w.Write(answer)
}

var jsonType = []string{"application/json"}

// noopDoor returns a door whose only route is noop.
func noopDoor() *door.Door {
	return &door.Door{Name: "noop", Prefixes: []string{"/stores"}, Routes: []door.Route{
		{Method: "POST", Pattern: "/stores/{id}/check", Name: "Check", Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) { noop(w, r) }},
	}, Services: []door.Service{{Desc: &echoDesc, Impl: struct{}{}}}}
}

// child serves until its standard input ends. It prints its address, and then for
// each line of input its processor time so far, in nanoseconds.
func child(kind string) {
	defer bench.HoldHeap()() // all kinds alike, as ostiary serve has it
	address := ""
	switch kind {
	case "bare":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		go http.Serve(l, http.HandlerFunc(noop))
		address = l.Addr().String()
	case "bounds":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		h := &http.Server{Handler: http.HandlerFunc(noop), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 40 * time.Second,
			WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
		go h.Serve(l)
		address = l.Addr().String()
	case "bare grpc":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		s := grpc.NewServer(grpc.NumStreamWorkers(uint32(32 * runtime.GOMAXPROCS(0))))
		s.RegisterService(&bareDesc, struct{}{})
		go s.Serve(l)
		address = l.Addr().String()
	default:
		o := server.Options{HTTP: "127.0.0.1:0", Metrics: "127.0.0.1:0", Doors: []*door.Door{noopDoor()}, Log: slog.New(slog.DiscardHandler)}
		if strings.HasSuffix(kind, "grpc") {
			o.HTTP, o.GRPC = "", o.HTTP
		}
		if kind == "echo" {
			o.Doors = []*door.Door{echoDoor()}
		}
		if strings.HasPrefix(kind, "keys") {
			var err error
			if o.Keys, err = server.NewKeys([]server.Key{{Secret: secret}}); err != nil {
				log.Fatal(err)
			}
		}
		s, err := server.New(o)
		if err != nil {
			log.Fatal(err)
		}
		if err := s.Start(); err != nil {
			log.Fatal(err)
		}
		address = s.Addresses()[0].Addr.String()
	}
	fmt.Println(address)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		fmt.Println(u.Utime.Nano() + u.Stime.Nano())
	}
}

// bareDesc is the Echo method for a grpc-go server without this package.
var bareDesc = grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Echo",
	Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		return wrapperspb.String(in.Value), nil
	}}}}

// subject is a child process that is measured.
type subject struct {
	address string
	in      io.WriteCloser
	out     *bufio.Reader
	send    []func() error // one per client
	cpu     []float64      // µs per request, by round
	rate    []float64      // requests per second, by round
}

func launch(b *testing.B, kind string) *subject {
	b.Helper()
	s := launchChild(b, kind)
	const clients = 8
	for range clients {
		var send func() error
		var err error
		if strings.HasSuffix(kind, "grpc") {
			send, err = newGRPCClient(b, s.address)
		} else {
			send, err = newHTTPClient(b, s.address)
		}
		if err != nil {
			b.Fatal(err)
		}
		s.send = append(s.send, send)
	}
	return s
}

// launchChild starts this binary as a server of the given kind.
func launchChild(b testing.TB, kind string) *subject {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+kind)
	cmd.Stderr = os.Stderr
	s := &subject{}
	if s.in, err = cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		s.in.Close()
		cmd.Wait()
	})
	address, err := s.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	s.address = strings.TrimSpace(address)
	return s
}

// used returns the processor time of the child so far.
func (s *subject) used(b *testing.B) time.Duration {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		b.Fatal(err)
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(n)
}

// round sends n requests from all clients together, and records the figures.
func (s *subject) round(b *testing.B, n int) {
	before, start := s.used(b), time.Now()
	var wg sync.WaitGroup
	each := n/len(s.send) + 1
	for _, send := range s.send {
		wg.Go(func() {
			for range each {
				if err := send(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	total := float64(each * len(s.send))
	s.cpu = append(s.cpu, float64(s.used(b)-before)/total/1000)
	s.rate = append(s.rate, total/took.Seconds())
}

// newHTTPClient returns a cheap client: it sends the same bytes each time, and
// reads as many bytes as the first response had.
func newHTTPClient(b *testing.B, address string) (func() error, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() { conn.Close() })
	body := `{"tuple_key":{"user":"user:01HVMMBCMGZNT3SED4Z17ECXCA","relation":"viewer","object":"document:01HVMMBCMGZNT3SED4Z17ECXCB"}}`
	request := []byte("POST /stores/01HVMMBCMGZNT3SED4Z17ECXCA/check HTTP/1.1\r\nHost: " + address + "\r\nAuthorization: Bearer " + secret +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	first := make([]byte, 4096)
	n, err := conn.Read(first)
	if err != nil || !bytes.HasPrefix(first, []byte("HTTP/1.1 200 ")) || !bytes.HasSuffix(first[:n], answer) {
		return nil, fmt.Errorf("%w: %s", err, first[:n])
	}
	got := make([]byte, n)
	return func() error {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !bytes.HasSuffix(got, answer) {
			return fmt.Errorf("%s", got)
		}
		return nil
	}, nil
}

// newGRPCClient returns a client of the Echo method.
func newGRPCClient(b *testing.B, address string) (func() error, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() { conn.Close() })
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+secret)
	in := wrapperspb.String(strings.Repeat("x", 120))
	send := func() error {
		var out wrapperspb.StringValue
		return conn.Invoke(ctx, "/test.Echo/Echo", in, &out)
	}
	return send, send()
}

// BenchmarkServer compares a bare server with a door that does the same work
// behind this package, with metrics. The two run as processes of their own and
// take turns. Run it with -benchtime 200000x.
func BenchmarkServer(b *testing.B) {
	const pairs = 7
	for _, c := range []struct{ name, bare, ours string }{
		{"http bounds", "bare", "bounds"}, {"http", "bare", "door"}, {"http keys", "bare", "keys"}, {"grpc", "bare grpc", "door grpc"}, {"grpc keys", "bare grpc", "keys grpc"},
	} {
		b.Run(c.name, func(b *testing.B) {
			bare, ours := launch(b, c.bare), launch(b, c.ours)
			for _, s := range []*subject{bare, ours} {
				s.round(b, 2000) // warm up
				s.cpu, s.rate = nil, nil
			}
			b.ResetTimer()
			for range pairs {
				bare.round(b, b.N/pairs)
				ours.round(b, b.N/pairs)
			}
			var cpu, rate []float64
			for i := range pairs {
				cpu = append(cpu, ours.cpu[i]-bare.cpu[i])
				rate = append(rate, ours.rate[i]/bare.rate[i])
			}
			b.ReportMetric(median(bare.cpu), "bare-µs/req")
			b.ReportMetric(median(ours.cpu), "ours-µs/req")
			b.ReportMetric(median(cpu), "more-µs/req")
			b.ReportMetric(slices.Min(cpu), "more-min")
			b.ReportMetric(slices.Max(cpu), "more-max")
			b.ReportMetric(median(rate), "rate-ratio")
			b.ReportMetric(median(bare.rate), "bare-req/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// BenchmarkHandler measures the handler of this package without a network.
func BenchmarkHandler(b *testing.B) {
	for _, c := range []struct {
		name string
		h    http.Handler
	}{{"bare", http.HandlerFunc(noop)}, {"ours", newNoop(b).Handler()}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			serve := serveAgain(b, c.h)
			for b.Loop() {
				serve()
			}
		})
	}
}

// TestHandlerAllocates: a request allocates twice before its door gets it, for the request
// itself and for the copy that net/http makes of its own.
func TestHandlerAllocates(t *testing.T) {
	if n := testing.AllocsPerRun(1000, serveAgain(t, newNoop(t).Handler())); n > 2 {
		t.Errorf("%v allocations, want 2", n)
	}
}

func newNoop(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: []*door.Door{noopDoor()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serveAgain returns a function that serves the same request each time.
func serveAgain(t testing.TB, h http.Handler) func() {
	t.Helper()
	r, err := http.NewRequest("POST", "http://localhost/stores/01HVMMBCMGZNT3SED4Z17ECXCA/check", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = r.URL.Path
	body := bytes.NewReader(make([]byte, 125))
	r.Body, r.ContentLength = io.NopCloser(body), 125
	w := discard{}
	return func() {
		clear(w)
		body.Seek(0, io.SeekStart)
		h.ServeHTTP(w, r)
	}
}

// discard is a response writer that drops what is written.
type discard http.Header

func (d discard) Header() http.Header         { return http.Header(d) }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
