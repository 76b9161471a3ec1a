package serve

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	values "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/trail/traces"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// traceReceiver is the receiving end of OTLP, over HTTP and gRPC.
type traceReceiver struct {
	collector.UnimplementedTraceServiceServer
	mu       sync.Mutex
	status   int           // the answer over HTTP; 0 is 200
	refuses  int64         // how many spans of each request it refuses
	hangs    chan struct{} // requests wait until it is closed; nil waits for nothing
	requests int
	spans    []*spans.Span
	resource map[string]string
	header   string // "secret" of the last request
	raw      []byte // all requests that were taken
}

// Export implements [collector.TraceServiceServer].
func (c *traceReceiver) Export(ctx context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if md, _ := metadata.FromIncomingContext(ctx); md != nil {
		c.header = strings.Join(md["secret"], " ")
	}
	raw, err := proto.Marshal(in)
	c.raw = append(c.raw, raw...)
	for _, resource := range in.ResourceSpans {
		c.resource = attributesOf(resource.Resource.Attributes)
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	out := &collector.ExportTraceServiceResponse{}
	if c.refuses > 0 {
		out.PartialSuccess = &collector.ExportTracePartialSuccess{RejectedSpans: c.refuses, ErrorMessage: "too (many"}
	}
	return out, err
}

func (c *traceReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	status, hangs := c.status, c.hangs
	c.header = r.Header.Get("secret")
	c.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	data, err := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	switch {
	case status != 0:
		http.Error(w, "the collector is down", status)
	case err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &in) != nil:
		http.Error(w, "no export of traces", http.StatusBadRequest)
	default:
		answer, _ := c.Export(context.Background(), &in)
		out, _ := proto.Marshal(answer)
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(out)
	}
}

// set changes the receiver.
func (c *traceReceiver) set(change func(*traceReceiver)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// tracing is a tracer with its receiver.
type tracing struct {
	*tracer
	t        testing.TB
	receiver *traceReceiver
	log      *bytes.Buffer
	logging  sync.Mutex
}

// startTracing starts a receiver, and a tracer with variables, for example "TRACES_SAMPLER=always_on".
func startTracing(t testing.TB, content, overGRPC bool, variables ...string) *tracing {
	t.Helper()
	x := &tracing{t: t, receiver: &traceReceiver{}, log: &bytes.Buffer{}}
	s := httptest.NewServer(x.receiver)
	t.Cleanup(s.Close)
	endpoint := s.URL
	if overGRPC {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		rpc := grpc.NewServer()
		collector.RegisterTraceServiceServer(rpc, x.receiver)
		go rpc.Serve(l)
		t.Cleanup(rpc.Stop)
		endpoint = "http://" + l.Addr().String()
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv("OTEL_"+name, value)
	}
	settings, err := readTraceSettings(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	x.tracer, err = newTracer(settings, "node1", content, slog.New(slog.NewTextHandler(lockedWriter{&x.logging, x.log}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.tracer.Close)
	return x
}

// take returns the spans since the call before.
func (x *tracing) take() (out []*spans.Span) {
	x.t.Helper()
	if err := x.provider.ForceFlush(context.Background()); err != nil {
		x.t.Fatal(err)
	}
	x.receiver.set(func(c *traceReceiver) { out, c.spans = c.spans, nil })
	return out
}

// await returns the spans since the call before, once there are n of the servers: a request
// may be answered before its span ends.
func (x *tracing) await(n int) (out []*spans.Span) {
	x.t.Helper()
	wait.Until(x.t, fmt.Sprintf("%d requests are traced", n), func() bool {
		out = append(out, x.take()...)
		return len(ofKind(out, spans.Span_SPAN_KIND_SERVER)) >= n
	})
	return out
}

func ofKind(all []*spans.Span, kind spans.Span_SpanKind) []*spans.Span {
	return slices.DeleteFunc(slices.Clone(all), func(s *spans.Span) bool { return s.Kind != kind })
}

// named returns the only span with a name.
func named(t testing.TB, all []*spans.Span, name string) *spans.Span {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(s *spans.Span) bool { return s.Name != name })
	if len(found) != 1 {
		t.Fatalf("%d spans %q in %v", len(found), name, all)
	}
	return found[0]
}

// tracedServer is a server with all doors whose requests are traced.
type tracedServer struct {
	*everyDoor
	*tracing
	store      string
	http, grpc string
}

// startTraced starts a server, with one key unless change removes it, and a store in which anne
// may view doc:plan by a group.
func startTraced(t testing.TB, x *tracing, change func(*server.Options)) *tracedServer {
	t.Helper()
	o := server.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), DrainTime: -1, RequestTimeout: time.Minute, Tracer: x.tracer,
		Keys: must(server.NewKeys([]server.Key{{Name: "walker", Secret: walkerKey}}))(t)}
	if change != nil {
		change(&o)
	}
	options := ostiary.Options{Driver: memory.New(), Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}}
	if o.Tracer != nil {
		options.Record = authz.RecordingOptions{Step: traceStep, Decided: decidedIn(nil, x.content)}
	}
	e := must(ostiary.Open(context.Background(), options))(t)
	t.Cleanup(func() { e.Close() })
	o.Engine, o.Doors = e, must(AllDoors(e, &DoorFlags{}))(t)
	s := &tracedServer{tracing: x}
	srv := must(server.New(o))(t)
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	s.http, s.grpc = "http://"+srv.Addresses()[0].Addr.String(), srv.Addresses()[1].Addr.String()
	made := must(e.CreateStore(context.Background(), ostiary.CreateStoreRequest{Name: "acme"}))(t)
	s.store = made.ID().String()
	s.post(walkerKey, "/stores/"+s.store+"/authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"},
		{"type":"group","relations":{"member":{"this":{}}},"metadata":{"relations":{"member":{"directly_related_user_types":[{"type":"user"}]}}}},
		{"type":"doc","relations":{"viewer":{"this":{}}},"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"group","relation":"member"}]}}}}]}`, nil)
	s.post(walkerKey, "/stores/"+s.store+"/write", `{"writes":{"tuple_keys":[{"user":"user:anne","relation":"member","object":"group:staff"},{"user":"group:staff#member","relation":"viewer","object":"doc:plan"}]}}`, nil)
	return s
}

// post sends a request and returns its status.
func (s *tracedServer) post(key, path, body string, header http.Header) int {
	s.tracing.t.Helper()
	r := must(http.NewRequest("POST", s.http+path, strings.NewReader(body)))(s.tracing.t)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	response := must(http.DefaultClient.Do(r))(s.tracing.t)
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

const tracedCheck = `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:plan"}}`

// check asks a question over HTTP with a header traceparent.
func (s *tracedServer) check(key, parent string) int {
	s.tracing.t.Helper()
	header := http.Header{}
	if parent != "" {
		header.Set("traceparent", parent)
	}
	return s.post(key, "/stores/"+s.store+"/check", tracedCheck, header)
}

// checkRPC asks it over gRPC.
func (s *tracedServer) checkRPC(key, parent string) error {
	t := s.tracing.t
	conn := must(grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "traceparent", parent)
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	_, err := openfgav1.NewOpenFGAServiceClient(conn).Check(ctx, &openfgav1.CheckRequest{StoreId: s.store, TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "viewer", Object: "doc:plan"}})
	return err
}

const (
	ofTrace       = "0af7651916cd43dd8448eb211c80319c"
	ofSpan        = "b7ad6b7169203331"
	parentSampled = "00-" + ofTrace + "-" + ofSpan + "-01"
	parentNot     = "00-" + ofTrace + "-" + ofSpan + "-00"
)

// TestTraces asks a question and writes, over HTTP and gRPC, with both protocols of the exporter.
// The spans of the requests and of their parts have the parents, names and figures that they
// should have.
func TestTraces(t *testing.T) {
	for _, exporterGRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("exporter over gRPC %t", exporterGRPC), func(t *testing.T) {
			x := startTracing(t, false, exporterGRPC, "TRACES_SAMPLER=parentbased_always_off", "SERVICE_NAME=door", "RESOURCE_ATTRIBUTES=team=a%20b", "EXPORTER_OTLP_HEADERS=secret=open%20sesame")
			s := startTraced(t, x, nil)
			if got := x.take(); len(got) != 0 {
				t.Errorf("without a parent there are the spans %v", got)
			}
			for _, rpc := range []bool{false, true} {
				name, attributes := "POST /stores/{store_id}/check", map[string]string{"http.request.method": "POST", "http.route": "/stores/{store_id}/check", "http.response.status_code": "200",
					"ostiary.door": "openfga", "ostiary.operation": "Check"}
				if rpc {
					name, attributes = "openfga.v1.OpenFGAService/Check", map[string]string{"rpc.system.name": "grpc", "rpc.method": "openfga.v1.OpenFGAService/Check", "rpc.response.status_code": "OK",
						"ostiary.door": "openfga", "ostiary.operation": "OpenFGAService.Check"}
					if err := s.checkRPC(walkerKey, parentSampled); err != nil {
						t.Fatal(err)
					}
				} else if got := s.check(walkerKey, parentSampled); got != 200 {
					t.Fatalf("status %d", got)
				}
				got := x.await(1)
				request, check := named(t, got, name), named(t, got, "check")
				if hex.EncodeToString(request.TraceId) != ofTrace || hex.EncodeToString(request.ParentSpanId) != ofSpan || request.Kind != spans.Span_SPAN_KIND_SERVER {
					t.Errorf("the span of the request is %v", request)
				}
				if a := attributesOf(request.Attributes); fmt.Sprint(a) != fmt.Sprint(attributes) {
					t.Errorf("its attributes are %v, expected %v", a, attributes)
				}
				if !bytes.Equal(check.ParentSpanId, request.SpanId) || !bytes.Equal(check.TraceId, request.TraceId) || check.StartTimeUnixNano < request.StartTimeUnixNano || check.EndTimeUnixNano > request.EndTimeUnixNano {
					t.Errorf("the span of the check is %v", check)
				}
				if a, want := attributesOf(check.Attributes), "map[ostiary.conditions:0 ostiary.depth:1 ostiary.nodes:2 ostiary.probes:1 ostiary.result:true]"; fmt.Sprint(a) != want {
					t.Errorf("its attributes are %v, expected %s", a, want)
				}
			}
			if got := s.post(walkerKey, "/stores/"+s.store+"/write", `{"writes":{"tuple_keys":[{"user":"user:bob","relation":"member","object":"group:staff"}]}}`, http.Header{"Traceparent": {parentSampled}}); got != 200 {
				t.Fatalf("status %d", got)
			}
			got := x.await(1)
			request, commit, appended := named(t, got, "POST /stores/{store_id}/write"), named(t, got, "commit"), named(t, got, "append")
			if !bytes.Equal(commit.ParentSpanId, request.SpanId) || !bytes.Equal(appended.ParentSpanId, commit.SpanId) {
				t.Errorf("the parents are wrong: %v", got)
			}
			a, c := attributesOf(appended.Attributes), attributesOf(commit.Attributes)
			if a["ostiary.group.writers"] != "1" || a["ostiary.group.entries"] != "1" || len(a["ostiary.group.bytes"]) < 2 || c["ostiary.group.writers"] != "1" || c["ostiary.wait_us"] == "" {
				t.Errorf("append %v, commit %v", a, c)
			}
			if r := x.receiver.resource; r["service.name"] != "door" || r["service.instance.id"] != "node1" || r["team"] != "a b" || x.receiver.header != "open sesame" {
				t.Errorf("resource %v, header %q", r, x.receiver.header)
			}
			if x.exporter.dropped.Load() != 0 || x.exporter.exported.Load() != 7 {
				t.Errorf("%d spans were dropped, %d exported", x.exporter.dropped.Load(), x.exporter.exported.Load())
			}
		})
	}
}

// TestTracesParents sends headers that name a parent, well formed or not, and of callers that
// are known or not. Nothing that an unknown one sends decides what is traced.
func TestTracesParents(t *testing.T) {
	x := startTracing(t, false, false, "TRACES_SAMPLER=parentbased_always_off")
	s := startTraced(t, x, nil)
	for _, c := range []struct {
		key, parent string
		traced      bool
	}{
		{walkerKey, parentSampled, true},
		{walkerKey, parentNot, false},
		{walkerKey, "", false},
		{"", parentSampled, false},
		{"wrong", parentSampled, false},
		{walkerKey, "00-" + strings.Repeat("0", 32) + "-" + ofSpan + "-01", false},
		{walkerKey, "00-" + ofTrace + "-" + strings.Repeat("0", 16) + "-01", false},
		{walkerKey, "ff-" + ofTrace + "-" + ofSpan + "-01", false},
		{walkerKey, "00-" + strings.ToUpper(ofTrace) + "-" + ofSpan + "-01", false},
		{walkerKey, parentSampled + "-more", false},
		{walkerKey, "01-" + ofTrace + "-" + ofSpan + "-01-more", true}, // a later version
		{walkerKey, strings.Repeat("0", 10_000), false},
		{walkerKey, parentSampled[:40], false},
	} {
		s.check(c.key, c.parent)
		s.checkRPC(c.key, c.parent)
		if c.traced {
			x.await(2)
			continue
		}
		s.check(walkerKey, parentSampled) // what came before has ended
		if got := x.await(1); len(ofKind(got, spans.Span_SPAN_KIND_SERVER)) != 1 {
			t.Errorf("key %q, parent %.60q: traced", c.key, c.parent)
		}
	}
	for _, state := range []string{"a=1", strings.Repeat("x", 200) + "=" + strings.Repeat("y", 250) + ",b=" + strings.Repeat("z", 200)} {
		s.post(walkerKey, "/stores/"+s.store+"/check", tracedCheck, http.Header{"Traceparent": {parentSampled}, "Tracestate": {state}})
		if got := named(t, x.await(1), "POST /stores/{store_id}/check").TraceState; (got == state) != (len(state) <= traceStateMax) {
			t.Errorf("the span has the state %q", got)
		}
	}
}

// TestTracesStrangers floods a server that traces each request with requests without a key. Few
// of them are traced, with ids of the server, and those of known callers all are.
func TestTracesStrangers(t *testing.T) {
	x := startTracing(t, false, false)
	s := startTraced(t, x, nil)
	x.await(2)
	began := time.Now()
	for range 100 {
		s.check("", parentSampled)
	}
	seconds := int(time.Since(began).Seconds()) + 2
	for range 20 {
		s.check(walkerKey, "")
	}
	got := ofKind(x.await(20), spans.Span_SPAN_KIND_SERVER)
	refused := 0
	for _, r := range got {
		if hex.EncodeToString(r.TraceId) == ofTrace {
			t.Error("a stranger has chosen the trace")
		}
		if a := attributesOf(r.Attributes); a["ostiary.refusal"] == "no_credentials" && a["http.response.status_code"] == "401" {
			refused++
		}
	}
	if len(got)-refused != 20 || refused == 0 || refused > seconds*strangersMax {
		t.Errorf("%d requests are traced, and %d of them refused in %d seconds", len(got), refused, seconds)
	}
}

// TestTracesWithoutKeys is TestTracesParents for a server without keys: a caller on this machine
// is known, and others are not.
func TestTracesWithoutKeys(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		x := startTracing(t, false, false, "TRACES_SAMPLER=parentbased_traceidratio", "TRACES_SAMPLER_ARG=0")
		s := startTraced(t, x, func(o *server.Options) { o.Keys, o.Anonymous = nil, anonymous })
		s.check("", parentSampled)
		s.checkRPC("", parentSampled)
		if !anonymous {
			x.await(2)
		} else if got := x.take(); len(got) > 0 {
			t.Errorf("an unknown caller is traced: %v", got)
		}
	}
}

// TestTracesContent plays every door over two nodes, and looks for what the requests have in the
// bytes that the collector gets: nothing without --traces-content.
func TestTracesContent(t *testing.T) {
	for _, content := range []bool{false, true} {
		x := startTracing(t, content, false, "BSP_MAX_QUEUE_SIZE=100000")
		for _, overGRPC := range []bool{false, true} {
			all := openNodes(t, 2, func(_ *DoorFlags, o *server.Options) { o.Tracer = x.tracer })
			playWrites(t, all, 1, overGRPC)
			x.take()
			n := all.nodes[0]
			names := []string{"anne", "bob", "carl", "viewer", "doc:", "walked", "secret", "ticket", "walker", "demo.Node", "onap.policies.Test", "urn:oasis", "127.0.0.1", storeOfWalk, n.id, n.user, n.identity}
			var raw []byte
			x.receiver.set(func(c *traceReceiver) { raw, c.raw = c.raw, nil })
			if len(raw) < 1000 {
				t.Fatalf("the collector has %d bytes", len(raw))
			}
			found := 0
			for _, name := range names {
				if name != "" && bytes.Contains(raw, []byte(name)) {
					found++
					if !content {
						t.Errorf("content=%t: the spans contain %q", content, name)
					}
				}
			}
			if content && found < 3 {
				t.Errorf("with content, the spans contain %d of the names", found)
			}
			if content && bytes.Contains(raw, []byte(n.identity)) {
				t.Error("the spans contain a token")
			}
		}
		s := startTraced(t, x, nil)
		if s.check(walkerKey, ""); content {
			if a := attributesOf(named(t, x.await(3), "check").Attributes); a["ostiary.store"] != s.store || a["ostiary.question"] != "doc:plan#viewer@user:anne" {
				t.Errorf("with content, a check has %v", a)
			}
		}
	}
}

// TestTracesOverNodes sends writes to a node that forwards them, over HTTP and gRPC. The spans of
// both nodes are one trace.
func TestTracesOverNodes(t *testing.T) {
	x := startTracing(t, false, false, "TRACES_SAMPLER=parentbased_always_off")
	all := openNodes(t, 2, func(_ *DoorFlags, o *server.Options) { o.Tracer = x.tracer })
	for _, sampled := range []bool{true, false} {
		parent := parentNot
		if sampled {
			parent = parentSampled
		}
		response, text := all.nodes[1].send("walker-key", "POST", "/stores", []byte(`{"name":"one"}`), http.Header{"Traceparent": {parent}})
		if response.StatusCode != 201 {
			t.Fatalf("status %d: %s", response.StatusCode, text)
		}
		conn := must(grpc.NewClient(all.nodes[1].grpc, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer walker-key", "traceparent", parent)
		if _, err := openfgav1.NewOpenFGAServiceClient(conn).CreateStore(ctx, &openfgav1.CreateStoreRequest{Name: "two"}); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if !sampled {
			if got := x.take(); len(got) > 0 {
				t.Errorf("a request that is not sampled is traced: %v", got)
			}
			continue
		}
		got := x.await(4)
		for _, name := range []string{"POST /stores", "openfga.v1.OpenFGAService/CreateStore"} {
			requests := slices.DeleteFunc(slices.Clone(got), func(s *spans.Span) bool { return s.Name != name })
			if len(requests) != 2 {
				t.Fatalf("%d spans %s in %v", len(requests), name, got)
			}
			slices.SortFunc(requests, func(a, b *spans.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
			first, second := requests[0], requests[1]
			i := slices.IndexFunc(got, func(s *spans.Span) bool { return s.Name == "forward" && bytes.Equal(s.ParentSpanId, first.SpanId) })
			if i < 0 || !bytes.Equal(second.ParentSpanId, got[i].SpanId) || hex.EncodeToString(first.ParentSpanId) != ofSpan || hex.EncodeToString(second.TraceId) != ofTrace {
				t.Fatalf("%s: the parents are wrong in %v", name, got)
			}
			if node := attributesOf(got[i].Attributes)["ostiary.node"]; node != all.nodes[0].driver.Node().String() {
				t.Errorf("the request was forwarded to %q", node)
			}
			if a := attributesOf(second.Attributes); a["ostiary.forwarded"] != "true" {
				t.Errorf("the second span has %v", a)
			}
		}
	}
}

// TestTracesCollector sends requests while the collector refuses spans, hangs and is back. All
// requests are answered, what waits is bounded, and what is lost is counted.
func TestTracesCollector(t *testing.T) {
	x := startTracing(t, false, false, "BSP_MAX_QUEUE_SIZE=20", "BSP_MAX_EXPORT_BATCH_SIZE=5", "BSP_EXPORT_TIMEOUT=600000", "EXPORTER_OTLP_TIMEOUT=600000", "BSP_SCHEDULE_DELAY=10")
	s := startTraced(t, x, nil)
	x.take()
	e := x.exporter
	ask := func(n int) {
		t.Helper()
		for range n {
			if got := s.check(walkerKey, ""); got != 200 {
				t.Fatalf("status %d", got)
			}
		}
	}
	settled := func(what string) {
		t.Helper()
		wait.Until(t, what, func() bool { return e.waiting.Load() == 0 })
	}
	settled("what came first is exported")
	before := e.exported.Load()
	x.receiver.set(func(c *traceReceiver) { c.status = http.StatusBadRequest })
	ask(10)
	wait.Until(t, "the refused spans are counted", func() bool { return e.dropped.Load() == 20 })
	if e.exported.Load() != before || e.failing.Load() != 1 {
		t.Errorf("%d spans were exported, failing %d", e.exported.Load()-before, e.failing.Load())
	}
	hangs := make(chan struct{})
	x.receiver.set(func(c *traceReceiver) { c.status, c.hangs = 0, hangs })
	ask(100)
	wait.Until(t, "all spans are counted", func() bool { return e.dropped.Load()+uint64(e.waiting.Load()) == 20+200 })
	if n := e.waiting.Load(); n > 20 {
		t.Errorf("%d spans wait, expected at most 20", n)
	}
	lost := e.dropped.Load()
	x.receiver.set(func(c *traceReceiver) { c.hangs = nil })
	close(hangs)
	settled("the collector is back")
	if got := e.exported.Load() - before; got != 220-lost || e.failing.Load() != 0 {
		t.Errorf("%d spans were exported, expected %d; failing %d", got, 220-lost, e.failing.Load())
	}
	x.receiver.set(func(c *traceReceiver) { c.refuses = 1 })
	ask(1)
	wait.Until(t, "a refused span is counted", func() bool { return e.dropped.Load() > lost && e.waiting.Load() == 0 })
	x.logging.Lock()
	text := x.log.String()
	x.logging.Unlock()
	if n := strings.Count(text, "traces cannot be exported"); n != 1 || !strings.Contains(text, "the collector is down") || strings.Count(text, "traces can be exported again") != 1 {
		t.Errorf("the log has %d lines about the failure:\n%s", n, text)
	}
	hangs = make(chan struct{})
	x.receiver.set(func(c *traceReceiver) { c.hangs = hangs })
	t.Cleanup(func() { close(hangs) })
	ask(10) // Close of the tracer must return nevertheless
}

// TestTracesParts makes more parts than a request may have.
func TestTracesParts(t *testing.T) {
	x := startTracing(t, false, false)
	request := x.Begin(&traces.Request{Start: time.Now(), Method: "POST", Door: "native", Known: true, Header: http.Header{}})
	ctx := context.WithValue(t.Context(), traces.Key{}, request)
	for range partsMax + 44 {
		if _, end := traceStep(ctx, "check"); end != nil {
			end(nil)
		}
	}
	request.End()
	got := x.take()
	if a := attributesOf(named(t, got, "POST").Attributes); len(got) != partsMax+1 || a["ostiary.parts_left_out"] != "44" {
		t.Errorf("%d spans, and the request has %v", len(got), a)
	}
}

// TestTraceErrors ends a part with errors of the engine. Only with content there is a message.
func TestTraceErrors(t *testing.T) {
	for _, content := range []bool{false, true} {
		x := startTracing(t, content, false)
		for kind, err := range map[string]error{"Depth": fmt.Errorf("check of anne: %w", &authz.BoundError{Name: "Depth"}), "timeout": context.DeadlineExceeded, "canceled": context.Canceled, "_OTHER": fmt.Errorf("anne\xff")} {
			request := x.Begin(&traces.Request{Start: time.Now(), Route: "a/b", Door: "native", Known: true, Header: http.Header{}})
			_, end := traceStep(context.WithValue(t.Context(), traces.Key{}, request), "check")
			end(err)
			request.End()
			s := named(t, x.take(), "check")
			if a := attributesOf(s.Attributes); a["error.type"] != kind || s.Status.Code != spans.Status_STATUS_CODE_ERROR || (s.Status.Message != "") != content {
				t.Errorf("%v: the part has %v and the status %v", err, a, s.Status)
			}
		}
	}
}

// TestTraceSettings reads variables. An error names the variable, the value and what is
// expected, and never a secret.
func TestTraceSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for _, c := range []struct {
		variables string // separated by spaces
		want      string // the error; "off", or "on" with the sampler
	}{
		{"", "off"},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=b OTEL_TRACES_SAMPLER=no", "off"},
		{endpoint, "on ParentBased{root:AlwaysOnSampler"},
		{"OTEL_TRACES_EXPORTER=otlp", "on ParentBased{root:AlwaysOnSampler"},
		{"OTEL_TRACES_EXPORTER=none " + endpoint, "off"},
		{"OTEL_SDK_DISABLED=true " + endpoint, "off"},
		{"OTEL_SDK_DISABLED=false OTEL_TRACES_EXPORTER= " + endpoint, "on"},
		{endpoint + " OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.01", "on ParentBased{root:TraceIDRatioBased{0.01}"},
		{endpoint + " OTEL_TRACES_SAMPLER=always_off OTEL_TRACES_SAMPLER_ARG=x", "on AlwaysOffSampler"},
		{"OTEL_SDK_DISABLED=yes", `invalid OTEL_SDK_DISABLED "yes": expected false or true`},
		{"OTEL_TRACES_EXPORTER=zipkin", `invalid OTEL_TRACES_EXPORTER "zipkin": expected otlp or none`},
		{endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=http/json", `invalid OTEL_EXPORTER_OTLP_PROTOCOL "http/json": expected http/protobuf or grpc`},
		{endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=x OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "on"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=127.0.0.1:4317", `invalid OTEL_EXPORTER_OTLP_TRACES_ENDPOINT "127.0.0.1:4317": expected a URL without a user, for example http://127.0.0.1:4318`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:hush@host", `invalid OTEL_EXPORTER_OTLP_ENDPOINT (not shown: it may have a password): expected a URL without a user, for example http://127.0.0.1:4318`},
		{endpoint + " OTEL_EXPORTER_OTLP_HEADERS=a=1,hush", "invalid OTEL_EXPORTER_OTLP_HEADERS: entry 2 (not shown: it may be a secret): expected NAME=VALUE, with a comma between two entries and %XX for other characters"},
		{endpoint + " OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=hush%0Ab", "invalid OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 1 (not shown: it may be a secret): expected NAME=VALUE, with a comma between two entries and %XX for other characters"},
		{endpoint + " OTEL_EXPORTER_OTLP_CERTIFICATE=" + file, "invalid OTEL_EXPORTER_OTLP_CERTIFICATE \"" + file + "\": expected a PEM file with certificates of authorities: it has no certificate"},
		{endpoint + " OTEL_EXPORTER_OTLP_TIMEOUT=10s", `invalid OTEL_EXPORTER_OTLP_TIMEOUT "10s": expected a whole number from 1 to 1073741824`},
		{endpoint + " OTEL_EXPORTER_OTLP_COMPRESSION=zstd", `invalid OTEL_EXPORTER_OTLP_COMPRESSION "zstd": expected none or gzip`},
		{endpoint + " OTEL_TRACES_SAMPLER=jaeger_remote", `invalid OTEL_TRACES_SAMPLER "jaeger_remote": expected parentbased_always_on, parentbased_always_off, parentbased_traceidratio, always_on, always_off or traceidratio`},
		{endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=1.5", `invalid OTEL_TRACES_SAMPLER_ARG "1.5": expected a number from 0 to 1`},
		{endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", `invalid OTEL_TRACES_SAMPLER_ARG "NaN": expected a number from 0 to 1`},
		{endpoint + " OTEL_PROPAGATORS=tracecontext,b3", `invalid OTEL_PROPAGATORS "tracecontext,b3": expected tracecontext, baggage or none, with commas between them`},
		{endpoint + " OTEL_BSP_MAX_QUEUE_SIZE=0", `invalid OTEL_BSP_MAX_QUEUE_SIZE "0": expected a whole number from 1 to 1048576`},
		{endpoint + " OTEL_BSP_MAX_QUEUE_SIZE=10 OTEL_BSP_MAX_EXPORT_BATCH_SIZE=11", `invalid OTEL_BSP_MAX_EXPORT_BATCH_SIZE "11": expected at most 10, the value of OTEL_BSP_MAX_QUEUE_SIZE`},
		{endpoint + " OTEL_BSP_SCHEDULE_DELAY=-1", `invalid OTEL_BSP_SCHEDULE_DELAY "-1": expected a whole number from 1 to 1073741824`},
		{endpoint + " OTEL_RESOURCE_ATTRIBUTES=a", `invalid OTEL_RESOURCE_ATTRIBUTES "a": expected NAME=VALUE, with a comma between two entries and %XX for other characters`},
	} {
		variables := map[string]string{}
		for v := range strings.FieldsSeq(c.variables) {
			name, value, _ := strings.Cut(v, "=")
			variables[name] = value
		}
		got, err := readTraceSettings(func(name string) (string, bool) { value, ok := variables[name]; return value, ok })
		text := "off"
		switch {
		case err != nil:
			text = err.Error()
		case got != nil:
			text = "on " + got.sampler.Description()
		}
		if text != c.want && (err != nil || !strings.HasPrefix(text, c.want)) || strings.Contains(text, "hush") {
			t.Errorf("%s: %s, expected %s", c.variables, text, c.want)
		}
	}
}

// attributesOf returns attributes as text.
func attributesOf(all []*values.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		switch v := a.Value.Value.(type) {
		case *values.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *values.AnyValue_IntValue:
			out[a.Key] = fmt.Sprint(v.IntValue)
		case *values.AnyValue_BoolValue:
			out[a.Key] = fmt.Sprint(v.BoolValue)
		default:
			out[a.Key] = fmt.Sprint(v)
		}
	}
	return out
}

// sending is a transport that keeps the headers traceparent of all requests, by their paths.
type sending map[string]string

func (s sending) RoundTrip(r *http.Request) (*http.Response, error) {
	s[r.URL.Path] = r.Header.Get("Traceparent")
	return http.DefaultTransport.RoundTrip(r)
}

// TestTracesOfParts verifies a token of a provider and makes a hash of a password in a traced
// request. Both are parts of it; the provider gets the header of the trace, unless
// OTEL_PROPAGATORS is none.
func TestTracesOfParts(t *testing.T) {
	for _, propagators := range []string{"tracecontext,baggage", "none"} {
		x := startTracing(t, false, false, "PROPAGATORS="+propagators)
		provider, sent := issuers.NewProvider(t), sending{}
		request := x.Begin(&traces.Request{Start: time.Now(), Method: "POST", Door: "keystone", Known: true, Header: http.Header{"Traceparent": {parentSampled}}})
		ctx := context.WithValue(t.Context(), traces.Key{}, request)
		v := oidc.New([]oidc.Issuer{{URL: provider.URL, Audiences: []string{"a"}}}, oidc.Options{Transport: sent})
		now := time.Now().Unix()
		if _, err := v.Verify(ctx, provider.Sign(map[string]any{"iss": provider.URL, "aud": "b", "sub": "anne", "exp": now + 60, "iat": now}, -1)); err == nil {
			t.Error("a token for others is accepted")
		}
		if _, err := password.NewPool(password.PoolOptions{}).Hash(ctx, "secret", password.RoundsMin); err != nil {
			t.Fatal(err)
		}
		request.End()
		got := x.take()
		own, get, hash := named(t, got, "POST"), named(t, got, "GET"), named(t, got, "hash")
		if !bytes.Equal(get.ParentSpanId, own.SpanId) || !bytes.Equal(hash.ParentSpanId, own.SpanId) || attributesOf(hash.Attributes)["ostiary.wait_us"] == "" || attributesOf(get.Attributes)["server.address"] != "127.0.0.1" {
			t.Errorf("the parts are %v and %v", get, hash)
		}
		parent := ""
		if propagators != "none" {
			parent = "00-" + ofTrace + "-" + hex.EncodeToString(get.SpanId) + "-01"
		}
		if got, asked := sent["/.well-known/openid-configuration"]; !asked || got != parent {
			t.Errorf("%s: the provider gets the header %q, expected %q", propagators, got, parent)
		}
		if follows := hex.EncodeToString(own.TraceId) == ofTrace; follows != (propagators != "none") {
			t.Errorf("%s: the request continues the trace: %t", propagators, follows)
		}
	}
}
