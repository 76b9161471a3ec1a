package openfga_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/openfga/language"
)

// ways is a door with a store, called over HTTP and through its gRPC service.
type ways struct {
	t      testing.TB
	router *door.Router
	server openfgav1.OpenFGAServiceServer
	desc   *grpc.ServiceDesc
	store  string
}

func newWays(t testing.TB) *ways {
	t.Helper()
	d := open(t, openfga.Options{})
	r, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	w := &ways{t: t, router: r, server: d.Services[0].Impl.(openfgav1.OpenFGAServiceServer), desc: d.Services[0].Desc}
	st, err := w.server.CreateStore(t.Context(), &openfgav1.CreateStoreRequest{Name: "ways"})
	if err != nil {
		t.Fatal(err)
	}
	w.store = st.GetId()
	_, text, err := language.ParseDSL([]byte(waysModel))
	if err != nil {
		t.Fatal(err)
	}
	model := &openfgav1.WriteAuthorizationModelRequest{}
	if err := protojson.Unmarshal(text, model); err != nil {
		t.Fatal(err)
	}
	model.StoreId = w.store
	if _, err := w.server.WriteAuthorizationModel(t.Context(), model); err != nil {
		t.Fatal(err)
	}
	return w
}

const waysModel = `model
  schema 1.1
type user
type group
  relations
    define member: [user, user:*, group#member]
type document
  relations
    define parent: [document]
    define blocked: [user, user with cheap]
    define viewer: [user, user with cheap, group#member] or viewer from parent
    define can_view: viewer but not blocked
condition cheap(price: int, limit: int) {
  price < limit
}
`

// post sends a message over HTTP and reads the response into out. It returns the
// protocol's name of an error, and its text.
func (w *ways) post(path string, in, out proto.Message) (code, message string) {
	w.t.Helper()
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	path = "/stores/" + w.store + "/" + path
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	rec := httptest.NewRecorder()
	var p door.Params
	route, _ := w.router.Find(r.Method, path, &p)
	route.Serve(rec, r, p)
	answer := rec.Body.Bytes()
	if rec.Code != http.StatusOK {
		var e struct{ Code, Message string }
		if err := json.Unmarshal(answer, &e); err != nil {
			w.t.Fatalf("%s: %d %q: %v", path, rec.Code, answer, err)
		}
		return e.Code, e.Message
	}
	if strings.Contains(path, "stream") {
		// As one message, as the other list has it.
		var objects []string
		for line := range strings.Lines(string(answer)) {
			var l struct{ Result struct{ Object string } }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				w.t.Fatalf("%q: %v", line, err)
			}
			objects = append(objects, l.Result.Object)
		}
		out.(*openfgav1.ListObjectsResponse).Objects = objects
		return "", ""
	}
	if err := protojson.Unmarshal(answer, out); err != nil {
		w.t.Fatalf("%s: %q: %v", path, answer, err)
	}
	return "", ""
}

// hand calls a method as two kinds of servers do: one that lets messages read and
// write themselves, and one that does not. It compares the results with a call in
// process.
func (w *ways) hand(name string, in, out proto.Message, failure error) {
	w.t.Helper()
	data, err := proto.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(w.desc.Methods, func(m grpc.MethodDesc) bool { return m.MethodName == name })
	for asks, decode := range map[bool]func(any) error{
		true:  func(v any) error { return v.(door.ProtoReader).ReadProto(bytes.Clone(data)) },
		false: func(v any) error { return proto.Unmarshal(data, v.(proto.Message)) },
	} {
		answer, err := w.desc.Methods[i].Handler(w.server, w.t.Context(), decode, nil)
		if failure != nil || err != nil {
			if status.Convert(err).String() != status.Convert(failure).String() {
				w.t.Errorf("%s %v: by hand %v, in process %v", name, in, err, failure)
			}
			continue
		}
		encoded := answer.(door.ProtoWriter).WriteProto()
		if !asks {
			if encoded, err = proto.Marshal(answer.(proto.Message)); err != nil {
				w.t.Fatal(err)
			}
		}
		read := out.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(encoded, read); err != nil || !proto.Equal(read, out) {
			w.t.Errorf("%s %v: by hand %v (%v), in process %v", name, in, read, err, out)
		}
	}
}

// same compares a response over gRPC with the one over HTTP.
func (w *ways) same(path string, in proto.Message, out proto.Message, err error, http proto.Message) {
	w.t.Helper()
	switch path {
	case "batch-check":
		w.hand("BatchCheck", in, out, err)
	case "list-objects":
		w.hand("ListObjects", in, out, err)
	}
	code, message := w.post(path, in, http)
	switch st := status.Convert(err); {
	case err == nil:
		if code != "" || !proto.Equal(out, http) {
			w.t.Errorf("%s %v: gRPC %v, HTTP %s %s %v", path, in, out, code, message, http)
		}
	case st.Code() == codes.InvalidArgument: // the form of a field, for which HTTP sends the last cause
		if code == "" || !strings.HasSuffix(st.Message(), message) {
			w.t.Errorf("%s %v: gRPC %v, HTTP %s %s", path, in, err, code, message)
		}
	default:
		if openfgav1.ErrorCode(st.Code()).String() != code && st.Code().String() != code || st.Message() != message {
			w.t.Errorf("%s %v: gRPC %v, HTTP %s %s", path, in, err, code, message)
		}
	}
}

// TestBothWaysAgree checks that a request has the same result over HTTP and gRPC.
func TestBothWaysAgree(t *testing.T) {
	t.Parallel()
	const seed = 7
	t.Logf("seed %d", seed)
	w := newWays(t)
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	user := func() string {
		return pick("user:1", "user:2", "user:3", "user:*", "group:1#member", "group:2#member", "document:1#viewer", "robot:1", "user", "group:1#nobody", "", "user:a b", "user:é")
	}
	relation := func() string {
		return pick("viewer", "viewer", "can_view", "blocked", "member", "parent", "nobody", "")
	}
	object := func() string {
		return pick("document:1", "document:2", "document:3", "group:1", "group:2", "robot:1", "document", "document:*", "")
	}
	values := func() *structpb.Struct {
		if r.IntN(3) == 0 {
			return nil
		}
		s, err := structpb.NewStruct([]map[string]any{nil, {}, {"price": 1}, {"price": 9.5}, {"price": "x", "limit": 3}, {"other": []any{1, "a", map[string]any{"b": nil}}}, {"price": 1, "limit": 2}}[r.IntN(7)])
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key := func() *openfgav1.TupleKey {
		k := &openfgav1.TupleKey{User: user(), Relation: relation(), Object: object()}
		if r.IntN(2) == 0 {
			k = &openfgav1.TupleKey{User: fmt.Sprint("user:", r.IntN(4)), Relation: pick("viewer", "blocked"), Object: fmt.Sprint("document:", 1+r.IntN(3))}
		}
		if r.IntN(3) == 0 {
			k.Condition = &openfgav1.RelationshipCondition{Name: pick("cheap", "cheap", "dear", ""), Context: values()}
		}
		return k
	}
	contextual := func() *openfgav1.ContextualTupleKeys {
		var out openfgav1.ContextualTupleKeys
		for range r.IntN(3) * r.IntN(2) {
			out.TupleKeys = append(out.TupleKeys, key())
		}
		return &out
	}
	consistency := func() openfgav1.ConsistencyPreference {
		return openfgav1.ConsistencyPreference(100 * r.IntN(4) * r.IntN(2))
	}
	ctx := t.Context()
	for range 800 {
		check := &openfgav1.CheckRequest{StoreId: w.store, TupleKey: &openfgav1.CheckRequestTupleKey{User: user(), Relation: relation(), Object: object()}, ContextualTuples: contextual(), Context: values(), Consistency: consistency()}
		one, err := w.server.Check(ctx, check)
		w.same("check", check, one, err, &openfgav1.CheckResponse{})
		batch := &openfgav1.BatchCheckRequest{StoreId: w.store, Consistency: consistency()}
		for i := range r.IntN(4) {
			batch.Checks = append(batch.Checks, &openfgav1.BatchCheckItem{TupleKey: &openfgav1.CheckRequestTupleKey{User: fmt.Sprint("user:", r.IntN(4)), Relation: pick("viewer", "can_view", "nobody"), Object: fmt.Sprint("document:", 1+r.IntN(3))}, ContextualTuples: contextual(), Context: values(), CorrelationId: fmt.Sprint(i / (1 + r.IntN(2)))})
		}
		many, err := w.server.BatchCheck(ctx, batch)
		w.same("batch-check", batch, many, err, &openfgav1.BatchCheckResponse{})
		objects := &openfgav1.ListObjectsRequest{StoreId: w.store, Type: pick("document", "document", "group", "robot"), Relation: relation(), User: user(), ContextualTuples: contextual(), Context: values()}
		list, err := w.server.ListObjects(ctx, objects)
		w.same("list-objects", objects, list, err, &openfgav1.ListObjectsResponse{})
		if err == nil {
			w.same("streamed-list-objects", objects, list, nil, &openfgav1.ListObjectsResponse{})
		}
		users := &openfgav1.ListUsersRequest{StoreId: w.store, Object: &openfgav1.Object{Type: pick("document", "robot", "group"), Id: pick("1", "2", "")}, Relation: relation(), UserFilters: []*openfgav1.UserTypeFilter{{Type: pick("user", "group", "robot"), Relation: pick("", "", "member")}}, Context: values(), ContextualTuples: contextual().GetTupleKeys()}
		who, err := w.server.ListUsers(ctx, users)
		w.same("list-users", users, who, err, &openfgav1.ListUsersResponse{})
		read := &openfgav1.ReadRequest{StoreId: w.store}
		if r.IntN(3) > 0 {
			read.TupleKey = &openfgav1.ReadRequestTupleKey{User: user(), Relation: relation(), Object: pick(object(), "document:")}
		}
		tuples, err := w.server.Read(ctx, read)
		w.same("read", read, tuples, err, &openfgav1.ReadResponse{})
		expand := &openfgav1.ExpandRequest{StoreId: w.store, TupleKey: &openfgav1.ExpandRequestTupleKey{Relation: relation(), Object: object()}, ContextualTuples: contextual()}
		tree, err := w.server.Expand(ctx, expand)
		w.same("expand", expand, tree, err, &openfgav1.ExpandResponse{})
		// A write that is refused changes nothing, so it can be sent both ways; one
		// that is taken is sent again in vain.
		write := &openfgav1.WriteRequest{StoreId: w.store, Writes: &openfgav1.WriteRequestWrites{TupleKeys: []*openfgav1.TupleKey{key()}, OnDuplicate: "ignore"}}
		if r.IntN(4) == 0 {
			k := key()
			write = &openfgav1.WriteRequest{StoreId: w.store, Deletes: &openfgav1.WriteRequestDeletes{TupleKeys: []*openfgav1.TupleKeyWithoutCondition{{User: k.GetUser(), Relation: k.GetRelation(), Object: k.GetObject()}}, OnMissing: "ignore"}}
		}
		done, err := w.server.Write(ctx, write)
		w.same("write", write, done, err, &openfgav1.WriteResponse{})
		if t.Failed() {
			return
		}
	}
}
