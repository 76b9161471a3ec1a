package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// leased is the driver of a node of a cluster that is the one that writes. Once over is set,
// its read lease is over and it reaches neither another node nor the log.
type leased struct {
	*memory.Driver
	over atomic.Bool
}

var _ storage.Copy = (*leased)(nil)

func (l *leased) BeforeRead(context.Context) error {
	if l.over.Load() {
		return fmt.Errorf("%w: the lease is over", storage.ErrNoLease)
	}
	return nil
}

func (l *leased) BeforeWrite(context.Context) error { return nil }

func (l *leased) Leads() bool { return true }

func (l *leased) Confirm(context.Context) error { return nil }

func (l *leased) Acknowledge(context.Context) error { return nil }

func (l *leased) AppendAhead(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (made func(context.Context) (storage.Head, error), acknowledge func(context.Context) error, err error) {
	head, err := l.Append(ctx, id, after, entries, sealed)
	return func(context.Context) (storage.Head, error) { return head, nil }, l.Acknowledge, err
}

func (l *leased) FindRequest(context.Context, storage.RequestID, uint64) (storage.RequestTrace, error) {
	return storage.RequestTrace{}, storage.ErrUncertain
}

func (l *leased) OnApplied(func(context.Context, []storage.StoreID) error) (detach func()) {
	return func() {}
}

// TestKeysWhileLeaseIsOver asks a node whose read lease is over about keys: it accepts one that it
// knows, and does not refuse one that another node may have made meanwhile.
func TestKeysWhileLeaseIsOver(t *testing.T) {
	t.Parallel()
	ctx, driver := t.Context(), &leased{Driver: memory.New()}
	e, err := ostiary.Open(ctx, ostiary.Options{Driver: driver})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	node, other := callers.New(e, callers.Options{}), callers.New(e, callers.Options{})
	create := func(name string, match callers.Match) string {
		made, err := other.Create(ctx, callers.NewKey{Name: name, Stores: []string{"*"}, Rights: []string{"admin"}, Match: match})
		if err != nil {
			t.Fatal(err)
		}
		return made.Secret
	}
	old := create("old", callers.Match{})
	if c, err := node.Secret(ctx, old); c == nil || err != nil {
		t.Fatalf("the key of the other node: %v, error %v", c, err)
	}
	made := create("new", callers.Match{})
	certificate := callers.Match{Certificate: "dns:client.example"}
	create("match", certificate)
	driver.over.Store(true)
	if c, err := node.Secret(ctx, old); c == nil || err != nil {
		t.Errorf("a key that the node knows, without a lease: %v, error %v", c, err)
	}
	if c, err := node.Secret(ctx, made); !errors.Is(err, storage.ErrNoLease) {
		t.Errorf("a key that the node may lack, without a lease: %v, error %v, want ErrNoLease", c, err)
	}
	matching := func(m callers.Match) bool { return m == certificate }
	if m, err := node.Matching(ctx, nil, time.Time{}, matching); !errors.Is(err, storage.ErrNoLease) {
		t.Errorf("a caller whose key the node may lack, without a lease: %v, error %v, want ErrNoLease", m, err)
	}
	driver.over.Store(false)
	if c, err := node.Secret(ctx, made); c == nil || err != nil {
		t.Errorf("the new key, with a lease: %v, error %v", c, err)
	}
	if m, err := node.Matching(ctx, nil, time.Time{}, matching); err != nil || len(m.Names()) != 1 {
		t.Errorf("the new match, with a lease: %v, error %v", m, err)
	}
	if c, err := node.Secret(ctx, callers.SecretPrefix+"unknown"); c != nil || err != nil {
		t.Errorf("an unknown key, with a lease: %v, error %v", c, err)
	}
}

// readsNothing are the routes that neither read a store nor write, with what they read.
var readsNothing = map[string]string{
	"native GET /ostiary/v1/openapi.json":                            "the description of the API",
	"native GET /ostiary/v1/me":                                      "the rights of the caller, which the server asks for with each request",
	"authzen GET /.well-known/authzen-configuration":                 "metadata",
	"authzen GET /.well-known/authzen-configuration/authzen/{store}": "metadata",
	"xacml GET /xacml/v3":                                            "the home document",
	"onap-pdp GET /policy/pdpx/v1/healthcheck":                       "health",
	"onap-pdp GET /policy/pdpx/v1/metrics":                           "metrics",
	"keystone GET /":                                                 "the versions of the API",
	"keystone GET /v3":                                               "the versions of the API",
	"keystone GET /v3/OS-FEDERATION/saml2/metadata":                  "not implemented",
	"keystone POST /v3/auth/OS-FEDERATION/saml2":                     "not implemented",
	"keystone POST /v3/auth/OS-FEDERATION/saml2/ecp":                 "not implemented",
	"keystone GET /v3/auth/OS-FEDERATION/websso/{protocol}":          "not implemented",
	"keystone POST /v3/auth/OS-FEDERATION/websso/{protocol}":         "not implemented",
	"keystone GET " + federated + "/websso":                          "not implemented",
	"keystone POST " + federated + "/websso":                         "not implemented",
	"keystone GET /v3/OS-FEDERATION" + provider + "/auth":            "refused before a read: the request has no token of a provider",
	"keystone POST /v3/OS-FEDERATION" + provider + "/auth":           "refused before a read: the request has no token of a provider",
	"keystone GET /v3/auth/tokens/OS-PKI/revoked":                    "refused for everybody",
	"keystone GET /v3/OS-SIMPLE-CERT/ca":                             "gone",
	"keystone GET /v3/OS-SIMPLE-CERT/certificates":                   "gone",
}

// Parts of paths of the federation.
const (
	provider  = "/identity_providers/{provider}/protocols/{protocol}"
	federated = "/v3/auth/OS-FEDERATION" + provider
)

// leaseBodies are bodies of requests that a door checks before it reads, besides bodiesOf.
var leaseBodies = map[string]string{
	"keystone POST /v3/auth/tokens":     `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}}}}`,
	"keystone POST /v3/OS-OAUTH2/token": "grant_type=client_credentials",
}

// plainKey returns the key of a route without the prefix that Identity has twice, and HEAD
// as the GET that it is.
func plainKey(d *door.Door, r *door.Route) string {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return d.Name + " " + method + " " + strings.TrimPrefix(r.Pattern, "/identity")
}

// localBodies are the bodies of reads from this node's copy, which a node answers without a
// lease.
var localBodies = map[string]string{
	"native Check":   `{"object":"doc:1","relation":"viewer","subject":"user:a","at":{"minimize_latency":true}}`,
	"openfga Check":  `{"tuple_key":{"user":"user:a","relation":"viewer","object":"doc:1"},"consistency":"MINIMIZE_LATENCY"}`,
	"openfga Read":   `{"consistency":"MINIMIZE_LATENCY"}`,
	"openfga Expand": `{"tuple_key":{"relation":"viewer","object":"doc:1"},"consistency":"MINIMIZE_LATENCY"}`,
}

// TestLeaseIsOver sends a request to every route of every door that only reads, on a node
// whose read lease is over: each must get 503 with Retry-After, unless readsNothing names it.
// So a new route cannot answer from a copy that may lack what another node has written.
func TestLeaseIsOver(t *testing.T) {
	t.Parallel()
	driver := &leased{Driver: memory.New()}
	x := openEveryDoorOn(t, driver)
	x.bootstrap()
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one"})["id"].(string)
	x.resources()
	x.call("native", "POST", "/ostiary/v1/stores/"+x.id+"/schemas", m{"dialect": "openfga-dsl", "source": "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"})
	x.call("permify", "POST", "/v1/tenants/list", m{})
	driver.over.Store(true)
	parameters := strings.NewReplacer("{store}", x.id, "{store_id}", x.id, "{tenant_id}", "t1", "{domain}", "huge", "{authorization_model_id}", x.id)
	rest := regexp.MustCompile(`\{[^}]*\}`)
	seen := map[string]bool{}
	for _, d := range x.doors {
		for i := range d.Routes {
			r := &d.Routes[i]
			if r.Writes {
				continue
			}
			key := plainKey(d, r)
			path := parameters.Replace(r.Pattern)
			if d.Name == "openfga" {
				path = strings.ReplaceAll(path, "{id}", x.id) // of a model
			}
			path = rest.ReplaceAllString(path, "x")
			code, head, text := x.ask(d.Name, r.Method, path, cmp.Or(bodiesOf[d.Name+" "+r.Name], leaseBodies[key], "{}"))
			if why, reads := readsNothing[key]; reads {
				if seen[key] = true; code == http.StatusServiceUnavailable {
					t.Errorf("%s is listed as one that reads no store (%s): %d %s", key, why, code, text)
				}
				continue
			}
			if code != http.StatusServiceUnavailable || head.Get("Retry-After") == "" {
				t.Errorf("%s without a lease: %d, Retry-After %q: %s", key, code, head.Get("Retry-After"), text)
			}
			if body := localBodies[d.Name+" "+r.Name]; body != "" {
				if code, _, text := x.ask(d.Name, r.Method, path, body); code != http.StatusOK {
					t.Errorf("%s from this node's copy: %d %s", key, code, text)
				}
			}
		}
	}
	x.methodsWithoutLease()
	for _, key := range slices.Sorted(maps.Keys(readsNothing)) {
		if !seen[key] {
			t.Errorf("readsNothing has %s, which is no reading route", key)
		}
	}
}

// rpcBodies are messages of gRPC methods, as JSON, that have none in bodiesOf.
var rpcBodies = map[string]string{
	"openfga ReadChanges": `{}`,
}

// methodsWithoutLease calls every gRPC method that only reads: each must answer Unavailable.
func (x *everyDoor) methodsWithoutLease() {
	x.t.Helper()
	w := &walker{everyDoor: x}
	_, address := w.serve(server.Options{Doors: x.doors, Engine: x.engine})
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		x.t.Fatal(err)
	}
	defer conn.Close()
	walked := 0
	for _, d := range x.doors {
		for _, service := range d.Services {
			found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.Desc.ServiceName))
			if err != nil {
				x.t.Fatal(err)
			}
			methods := found.(protoreflect.ServiceDescriptor).Methods()
			for i := range methods.Len() {
				m := methods.Get(i)
				if name := string(m.Name()); !slices.Contains(service.Writes, name) {
					walked++
					if err := x.invokeWithoutLease(conn, d.Name, m); status.Code(err) != codes.Unavailable {
						x.t.Errorf("%s %s without a lease: %v", d.Name, m.FullName(), err)
					}
				}
			}
		}
	}
	if walked == 0 {
		x.t.Error("no door has a gRPC method")
	}
}

// invokeWithoutLease calls a method with a complete message, and returns its error, or that of
// a stream that it returns.
func (x *everyDoor) invokeWithoutLease(conn *grpc.ClientConn, doorName string, m protoreflect.MethodDescriptor) error {
	ctx, cancel := context.WithTimeout(x.t.Context(), 10*time.Second)
	defer cancel()
	service := strings.TrimSuffix(string(m.Parent().Name()), "Service")
	key := doorName + " " + string(m.Name())
	in := dynamicpb.NewMessage(m.Input())
	text := cmp.Or(bodiesOf[key], bodiesOf[doorName+" "+service+"."+string(m.Name())], rpcBodies[key], "{}")
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), in); err != nil {
		x.t.Fatalf("%s: %v", m.FullName(), err)
	}
	for name, value := range map[protoreflect.Name]string{"store_id": x.id, "tenant_id": "t1", "id": x.id, "authorization_model_id": x.id} {
		if f := m.Input().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind && !in.Has(f) {
			in.Set(f, protoreflect.ValueOfString(value))
		}
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/"+string(m.Parent().FullName())+"/"+string(m.Name()))
	if err == nil {
		if err = stream.SendMsg(in); err == nil {
			err = stream.CloseSend()
		}
	}
	if err != nil {
		return err
	}
	return stream.RecvMsg(dynamicpb.NewMessage(m.Output()))
}

// ask sends a request to a door, and returns what it answers.
func (x *everyDoor) ask(name, method, path, body string) (code int, head http.Header, text string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 10*time.Second)
	defer cancel()
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "grant_type=") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("id", "secret")
	}
	r.Header.Set("X-Auth-Token", x.identity)
	r.Header.Set("X-Subject-Token", x.identity)
	var p door.Params
	route, _ := x.ports[name].Find(method, r.URL.EscapedPath(), &p)
	if route == nil {
		x.t.Fatalf("%s has no %s %s", name, method, path)
	}
	rec := httptest.NewRecorder()
	route.Serve(rec, r, p)
	return rec.Code, rec.Header(), strings.TrimSpace(rec.Body.String())
}
