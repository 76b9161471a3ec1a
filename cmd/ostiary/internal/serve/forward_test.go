package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ostiary/ostiary/storage"
)

// varying are the parts of responses that differ in each run: ids, times, tokens.
var varying = regexp.MustCompile(`o1\.[0-9A-Za-z_-]+|[0-9A-HJKMNP-TV-Z]{26}|req-[0-9a-f-]{36}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)?|"(snap_token|token|revision|resume)":"[^"]*"|"id":"[a-z0-9]{12}"|ost_[a-z0-9]{12}_[0-9A-Za-z_-]{43}|"time_epoch":\d+|127\.0\.0\.1:\d+|localhost:\d+`)

// entriesSince returns the origins of the entries since the last call, in the order of
// stores and revisions.
func (n *testNode) entriesSince(known map[storage.StoreID]storage.Revision) (all []storage.Origin) {
	n.t.Helper()
	for info, err := range n.driver.Stores(n.t.Context(), storage.StoreID{}) {
		if err != nil {
			n.t.Fatal(err)
		}
		for e, err := range n.driver.Entries(n.t.Context(), info.ID, known[info.ID]+1) {
			if err != nil {
				n.t.Fatal(err)
			}
			known[info.ID] = e.Revision
			all = append(all, e.Origin)
		}
	}
	return all
}

// playWrites sends the requests of writingRoutes, and requests that change stores, to a
// node, and returns a line for each response and for the entries that it led to.
func playWrites(t *testing.T, all *testNodes, via int, overGRPC bool) (lines []string) {
	holder, n := all.nodes[0], all.nodes[via]
	holder.bootstrap()
	n.shows()
	known := map[storage.StoreID]storage.Revision{}
	holder.entriesSince(known)
	var schema string
	play := func(r writingRoute) []byte {
		n.shows()
		req := r.request(n.everyDoor, schema)
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Fatal(err)
		}
		if r.in == nil {
			body = nil
		}
		header := req.Header
		header.Set("Ostiary-Reason", "ticket 7")
		key := "walker-key"
		if r.door == "keystone" {
			key = ""
		}
		before := holder.served.Load()
		var text string
		if method := rpcOf(r); overGRPC && method != nil {
			text = n.call(method, req.URL.Path, body)
		} else {
			var response *http.Response
			response, text = n.send(key, r.method, req.URL.RequestURI(), body, header)
			text = fmt.Sprint(response.StatusCode, " ", response.Header.Get("Content-Type"), " ", response.Header.Get("Location"), " ", text)
			if len(response.Header["X-Request-Id"]) != 1 || response.Header["Ostiary-Node-Caller"] != nil || response.Header["Ostiary-Node-Changes"] != nil {
				t.Errorf("%s %s: headers %v", r.method, r.path, response.Header)
			}
		}
		if got := holder.served.Load() - before; got != int64(via) {
			t.Errorf("%s %s: the holder got %d forwarded requests, want %d", r.method, r.path, got, via)
		}
		origins := holder.entriesSince(known)
		for i := range origins {
			o := &origins[i]
			if via != 0 && (o.Request.Node != n.driver.Node() || o.Request.Number == 0) || via == 0 && o.Request != (storage.RequestID{}) {
				t.Errorf("%s %s: the entry has the request %v", r.method, r.path, o.Request)
			}
			o.Request = storage.RequestID{}
		}
		lines = append(lines, fmt.Sprintf("%s %s %s: %s %v", r.door, r.method, varying.ReplaceAllString(r.path, "*"), varying.ReplaceAllString(text, "*"), varying.ReplaceAllString(fmt.Sprint(origins), "*")))
		return []byte(text[max(strings.IndexByte(text, '{'), 0):])
	}
	var made struct{ ID string }
	if err := json.Unmarshal(play(writingRoute{"openfga", "POST", "/stores", m{"name": "one"}}), &made); err != nil {
		t.Fatal(err)
	}
	n.id, n.user, n.identity = made.ID, holder.user, holder.identity
	for _, r := range writingRoutes(n.everyDoor) {
		schema = schemaOf(r.path, play(r), schema)
	}
	for _, r := range []writingRoute{
		{"openfga", "PATCH", "/stores/" + n.id, m{"name": "two"}},
		{"openfga", "DELETE", "/stores/" + n.id, nil},
		{"native", "POST", "/ostiary/v1/stores", m{"id": storeOfWalk, "name": "three"}},
		{"native", "PATCH", "/ostiary/v1/stores/" + storeOfWalk, m{"name": "four"}},
		{"native", "DELETE", "/ostiary/v1/stores/" + storeOfWalk, nil},
		{"permify", "POST", "/v1/tenants/create", m{"id": "t9", "name": "nine"}},
		{"permify", "DELETE", "/v1/tenants/t9", nil},
	} {
		play(r)
	}
	return lines
}

// storeOfWalk is a store that the walk makes and deletes.
const storeOfWalk = "01HVMMBCMGZNT3SED4Z17ECXCA"

// TestWritesAreForwarded sends a request to each writing route of each door to the holder
// and, in another cluster, to another node. Both give the same answers and lead to
// entries of the same authors.
func TestWritesAreForwarded(t *testing.T) {
	t.Parallel()
	for _, overGRPC := range []bool{false, true} {
		direct, forwarded := playWrites(t, openNodes(t, 2, nil), 0, overGRPC), playWrites(t, openNodes(t, 2, nil), 1, overGRPC)
		for i := range max(len(direct), len(forwarded)) {
			if i >= len(direct) || i >= len(forwarded) || direct[i] != forwarded[i] {
				t.Errorf("grpc %v, request %d:\ndirect    %s\nforwarded %s", overGRPC, i, lineAt(direct, i), lineAt(forwarded, i))
			}
		}
		for _, line := range forwarded {
			if !strings.Contains(line, ": 20") && !strings.Contains(line, ": OK") {
				t.Errorf("an error: %s", line)
			}
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// rpcOf returns the gRPC method of a writing route, or nil.
func rpcOf(r writingRoute) protoreflect.MethodDescriptor {
	path := r.method + " " + regexp.MustCompile(`/(stores|tenants|assertions)/[^/]+`).ReplaceAllString(r.path, "/$1/*")
	name := map[string]string{
		"POST /stores": "openfga.v1.OpenFGAService.CreateStore", "PATCH /stores/*": "openfga.v1.OpenFGAService.UpdateStore", "DELETE /stores/*": "openfga.v1.OpenFGAService.DeleteStore",
		"POST /stores/*/authorization-models": "openfga.v1.OpenFGAService.WriteAuthorizationModel", "POST /stores/*/write": "openfga.v1.OpenFGAService.Write",
		"PUT /stores/*/assertions/*":       "openfga.v1.OpenFGAService.WriteAssertions",
		"POST /v1/tenants/*":               "base.v1.Tenancy.Create",
		"DELETE /v1/tenants/*":             "base.v1.Tenancy.Delete",
		"POST /v1/tenants/*/schemas/write": "base.v1.Schema.Write", "PATCH /v1/tenants/*/schemas/partial-write": "base.v1.Schema.PartialWrite",
		"POST /v1/tenants/*/data/write": "base.v1.Data.Write", "POST /v1/tenants/*/relationships/write": "base.v1.Data.WriteRelationships",
		"POST /v1/tenants/*/bundle/write": "base.v1.Bundle.Write", "POST /v1/tenants/*/data/run-bundle": "base.v1.Data.RunBundle",
		"POST /v1/tenants/*/bundle/delete": "base.v1.Bundle.Delete", "POST /v1/tenants/*/relationships/delete": "base.v1.Data.DeleteRelationships",
		"POST /v1/tenants/*/data/delete": "base.v1.Data.Delete",
	}[path]
	if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name)); err == nil {
		return d.(protoreflect.MethodDescriptor)
	}
	return nil
}

// call calls a method over gRPC with a message in JSON, completed by the ids of a path.
func (n *testNode) call(method protoreflect.MethodDescriptor, path string, body []byte) string {
	n.t.Helper()
	in, out := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if len(body) > 0 {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, in); err != nil {
			n.t.Fatal(method.FullName(), err)
		}
	}
	for name, pattern := range map[string]string{"store_id": `^/stores/([^/]+)`, "tenant_id": `^/v1/tenants/([^/]+)/`, "authorization_model_id": `/assertions/([^/]+)`, "id": `^/v1/tenants/(t9)$`} {
		field := method.Input().Fields().ByName(protoreflect.Name(name))
		if found := regexp.MustCompile(pattern).FindStringSubmatch(path); field != nil && found != nil {
			in.Set(field, protoreflect.ValueOfString(found[1]))
		}
	}
	conn, err := grpc.NewClient(n.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(n.t.Context(), "authorization", "Bearer walker-key", "ostiary-reason", "ticket 7")
	var headers metadata.MD
	err = conn.Invoke(ctx, "/"+string(method.Parent().FullName())+"/"+string(method.Name()), proto.Message(in), out, grpc.Header(&headers))
	text, _ := protojson.Marshal(out)
	names := []string{}
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var compact any
	_ = json.Unmarshal(text, &compact)
	text, _ = json.Marshal(compact)
	return fmt.Sprint(status.Code(err), " ", status.Convert(err).Message(), " ", names, " ", string(text))
}

// TestTokenRoutesAreForwarded sends a request to each route of Identity that writes as
// the user of a token, to the holder and to another node. Both give the same answer.
func TestTokenRoutesAreForwarded(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	holder, n := all.nodes[0], all.nodes[1]
	holder.bootstrap()
	n.shows()
	kinds, count := readRouteKinds(t), 0
	for _, d := range n.doors {
		for _, r := range d.Routes {
			if kinds[d.Name+" "+r.Name] != routeToken || !r.Writes {
				continue
			}
			count++
			var answers [2]string
			for i, to := range all.nodes {
				before := holder.served.Load()
				path := strings.NewReplacer("{", "", "}", "").Replace(r.Pattern)
				response, text := to.send("", r.Method, path, []byte("{}"), http.Header{"X-Auth-Token": {holder.identity}})
				answers[i] = fmt.Sprint(response.StatusCode, " ", response.Header["Content-Type"], " ", varying.ReplaceAllString(text, "*"))
				if got := holder.served.Load() - before; got != int64(i) {
					t.Errorf("%s %s: %d requests were forwarded, want %d", r.Method, path, got, i)
				}
				if r.Name == "RevokeToken" { // of another token than that of the test
					break
				}
			}
			if r.Name != "RevokeToken" && answers[0] != answers[1] {
				t.Errorf("%s %s:\ndirect    %s\nforwarded %s", r.Method, r.Pattern, answers[0], answers[1])
			}
		}
	}
	if count < 100 {
		t.Errorf("%d routes were called, want at least 100", count)
	}
}
