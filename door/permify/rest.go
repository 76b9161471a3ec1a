package permify

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// marshal and unmarshal define the JSON of the original's gateway: field names
// as in the .proto files, fields without a value included, unknown fields
// ignored.
var (
	marshal   = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
	unmarshal = protojson.UnmarshalOptions{DiscardUnknown: true}
)

// tenantPath is the prefix of all routes of a tenant.
const tenantPath = "/v1/tenants/{tenant_id}"

// routes returns the door's REST routes.
func (s *service) routes() []door.Route {
	post := func(path, name string, serve serveFunc) door.Route {
		return door.Route{Method: http.MethodPost, Pattern: tenantPath + path, Name: name, Serve: serve}
	}
	write := func(path, name string, serve serveFunc) door.Route {
		r := post(path, name, serve)
		r.Writes = true
		return r
	}
	routes := []door.Route{
		post("/permissions/check", "Permission.Check", s.checkEndpoint().serve),
		post("/permissions/bulk-check", "Permission.BulkCheck", s.bulkCheckEndpoint().serve),
		post("/permissions/expand", "Permission.Expand", unary(s.Expand)),
		post("/permissions/lookup-entity", "Permission.LookupEntity", s.lookupEntityEndpoint().serve),
		post("/permissions/lookup-entity-stream", "Permission.LookupEntityStream", streaming(s.LookupEntityStream)),
		post("/permissions/lookup-subject", "Permission.LookupSubject", s.lookupSubjectEndpoint().serve),
		post("/permissions/subject-permission", "Permission.SubjectPermission", unary(s.SubjectPermission)),
		write("/schemas/write", "Schema.Write", unary(s.WriteSchema)),
		{Method: http.MethodPatch, Pattern: tenantPath + "/schemas/partial-write", Name: "Schema.PartialWrite", Writes: true, Serve: unary(s.PartialWrite)},
		post("/schemas/read", "Schema.Read", unary(s.ReadSchema)),
		post("/schemas/list", "Schema.List", unary(s.ListSchemas)),
		write("/data/write", "Data.Write", s.writeEndpoint().serve),
		write("/relationships/write", "Data.WriteRelationships", unary(s.WriteRelationships)),
		post("/data/relationships/read", "Data.ReadRelationships", unary(s.ReadRelationships)),
		post("/data/attributes/read", "Data.ReadAttributes", unary(s.ReadAttributes)),
		write("/data/delete", "Data.Delete", unary(s.Delete)),
		write("/relationships/delete", "Data.DeleteRelationships", unary(s.DeleteRelationships)),
		write("/data/run-bundle", "Data.RunBundle", unary(s.RunBundle)),
		write("/bundle/write", "Bundle.Write", unary(s.WriteBundle)),
		post("/bundle/read", "Bundle.Read", unary(s.ReadBundle)),
		write("/bundle/delete", "Bundle.Delete", unary(s.DeleteBundle)),
		post("/watch", "Watch.Watch", streaming(s.Watch)),
		{Method: http.MethodPost, Pattern: "/v1/tenants/create", Name: "Tenancy.Create", Writes: true, Serve: unary(s.CreateTenant)},
		{Method: http.MethodPost, Pattern: "/v1/tenants/list", Name: "Tenancy.List", Serve: unary(s.ListTenants)},
		{Method: http.MethodDelete, Pattern: "/v1/tenants/{id}", Name: "Tenancy.Delete", Writes: true, Serve: unary(s.DeleteTenant)},
	}
	for i := range routes {
		if n := routes[i].Name; n == "Watch.Watch" || n == "Permission.LookupEntityStream" {
			routes[i].Streams = true
		}
		if !routes[i].Writes && !routes[i].Streams {
			routes[i].MayWrite = s.makesDefaultTenant
		}
	}
	return routes
}

// message is the constraint for a pointer to a generated message.
type message[T any] interface {
	*T
	proto.Message
}

// decodeMessage reads a message from JSON. Parameters of the path replace the
// fields of the same name. An empty body is an empty message.
func decodeMessage[T any, M message[T]](body []byte, p door.Params) (M, error) {
	m := M(new(T))
	if len(bytes.TrimSpace(body)) > 0 {
		if err := unmarshal.Unmarshal(body, m); err != nil {
			return nil, invalidArgument("%s", plainText(err))
		}
	}
	r := m.ProtoReflect()
	for _, name := range []string{"tenant_id", "id"} {
		if v := p.Named(name); v != "" {
			if f := r.Descriptor().Fields().ByTextName(name); f != nil {
				r.Set(f, protoreflect.ValueOfString(v))
			}
		}
	}
	return m, nil
}

// decodeAs is like decodeMessage, and then converts the message.
func decodeAs[T any, M message[T], Q any](body []byte, p door.Params, convert func(M) (Q, error)) (Q, error) {
	m, err := decodeMessage[T, M](body, p)
	if err != nil {
		var none Q
		return none, err
	}
	return convert(m)
}

// encodeMessage returns a message's JSON.
func encodeMessage[M proto.Message](m M) ([]byte, error) { return appendMessage(nil, m) }

// plainText returns an error's text with ordinary spaces. The protobuf library
// puts other spaces into its texts at random, so that programs do not depend on
// them.
func plainText(err error) string {
	return string(bytes.ReplaceAll([]byte(err.Error()), []byte("\u00a0"), []byte(" ")))
}

// appendMessage appends a message's JSON to b. It removes the white space that
// the protobuf library adds at random.
func appendMessage(b []byte, m proto.Message) ([]byte, error) {
	text, err := marshal.Marshal(m)
	if err != nil {
		return nil, translateError(err)
	}
	out := bytes.NewBuffer(b)
	if err := json.Compact(out, text); err != nil {
		return nil, translateError(err)
	}
	return out.Bytes(), nil
}

// asFailure returns err as a failure. An error that has no translation is an
// internal one.
func asFailure(err error) *failure {
	var f *failure
	if !errors.As(translateError(err), &f) {
		return codeError(permifypb.ErrorCode_ERROR_CODE_INTERNAL)
	}
	return f
}

// serveError writes err as the response.
func serveError(w http.ResponseWriter, err error) {
	f := asFailure(err)
	status := httpStatus(f.code)
	var why *door.Refusal
	if errors.As(err, &why) {
		status = why.Status()
	}
	writeError(w, status, f)
}

// writeError writes f as the response, with the given HTTP status.
func writeError(w http.ResponseWriter, status int, f *failure) {
	door.WriteJSON(w, status, appendError(nil, f))
}

// appendError appends a failure's JSON to b.
func appendError(b []byte, f *failure) []byte {
	code := f.code
	if code == codes.OK {
		code = codes.Unknown
	}
	b = strconv.AppendInt(append(b, `{"code":`...), int64(code), 10)
	b = appendText(append(b, `,"message":`...), door.ShortText(f.message))
	return append(b, `,"details":[]}`...)
}

// appendText appends s to b as a JSON string.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			text, _ := json.Marshal(s) // a string always marshals
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
