package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// echoDoor returns a small door with its own shape of errors. Its routes echo,
// wait, panic and stream.
func echoDoor() *door.Door {
	d := &door.Door{Name: "echo", Prefixes: []string{"/echo"}}
	d.Missing = func(w http.ResponseWriter, r *http.Request, methods []string) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "echo: no %s, but %v", r.Method, methods)
	}
	d.Refuse = func(w http.ResponseWriter, r *http.Request, why *door.Refusal) {
		w.WriteHeader(why.Status())
		fmt.Fprintf(w, "echo: %v", why)
	}
	d.RefuseRPC = func(why *door.Refusal) error {
		return status.Error(codes.Code(1000+uint32(why.Reason)), "echo: "+why.Error())
	}
	d.RefuseStream = func(why *door.Refusal) error {
		return status.Error(codes.Code(3000+uint32(why.Reason)), "echo: "+why.Error())
	}
	d.Routes = []door.Route{
		{Method: "POST", Pattern: "/echo", Name: "Echo", BodyMax: 1000, Serve: echoBody},
		{Method: "POST", Pattern: "/echo/large", Name: "Large", Serve: echoBody},
		{Method: "POST", Pattern: "/echo/upload", Name: "Upload", Streams: true, Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, "%d bytes, %v", n, err)
		}},
		{Method: "GET", Pattern: "/echo/open", Name: "Open", Public: true, Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			io.WriteString(w, "open to all")
		}},
		{Method: "GET", Pattern: "/echo/caller", Name: "Caller", Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			c := door.CallerOf(r.Context())
			fmt.Fprintf(w, "%s %s", c.Method, c.ID)
		}},
		{Method: "GET", Pattern: "/echo/wait/{how}", Name: "Wait", Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
			ctx := r.Context()
			if p.At(0) == "poll" {
				for ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
			} else {
				<-ctx.Done()
			}
			_, has := ctx.Deadline()
			fmt.Fprintf(w, "%v %v", ctx.Err(), has)
		}},
		{Method: "GET", Pattern: "/echo/panic/{when}", Name: "Panic", Serve: func(w http.ResponseWriter, r *http.Request, p door.Params) {
			if p.At(0) != "early" {
				io.WriteString(w, "half of")
				w.(http.Flusher).Flush()
			}
			if p.At(0) == "left" {
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
			panic("the body was " + r.Header.Get("X-Content"))
		}},
		{Method: "GET", Pattern: "/echo/stream", Name: "Stream", Streams: true, Serve: echoStream},
		{Method: "POST", Pattern: "/echo/stream", Name: "Stream", Streams: true, Serve: echoStream},
		{Method: "GET", Pattern: "/echo/flood", Name: "Flood", Streams: true, Serve: func(w http.ResponseWriter, r *http.Request, _ door.Params) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		}},
	}
	d.Services = []door.Service{{Desc: &echoDesc, Impl: struct{}{}, Public: []string{"/test.Echo/Open"}}}
	return d
}

func echoBody(w http.ResponseWriter, r *http.Request, _ door.Params) {
	b, err := door.ReadBody(r)
	var why *door.Refusal
	if errors.As(err, &why) {
		w.WriteHeader(why.Status())
		fmt.Fprint(w, "echo: ", why)
		return
	}
	if err != nil {
		return // the client has disconnected
	}
	defer b.Free()
	w.Header().Set("Content-Type", "text/plain")
	w.Write(b.Bytes)
}

// echoStream sends one line, and another one when the stream ends.
func echoStream(w http.ResponseWriter, r *http.Request, _ door.Params) {
	io.Copy(io.Discard, r.Body)
	io.Copy(io.Discard, r.Body) // a decoder may read the end twice
	io.WriteString(w, "begin\n")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
	io.WriteString(w, "end\n")
}

var echoDesc = grpc.ServiceDesc{
	ServiceName: "test.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echoUnary("Echo")}, {MethodName: "Open", Handler: echoUnary("Open")},
		{MethodName: "Wait", Handler: echoUnary("Wait")}, {MethodName: "Panic", Handler: echoUnary("Panic")}, {MethodName: "Own", Handler: echoOwn}},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		var in wrapperspb.StringValue
		if err := s.RecvMsg(&in); err != nil {
			return err
		}
		if in.Value == "panic" {
			panic("secret content")
		}
		if err := s.SendMsg(wrapperspb.String("begin")); err != nil {
			return err
		}
		<-s.Context().Done()
		return s.SendMsg(wrapperspb.String("end"))
	}}},
}

func echoUnary(name string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		return intercept(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/test.Echo/" + name}, func(ctx context.Context, in any) (any, error) {
			switch name {
			case "Wait":
				<-ctx.Done()
				return nil, status.FromContextError(ctx.Err()).Err()
			case "Panic":
				panic("secret content")
			}
			if in.(*wrapperspb.StringValue).Value == "author" {
				a := authz.AuthorOf(ctx)
				return wrapperspb.String(a.Name + ": " + a.Reason), nil
			}
			c := door.CallerOf(ctx)
			return wrapperspb.String(in.(*wrapperspb.StringValue).Value + c.Method + c.ID), nil
		})
	}
}

// own is a message that decodes and encodes itself.
type own struct {
	*wrapperspb.StringValue
	data []byte
}

func (o *own) ReadProto(data []byte) error {
	if o.data = data; len(data) == 0 {
		return errors.New("nothing to read")
	}
	return nil
}

func (o *own) WriteProto() []byte { return o.data }

func echoOwn(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	in := &own{StringValue: &wrapperspb.StringValue{}}
	if err := decode(in); err != nil {
		return nil, err
	}
	return intercept(ctx, in, &grpc.UnaryServerInfo{FullMethod: "/test.Echo/Own"}, func(context.Context, any) (any, error) { return in, nil })
}

// logs collects the log of a server.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a server under test.
type running struct {
	*server.Server
	logs *logs
	at   map[string]string
	stop func() error
	// secured is true if all ports use TLS.
	secured bool
}

// start runs a server on free ports until the test ends.
func start(t testing.TB, o server.Options) *running {
	t.Helper()
	r := &running{logs: &logs{}, at: map[string]string{}, secured: o.TLS != nil}
	o.Log = slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.DrainTime == 0 {
		o.DrainTime = -1
	}
	if o.Doors == nil && o.Dedicated == nil {
		o.Doors = []*door.Door{echoDoor()}
	}
	const free = "127.0.0.1:0"
	if o.Dedicated == nil {
		o.HTTP, o.GRPC, o.Metrics = free, free, free
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx) }()
	r.Server = s
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections() // the stop would wait a second for a request on them
		r.stop()
	})
	for _, a := range s.Addresses() {
		r.at[a.Name] = a.Addr.String()
	}
	return r
}

func keys(t testing.TB, list ...server.Key) *server.Keys {
	t.Helper()
	k, err := server.NewKeys(list)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ask sends a request and returns the status, headers and body of the response.
func (r *running) ask(t testing.TB, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+r.at["http"]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return fetch(t, req)
}

// fetch sends a request and returns the status, headers and body of the response. It
// fails if there is none after a minute.
func fetch(t testing.TB, req *http.Request) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
	defer cancel()
	resp, err := http.DefaultClient.Do(req.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// metric returns the lines of /metrics with a prefix.
func (r *running) metric(t testing.TB, prefix string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+r.at["metrics"]+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, text := fetch(t, req)
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// connect opens a connection to the HTTP port, for at most a minute. It is closed at
// the end of the test.
func (r *running) connect(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.at["http"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

func (r *running) dial(t testing.TB, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(o) == 0 {
		o = append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(r.at["grpc"], o...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
