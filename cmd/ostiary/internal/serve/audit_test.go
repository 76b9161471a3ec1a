package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/internal/trail/audit"
	"github.com/ostiary/ostiary/server"
)

// auditRecord is a line of the audit log.
type auditRecord struct {
	Kind, Door, Operation, Method, From, Request, Store, Outcome, Status, Why, Reason, Content string
	Caller                                                                                     struct{ ID, Method, Owner string }
	Changes                                                                                    []struct {
		Store    string
		Revision uint64
	}
	Count int
}

// auditedServer is a server with all doors, one key and an audit log in memory. Each
// record is there before its request is answered.
type auditedServer struct {
	t       *testing.T
	server  *server.Server
	handler http.Handler
	trail   *audit.Trail

	mu      sync.Mutex
	written bytes.Buffer
}

func (s *auditedServer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.Write(p)
}

const walkerKey = "walker-key-walker-key"

func startAudited(t *testing.T, x *everyDoor, change func(*server.Options)) *auditedServer {
	t.Helper()
	key := must(audit.Key(filepath.Join(t.TempDir(), "key")))(t)
	s := &auditedServer{t: t}
	log := must(audit.OpenStream(s, audit.Options{Key: key, Required: true}))(t)
	s.trail = audit.NewTrail(true, log)
	o := server.Options{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Doors: x.doors, Log: slog.New(slog.DiscardHandler), DrainTime: -1, Audit: s.trail, RequestTimeout: time.Minute,
		Keys: must(server.NewKeys([]server.Key{{Name: "walker", Secret: walkerKey}}))(t)}
	if change != nil {
		change(&o)
	}
	s.server = must(server.New(o))(t)
	s.handler = s.server.Handler()
	// Refusals on a connection that is trusted are not delayed.
	r := httptest.NewRequest("GET", "/stores", nil)
	r.Header.Set("Authorization", "Bearer "+walkerKey)
	s.handler.ServeHTTP(httptest.NewRecorder(), r)
	s.take()
	return s
}

// take returns the records of requests since the call before.
func (s *auditedServer) take() (out []auditRecord) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range bytes.Lines(s.written.Bytes()) {
		var r auditRecord
		if err := json.Unmarshal(line, &r); err != nil {
			s.t.Fatalf("%v in %s", err, line)
		}
		if r.Door != "" || r.Kind == "refusal" {
			out = append(out, r)
		}
	}
	s.written.Reset()
	return out
}

// send sends a request and returns its response and its records.
func (s *auditedServer) send(r *http.Request) (*httptest.ResponseRecorder, []auditRecord) {
	rec := httptest.NewRecorder()
	s.handler.ServeHTTP(rec, r)
	return rec, s.take()
}

// outcomeText is the outcome that a record of a response has.
func outcomeText(status int) string {
	switch {
	case status == 401, status == 403, status == 429:
		return "refused"
	case status >= 500:
		return "failed"
	case status >= 400:
		return "rejected"
	}
	return "made"
}

// plainPath returns a path of a route.
func plainPath(r *door.Route) string {
	return strings.NewReplacer("{", "", "}", "", "...", "").Replace(r.Pattern)
}

// TestAuditWithoutKey sends a request without a key to every route of every door. Each
// route that is not public refuses it, with a record.
func TestAuditWithoutKey(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.bootstrap()
	var s *auditedServer
	n := 0
	for _, d := range x.doors {
		for i := range d.Routes {
			route := &d.Routes[i]
			if n%80 == 0 { // more addresses are counted together
				s = startAudited(t, x, nil)
			}
			n++
			r := httptest.NewRequest(route.Method, plainPath(route), nil)
			r.RemoteAddr = fmt.Sprintf("10.0.%d.%d:4711", n/200, n%200)
			r.Header.Set("Accept", "application/json") // for the route /
			rec, got := s.send(r)
			what := fmt.Sprintf("%s %s %s: %d, records %+v", d.Name, route.Method, route.Pattern, rec.Code, got)
			switch {
			case rec.Code != http.StatusUnauthorized && !route.Public && !d.OwnAuthentication:
				t.Errorf("%s: the request is not refused", what)
			case rec.Code != http.StatusUnauthorized && rec.Code != http.StatusForbidden && !route.Login && !route.Writes:
				if len(got) != 0 {
					t.Errorf("%s: a record of a request that was not refused", what)
				}
			case len(got) != 1:
				t.Errorf("%s: want one record", what)
			default:
				kind := "refusal"
				switch {
				case route.Login:
					kind = "login"
				case route.Writes && d.OwnAuthentication:
					kind = "write"
				}
				if g := got[0]; g.Kind != kind || g.Door != d.Name || g.Operation != route.Name || g.Caller.ID != "anonymous" || g.From != r.RemoteAddr ||
					g.Outcome != outcomeText(rec.Code) || g.Status != fmt.Sprint(rec.Code) || g.Request != rec.Header().Get("X-Request-Id") {
					t.Errorf("%s: want the kind %s", what, kind)
				}
			}
		}
	}
	if n < 300 {
		t.Errorf("%d routes were called, want at least 300", n)
	}
}

// TestAuditBadInput sends a malformed request with a key to every route of every door. A
// route that writes has a record with the outcome; one that reads has none.
func TestAuditBadInput(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.bootstrap()
	var s *auditedServer
	n, sent, refused := 0, 0, map[string]bool{}
	for _, d := range x.doors {
		for i := range d.Routes {
			route := &d.Routes[i]
			if route.Name == "RevokeToken" || route.Name == "DeleteUser" || route.Streams && !route.Writes {
				continue // the token of the test itself; streams last
			}
			if sent%80 == 0 { // more refusals of a caller are counted together
				s, refused = startAudited(t, x, nil), map[string]bool{}
			}
			sent++
			r := httptest.NewRequest(route.Method, plainPath(route), strings.NewReader("{"))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json")
			r.Header.Set("Authorization", "Bearer "+walkerKey)
			r.Header.Set("X-Auth-Token", x.identity)
			r.RemoteAddr = fmt.Sprintf("10.1.%d.%d:4711", i/200, i%200)
			rec, got := s.send(r)
			what := fmt.Sprintf("%s %s %s: %d, records %+v", d.Name, route.Method, route.Pattern, rec.Code, got)
			if !route.Writes && !route.Login && rec.Code != 401 && rec.Code != 403 {
				if len(got) != 0 && len(got[0].Changes) == 0 { // a decision can make the store of a domain
					t.Errorf("%s: a record of a read", what)
				}
				continue
			}
			n++
			if key := fmt.Sprint(d.Name, route.Name, rec.Code); refused[key] && rec.Code >= 400 {
				continue // it is counted
			} else {
				refused[key] = true
			}
			if len(got) != 1 {
				t.Errorf("%s: want one record", what)
				continue
			}
			if g := got[0]; g.Door != d.Name || g.Operation != route.Name || g.Outcome != outcomeText(rec.Code) || g.Status != fmt.Sprint(rec.Code) ||
				!d.OwnAuthentication && (g.Caller.ID != "walker" || g.Caller.Method != "preshared") || g.From != r.RemoteAddr {
				t.Errorf("%s: the record does not describe the request", what)
			}
		}
	}
	if n < 150 {
		t.Errorf("%d routes have a record, want at least 150", n)
	}
}

// TestAuditMade sends a request that is carried out to each writing route that a door has,
// to routes of stores and to the login. Each has a record with the caller, the reason, and
// the stores that it has changed.
func TestAuditMade(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.bootstrap()
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one"})["id"].(string)
	s := startAudited(t, x, func(o *server.Options) { o.AuditContent = true })
	var schema string
	send := func(name string, r *http.Request) (*httptest.ResponseRecorder, auditRecord) {
		t.Helper()
		r.Header.Set("Authorization", "Bearer "+walkerKey)
		r.Header.Set("Ostiary-Reason", "ticket 7")
		rec, got := s.send(r)
		if rec.Code/100 != 2 || len(got) != 1 || got[0].Outcome != "made" || got[0].Door != name || got[0].Reason != "ticket 7" {
			t.Fatalf("%s %s %s: %d %s, records %+v", name, r.Method, r.URL, rec.Code, rec.Body, got)
		}
		return rec, got[0]
	}
	sent := map[string]bool{}
	for _, w := range writingRoutes(x) {
		r := w.request(x, schema)
		rec, g := send(w.door, r)
		sent[w.door+" "+g.Operation] = true
		caller := "walker"
		if w.door == "keystone" {
			caller = x.user
		}
		if g.Kind != "write" || g.Caller.ID != caller || len(g.Changes) == 0 || g.Changes[0].Revision == 0 {
			t.Errorf("%s %s: the record is %+v", w.door, w.path, g)
		}
		if w.door == "openfga" && (g.Store != x.id || g.Changes[0].Store != x.id) {
			t.Errorf("%s %s: the store is %q, changed %+v", w.door, w.path, g.Store, g.Changes)
		}
		if (g.Content != "") != (w.door != "keystone" && w.in != nil) {
			t.Errorf("%s %s: the content is %q", w.door, w.path, g.Content)
		}
		schema = schemaOf(w.path, rec.Body.Bytes(), schema)
	}
	for key, kind := range readRouteKinds(t) {
		if kind == routeWrites && !sent[key] {
			t.Errorf("%s writes, and no request to it was sent", key)
		}
	}
	for _, c := range []struct {
		door, method, path string
		in                 any
	}{
		{"openfga", "POST", "/stores", m{"name": "two"}},
		{"openfga", "PATCH", "/stores/" + x.id, m{"name": "new"}},
		{"native", "POST", "/ostiary/v1/stores", m{"id": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "name": "three"}},
		{"native", "DELETE", "/ostiary/v1/stores/01ARZ3NDEKTSV4RRFFQ69G5FAV", nil},
		{"permify", "POST", "/v1/tenants/create", m{"id": "t2", "name": "two"}},
		{"permify", "DELETE", "/v1/tenants/t2", nil},
		{"openfga", "DELETE", "/stores/" + x.id, nil},
	} {
		w := writingRoute{c.door, c.method, c.path, c.in}
		route, _ := x.ports[c.door].Find(c.method, c.path, &door.Params{})
		if route == nil {
			continue // a door that lacks the operation
		}
		r := w.request(x, "")
		if c.in == nil {
			r.Body = http.NoBody
		}
		if _, g := send(c.door, r); g.Kind != "write" || g.Caller.ID != "walker" || len(g.Changes) == 0 || g.Changes[0].Store == "" {
			t.Errorf("%s %s %s: the record is %+v", c.door, c.method, c.path, g)
		}
	}
	login := m{"auth": m{"identity": m{"methods": []string{"password"}, "password": m{"user": m{"name": "admin", "domain": m{"id": "default"}, "password": "another"}}}}}
	w := writingRoute{"keystone", "POST", "/v3/auth/tokens", login}
	if _, g := send("keystone", w.request(x, "")); g.Kind != "login" || g.Caller.ID != x.user || g.Caller.Method != "identity" || g.Content != "" {
		t.Errorf("the record of a login is %+v", g)
	}
}

// TestAuditRPC calls every gRPC method of every door without a key, and with a key and an
// empty message, and some that write as they should be.
func TestAuditRPC(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.bootstrap()
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one"})["id"].(string)
	s := startAudited(t, x, func(o *server.Options) { o.AuditContent = true })
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.server.Stop() })
	rpc := must(grpc.NewClient(s.server.Addresses()[1].Addr.String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { rpc.Close() })
	withKey := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+walkerKey, "ostiary-reason", "ticket 7")
	refused := map[string]int{}
	for _, d := range x.doors {
		for _, service := range d.Services {
			for _, method := range service.Desc.Methods {
				full := "/" + service.Desc.ServiceName + "/" + method.MethodName
				writes := slices.Contains(service.Writes, method.MethodName)
				err := rpc.Invoke(withKey, full, &emptypb.Empty{}, &emptypb.Empty{})
				got := s.take()
				if writes != (len(got) == 1) {
					t.Errorf("%s: %v, writes %v, records %+v", full, err, writes, got)
				} else if writes && (got[0].Door != d.Name || got[0].Method != "GRPC" || got[0].Caller.ID != "walker" || got[0].From == "" || got[0].Kind != "write") {
					t.Errorf("%s: %v, the record is %+v", full, err, got[0])
				}
				if !slices.Contains(service.Public, full) {
					refused[d.Name]++
				}
			}
		}
	}
	fga := openfgav1.NewOpenFGAServiceClient(rpc)
	model := must(fga.WriteAuthorizationModel(withKey, &openfgav1.WriteAuthorizationModelRequest{StoreId: x.id, SchemaVersion: "1.1", TypeDefinitions: []*openfgav1.TypeDefinition{
		{Type: "user"}, {Type: "doc", Relations: map[string]*openfgav1.Userset{"viewer": {Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}},
			Metadata: &openfgav1.Metadata{Relations: map[string]*openfgav1.RelationMetadata{"viewer": {DirectlyRelatedUserTypes: []*openfgav1.RelationReference{{Type: "user"}}}}}}}}))(t)
	must(fga.Write(withKey, &openfgav1.WriteRequest{StoreId: x.id, AuthorizationModelId: model.GetAuthorizationModelId(), Writes: &openfgav1.WriteRequestWrites{TupleKeys: []*openfgav1.TupleKey{{User: "user:anne", Relation: "viewer", Object: "doc:1"}}}}))(t)
	must(permifypb.NewTenancyClient(rpc).Create(withKey, &permifypb.TenantCreateRequest{Id: "t9", Name: "nine"}))(t)
	for _, g := range s.take() {
		if g.Kind != "write" || g.Outcome != "made" || g.Status != "OK" || g.Reason != "ticket 7" || len(g.Changes) != 1 || g.Door == "openfga" && (g.Store != x.id || g.Changes[0].Revision == 0) || g.Content == "" {
			t.Errorf("the record is %+v", g)
		}
	}
	// Without a key, the refusals of one address are counted.
	for _, d := range x.doors {
		for _, service := range d.Services {
			for _, method := range service.Desc.Methods {
				if full := "/" + service.Desc.ServiceName + "/" + method.MethodName; !slices.Contains(service.Public, full) {
					if err := rpc.Invoke(t.Context(), full, &emptypb.Empty{}, &emptypb.Empty{}); err == nil {
						t.Errorf("%s is accepted without a key", full)
					}
				}
			}
		}
	}
	if err := s.trail.Close(); err != nil {
		t.Fatal(err)
	}
	for _, g := range s.take() {
		if g.Kind != "refusal" || g.Outcome != "refused" || g.Caller.ID != "anonymous" {
			t.Errorf("the record is %+v", g)
		}
		refused[g.Door] -= max(g.Count, 1)
	}
	for name, n := range refused {
		if n != 0 {
			t.Errorf("%s: %d refusals are not in a record", name, n)
		}
	}
}

// TestAuditOutOfScope sends requests that write, and a check, with a key whose scope does
// not have the store. Each is refused, and has a record with the caller, the owner of its
// key, and the store.
func TestAuditOutOfScope(t *testing.T) {
	t.Parallel()
	x := openEveryDoor(t)
	x.bootstrap()
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one"})["id"].(string)
	x.call("permify", "POST", "/v1/tenants/t1/schemas/list", m{}) // makes the default tenant, for any caller
	registry := callers.New(x.engine, callers.Options{Doors: doorNames[:]})
	key := must(registry.Create(t.Context(), callers.NewKey{Name: "scoped", Owner: "team 7", Stores: []string{"other"}, Rights: []string{"admin"}}))(t)
	s := startAudited(t, x, func(o *server.Options) { o.Callers, o.Engine = registry, x.engine })
	n, seen := map[string]int{}, map[string]bool{}
	check := writingRoute{"openfga", "POST", "/stores/" + x.id + "/check", m{"tuple_key": m{"user": "user:a", "relation": "viewer", "object": "doc:1"}}}
	for _, w := range append(writingRoutes(x), check) {
		if w.door != "openfga" && w.door != "native" && w.door != "permify" && w.door != "xacml" {
			continue // their stores are those of the door
		}
		r := w.request(x, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
		r.Header.Set("Authorization", "Bearer "+key.Secret)
		rec, got := s.send(r)
		if rec.Code != http.StatusForbidden {
			continue // the request is malformed in another way
		}
		n[w.door]++
		if again := w.door + w.method + w.path; seen[again] {
			if len(got) != 0 { // it is counted
				t.Errorf("%s: a record of a repeated refusal: %+v", again, got)
			}
			continue
		} else {
			seen[again] = true
		}
		kind := "write"
		if w.path == check.path {
			kind = "refusal"
		}
		if len(got) != 1 || got[0].Kind != kind || got[0].Outcome != "refused" || got[0].Caller.ID != "scoped" || got[0].Caller.Owner != "team 7" || len(got[0].Changes) > 0 {
			t.Errorf("%s %s %s: %d, records %+v", w.door, w.method, w.path, rec.Code, got)
		}
		if w.door == "openfga" && (len(got) != 1 || got[0].Store != x.id) {
			t.Errorf("%s: the store is missing: %+v", w.path, got)
		}
	}
	for _, name := range []string{"openfga", "native", "permify", "xacml"} {
		if n[name] < 3 {
			t.Errorf("%s: %d requests were refused by the scope, want at least 3", name, n[name])
		}
	}
}
