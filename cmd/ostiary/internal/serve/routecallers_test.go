package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/memory"
)

// walker sends requests to a server as callers of every kind.
type walker struct {
	*everyDoor
	http, grpc string
	secrets    map[string]string // by kind of caller
	client     http.Client
	addresses  atomic.Int32
	ahead      atomic.Int64 // of the clock of the keys, in nanoseconds
	// secured are the callers with certificates. A server with TLS has the same doors for them.
	secured map[string]*securedCaller // by kind
}

// securedCaller is a caller with a client certificate.
type securedCaller struct {
	http, grpc string
	config     *tls.Config
	client     http.Client
}

// kindsOfCallers are the columns of testdata/routes.callers. Of those with a key of the
// system store, "foreign" administers another store, "door" everything through another
// door, and reader, writer and schema have one right on all stores. "audience" has a token
// of a provider for another service, "unmatched" one that no key matches, and "token" one
// that matches two keys: one reads all stores, the other one administers another store.
// "certificate" has a client certificate that matches two such keys, and "stranger" one
// that no key matches.
var kindsOfCallers = []string{"none", "revoked", "expired", "audience", "door", "unmatched", "stranger", "foreign", "reader", "token", "certificate", "writer", "schema", "preshared", "admin"}

// bodiesOf are the bodies of requests that a door checks before it looks for the store.
var bodiesOf = map[string]string{
	"openfga CreateStore": `{"name":"one"}`, "openfga UpdateStore": `{"name":"one"}`, "native CreateStore": `{"name":"one"}`, "native UpdateStore": `{"name":"one"}`,
	"openfga Check":               `{"tuple_key":{"user":"user:a","relation":"viewer","object":"doc:1"}}`,
	"openfga BatchCheck":          `{"checks":[{"tuple_key":{"user":"user:a","relation":"viewer","object":"doc:1"},"correlation_id":"1"}]}`,
	"openfga Expand":              `{"tuple_key":{"relation":"viewer","object":"doc:1"}}`,
	"openfga ListObjects":         `{"type":"doc","relation":"viewer","user":"user:a"}`,
	"openfga StreamedListObjects": `{"type":"doc","relation":"viewer","user":"user:a"}`,
	"openfga ListUsers":           `{"object":{"type":"doc","id":"1"},"relation":"viewer","user_filters":[{"type":"user"}]}`,
	"permify Permission.Check":    permifyCheck, "permify Permission.BulkCheck": `{"metadata":{"depth":20},"items":[{"entity":{"type":"doc","id":"1"},"permission":"viewer","subject":{"type":"user","id":"a"}}]}`,
	"permify Permission.Expand":             `{"metadata":{"depth":20},"entity":{"type":"doc","id":"1"},"permission":"viewer"}`,
	"permify Permission.LookupEntity":       permifyLookup,
	"permify Permission.LookupEntityStream": permifyLookup,
	"permify Permission.LookupSubject":      `{"metadata":{"depth":20},"entity":{"type":"doc","id":"1"},"permission":"viewer","subject_reference":{"type":"user"}}`,
	"permify Permission.SubjectPermission":  `{"metadata":{"depth":20},"entity":{"type":"doc","id":"1"},"subject":{"type":"user","id":"a"}}`,
	"permify Schema.Read":                   `{"metadata":{}}`, "permify Data.ReadRelationships": `{"metadata":{},"filter":{"entity":{"type":"doc"}}}`,
	"permify Data.ReadAttributes": `{"metadata":{},"filter":{"entity":{"type":"doc"}}}`, "permify Bundle.Read": `{"name":"b"}`,
	"permify Tenancy.Create": `{"id":"t2","name":"t2"}`,
}

const (
	permifyCheck  = `{"metadata":{"depth":20},"entity":{"type":"doc","id":"1"},"permission":"viewer","subject":{"type":"user","id":"a"}}`
	permifyLookup = `{"metadata":{"depth":20},"entity_type":"doc","permission":"viewer","subject":{"type":"user","id":"a"}}`
)

// refusedCallers are the kinds that a stream about a store refuses.
var refusedCallers = []string{"none", "revoked", "expired", "audience", "door", "unmatched", "stranger", "foreign"}

// dial connects from an address of its own, because refusals of one address are delayed.
func (w *walker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n := w.addresses.Add(1)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}
	return d.DialContext(ctx, network, address)
}

func newWalker(t *testing.T) *walker {
	x := openEveryDoorOn(t, memory.New())
	w := &walker{everyDoor: x, secrets: map[string]string{"preshared": "the-key-of-a-file"}}
	w.client.Transport = &http.Transport{DialContext: w.dial, DisableKeepAlives: true}
	keys, err := server.NewKeys([]server.Key{{Name: "file", Secret: "the-key-of-a-file"}})
	if err != nil {
		t.Fatal(err)
	}
	provider := issuers.NewProvider(t)
	for kind, of := range map[string][2]string{"audience": {"other", "readers"}, "unmatched": {"ostiary", "others"}, "token": {"ostiary", "readers"}} {
		w.secrets[kind] = provider.Sign(m{"iss": provider.URL, "aud": of[0], "sub": kind, "exp": time.Now().Unix() + 3*3600, "groups": []string{of[1]}}, -1)
	}
	registry := callers.New(x.engine, callers.Options{Doors: doorNames[:], Clock: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})
	o := server.Options{Doors: x.doors, Keys: keys, Callers: registry, Engine: x.engine,
		Tokens: oidc.New([]oidc.Issuer{{URL: provider.URL, Audiences: []string{"ostiary"}}}, oidc.Options{})}
	w.http, w.grpc = w.serve(o)
	w.secure(o)
	foreign := x.call("openfga", "POST", "/stores", m{"name": "foreign"})["id"].(string)
	x.id = x.call("openfga", "POST", "/stores", m{"name": "one"})["id"].(string)
	for kind, n := range map[string]callers.NewKey{
		"revoked": {Rights: []string{"admin"}}, "expired": {Rights: []string{"admin"}, Expires: time.Now().Add(time.Hour)},
		"foreign": {Rights: []string{"admin"}, Stores: []string{foreign}}, "door": {Rights: []string{"admin"}},
		"reader": {Rights: []string{"read"}}, "writer": {Rights: []string{"write"}}, "schema": {Rights: []string{"schema"}}, "admin": {Rights: []string{"admin"}},
	} {
		if n.Stores == nil {
			n.Stores = []string{"*"}
		}
		for _, door := range []string{"", "other"} { // two keys: one for native, one for all other doors
			n.Name = kind + door
			if n.Doors = nil; kind == "door" {
				n.Doors = []string{map[string]string{"": "native", "other": "openfga"}[door]}
			}
			made, err := registry.Create(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			w.secrets[n.Name] = made.Secret
			if kind == "revoked" {
				if _, err := registry.Revoke(t.Context(), n.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, n := range []callers.NewKey{{Name: "matched reader", Rights: []string{"read"}, Stores: []string{"*"}}, {Name: "matched foreign", Rights: []string{"admin"}, Stores: []string{foreign}}} {
		for name, match := range map[string]callers.Match{"": {Issuer: provider.URL, Claim: "groups", Value: "readers"}, " certificate": {Certificate: "dns:certificate"}} {
			one := n
			one.Name, one.Match = n.Name+name, match
			if _, err := registry.Create(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.ahead.Store(int64(2 * time.Hour))
	return w
}

// serve starts a server, and returns its addresses.
func (w *walker) serve(o server.Options) (http, grpc string) {
	w.t.Helper()
	o.HTTP, o.GRPC, o.DrainTime = "127.0.0.1:0", "127.0.0.1:0", -1
	s, err := server.New(o)
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Stop() })
	for _, a := range s.Addresses() {
		switch a.Name {
		case "http":
			http = a.Addr.String()
		case "grpc":
			grpc = a.Addr.String()
		}
	}
	return http, grpc
}

// secure starts the server for callers with certificates.
func (w *walker) secure(o server.Options) {
	w.t.Helper()
	authority, folder := issuers.NewAuthority(w.t, "authority"), w.t.TempDir()
	file := filepath.Join(folder, "ca.pem")
	err := os.WriteFile(file, authority.PEM, 0o600)
	if err == nil {
		o.ClientCA, err = server.NewClientCA(file, false)
	}
	if err == nil {
		o.TLS, err = server.NewCertificate(issuers.WriteCertificate(w.t, folder, "server", authority.Issue(nil)))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	http1, grpc1 := w.serve(o)
	w.secured = map[string]*securedCaller{}
	for _, kind := range []string{"certificate", "stranger"} {
		c := &securedCaller{http: http1, grpc: grpc1, config: authority.Trust(authority.Issue(func(c *x509.Certificate) { c.DNSNames, c.NotAfter = []string{kind}, time.Now().Add(4*time.Hour) }))}
		c.client.Transport = &http.Transport{DialContext: w.dial, DisableKeepAlives: true, TLSClientConfig: c.config}
		w.secured[kind] = c
	}
}

// secret returns the secret of a kind of caller of a door.
func (w *walker) secret(kind, door string) string {
	if kind == "door" && door == "native" {
		kind = "doorother"
	}
	return w.secrets[kind]
}

// send sends a request and returns "401", "403", or "yes" for a request that reached what
// it asks for, whatever became of it.
func (w *walker) send(kind, door string, r *http.Request) (string, int) {
	w.t.Helper()
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", w.http, ""
	if secret := w.secret(kind, door); secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	client := &w.client
	if c := w.secured[kind]; c != nil {
		r.URL.Scheme, r.URL.Host, client = "https", c.http, &c.client
	}
	resp, err := client.Do(r.WithContext(w.t.Context()))
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprint(resp.StatusCode), resp.StatusCode
	}
	return "yes", resp.StatusCode
}

// TestEveryCaller sends a request to every route and gRPC method of every door as every
// kind of caller, and compares who is refused with testdata/routes.callers. Requests that
// write are complete, and depend on one another.
func TestEveryCaller(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	table := map[string]map[string]string{}
	note := func(key, kind, result string) {
		if table[key] == nil {
			table[key] = map[string]string{}
		}
		if old := table[key][kind]; old != "" && old != result {
			t.Errorf("%s as %s: %s, and %s before", key, kind, result, old)
		}
		table[key][kind] = result
	}
	var schema string
	for _, r := range writingRoutes(w.everyDoor) {
		if r.door == "keystone" {
			continue
		}
		var p door.Params
		route, _ := w.ports[r.door].Find(r.method, r.request(w.everyDoor, schema).URL.EscapedPath(), &p)
		if route == nil {
			t.Fatalf("%s has no %s %s", r.door, r.method, r.path)
		}
		for _, kind := range kindsOfCallers {
			req := r.request(w.everyDoor, schema)
			result, _ := w.send(kind, r.door, req)
			note(r.door+" "+r.method+" "+route.Pattern, kind, result)
		}
		if list := w.call("openfga", "GET", "/stores/"+w.id+"/authorization-models", nil)["authorization_models"].([]any); len(list) > 0 {
			schema = list[0].(m)["id"].(string)
		}
	}
	parameters := strings.NewReplacer("{store}", w.id, "{store_id}", w.id, "{tenant_id}", "t1", "{domain}", "d", "{id}", w.id, "{authorization_model_id}", w.id)
	deletes := map[string]bool{"DeleteStore": true, "Tenancy.Delete": true}
	rest := regexp.MustCompile(`\{[^}]*\}`)
	for _, d := range w.doors {
		for _, r := range d.Routes {
			key := d.Name + " " + r.Method + " " + r.Pattern
			if d.OwnAuthentication || r.Public || table[key] != nil {
				continue
			}
			for _, kind := range kindsOfCallers {
				switch {
				case r.Streams && !slices.Contains(refusedCallers, kind):
					continue // a stream that is accepted may last
				case deletes[r.Name] && (kind == "admin" || kind == "preshared"):
					continue // the other requests need the store
				}
				path := rest.ReplaceAllString(parameters.Replace(r.Pattern), "x")
				req, err := http.NewRequest(r.Method, "http://x"+path, strings.NewReader(cmp.Or(bodiesOf[d.Name+" "+r.Name], "{}")))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				result, code := w.send(kind, d.Name, req)
				note(key, kind, result)
				if kind == "foreign" && code/100 == 2 && strings.Contains(path, w.id) {
					t.Errorf("%s: a key for another store gets %d", key, code)
				}
			}
		}
		w.methods(d, note)
	}
	var text strings.Builder
	for _, d := range w.doors {
		for _, r := range d.Routes {
			key := d.Name + " " + r.Method + " " + r.Pattern
			switch {
			case d.OwnAuthentication:
			case r.Public:
				fmt.Fprintf(&text, "%s\n\tpublic\n", key)
			default:
				fmt.Fprintf(&text, "%s\n\t%s\n", key, row(table[key]))
			}
			delete(table, key)
		}
		if d.OwnAuthentication {
			fmt.Fprintf(&text, "%s: all routes are for the tokens of Identity\n", d.Name)
		}
	}
	for _, key := range sortedKeys(table) {
		fmt.Fprintf(&text, "%s\n\t%s\n", key, row(table[key]))
	}
	golden.Equal(t, "testdata/routes.callers", text.String())
}

func sortedKeys(table map[string]map[string]string) (keys []string) {
	for key := range table {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// row returns the results of a route for the kinds of callers.
func row(results map[string]string) string {
	var out []string
	for _, kind := range kindsOfCallers {
		if result := results[kind]; result != "" {
			out = append(out, kind+" "+result)
		}
	}
	return strings.Join(out, ", ")
}

// methods calls every gRPC method of a door with an empty message. What a key may do with a
// store is the same as over HTTP, so only callers that every method refuses are walked.
func (w *walker) methods(d *door.Door, note func(key, kind, result string)) {
	for _, service := range d.Services {
		var names []string
		for _, method := range service.Desc.Methods {
			names = append(names, method.MethodName)
		}
		for _, method := range service.Desc.Streams {
			names = append(names, method.StreamName)
		}
		for _, name := range names {
			full := "/" + service.Desc.ServiceName + "/" + name
			for _, kind := range refusedCallers[:len(refusedCallers)-1] {
				note(d.Name+" GRPC "+full, kind, w.method(full, kind, w.secret(kind, d.Name)))
			}
		}
	}
}

func (w *walker) method(full, kind, secret string) string {
	address, transport := w.grpc, insecure.NewCredentials()
	if c := w.secured[kind]; c != nil {
		address, transport = c.grpc, credentials.NewTLS(c.config)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(transport),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, "tcp", address) }))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if secret != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+secret)
	}
	err = conn.Invoke(ctx, full, &emptypb.Empty{}, &emptypb.Empty{})
	switch code := status.Code(err); code {
	case codes.Unauthenticated, 1500, 1501, 1502, 1503, 1504, 1505:
		return "401"
	case codes.PermissionDenied, 1600:
		return "403"
	}
	return "yes"
}
