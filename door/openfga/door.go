package openfga

import (
	"errors"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
)

// Name is the name of the door.
const Name = "openfga"

// The headers of requests and responses, in HTTP and as gRPC metadata. Revision and
// truncated are additions to the protocol: clients of OpenFGA neither send nor expect them.
const (
	headerStore     = "Openfga-Store-Id"
	headerModel     = "Openfga-Authorization-Model-Id"
	headerRevision  = "Ostiary-Revision"
	headerTruncated = "Ostiary-Truncated"

	metadataStore     = "openfga-store-id"
	metadataModel     = "openfga-authorization-model-id"
	metadataRevision  = "ostiary-revision"
	metadataTruncated = "ostiary-truncated"
)

// New returns the door of an engine: OpenFGA's HTTP and gRPC API. It starts no
// goroutines and does not close the engine. A program may also call the
// implementation of the gRPC service directly. New fails if engine is nil.
func New(engine *ostiary.Engine, o Options) (*door.Door, error) {
	if engine == nil {
		return nil, errors.New("openfga: no engine")
	}
	s := &service{engine: engine, o: o.withDefaults()}
	h := &httpServer{s: s, contentType: []string{"application/json"}}
	return &door.Door{
		Name:     Name,
		Prefixes: []string{"/stores"},
		Guide:    "docs/openfga.md",
		Routes:   h.routes(),
		Missing:  h.missing,
		Refuse:   h.refuse,
		Services: []door.Service{{Desc: serviceDesc(), Impl: &grpcServer{s: s},
			Writes: []string{"CreateStore", "UpdateStore", "DeleteStore", "WriteAuthorizationModel", "Write", "WriteAssertions"}}},
		RefuseRPC: func(why *door.Refusal) error {
			return refusalFailure(why)
		},
	}, nil
}

func (h *httpServer) routes() []door.Route {
	const store = "/stores/{store_id}"
	return []door.Route{
		{Method: http.MethodPost, Pattern: "/stores", Name: "CreateStore", Writes: true, Serve: h.serve(createStore)},
		{Method: http.MethodGet, Pattern: "/stores", Name: "ListStores", Serve: h.serve(listStores)},
		{Method: http.MethodGet, Pattern: store, Name: "GetStore", Serve: h.serve(getStore)},
		{Method: http.MethodPatch, Pattern: store, Name: "UpdateStore", Writes: true, Serve: h.serve(updateStore)},
		{Method: http.MethodDelete, Pattern: store, Name: "DeleteStore", Writes: true, Serve: h.serve(deleteStore)},
		{Method: http.MethodPost, Pattern: store + "/authorization-models", Name: "WriteAuthorizationModel", Writes: true, Serve: h.serve(writeModel)},
		{Method: http.MethodGet, Pattern: store + "/authorization-models", Name: "ReadAuthorizationModels", Serve: h.serve(readModels)},
		{Method: http.MethodGet, Pattern: store + "/authorization-models/{id}", Name: "ReadAuthorizationModel", Serve: h.serve(readModel)},
		{Method: http.MethodPost, Pattern: store + "/write", Name: "Write", Writes: true, Serve: h.serve(write)},
		{Method: http.MethodPost, Pattern: store + "/read", Name: "Read", Serve: h.serve(read)},
		{Method: http.MethodGet, Pattern: store + "/changes", Name: "ReadChanges", Serve: h.serve(readChanges)},
		{Method: http.MethodPost, Pattern: store + "/check", Name: "Check", Serve: h.serve(check)},
		{Method: http.MethodPost, Pattern: store + "/batch-check", Name: "BatchCheck", Serve: h.serve(batchCheck)},
		{Method: http.MethodPost, Pattern: store + "/expand", Name: "Expand", Serve: h.serve(expand)},
		{Method: http.MethodPost, Pattern: store + "/list-objects", Name: "ListObjects", Serve: h.serve(listObjects)},
		{Method: http.MethodPost, Pattern: store + "/streamed-list-objects", Name: "StreamedListObjects", Streams: true, Serve: h.stream},
		{Method: http.MethodPost, Pattern: store + "/list-users", Name: "ListUsers", Serve: h.serve(listUsers)},
		{Method: http.MethodPut, Pattern: store + "/assertions/{authorization_model_id}", Name: "WriteAssertions", Writes: true, Serve: h.serve(writeAssertions)},
		{Method: http.MethodGet, Pattern: store + "/assertions/{authorization_model_id}", Name: "ReadAssertions", Serve: h.serve(readAssertions)},
	}
}

// refusalFailure translates a refusal of the server.
func refusalFailure(why *door.Refusal) *failure {
	code := codeInternal
	switch why.Reason {
	case door.NoCredentials:
		return newFailure(codeTokenMissing, "missing bearer token")
	case door.BadCredentials:
		return newFailure(codeUnauthenticated, "unauthenticated")
	case door.TooLarge:
		code = codes.ResourceExhausted
	case door.TooMany:
		code = codeThrottled
	case door.Limited:
		return &failure{code: codes.ResourceExhausted, message: why.Error(), limited: true}
	case door.TimedOut:
		return newFailure(codeDeadline, "Request Deadline Exceeded: "+why.Error())
	case door.ShuttingDown, door.NoHolder, door.Unsure, door.Unaudited:
		code = codes.Unavailable
	case door.BadPath:
		return newFailure(codeNoEndpoint, "Not Found")
	case door.BadReason, door.BrokenBody:
		code = codeValidation
	case door.ForeignPage, door.ForeignName, door.Forbidden:
		code = codeForbidden
	case door.Failed:
		return newFailure(codeInternal, internalMessage)
	}
	return newFailure(code, why.Error())
}

func (h *httpServer) refuse(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
	h.writeError(w, refusalFailure(why))
}

// missing responds to a request without a route. As in OpenFGA, a wrong method is
// 404 "unimplemented".
func (h *httpServer) missing(w http.ResponseWriter, _ *http.Request, methods []string) {
	if methods == nil {
		h.writeError(w, newFailure(codeNoEndpoint, "Not Found"))
		return
	}
	h.writeError(w, newFailure(codeUnimplemented, "Method Not Allowed"))
}
