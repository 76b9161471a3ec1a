package served

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
)

// methods are the calls by the last part of their HTTP path.
var methods = map[string]struct {
	name    string
	in, out proto.Message
}{
	"check":                 {"Check", &openfgav1.CheckRequest{}, &openfgav1.CheckResponse{}},
	"batch-check":           {"BatchCheck", &openfgav1.BatchCheckRequest{}, &openfgav1.BatchCheckResponse{}},
	"list-objects":          {"ListObjects", &openfgav1.ListObjectsRequest{}, &openfgav1.ListObjectsResponse{}},
	"streamed-list-objects": {"StreamedListObjects", &openfgav1.StreamedListObjectsRequest{}, &openfgav1.StreamedListObjectsResponse{}},
	"list-users":            {"ListUsers", &openfgav1.ListUsersRequest{}, &openfgav1.ListUsersResponse{}},
	"expand":                {"Expand", &openfgav1.ExpandRequest{}, &openfgav1.ExpandResponse{}},
	"read":                  {"Read", &openfgav1.ReadRequest{}, &openfgav1.ReadResponse{}},
	"write":                 {"Write", &openfgav1.WriteRequest{}, &openfgav1.WriteResponse{}},
	"authorization-models":  {"WriteAuthorizationModel", &openfgav1.WriteAuthorizationModelRequest{}, &openfgav1.WriteAuthorizationModelResponse{}},
}

// TestSideBySideGRPC sends the requests that are messages over gRPC, and
// compares codes, metadata, texts and answers.
func TestSideBySideGRPC(t *testing.T) {
	t.Parallel()
	theirs, ours := prepared(t, servers.Original(t)), prepared(t, servers.Alone(t))
	a, b := theirs.Dial(t), ours.Dial(t)
	known := append(differences(), difference{inText, regexp.MustCompile(`^batch of 51$`), "theirs ends in a blank over HTTP alone"})
	sent, counted := 0, map[string]int{}
	for _, r := range requests() {
		x, ok := theirs.invoke(t, a, r)
		if !ok {
			continue
		}
		y, _ := ours.invoke(t, b, r)
		sent++
		kind := x.unlike(y)
		counted[kind]++
		if kind != "" && !slices.ContainsFunc(known, func(d difference) bool { return d.kind == kind && d.names.MatchString(r.name) }) {
			t.Errorf("%s %s: %s %s\ntheirs %v %s %s\nours   %v %s %s", kind, r.name, r.path, clip(r.body),
				codes.Code(x.status), x.ids, clip(x.raw), codes.Code(y.status), y.ids, clip(y.raw))
		}
	}
	t.Logf("%d requests: %d answered alike; of the others differ: %d in code, %d in metadata, %d in the answer, %d in text alone",
		sent, counted[""], counted[inStatus], counted[inHeaders], counted[inJSON], counted[inText])
}

// invoke makes a call of a request; false if there is none for it.
func (x *side) invoke(t *testing.T, conn *grpc.ClientConn, r request) (answer, bool) {
	t.Helper()
	rest, ok := strings.CutPrefix(r.path, "/stores/")
	store, call, _ := strings.Cut(rest, "/")
	m, known := methods[call]
	if !ok || !known || r.method != http.MethodPost {
		return answer{}, false
	}
	in := m.in.ProtoReflect().New().Interface()
	if body := x.fill(r.body); strings.TrimSpace(body) != "" {
		if protojson.Unmarshal([]byte(body), in) != nil { // unknown fields are HTTP's matter
			return answer{}, false
		}
	}
	id := x.fill(strings.ReplaceAll(store, "%20", " "))
	in.ProtoReflect().Set(in.ProtoReflect().Descriptor().Fields().ByName("store_id"), protoreflect.ValueOfString(id))
	var header metadata.MD
	var out []proto.Message
	var err error
	if call == "streamed-list-objects" {
		out, header, err = streamed(t, conn, in)
	} else {
		one := m.out.ProtoReflect().New().Interface()
		if err = conn.Invoke(t.Context(), "/openfga.v1.OpenFGAService/"+m.name, in, one, grpc.Header(&header)); err == nil {
			out = append(out, one)
		}
	}
	return x.answered(t, r, out, header, err), true
}

func streamed(t *testing.T, conn *grpc.ClientConn, in proto.Message) (out []proto.Message, header metadata.MD, err error) {
	stream, err := openfgav1.NewOpenFGAServiceClient(conn).StreamedListObjects(t.Context(), in.(*openfgav1.StreamedListObjectsRequest))
	if err != nil {
		return nil, nil, err
	}
	for {
		one, err := stream.Recv()
		if err != nil {
			header, _ = stream.Header()
			if err == io.EOF {
				err = nil
			}
			return out, header, err
		}
		out = append(out, one)
	}
}

func (x *side) answered(t *testing.T, r request, out []proto.Message, header metadata.MD, err error) answer {
	t.Helper()
	a := answer{status: int(status.Code(err))}
	for _, name := range []string{"openfga-store-id", "openfga-authorization-model-id"} {
		if len(header.Get(name)) > 0 {
			a.ids += name + " "
		}
	}
	if err != nil {
		a.raw = status.Convert(err).Message()
		a.body = []any{map[string]any{"message": plain("", a.raw)}}
		return a
	}
	for _, m := range out {
		text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		a.raw += string(text) + "\n"
	}
	var token string
	a.body, token = normalized([]byte(a.raw))
	x.tokens[r.name] = token
	return a
}
