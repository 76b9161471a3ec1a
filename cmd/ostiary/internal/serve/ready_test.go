package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// slowDriver is a driver whose Load waits until gate is closed.
type slowDriver struct {
	storage.Driver
	gate chan struct{}
}

func (d *slowDriver) Load(ctx context.Context, id storage.StoreID, o storage.LoadOptions) (storage.State, error) {
	select {
	case <-d.gate:
		return d.Driver.Load(ctx, id, o)
	case <-ctx.Done():
		return storage.State{}, ctx.Err()
	}
}

// loadingServer is a server with all doors over a driver that does not load until
// gate is closed. It preloads its only store.
type loadingServer struct {
	store string // its id; "t1" is its alias for Permify
	gate  chan struct{}
	http  string
	rpc   *grpc.ClientConn
}

func startLoading(t *testing.T, bounds authz.Bounds, requestTimeout time.Duration) *loadingServer {
	t.Helper()
	ctx := context.Background()
	driver := memory.New()
	first, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	s, err := first.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "slow", Aliases: map[string]string{"permify": "t1"}})
	if err != nil {
		t.Fatal(err)
	}
	const model = "model\n  schema 1.1\ntype user\ntype document\n  relations\n    define viewer: [user]\n"
	source, _, err := language.ParseDSL([]byte(model))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: source}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer",
		Subject: rel.Subject{Type: "user", ID: "anne"}}}}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	slow := &slowDriver{driver, make(chan struct{})}
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: slow, Conditions: cli.Conditions(cel.Options{}), Bounds: bounds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return serveLoading(t, e, slow, s.ID(), requestTimeout)
}

func serveLoading(t *testing.T, e *ostiary.Engine, slow *slowDriver, id storage.StoreID, requestTimeout time.Duration) *loadingServer {
	t.Helper()
	ctx := context.Background()
	doors, err := AllDoors(e, &DoorFlags{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Store(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	srv, err := server.New(server.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Doors: doors, Log: log, RequestTimeout: requestTimeout, DrainTime: -1,
		Preload: func(ctx context.Context) { preload(ctx, e, []*ostiary.Store{s}, 0, log) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	out := &loadingServer{store: id.String(), gate: slow.gate, http: "http://" + srv.Addresses()[0].Addr.String()}
	if out.rpc, err = grpc.NewClient(srv.Addresses()[1].Addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.rpc.Close() })
	return out
}

// send sends a request and returns the status, Retry-After and the body.
func (s *loadingServer) send(t *testing.T, method, path, body string) (int, string, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, text := fetch(t, r)
	return resp.StatusCode, resp.Header.Get("Retry-After"), text
}

// fetch sends a request and returns the response with its body.
func fetch(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// healthOf returns gRPC's health of a service; "" is the whole server.
func (s *loadingServer) healthOf(t *testing.T, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	resp, err := healthpb.NewHealthClient(s.rpc).Check(context.Background(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status
}

// requests returns a request of each door, by a name: its method, path and body.
func (s *loadingServer) requests() map[string][3]string {
	return map[string][3]string{
		"openfga check":  {"POST", "/stores/" + s.store + "/check", `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"document:1"}}`},
		"openfga stream": {"POST", "/stores/" + s.store + "/streamed-list-objects", `{"user":"user:anne","relation":"viewer","type":"document"}`},
		"openfga batch": {"POST", "/stores/" + s.store + "/batch-check",
			`{"checks":[{"tuple_key":{"user":"user:anne","relation":"viewer","object":"document:1"},"correlation_id":"1"}]}`},
		"openfga write": {"POST", "/stores/" + s.store + "/write", `{"writes":{"tuple_keys":[{"user":"user:bob","relation":"viewer","object":"document:1"}]}}`},
		"permify check": {"POST", "/v1/tenants/t1/permissions/check",
			`{"metadata":{"depth":20},"entity":{"type":"document","id":"1"},"permission":"viewer","subject":{"type":"user","id":"anne"}}`},
		"permify stream": {"POST", "/v1/tenants/t1/permissions/lookup-entity-stream",
			`{"metadata":{"depth":20},"entity_type":"document","permission":"viewer","subject":{"type":"user","id":"anne"}}`},
		"authzen": {"POST", "/authzen/" + s.store + "/access/v1/evaluation",
			`{"subject":{"type":"user","id":"anne"},"action":{"name":"viewer"},"resource":{"type":"document","id":"1"}}`},
		"native check":  {"POST", "/ostiary/v1/stores/" + s.store + "/check", `{"subject":"user:anne","relation":"viewer","object":"document:1"}`},
		"native export": {"GET", "/ostiary/v1/stores/" + s.store + "/export", ""},
	}
}

// calls returns gRPC calls of each door, by a name.
func (s *loadingServer) calls() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"openfga check": func(ctx context.Context) error {
			_, err := openfgav1.NewOpenFGAServiceClient(s.rpc).Check(ctx, &openfgav1.CheckRequest{StoreId: s.store,
				TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "viewer", Object: "document:1"}})
			return err
		},
		"openfga stream": func(ctx context.Context) error {
			stream, err := openfgav1.NewOpenFGAServiceClient(s.rpc).StreamedListObjects(ctx, &openfgav1.StreamedListObjectsRequest{StoreId: s.store,
				User: "user:anne", Relation: "viewer", Type: "document"})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"permify check": func(ctx context.Context) error {
			_, err := permifypb.NewPermissionClient(s.rpc).Check(ctx, &permifypb.PermissionCheckRequest{TenantId: "t1",
				Metadata: &permifypb.PermissionCheckRequestMetadata{Depth: 20}, Entity: &permifypb.Entity{Type: "document", Id: "1"},
				Permission: "viewer", Subject: &permifypb.Subject{Type: "user", Id: "anne"}})
			return err
		},
	}
}

// refuses checks that every door refuses requests until the store is loaded, in a
// way that makes clients repeat them.
func (s *loadingServer) refuses(t *testing.T) {
	t.Helper()
	for name, r := range s.requests() {
		if status, after, body := s.send(t, r[0], r[1], r[2]); status != http.StatusServiceUnavailable || after != "1" || !strings.Contains(body, "loading") {
			t.Errorf("%s: status %d, Retry-After %q, %s; expected 503 and 1", name, status, after, body)
		}
	}
	for name, call := range s.calls() {
		got := status.Convert(call(context.Background()))
		retry := slices.ContainsFunc(got.Details(), func(d any) bool {
			info, ok := d.(*errdetails.RetryInfo)
			return ok && info.RetryDelay.AsDuration() == time.Second
		})
		if got.Code() != codes.Unavailable || !retry {
			t.Errorf("gRPC %s: %v with the details %v, expected UNAVAILABLE with RetryInfo", name, got, got.Details())
		}
	}
}

// TestReadyAfterPreload checks that a server is alive but not ready while its
// stores are loading, that each door refuses requests for them in the meantime,
// and that all of it works when they are loaded.
func TestReadyAfterPreload(t *testing.T) {
	t.Parallel()
	s := startLoading(t, authz.Bounds{LoadWait: 10 * time.Millisecond}, 0)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if status, _, body := s.send(t, "GET", path, ""); status != want {
			t.Errorf("%s while the store is loading: %d %s, expected %d", path, status, body, want)
		}
	}
	services := []string{"", "openfga.v1.OpenFGAService", "base.v1.Permission"}
	for _, service := range services {
		if got := s.healthOf(t, service); got != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health of %q while the store is loading: %v", service, got)
		}
	}
	s.refuses(t)
	close(s.gate)
	deadline := time.Now().Add(time.Minute)
	for status := 0; status != 200; {
		if status, _, _ = s.send(t, "GET", "/readyz", ""); time.Now().After(deadline) {
			t.Fatalf("/readyz is %d a minute after the load", status)
		}
	}
	for _, service := range services {
		for s.healthOf(t, service) != healthpb.HealthCheckResponse_SERVING {
			if time.Now().After(deadline) {
				t.Fatalf("the health of %q is not SERVING a minute after the load", service)
			}
		}
	}
	for name, r := range s.requests() {
		if status, _, body := s.send(t, r[0], r[1], r[2]); status != 200 {
			t.Errorf("%s: %d %s after the load", name, status, body)
		}
	}
	for name, call := range s.calls() {
		if err := call(context.Background()); err != nil {
			t.Errorf("gRPC %s: %v after the load", name, err)
		}
	}
}

// TestLoadingBeyondDeadline checks the same refusals if requests wait for the load
// until their deadline. A request whose deadline passes before it finds the store
// has the server's own refusal instead, and is repeated with a longer deadline.
func TestLoadingBeyondDeadline(t *testing.T) {
	t.Parallel()
	refused := map[string]bool{}
	for _, timeout := range []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second} {
		s := startLoading(t, authz.Bounds{}, timeout)
		early := 0
		for name, r := range s.requests() {
			if refused[name] || strings.Contains(name, "stream") || strings.Contains(name, "export") {
				continue // a stream has no deadline
			}
			status, after, body := s.send(t, r[0], r[1], r[2])
			switch {
			case status == http.StatusServiceUnavailable && after == "1":
				refused[name] = true
			case status == http.StatusGatewayTimeout && strings.Contains(body, "RequestTimeout"):
				early++
			default:
				t.Errorf("%s: status %d, Retry-After %q, %s; expected 503 and 1", name, status, after, body)
			}
		}
		const call = "gRPC permify check"
		if !refused[call] {
			got := status.Convert(s.calls()["permify check"](context.Background()))
			switch {
			case got.Code() == codes.Unavailable:
				refused[call] = true
			case got.Code() == codes.DeadlineExceeded && strings.Contains(got.Message(), "RequestTimeout"):
				early++
			default:
				t.Errorf("%s: %v, expected UNAVAILABLE", call, got)
			}
		}
		close(s.gate)
		if early == 0 {
			return
		}
		t.Logf("%d requests did not find the store within %v: %v", early, timeout, refused)
	}
	t.Error("some requests found no store within any deadline")
}

// TestRecent checks the list of recently used stores: its order, its bound, and
// that a damaged file is an empty list.
func TestRecent(t *testing.T) {
	t.Parallel()
	ids := make([]storage.StoreID, recentStoresMax+2)
	for i := range ids {
		ids[i] = storage.NewID(rel.Time(i))
	}
	if got := mergeRecent(ids[:3], []storage.StoreID{ids[2], ids[5]}); !slices.Equal(got, []storage.StoreID{ids[5], ids[2], ids[0], ids[1]}) {
		t.Errorf("%v of %v", got, ids[:6])
	}
	all := mergeRecent(ids[1:], ids[:1])
	if !slices.Equal(all, ids[:recentStoresMax]) {
		t.Errorf("%d ids, expected the first %d", len(all), recentStoresMax)
	}
	dir := t.TempDir()
	if err := writeRecent(dir, all); err != nil {
		t.Fatal(err)
	}
	if got := readRecent(dir); !slices.Equal(got, all) {
		t.Errorf("%d ids were read, expected the %d that were written", len(got), len(all))
	}
	if err := os.WriteFile(filepath.Join(dir, recentName), []byte("[1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readRecent(dir); got != nil {
		t.Errorf("a damaged list: %v", got)
	}
}
