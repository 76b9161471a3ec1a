// Package door says what a door is: one protocol over the engine, as HTTP
// routes and gRPC services, with its own words for what the server refuses on
// its behalf. Its main type is Door; the server room mounts doors side by side.
//
// A door decodes, translates into the engine's words, calls the root package
// and translates back. It holds no state, no rule of authorization, and never
// sees another door or a storage driver. This package never evaluates, never
// listens and never decides who a caller is.
package door

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
)

// Door is one protocol: what it answers, and how it says no. Make one with the
// door's New; the fields are read only afterwards. All its functions are called
// concurrently.
type Door struct {
	// Name is the protocol's, in lower case: "openfga". It is the flag, the label
	// of metrics and the word in logs.
	Name string
	// Prefixes are the paths that are this door's where several share a port,
	// each with a leading slash and none at the end: "/stores". A path belongs to
	// the longest prefix of whole segments; "" takes what nobody else has.
	Prefixes []string
	// Routes are all methods and paths that it answers. Each is below one of
	// Prefixes.
	Routes []Route
	// Missing answers, in the door's shape, what none of Routes does: a path that
	// does not exist (methods is nil), or one that exists for other methods. Nil
	// is an empty 404 or 405.
	Missing func(w http.ResponseWriter, r *http.Request, methods []string)
	// Refuse answers, in the door's shape, a request that the server refuses
	// before the door sees it. Nil is an empty answer with the reason's status.
	Refuse func(w http.ResponseWriter, r *http.Request, why *Refusal)
	// Services are its gRPC services.
	Services []Service
	// RefuseRPC is Refuse for gRPC: the status error to return. Nil is one with
	// the reason's code.
	RefuseRPC func(why *Refusal) error
	// RefuseStream is RefuseRPC for streaming calls where a protocol differs
	// there. Nil is RefuseRPC.
	RefuseStream func(why *Refusal) error
}

// Route is one method and path of a door.
type Route struct {
	// Method is the HTTP method, in capitals.
	Method string
	// Pattern is the path, with parameters as whole segments in braces:
	// "/stores/{store_id}/check". A last segment of the form {name...} takes all
	// that is left.
	Pattern string
	// Name is the operation's in the protocol: "Check". It labels metrics.
	Name string
	// Public routes are served without authentication. Health, and documents
	// that tell how to authenticate, are; nothing else should be.
	Public bool
	// Streams says that an answer may last: the server's request timeout does not
	// end it, only the caller or the door's own deadline does.
	Streams bool
	// BodyMax bounds the request's body in bytes, instead of the server's bound.
	// 0 is the server's.
	BodyMax int64
	// Serve answers. The path's parameters are p's.
	Serve func(w http.ResponseWriter, r *http.Request, p Params)
}

// Service is one gRPC service of a door.
type Service struct {
	Desc *grpc.ServiceDesc
	// Impl implements Desc.HandlerType.
	Impl any
	// Public lists full method names ("/pkg.Service/Method") that need no
	// authentication.
	Public []string
}

// Caller is who sent a request, as the server authenticated it.
type Caller struct {
	// Method is how: "preshared", "oidc", "mtls"; "" is nobody was asked.
	Method string
	// ID names the caller where the method tells, and is never a secret.
	ID string
}

type callerKey struct{}

// WithCaller returns a context that carries who the caller is.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns who the caller is; the zero Caller where the server
// authenticates nobody.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
