package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	permifyv1 "github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage/pebble"
)

// readsServer is the server of ostiary serve on a data folder, whose driver counts its
// operations.
type readsServer struct {
	t          *testing.T
	driver     *failing.Driver
	http, grpc string
	token      string // of an administrator of the Identity API
}

// startReads starts the server with its default settings, on a folder with a deployment of
// the Identity API.
func startReads(t *testing.T) *readsServer {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	data := must(pebble.Open(folder, pebble.Options{}))(t)
	t.Cleanup(func() { data.Close() })
	x := &readsServer{t: t, driver: failing.New(data)}

	var f serveFlags
	a := &app{&cli.App{Data: folder, Err: io.Discard, Lookup: func(string) (string, bool) { return "", false }}}
	if err := a.SetupKeystoneKeys(); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	f.add(cmd)
	if err := cmd.ParseFlags([]string{"--http=127.0.0.1:0", "--grpc=127.0.0.1:0", "--metrics=off", "--drain-time=0", fmt.Sprint("--keystone-password-hash-rounds=", password.RoundsMin)}); err != nil {
		t.Fatal(err)
	}
	s := must(a.prepare(&f))(t)
	t.Cleanup(s.ports.close)
	s.engine = must(ostiary.Open(t.Context(), ostiary.Options{Driver: x.driver, Conditions: cli.Conditions(f.conditions), Window: f.window, Bounds: f.engineBounds(), Guard: cli.GuardOwned, SecretKey: &[32]byte{1}}))(t)
	t.Cleanup(func() { s.engine.Close() })
	if _, err := protocols.BootstrapIdentity(t.Context(), s.engine, identity.BootstrapOptions{Password: "secret"}, settings.Deployment{Rounds: password.RoundsMin}); err != nil {
		t.Fatal(err)
	}
	if err := s.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := must(server.New(s.options))(t)
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Stop() })
	for _, at := range running.Addresses() {
		switch at.Name {
		case "http":
			x.http = "http://" + at.Addr.String()
		case "grpc":
			x.grpc = at.Addr.String()
		}
	}
	return x
}

// send sends a request over HTTP and returns the response, which must be a success.
func (x *readsServer) send(method, path, contentType, body string) (*http.Response, string) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), method, x.http+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	if x.token != "" {
		r.Header.Set("X-Auth-Token", x.token)
		r.Header.Set("X-Subject-Token", x.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		x.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, text, err)
	}
	return resp, string(text)
}

// TestReads counts the operations of the storage driver that a request needs when the
// server has answered the same one before. The numbers are exact: one more is a cost that
// each request has, which no other test notices. Aliases are remembered, also that no store
// has one: a tenant, a policy domain, the system store.
func TestReads(t *testing.T) {
	t.Parallel()
	x := startReads(t)
	const id, jsonType = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "application/json"
	post := func(path, body string) string {
		t.Helper()
		_, text := x.send("POST", path, jsonType, body)
		return text
	}
	post("/ostiary/v1/stores", `{"name":"documents","id":"`+id+`"}`)
	x.send("PATCH", "/ostiary/v1/stores/"+id, jsonType, `{"aliases":{"authzen":"documents","native":"documents"}}`)
	post("/ostiary/v1/stores/"+id+"/schemas", `{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"}`)
	post("/ostiary/v1/stores/"+id+"/write", `{"add":[{"subject":"user:x","relation":"viewer","object":"doc:0"}]}`)
	post("/v1/tenants/create", `{"id":"t","name":"t"}`)
	post("/v1/tenants/t/schemas/write", `{"schema":"entity user {}\nentity doc {\n  relation viewer @user\n  permission view = viewer\n}"}`)
	post("/v1/tenants/t/data/write", `{"metadata":{},"tuples":[{"entity":{"type":"doc","id":"0"},"relation":"viewer","subject":{"type":"user","id":"x"}}]}`)
	post("/xacml/v3/domains", `{"name":"rules","alias":"default"}`)
	x.send("PUT", "/xacml/v3/root", "application/xml", `<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="all" Version="1.0"
RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/><Rule RuleId="all" Effect="Permit"/></Policy>`)
	login, _ := x.send("POST", "/v3/auth/tokens", jsonType, `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}},"scope":{"system":{"all":true}}}}`)
	x.token = login.Header.Get("X-Subject-Token")

	conn := must(grpc.NewClient("passthrough:///"+x.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	fga := openfgav1.NewOpenFGAServiceClient(conn)
	key := &openfgav1.CheckRequestTupleKey{User: "user:x", Relation: "viewer", Object: "doc:0"}
	over := func(method, path, body string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			_, text := x.send(method, path, jsonType, body)
			return strings.Join(strings.Fields(text), ""), nil
		}
	}
	for _, c := range []struct {
		request string
		send    func(ctx context.Context) (string, error)
		answer  string // a part of the response, without blanks
		reads   int    // operations of the driver
	}{
		{"native check", over("POST", "/ostiary/v1/stores/"+id+"/check", `{"object":"doc:0","relation":"viewer","subject":"user:x"}`), `"allowed":true`, 0},
		{"native check, store by alias", over("POST", "/ostiary/v1/stores/documents/check", `{"object":"doc:0","relation":"viewer","subject":"user:x"}`), `"allowed":true`, 0},
		{"OpenFGA Check, HTTP", over("POST", "/stores/"+id+"/check", `{"tuple_key":{"user":"user:x","relation":"viewer","object":"doc:0"}}`), `"allowed":true`, 0},
		{"OpenFGA BatchCheck, HTTP", over("POST", "/stores/"+id+"/batch-check", `{"checks":[{"correlation_id":"a","tuple_key":{"user":"user:x","relation":"viewer","object":"doc:0"}},{"correlation_id":"b","tuple_key":{"user":"user:y","relation":"viewer","object":"doc:0"}}]}`), `{"allowed":true}`, 0},
		{"OpenFGA ListObjects, HTTP", over("POST", "/stores/"+id+"/list-objects", `{"type":"doc","relation":"viewer","user":"user:x"}`), `["doc:0"]`, 0},
		{"OpenFGA Check, gRPC", func(ctx context.Context) (string, error) {
			r, err := fga.Check(ctx, &openfgav1.CheckRequest{StoreId: id, TupleKey: key})
			return fmt.Sprint(r.GetAllowed()), err
		}, "true", 0},
		{"OpenFGA BatchCheck, gRPC", func(ctx context.Context) (string, error) {
			r, err := fga.BatchCheck(ctx, &openfgav1.BatchCheckRequest{StoreId: id, Checks: []*openfgav1.BatchCheckItem{{CorrelationId: "a", TupleKey: key}}})
			return fmt.Sprint(r.GetResult()["a"].GetAllowed()), err
		}, "true", 0},
		{"OpenFGA ListObjects, gRPC", func(ctx context.Context) (string, error) {
			r, err := fga.ListObjects(ctx, &openfgav1.ListObjectsRequest{StoreId: id, Type: "doc", Relation: "viewer", User: "user:x"})
			return fmt.Sprint(r.GetObjects()), err
		}, "[doc:0]", 0},
		{"Permify check, HTTP", over("POST", "/v1/tenants/t/permissions/check", `{"metadata":{"depth":20},"entity":{"type":"doc","id":"0"},"permission":"view","subject":{"type":"user","id":"x"}}`), `"can":"CHECK_RESULT_ALLOWED"`, 0},
		{"Permify check, gRPC", func(ctx context.Context) (string, error) {
			r, err := permifyv1.NewPermissionClient(conn).Check(ctx, &permifyv1.PermissionCheckRequest{TenantId: "t", Metadata: &permifyv1.PermissionCheckRequestMetadata{Depth: 20},
				Entity: &permifyv1.Entity{Type: "doc", Id: "0"}, Permission: "view", Subject: &permifyv1.Subject{Type: "user", Id: "x"}})
			return r.GetCan().String(), err
		}, "CHECK_RESULT_ALLOWED", 0},
		{"AuthZEN evaluation", over("POST", "/authzen/"+id+"/access/v1/evaluation", `{"subject":{"type":"user","id":"x"},"action":{"name":"viewer"},"resource":{"type":"doc","id":"0"}}`), `"decision":true`, 0},
		{"AuthZEN evaluation, store by alias", over("POST", "/authzen/documents/access/v1/evaluation", `{"subject":{"type":"user","id":"x"},"action":{"name":"viewer"},"resource":{"type":"doc","id":"0"}}`), `"decision":true`, 0},
		{"Keystone token validation", over("GET", "/v3/auth/tokens", ""), `"system":{"all":true}`, 0},
		{"XACML decision", over("POST", "/xacml/v3/pdp", `{"Request":{"Action":{}}}`), `"Decision":"Permit"`, 0},
	} {
		for n := range 4 { // the first ones load what the server keeps
			if n == 2 {
				x.driver.Break(failing.Fault{}) // counts from here
			}
			answer, err := c.send(t.Context())
			if err != nil || !strings.Contains(answer, c.answer) {
				t.Fatalf("%s: %v, response %s, expected %s", c.request, err, answer, c.answer)
			}
		}
		if got := x.driver.Count(); got != 2*c.reads {
			t.Errorf("%s: two requests need %d operations of the driver, expected %d", c.request, got, 2*c.reads)
		}
	}
}
