package permify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// refusedSchema is the schema of the tenant t1 in TestRefused.
const refusedSchema = "entity user {}\nentity org {\n relation member @user\n}\nentity doc {\n relation owner @user @org#member\n attribute on boolean\n attribute n integer\n" +
	" permission view = owner or on\n permission big = more(n)\n}\nrule more(n integer) { n > context.data.least }"

// validRequests are a valid request for each call, or several for a call with
// different forms.
var validRequests = [][2]string{
	{"Permission.Check", `{"metadata":{"snap_token":"","schema_version":"","depth":20},"entity":{"type":"doc","id":"1"},"permission":"view","subject":{"type":"org","id":"1","relation":"member"}}`},
	{"Permission.Check", `{"metadata":{"depth":20},"entity":{"type":"doc","id":"1"},"permission":"more","subject":{"type":"user","id":"1"},"arguments":[{"computedAttribute":{"name":"n"}}],"context":{
		"tuples":[{"entity":{"type":"doc","id":"1"},"relation":"owner","subject":{"type":"user","id":"1","relation":""}}],
		"attributes":[{"entity":{"type":"doc","id":"1"},"attribute":"n","value":{"@type":"type.googleapis.com/base.v1.IntegerValue","data":2}}],"data":{"least":1}}}`},
	{"Permission.BulkCheck", `{"metadata":{"snap_token":"","schema_version":"","depth":20},"items":[{"entity":{"type":"doc","id":"1"},"permission":"view","subject":{"type":"org","id":"1","relation":"member"}}]}`},
	{"Permission.BulkCheck", `{"metadata":{"depth":20},"items":[{"entity":{"type":"doc","id":"1"},"permission":"big","subject":{"type":"user","id":"1"}}],"context":{
		"tuples":[{"entity":{"type":"doc","id":"1"},"relation":"owner","subject":{"type":"user","id":"1"}}],"data":{"least":1}}}`},
	{"Permission.Expand", `{"metadata":{"snap_token":"","schema_version":""},"entity":{"type":"doc","id":"1"},"permission":"view","context":{"tuples":[{"entity":{"type":"doc","id":"1"},"relation":"owner","subject":{"type":"user","id":"1"}}],"attributes":[{"entity":{"type":"doc","id":"1"},"attribute":"n","value":{"@type":"type.googleapis.com/base.v1.IntegerValue","data":2}}],"data":{"least":1}}}`},
	{"Permission.LookupEntity", `{"metadata":{"snap_token":"","schema_version":"","depth":20},"entity_type":"doc","permission":"view","subject":{"type":"user","id":"1","relation":""},"page_size":1,"continuous_token":""}`},
	{"Permission.LookupEntity", `{"metadata":{"depth":20},"entity_type":"doc","permissions":["view","owner"],"subject":{"type":"user","id":"1"},"scope":{"doc":{"data":["1","2"]}},"context":{"tuples":[{"entity":{"type":"doc","id":"1"},"relation":"owner","subject":{"type":"user","id":"1"}}],"attributes":[{"entity":{"type":"doc","id":"1"},"attribute":"n","value":{"@type":"type.googleapis.com/base.v1.IntegerValue","data":2}}],"data":{"least":1}}}`},
	{"Permission.LookupEntityStream", `{"metadata":{"snap_token":"","schema_version":"","depth":20},"entity_type":"doc","permission":"view","subject":{"type":"user","id":"1"},"scope":{"doc":{"data":["1"]}},"page_size":1}`},
	{"Permission.LookupSubject", `{"metadata":{"snap_token":"","schema_version":"","depth":20},"entity":{"type":"doc","id":"1"},"permission":"view","subject_reference":{"type":"org","relation":"member"},"page_size":1,"continuous_token":""}`},
	{"Permission.LookupSubject", `{"metadata":{"depth":20},"entity":{"type":"doc","id":"1"},"permission":"more","subject_reference":{"type":"user"},"arguments":[{"computedAttribute":{"name":"n"}}],"context":{"tuples":[{"entity":{"type":"doc","id":"1"},"relation":"owner","subject":{"type":"user","id":"1"}}],"attributes":[{"entity":{"type":"doc","id":"1"},"attribute":"n","value":{"@type":"type.googleapis.com/base.v1.IntegerValue","data":2}}],"data":{"least":1}}}`},
	{"Permission.SubjectPermission", `{"metadata":{"snap_token":"","schema_version":"","depth":20,"only_permission":true},"entity":{"type":"doc","id":"1"},"subject":{"type":"user","id":"1"},"context":{"tuples":[{"entity":{"type":"doc","id":"1"},"relation":"owner","subject":{"type":"user","id":"1"}}],"attributes":[{"entity":{"type":"doc","id":"1"},"attribute":"n","value":{"@type":"type.googleapis.com/base.v1.IntegerValue","data":2}}],"data":{"least":1}}}`},
	{"Schema.Write", `{"schema":"entity user {}"}`},
	{"Schema.PartialWrite", `{"metadata":{"schema_version":""},"partials":{"doc":{"write":["relation reader @user"],"update":["permission view = owner"],"delete":["on"]}}}`},
	{"Schema.Read", `{"metadata":{"schema_version":""}}`},
	{"Schema.List", `{"page_size":1,"continuous_token":""}`},
	{"Data.Write", `{"metadata":{"schema_version":""},"tuples":[{"entity":{"type":"doc","id":"2"},"relation":"owner","subject":{"type":"user","id":"2","relation":""}}]}`},
	{"Data.Write", `{"metadata":{"schema_version":""},"attributes":[{"entity":{"type":"doc","id":"2"},"attribute":"n","value":{"@type":"type.googleapis.com/base.v1.IntegerValue","data":2}}]}`},
	{"Data.WriteRelationships", `{"metadata":{"schema_version":""},"tuples":[{"entity":{"type":"doc","id":"2"},"relation":"owner","subject":{"type":"user","id":"2","relation":""}}]}`},
	{"Data.ReadRelationships", `{"metadata":{"snap_token":""},"filter":{"entity":{"type":"doc","ids":["1"]},"relation":"owner","subject":{"type":"user","ids":["1"],"relation":""}},"page_size":1,"continuous_token":""}`},
	{"Data.ReadAttributes", `{"metadata":{"snap_token":""},"filter":{"entity":{"type":"doc","ids":["1"]},"attributes":["on"]},"page_size":1,"continuous_token":""}`},
	{"Data.Delete", `{"tuple_filter":{"entity":{"type":"doc","ids":["1"]},"relation":"owner","subject":{"type":"user","ids":["1"],"relation":""}},"attribute_filter":{"entity":{"type":"doc","ids":["1"]},"attributes":["on"]}}`},
	{"Data.DeleteRelationships", `{"filter":{"entity":{"type":"doc","ids":["1"]},"relation":"owner","subject":{"type":"user","ids":["1"],"relation":""}}}`},
	{"Bundle.Write", `{"bundles":[{"name":"b","arguments":["id"],"operations":[{"relationships_write":["doc:{{.id}}#owner@user:1"],"relationships_delete":["doc:{{.id}}#owner@user:2"],"attributes_write":["doc:{{.id}}$n|integer:1"],"attributes_delete":["doc:{{.id}}$on|boolean:true"]}]}]}`},
	{"Bundle.Read", `{"name":"b"}`},
	{"Data.RunBundle", `{"name":"b","arguments":{"id":"3"}}`},
	{"Bundle.Delete", `{"name":"b"}`},
	{"Tenancy.Create", `{"id":"t3","name":"three"}`},
	{"Tenancy.List", `{"page_size":1,"continuous_token":""}`},
}

// TestRefused sends variants of valid requests, over REST and over gRPC.
func TestRefused(t *testing.T) {
	t.Parallel()
	doortest.Variants{File: "testdata/refused.txt", Requests: validRequests,
		Skip: func(path string) bool {
			return strings.HasSuffix(path, ".data") && path != ".scope.doc.data" || strings.HasSuffix(path, ".@type")
		},
		Open: func(t *testing.T, call string) func([]byte) string {
			w := openRefused(t)
			return func(body []byte) string { return w.outcome(t, "t1", call, body) }
		},
	}.Run(t)
}

// TestTenants sends valid requests for a tenant without a schema, for an unknown
// tenant and with an invalid id of one, canceled ones, and some to an engine that
// is closed.
func TestTenants(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	// A read that is canceled before it begins may notice that or not.
	reads := []string{"Schema.List", "Schema.Read", "Data.ReadRelationships", "Data.ReadAttributes", "Bundle.Read", "Tenancy.List"}
	for _, r := range validRequests {
		w := openRefused(t)
		for _, tenant := range []string{"empty", "none", "a!"} {
			fmt.Fprintf(&got, "%s, tenant %s: %s\n", r[0], tenant, w.outcome(t, tenant, r[0], []byte(r[1])))
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		w.ctx = canceled
		out := w.outcome(t, "t1", r[0], []byte(r[1]))
		if slices.Contains(reads, r[0]) && out == "200" {
			out = "499 1 ERROR_CODE_CANCELLED"
		}
		fmt.Fprintf(&got, "%s, canceled: %s\n", r[0], out)
		w.ctx = t.Context()
		if err := w.engine.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s, closed: %s\n", r[0], w.outcome(t, "t1", r[0], []byte(r[1])))
	}
	golden.Equal(t, "testdata/tenants.txt", got.String())
}

// refusedWorld is a door with the tenants t1, which has a schema and data, and
// empty.
type refusedWorld struct {
	ctx    context.Context
	door   *door.Door
	router *door.Router
	conn   *grpc.ClientConn
	engine *ostiary.Engine
}

func openRefused(t *testing.T) *refusedWorld {
	t.Helper()
	c := connect(t, refusedSchema)
	w := &refusedWorld{ctx: t.Context(), door: c.door, conn: dial(t, c.door), engine: c.engine}
	var err error
	if w.router, err = door.NewRouter(w.door.Routes); err != nil {
		t.Fatal(err)
	}
	c.write(t, "doc:1#owner@user:1", "doc:1#owner@org:1#member", "org:1#member@user:9", "doc:2#owner@user:1", "doc:1$on|boolean:true", "doc:1$n|integer:7")
	bundle := slices.IndexFunc(validRequests, func(r [2]string) bool { return r[0] == "Bundle.Write" })
	for call, body := range map[string]string{"Tenancy.Create": `{"id":"empty"}`, "Bundle.Write": validRequests[bundle][1]} {
		if out := w.outcome(t, "t1", call, []byte(body)); !strings.HasPrefix(out, "200") {
			t.Fatalf("%s: %s", call, out)
		}
	}
	return w
}

// outcome sends a request over REST and over gRPC. It returns the status and, for
// an error, the message; both, if they differ.
func (w *refusedWorld) outcome(t *testing.T, tenant, call string, text []byte) string {
	t.Helper()
	route := w.door.Routes[slices.IndexFunc(w.door.Routes, func(r door.Route) bool { return r.Name == call })]
	r := httptest.NewRequestWithContext(w.ctx, route.Method, "/", bytes.NewReader(text))
	path := strings.Replace(route.Pattern, "{tenant_id}", tenant, 1)
	var p door.Params
	found, _ := w.router.Find(route.Method, path, &p)
	if found == nil {
		t.Fatalf("no route for %s %s", route.Method, path)
	}
	rec := httptest.NewRecorder()
	found.Serve(rec, r, p)
	rest := "200"
	if rec.Code != http.StatusOK || strings.HasPrefix(rec.Body.String(), `{"error"`) {
		rest = fmt.Sprintf("%d %s", rec.Code, errorOf(t, rec.Body.Bytes()))
	}
	rest += itemErrors(rec.Body.Bytes())
	if rpc := w.rpc(t, tenant, call, text); rpc != "" && !strings.Contains(rest, rpc) {
		return rest + "; gRPC " + rpc
	}
	return rest
}

// itemErrors returns the errors of the items of a bulk check.
func itemErrors(body []byte) (text string) {
	var out struct {
		Results []struct{ Metadata struct{ Error string } }
	}
	if json.Unmarshal(body, &out) != nil {
		return ""
	}
	for _, r := range out.Results {
		if r.Metadata.Error != "" {
			text += ", item: " + r.Metadata.Error
		}
	}
	return text
}

// errorOf returns the code and the message of an error response.
func errorOf(t *testing.T, body []byte) string {
	t.Helper()
	var e struct {
		Code    int
		Message string
		Error   *struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if e.Error != nil {
		e.Code, e.Message = e.Error.Code, e.Error.Message
	}
	if strings.HasPrefix(e.Message, "proto:") {
		e.Message = "malformed JSON" // the rest comes from the protobuf library
	}
	return fmt.Sprintf("%d %s", e.Code, e.Message)
}

// rpc sends a request over gRPC. It returns "" if the JSON is not a message of
// the call's type, "200" for success, else the code and the message.
func (w *refusedWorld) rpc(t *testing.T, tenant, call string, text []byte) string {
	t.Helper()
	service, name, _ := strings.Cut(call, ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("base.v1." + service))
	if err != nil {
		t.Fatal(err)
	}
	m := found.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name))
	in, out := newMessage(t, m.Input()), newMessage(t, m.Output())
	if protojson.Unmarshal(text, in) != nil || m.IsStreamingServer() || w.ctx.Err() != nil {
		return ""
	}
	if f := m.Input().Fields().ByTextName("tenant_id"); f != nil {
		in.ProtoReflect().Set(f, protoreflect.ValueOfString(tenant))
	}
	if err := w.conn.Invoke(w.ctx, "/base.v1."+service+"/"+name, in, out); err != nil {
		s := status.Convert(err)
		return fmt.Sprintf("%d %s", s.Code(), s.Message())
	}
	return "200"
}

func newMessage(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return found.New().Interface()
}
