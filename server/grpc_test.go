package server_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

func TestRPC(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{BodyBytes: 1000})
	conn, short := r.dial(t), start(t, server.Options{RequestTimeout: 20 * time.Millisecond}).dial(t)
	ctx := context.Background()
	call := func(name, in string) (string, error) {
		var out wrapperspb.StringValue
		err := conn.Invoke(ctx, "/test.Echo/"+name, wrapperspb.String(in), &out)
		return out.Value, err
	}
	if got, err := call("Echo", "hello"); err != nil || got != "hello" {
		t.Error(got, err)
	}
	if err := short.Invoke(ctx, "/test.Echo/Wait", wrapperspb.String(""), &wrapperspb.StringValue{}); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	for _, name := range []string{"Panic", "Stream"} {
		if _, err := call(name, "panic"); status.Code(err)%1000 != codes.Code(door.Failed) || status.Convert(err).Message() != "echo: the server failed" {
			t.Error(name, err)
		}
	}
	if l := r.logs.String(); strings.Count(l, `"msg":"panic"`) != 2 || strings.Contains(l, "secret content") {
		t.Error(l)
	}
	// A string of 997 bytes is a message of 1,000 bytes.
	if got, err := call("Echo", strings.Repeat("x", 997)); err != nil || len(got) != 997 {
		t.Error(len(got), err)
	}
	if _, err := call("Echo", strings.Repeat("x", 998)); status.Code(err) != codes.Code(1000+uint32(door.TooLarge)) || !strings.Contains(err.Error(), "BodyBytes is 1000") {
		t.Error(err)
	}
	if got, err := call("Own", "hello"); err != nil || got != "hello" {
		t.Error("a message that decodes itself:", got, err)
	}
	if _, err := call("Own", ""); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "nothing to read") {
		t.Error("a message that fails to decode itself:", err)
	}
	if _, err := call("None", ""); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	h := healthpb.NewHealthClient(conn)
	for _, service := range []string{"", "test.Echo"} {
		if got, err := h.Check(ctx, &healthpb.HealthCheckRequest{Service: service}); err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
			t.Error(service, got, err)
		}
	}
	ri, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err == nil {
		err = ri.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}})
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := ri.Recv()
	if err != nil || len(got.GetListServicesResponse().GetService()) != 4 {
		t.Error(got, err)
	}
	if _, err := server.New(server.Options{GRPC: "127.0.0.1:0", Doors: []*door.Door{echoDoor(), {Name: "twin", Services: echoDoor().Services}}}); err == nil {
		t.Error("two doors with one service are accepted")
	}
	if got := r.metric(t, `ostiary_requests_total{door="echo",outcome="client_error",route="Echo.Panic",transport="grpc"}`); !strings.HasSuffix(got, " 1\n") {
		t.Errorf("%q", got)
	}
}

// streams opens n streams over some connections and waits until each has begun.
func streams(t testing.TB, r *running, n, conns int) (all []grpc.ClientStream) {
	t.Helper()
	all = make([]grpc.ClientStream, n)
	var wg sync.WaitGroup
	for c := range conns {
		conn := r.dial(t)
		wg.Go(func() {
			for i := c; i < n; i += conns {
				s, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/test.Echo/Stream")
				if err == nil {
					err = s.SendMsg(wrapperspb.String(""))
				}
				if err == nil {
					err = s.CloseSend()
				}
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = s
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, s := range all {
		var out wrapperspb.StringValue
		if err := s.RecvMsg(&out); err != nil || out.Value != "begin" {
			t.Fatal(out.Value, err)
		}
	}
	return all
}

// TestTenThousandStreams checks that the server answers requests while 10,000
// streams are open, and that its stop ends each of them without an error.
func TestTenThousandStreams(t *testing.T) {
	r := start(t, server.Options{StreamsMax: 10_000, StopTimeout: 50 * time.Second})
	all := streams(t, r, 10_000, 12)
	if got := r.metric(t, "ostiary_streams_in_flight"); strings.TrimSpace(got) != "ostiary_streams_in_flight 10000" {
		t.Error(got)
	}
	one, err := r.dial(t).NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/test.Echo/Stream")
	if err == nil {
		if err = one.SendMsg(wrapperspb.String("")); err == nil {
			err = one.RecvMsg(new(wrapperspb.StringValue))
		}
	}
	if status.Code(err) != codes.Code(3000+uint32(door.TooMany)) {
		t.Errorf("one more: %v", err)
	}
	if status, _, body := r.ask(t, "POST", "/echo", "still"); status != 200 || body != "still" {
		t.Error(status, body)
	}
	stopped := make(chan error, 1)
	r.EndStreams() // as a stop does after half of StopTimeout
	go func() { stopped <- r.stop() }()
	for _, s := range all {
		var out wrapperspb.StringValue
		if err := s.RecvMsg(&out); err != nil || out.Value != "end" {
			t.Fatal(out.Value, err)
		}
		if err := s.RecvMsg(&out); err != io.EOF {
			t.Fatal(err)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestPublicStreams checks the bounds of health watches by callers without a key: one on
// a connection, and a tenth of StreamsMax, in addition to the streams of callers with a
// key. A further one takes the place of the oldest.
func TestPublicStreams(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{StreamsMax: 20, Keys: keys(t, server.Key{Secret: "k"})})
	var watches []healthpb.Health_WatchClient
	for i := range 5 {
		h := healthpb.NewHealthClient(r.dial(t))
		for again := range 2 {
			watch, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			if want := []codes.Code{codes.OK, codes.ResourceExhausted}[again]; status.Code(err) != want {
				t.Errorf("watch %d on connection %d: %v, want %v", again, i, err, want)
			}
			if again == 0 {
				watches = append(watches, watch)
			}
		}
	}
	for i, watch := range watches[:3] {
		if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("watch %d, whose place others have taken: %v", i, err)
		}
	}
	r.awaits(t, "ostiary_streams_in_flight", "2")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer k")
	for i := range 21 {
		s, err := r.dial(t).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Echo/Stream")
		if err == nil {
			err = s.SendMsg(wrapperspb.String(""))
		}
		if err == nil {
			err = s.RecvMsg(new(wrapperspb.StringValue))
		}
		if (err == nil) != (i < 20) {
			t.Errorf("stream %d: %v", i, err)
		}
	}
}
