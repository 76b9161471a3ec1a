package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// endsModel has a condition that makes a check expensive.
const endsModel = `model
  schema 1.1
type user
type doc
  relations
    define viewer: [user]
    define maybe: [user with listed]
condition listed(x: int, l: list<int>) {
  x in l
}
`

// endsWorld is a server with clients that are slow on purpose. Nothing of it ends because
// of a time.
type endsWorld struct {
	*everyDoor
	registry *callers.Registry
	provider *issuers.Provider
	at       map[string]string // addresses
	rpc      *grpc.ClientConn
	numbers  []any // of the condition
}

const (
	endsDocs      = 30_000 // that anne may view; their names have more bytes than sockets keep
	endsQuestions = 10_000 // of a batch
)

// startEnds starts the server. If open is true, it accepts every caller until the first key is
// made.
func startEnds(t *testing.T, open bool) *endsWorld {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: memory.New(), Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	f := &DoorFlags{}
	f.openfga.BatchChecks, f.openfga.ListResults, f.openfga.ListTime = endsQuestions, endsDocs, time.Hour
	x := everyDoorOf(t, e, f)
	w := &endsWorld{everyDoor: x, provider: issuers.NewProvider(t), at: map[string]string{}}
	w.registry = callers.New(e, callers.Options{Doors: doorNames[:]})
	o := server.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Metrics: "127.0.0.1:0", Doors: x.doors, Callers: w.registry, CallersOptional: open, DrainTime: -1, Engine: e,
		TransferTime: time.Hour, RequestTimeout: time.Hour}
	if !open {
		o.Keys, o.Tokens = &server.Keys{}, oidc.New([]oidc.Issuer{{URL: w.provider.URL, Audiences: []string{"ostiary"}}}, oidc.Options{})
	}
	s := must(server.New(o))(t)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	for _, a := range s.Addresses() {
		w.at[a.Name] = a.Addr.String()
	}
	w.rpc = must(grpc.NewClient("passthrough:///"+w.at["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { w.rpc.Close() })

	w.id = x.call("native", "POST", "/ostiary/v1/stores", m{"name": "one", "aliases": m{"permify": "one"}})["id"].(string)
	x.call("native", "POST", "/ostiary/v1/stores/"+w.id+"/schemas", m{"dialect": "openfga-dsl", "source": endsModel})
	store := must(e.StoreByAlias(t.Context(), "permify", "one"))(t)
	anne := rel.Subject{Type: "user", ID: "anne"}
	_, err = store.Import(t.Context(), func(yield func(rel.Tuple, error) bool) {
		for i := range endsDocs {
			if !yield(rel.Tuple{Object: rel.Object{Type: "doc", ID: fmt.Sprintf("%s-%d", strings.Repeat("x", 200), i)}, Relation: "viewer", Subject: anne}, nil) {
				return
			}
		}
	}, authz.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x.call("native", "POST", "/ostiary/v1/stores/"+w.id+"/write", m{"add": []m{{"object": "doc:1", "relation": "maybe", "subject": "user:anne", "condition": "listed", "context": m{"l": slices.Repeat([]int{1}, 9000)}}}})
	return w
}

// metric returns the value of a metric.
func (w *endsWorld) metric(name string) string {
	resp, err := http.Get("http://" + w.at["metrics"] + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^ostiary_` + name + ` (\d+)$`).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// running is a request that runs. It returns how the request ended, once it has.
type running func() string

// send sends a request over HTTP on a connection of its own that receives little, and waits
// for the head of the response if the response is a stream. The result is "complete" if the
// body ends with whole, as it does when nothing is left out, and not with an error.
func (w *endsWorld) send(secret, method, path string, body any, whole string) (running, error) {
	conn, err := net.Dial("tcp", w.at["http"])
	if err != nil {
		return nil, err
	}
	w.t.Cleanup(func() { conn.Close() })
	conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	text, isReader := body.(io.Reader)
	if !isReader {
		text = bytes.NewReader(must(json.Marshal(body))(w.t))
	}
	r, err := http.NewRequest(method, "http://"+w.at["http"]+path, text)
	if err != nil {
		return nil, err
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	r.Header.Set("Content-Type", "application/json")
	if isReader {
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.ContentLength = -1
	}
	go r.Write(conn) // a request whose response comes early may not be read to its end
	var head *http.Response
	read := func() (err error) {
		head, err = http.ReadResponse(bufio.NewReader(conn), r)
		return err
	}
	if whole != "" {
		if err := read(); err != nil {
			return nil, err
		}
		if head.StatusCode != http.StatusOK {
			text, err := io.ReadAll(head.Body)
			return nil, fmt.Errorf("%s %s: %d %s, %v", method, path, head.StatusCode, text, err)
		}
	}
	return func() string {
		if head == nil {
			if err := read(); err != nil {
				return "cut: " + err.Error()
			}
		}
		text, err := io.ReadAll(head.Body)
		text = bytes.TrimSpace(text)
		last := text[bytes.LastIndexByte(text, '\n')+1:]
		switch {
		case head.StatusCode != http.StatusOK:
			return fmt.Sprintf("%d", head.StatusCode)
		case whole == "" || err == nil && bytes.HasSuffix(last, []byte(whole)) && !bytes.HasPrefix(last, []byte(`{"error":`)):
			return "complete"
		}
		return "cut"
	}, nil
}

// caller returns a context for gRPC.
func caller(ctx context.Context, secret string) context.Context {
	if secret == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
}

// rest reads a stream to its end.
func rest(recv func() error) running {
	return func() string {
		for {
			if err := recv(); errors.Is(err, io.EOF) {
				return "complete"
			} else if err != nil {
				return status.Code(err).String()
			}
		}
	}
}

// requests are all kinds of requests that last, by their names in the doors: streams, whose
// clients read slowly or write slowly, and long requests.
var requests = map[string]func(w *endsWorld, secret string) (running, error){
	"native Watch": func(w *endsWorld, secret string) (running, error) {
		return w.send(secret, "GET", "/ostiary/v1/stores/"+w.id+"/watch", nil, "none")
	},
	"native WatchPermission": func(w *endsWorld, secret string) (running, error) {
		return w.send(secret, "GET", "/ostiary/v1/stores/"+w.id+"/watch-permission?object_type=doc&relation=viewer&subject_type=user&object=1", nil, "none")
	},
	"native Export": func(w *endsWorld, secret string) (running, error) {
		return w.send(secret, "GET", "/ostiary/v1/stores/"+w.id+"/export", nil, "}}")
	},
	"native Import": func(w *endsWorld, secret string) (running, error) {
		out, in := io.Pipe()
		w.t.Cleanup(func() { in.Close() })
		go io.WriteString(in, `{"tuple":{"object":"doc:imported","relation":"viewer","subject":"user:ben"}}`+"\n")
		return w.send(secret, "POST", "/ostiary/v1/stores/"+w.id+"/import?on_duplicate=ignore", out, "")
	},
	"openfga StreamedListObjects": func(w *endsWorld, secret string) (running, error) {
		return w.send(secret, "POST", "/stores/"+w.id+"/streamed-list-objects", m{"type": "doc", "relation": "viewer", "user": "user:anne"}, "\"}}")
	},
	"permify Permission.LookupEntityStream": func(w *endsWorld, secret string) (running, error) {
		return w.send(secret, "POST", "/v1/tenants/one/permissions/lookup-entity-stream", m{"metadata": m{"depth": 20}, "entity_type": "doc", "permission": "viewer", "subject": m{"type": "user", "id": "anne"}}, "\"}}")
	},
	"permify Watch.Watch": func(w *endsWorld, secret string) (running, error) {
		return w.send(secret, "POST", "/v1/tenants/one/watch", m{}, "") // its response begins with its first change
	},
	"openfga.v1.OpenFGAService StreamedListObjects": func(w *endsWorld, secret string) (running, error) {
		s, err := openfgav1.NewOpenFGAServiceClient(w.rpc).StreamedListObjects(caller(w.t.Context(), secret), &openfgav1.StreamedListObjectsRequest{StoreId: w.id, Type: "doc", Relation: "viewer", User: "user:anne"})
		if err == nil {
			_, err = s.Recv()
		}
		return rest(func() error { _, err := s.Recv(); return err }), err
	},
	"base.v1.Permission LookupEntityStream": func(w *endsWorld, secret string) (running, error) {
		s, err := permifypb.NewPermissionClient(w.rpc).LookupEntityStream(caller(w.t.Context(), secret), &permifypb.PermissionLookupEntityRequest{TenantId: "one",
			Metadata: &permifypb.PermissionLookupEntityRequestMetadata{Depth: 20}, EntityType: "doc", Permission: "viewer", Subject: &permifypb.Subject{Type: "user", Id: "anne"}})
		if err == nil {
			_, err = s.Recv()
		}
		return rest(func() error { _, err := s.Recv(); return err }), err
	},
	"base.v1.Watch Watch": func(w *endsWorld, secret string) (running, error) {
		s, err := permifypb.NewWatchClient(w.rpc).Watch(caller(w.t.Context(), secret), &permifypb.WatchRequest{TenantId: "one"})
		return rest(func() error { _, err := s.Recv(); return err }), err
	},
	"a batch of native": func(w *endsWorld, secret string) (running, error) {
		q := m{"object": "doc:1", "relation": "maybe", "subject": "user:anne"}
		all := make([]any, endsQuestions)
		for i := range all {
			all[i] = q
		}
		return w.send(secret, "POST", "/ostiary/v1/stores/"+w.id+"/batch", m{"context": m{"x": -1}, "questions": all}, "")
	},
	"a batch of openfga over gRPC": func(w *endsWorld, secret string) (running, error) {
		parameters, err := structpb.NewStruct(m{"x": -1})
		if err != nil {
			return nil, err
		}
		in := &openfgav1.BatchCheckRequest{StoreId: w.id}
		for i := range endsQuestions {
			in.Checks = append(in.Checks, &openfgav1.BatchCheckItem{TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "maybe", Object: "doc:1"}, CorrelationId: fmt.Sprint(i), Context: parameters})
		}
		ended := make(chan error, 1)
		go func() {
			_, err := openfgav1.NewOpenFGAServiceClient(w.rpc).BatchCheck(caller(w.t.Context(), secret), in)
			ended <- err
		}()
		return func() string { return status.Code(<-ended).String() }, nil
	},
}

// TestEveryStreamEnds checks that requests knows all streams.
func TestEveryStreamEnds(t *testing.T) {
	t.Parallel()
	for _, d := range openEveryDoor(t).doors {
		var names []string
		for _, r := range d.Routes {
			if r.Streams {
				names = append(names, d.Name+" "+r.Name)
			}
		}
		for _, s := range d.Services {
			for _, method := range s.Desc.Streams {
				names = append(names, s.Desc.ServiceName+" "+method.StreamName)
			}
		}
		for _, name := range names {
			if requests[name] == nil {
				t.Errorf("requests has no %s", name)
			}
		}
	}
}

// expectEnded checks that requests were refused or have broken off.
func expectEnded(t *testing.T, way string, all map[string]running) {
	t.Helper()
	for name, one := range all {
		switch got := one(); got {
		case "401", "403", "cut", "Unauthenticated", "Code(1500)", "Code(1600)": // the last two are OpenFGA's; 403 is that of a key that has ended since it was accepted
		default:
			t.Errorf("%s: %s ended with %s", way, name, got)
		}
	}
}

// TestEnds starts every request that lasts, and then ends what its caller has shown, in
// every way.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := startEnds(t, false)
	scope := func(name string) callers.NewKey {
		return callers.NewKey{Name: name, Stores: []string{w.id}, Rights: []string{"write"}}
	}
	create := func(n callers.NewKey) string {
		t.Helper()
		return must(w.registry.Create(t.Context(), n))(t).Secret
	}
	revoke := func(name string) {
		t.Helper()
		must(w.registry.Revoke(t.Context(), name))(t)
	}
	token := func(group string, life time.Duration) string {
		return w.provider.Sign(m{"iss": w.provider.URL, "aud": "ostiary", "sub": "anne", "exp": time.Now().Add(life).Unix(), "groups": []string{group}}, -1)
	}
	for _, group := range []string{"revoked", "expired"} {
		n := scope("group " + group)
		n.Match = callers.Match{Issuer: w.provider.URL, Claim: "groups", Value: group}
		create(n)
	}
	kept := must(requests["native Watch"](w, create(scope("kept"))))(t)
	for _, way := range []struct {
		name string
		// show returns what a caller shows, which lives for a time if it expires.
		show func(life time.Duration) string
		end  func() // nil if it expires
	}{
		{"a key is revoked", func(time.Duration) string { return create(scope("key")) }, func() { revoke("key") }},
		{"a key is rotated", func(time.Duration) string { return create(scope("rotated")) }, func() { must(w.registry.Rotate(t.Context(), "rotated", 0))(t) }},
		{"a key expires", func(life time.Duration) string {
			n := scope("expiring " + life.String())
			n.Expires = time.Now().Add(life)
			return create(n)
		}, nil},
		{"the key of a token is revoked", func(time.Duration) string { return token("revoked", time.Hour) }, func() { revoke("group revoked") }},
		{"a token expires", func(life time.Duration) string { return token("expired", life) }, nil},
	} {
		var all map[string]running
		// What expires may do so before all requests have begun, on a busy machine.
		for life := 4 * time.Second; all == nil; life *= 2 {
			secret := way.show(life)
			all = map[string]running{}
			for name, begin := range requests {
				one, err := begin(w, secret)
				if err != nil && way.end == nil && life < time.Minute {
					t.Logf("%s after %s, before all have begun: %v", way.name, life, err)
					all = nil
					break
				}
				all[name] = must(one, err)(t)
			}
		}
		if way.end != nil {
			wait.Until(t, "all requests run", func() bool {
				return w.metric("streams_in_flight") == fmt.Sprint(len(requests)-2+1) && w.metric("requests_in_flight") == "2"
			})
			way.end()
		}
		start := time.Now()
		wait.Until(t, way.name+": all requests have ended", func() bool {
			return w.metric("streams_in_flight") == "1" && w.metric("requests_in_flight") == "0"
		})
		t.Logf("%s: all requests have ended after %s", way.name, time.Since(start).Round(time.Millisecond))
		expectEnded(t, way.name, all)
	}
	w.call("native", "POST", "/ostiary/v1/stores/"+w.id+"/write", m{"add": []m{{"object": "doc:2", "relation": "viewer", "subject": "user:anne"}}})
	if got := w.metric("streams_in_flight"); got != "1" {
		t.Errorf("%s streams run, want that of the key that is kept", got)
	}
	revoke("kept")
	if got := kept(); got != "cut" {
		t.Errorf("the watch of another key: %s", got)
	}
}

// TestCutStreams ends the context of a stream, as the end of its caller's key does, while its
// client receives: what the client gets ends with an error, so that it takes no part for the
// whole.
func TestCutStreams(t *testing.T) {
	t.Parallel()
	w := startEnds(t, false)
	for _, c := range []struct {
		door, method, path string
		body               any
	}{
		{"native", "GET", "/ostiary/v1/stores/" + w.id + "/export", nil},
		{"openfga", "POST", "/stores/" + w.id + "/streamed-list-objects", m{"type": "doc", "relation": "viewer", "user": "user:anne"}},
		{"permify", "POST", "/v1/tenants/one/permissions/lookup-entity-stream", m{"metadata": m{"depth": 20}, "entity_type": "doc", "permission": "viewer", "subject": m{"type": "user", "id": "anne"}}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		rec := &cutRecorder{httptest.NewRecorder(), cancel}
		var p door.Params
		route, _ := w.ports[c.door].Find(c.method, c.path, &p)
		route.Serve(rec, httptest.NewRequestWithContext(ctx, c.method, c.path, bytes.NewReader(must(json.Marshal(c.body))(t))), p)
		lines := bytes.Split(bytes.TrimSpace(rec.Body.Bytes()), []byte("\n"))
		if last := lines[len(lines)-1]; len(lines) < 2 || len(lines) > endsDocs || !bytes.HasPrefix(last, []byte(`{"error":`)) {
			t.Errorf("%s %s: %d lines, and the last is %.200s", c.door, c.path, len(lines), last)
		}
	}
}

// cutRecorder calls cut with each write.
type cutRecorder struct {
	*httptest.ResponseRecorder
	cut func()
}

func (r *cutRecorder) Write(p []byte) (int, error) {
	r.cut()
	return r.ResponseRecorder.Write(p)
}
