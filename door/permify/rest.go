package permify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/permify/basev1"
)

// marshal and unmarshal are JSON as the original's gateway has it: names as in
// the protocol's messages, fields without value said, unknown ones passed over.
var (
	marshal   = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}
	unmarshal = protojson.UnmarshalOptions{DiscardUnknown: true}
)

const tenantPath = "/v1/tenants/{tenant_id}"

func (s *service) routes() []door.Route {
	post := func(path, name string, serve func(http.ResponseWriter, *http.Request, door.Params)) door.Route {
		return door.Route{Method: http.MethodPost, Pattern: tenantPath + path, Name: name, Serve: serve}
	}
	routes := []door.Route{
		post("/permissions/check", "Permission.Check", s.serveCheck),
		post("/permissions/bulk-check", "Permission.BulkCheck", s.serveBulkCheck),
		post("/permissions/expand", "Permission.Expand", unary(s.Expand)),
		post("/permissions/lookup-entity", "Permission.LookupEntity", s.serveLookupEntity),
		post("/permissions/lookup-entity-stream", "Permission.LookupEntityStream", streaming(s.LookupEntityStream)),
		post("/permissions/lookup-subject", "Permission.LookupSubject", s.serveLookupSubject),
		post("/permissions/subject-permission", "Permission.SubjectPermission", unary(s.SubjectPermission)),
		post("/schemas/write", "Schema.Write", unary(s.WriteSchema)),
		{Method: http.MethodPatch, Pattern: tenantPath + "/schemas/partial-write", Name: "Schema.PartialWrite", Serve: unary(s.PartialWrite)},
		post("/schemas/read", "Schema.Read", unary(s.ReadSchema)),
		post("/schemas/list", "Schema.List", unary(s.ListSchemas)),
		post("/data/write", "Data.Write", s.serveWrite),
		post("/relationships/write", "Data.WriteRelationships", unary(s.WriteRelationships)),
		post("/data/relationships/read", "Data.ReadRelationships", unary(s.ReadRelationships)),
		post("/data/attributes/read", "Data.ReadAttributes", unary(s.ReadAttributes)),
		post("/data/delete", "Data.Delete", unary(s.Delete)),
		post("/relationships/delete", "Data.DeleteRelationships", unary(s.DeleteRelationships)),
		post("/data/run-bundle", "Data.RunBundle", unary(s.RunBundle)),
		post("/bundle/write", "Bundle.Write", unary(s.WriteBundle)),
		post("/bundle/read", "Bundle.Read", unary(s.ReadBundle)),
		post("/bundle/delete", "Bundle.Delete", unary(s.DeleteBundle)),
		post("/watch", "Watch.Watch", streaming(s.Watch)),
		{Method: http.MethodPost, Pattern: "/v1/tenants/create", Name: "Tenancy.Create", Serve: unary(s.CreateTenant)},
		{Method: http.MethodPost, Pattern: "/v1/tenants/list", Name: "Tenancy.List", Serve: unary(s.ListTenants)},
		{Method: http.MethodDelete, Pattern: "/v1/tenants/{id}", Name: "Tenancy.Delete", Serve: unary(s.DeleteTenant)},
	}
	for i := range routes {
		if n := routes[i].Name; n == "Watch.Watch" || n == "Permission.LookupEntityStream" {
			routes[i].Streams = true
		}
	}
	return routes
}

// message is a pointer to a message.
type message[T any] interface {
	*T
	proto.Message
}

// unary serves a call that has one answer.
func unary[In any, I message[In], O proto.Message](call func(context.Context, I) (O, error)) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		in := I(new(In))
		if err := readMessage(r, &p, in); err != nil {
			fail(w, err)
			return
		}
		out, err := call(r.Context(), in)
		if err != nil {
			fail(w, err)
			return
		}
		body, err := appendMessage(nil, out)
		if err != nil {
			fail(w, err)
			return
		}
		writeJSON(w, http.StatusOK, body)
	}
}

// streaming serves a call that has many answers, one a line. After the first
// one, an error is a line of its own.
func streaming[In any, I message[In], O proto.Message](call func(context.Context, I, func(O) error) error) func(http.ResponseWriter, *http.Request, door.Params) {
	return func(w http.ResponseWriter, r *http.Request, p door.Params) {
		in := I(new(In))
		if err := readMessage(r, &p, in); err != nil {
			fail(w, err)
			return
		}
		flush := http.NewResponseController(w)
		started := false
		begin := func() {
			if !started {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusOK)
				started = true
			}
		}
		err := call(r.Context(), in, func(out O) error {
			line, err := appendMessage([]byte(`{"result":`), out)
			if err != nil {
				return err
			}
			begin()
			if _, err := w.Write(append(line, "}\n"...)); err != nil {
				return err
			}
			return flush.Flush()
		})
		switch {
		case err == nil:
			begin()
		case !started:
			fail(w, err)
		case r.Context().Err() == nil:
			_, _ = w.Write(append(appendError([]byte(`{"error":`), asFailure(err)), "}\n"...)) // the caller may be gone
		}
	}
}

// readMessage reads a request's body; the tenant of the path wins.
func readMessage(r *http.Request, p *door.Params, in proto.Message) error {
	body, err := door.ReadBody(r)
	if err != nil {
		return readError(err)
	}
	defer body.Free()
	return decode(body.Bytes, p, in)
}

// readError tells why a body could not be read.
func readError(err error) error {
	var why *door.Refusal
	if errors.As(err, &why) {
		return refusal(why)
	}
	return invalid("the body could not be read: %v", err)
}

func decode(body []byte, p *door.Params, in proto.Message) error {
	if len(bytes.TrimSpace(body)) > 0 {
		if err := unmarshal.Unmarshal(body, in); err != nil {
			return invalid("%s", plainText(err))
		}
	}
	m := in.ProtoReflect()
	for _, name := range []string{"tenant_id", "id"} {
		if v := p.Named(name); v != "" {
			if f := m.Descriptor().Fields().ByTextName(name); f != nil {
				m.Set(f, protoreflect.ValueOfString(v))
			}
		}
	}
	return nil
}

// plainText is an error's text with ordinary blanks: the library puts others
// in to keep people from relying on it.
func plainText(err error) string {
	return string(bytes.ReplaceAll([]byte(err.Error()), []byte("\u00a0"), []byte(" ")))
}

// appendMessage adds a message's JSON, without the blanks that the library
// puts in at random.
func appendMessage(b []byte, m proto.Message) ([]byte, error) {
	text, err := marshal.Marshal(m)
	if err != nil {
		return nil, translated(err)
	}
	out := bytes.NewBuffer(b)
	if err := json.Compact(out, text); err != nil {
		return nil, translated(err)
	}
	return out.Bytes(), nil
}

// asFailure makes sure that an error is told in the protocol's words.
func asFailure(err error) *failure {
	var f *failure
	if !errors.As(translated(err), &f) {
		return coded(basev1.ErrorCode_ERROR_CODE_INTERNAL)
	}
	return f
}

// fail answers an error.
func fail(w http.ResponseWriter, err error) {
	f := asFailure(err)
	status := httpStatus(f.code)
	var why *door.Refusal
	if errors.As(err, &why) {
		status = why.Status()
	}
	writeError(w, status, f)
}

func writeError(w http.ResponseWriter, status int, f *failure) {
	writeJSON(w, status, appendError(nil, f))
}

func appendError(b []byte, f *failure) []byte {
	code := f.code
	if code == codes.OK {
		code = codes.Unknown
	}
	b = strconv.AppendInt(append(b, `{"code":`...), int64(code), 10)
	b = appendText(append(b, `,"message":`...), f.message)
	return append(b, `,"details":[]}`...)
}

var contentJSON = []string{"application/json"}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = contentJSON
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller may be gone
}

// appendText adds a JSON string.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			text, _ := json.Marshal(s) // a string always marshals
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
