// Package door defines a door: one protocol of the server, with its HTTP
// routes, its gRPC services and its own form of error responses. Its main types
// are [Door], [Route] and [Router]. Package server serves several doors
// together.
//
// A door decodes a request, translates it, calls the root package and
// translates the result back. It holds no state and no authorization rules, and
// uses neither another door nor a storage driver. This package never evaluates,
// never listens and never authenticates a caller.
package door

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
)

// Door is one protocol. Each door's package has a New function that returns
// one. Its fields must not change afterwards. All its functions may be called
// concurrently.
type Door struct {
	// Name is the protocol's name in lower case, for example "openfga". It is
	// used for flags, as a label of metrics and in logs.
	Name string
	// Prefixes are the paths that belong to this door if several doors share a
	// port, for example "/stores". Each begins with a slash and does not end
	// with one. A segment in braces matches any segment: "/stores/{store}/x". A path
	// belongs to the longest prefix of whole segments. "" matches every path that
	// no other door claims.
	Prefixes []string
	// Guide is where the protocol is described, for the page of the server at "/": a file of
	// this repository, for example "docs/openfga.md", or a URL. "" is none.
	Guide string
	// Page is the path of a page for people below one of Prefixes, without the slash at its
	// beginning, to which the page of the server at "/" links; "" is none.
	Page string
	// Routes are all HTTP routes of the door. Each is below one of Prefixes, except one
	// with the pattern "/", for clients that ask there which versions of the protocol
	// exist. On a port with other doors, it is for those that accept application/json
	// by name.
	Routes []Route
	// TrailingSlash is true if a slash at the end of a path does not count.
	TrailingSlash bool
	// HealthPath is the path where load balancers that know the protocol ask whether the
	// server works, below one of Prefixes; "" is none. ServeHealth answers GET and HEAD.
	// serving is false if the server has failed or is stopping.
	HealthPath  string
	ServeHealth func(w http.ResponseWriter, r *http.Request, serving bool)
	// Basic lets callers authenticate as users with passwords, by HTTP Basic
	// authentication, besides keys. Only protocols whose clients send it need it.
	Basic bool
	// Missing writes the response to a request that no route matches, in the
	// protocol's form. methods are the methods of the path's routes, sorted;
	// nil if the path has none. If Missing is nil, the response is an empty 404
	// or 405.
	Missing func(w http.ResponseWriter, r *http.Request, methods []string)
	// Refuse writes the response to a request that the server refuses before
	// the door sees it, in the protocol's form. If Refuse is nil, the response
	// is empty, with the status of [Refusal.Status].
	Refuse func(w http.ResponseWriter, r *http.Request, why *Refusal)
	// Services are the door's gRPC services.
	Services []Service
	// RefuseRPC is like Refuse, for gRPC: it returns the status error of the
	// call. If it is nil, the error has the code of [Refusal.Code].
	RefuseRPC func(why *Refusal) error
	// RequestTimeout replaces the server's request timeout if it is longer, for a
	// protocol whose requests need more time. 0 means the server's.
	RequestTimeout time.Duration
	// OwnAuthentication is true if the door authenticates its callers itself, as an
	// identity service does. The server's keys then do not apply to its routes.
	OwnAuthentication bool
	// Prepare loads what requests will need, before the server reports that it is
	// ready. Requests may come before it ends. Nil means nothing is loaded.
	Prepare func(ctx context.Context) error
	// Background is the work of the door besides its requests. It runs while the
	// server does, and returns soon after ctx ends. Nil means none.
	Background func(ctx context.Context)
	// RefuseStream is like RefuseRPC, for streaming calls. It is needed only if
	// a protocol treats them differently; nil means RefuseRPC.
	RefuseStream func(why *Refusal) error
}

// Route is one HTTP method and path of a door.
type Route struct {
	// Method is the HTTP method in capitals.
	Method string
	// Pattern is the path. Parameters are whole segments in braces:
	// "/stores/{store_id}/check". A last segment of the form {name...} matches
	// the rest of the path.
	Pattern string
	// Name is the name of the protocol's operation, for example "Check". It
	// labels metrics.
	Name string
	// Public routes need no authentication. Only health checks, and documents
	// that explain how to authenticate, should be public.
	Public bool
	// Streams is true if a response may take long. The server's request timeout
	// then does not apply; only the client or the door's own deadline ends the
	// response.
	Streams bool
	// Writes is true if the operation changes a store. On one of several nodes, the server
	// then sends the request to the node that writes.
	Writes bool
	// MayWrite reports whether the operation may change a store now, although it is no
	// write: for example a login, which may note a failed attempt, or a read that makes a
	// default tenant. Nil means that it never does. While it returns true, the door begins
	// with the request, and if it finds that this node may not write, with
	// [authz.ErrNoHolder], before the request had an effect, the server sends the request
	// to the node that writes. So the server keeps the body meanwhile. It is called from
	// many goroutines, twice for each request.
	MayWrite func() bool
	// Unlimited is true if the operation shows or sets limits of callers and stores. No limit
	// applies to it if the caller may set them all, so that a caller can lift its own.
	Unlimited bool
	// Login is true if the operation exchanges a secret for a token.
	Login bool
	// BodyMax bounds the request's body in bytes. 0 means the server's bound.
	BodyMax int64
	// Serve handles a request. p holds the parameters of the path.
	Serve func(w http.ResponseWriter, r *http.Request, p Params)
}

// Service is one gRPC service of a door.
type Service struct {
	// Desc is the generated description of the service.
	Desc *grpc.ServiceDesc
	// Impl implements Desc.HandlerType.
	Impl any
	// Public lists the full names of methods ("/pkg.Service/Method") that need
	// no authentication.
	Public []string
	// Writes lists the names of methods ("Write"), without the service, that change a
	// store. They have one request and one response. See [Route.Writes].
	Writes []string
	// MayWrite is that of the other methods with one request and one response, see
	// [Route.MayWrite].
	MayWrite func() bool
}

// Caller identifies the sender of a request, as the server authenticated it.
type Caller struct {
	// Method is the method of authentication: "preshared", "basic", "key", "oidc" or
	// "mtls"; "" if the server does not authenticate.
	Method string
	// ID names the caller if the method provides a name. It is never a secret.
	ID string
	// Key is the id of the caller's key in the system store, and Owner whom to ask about
	// it; "" without such a key. A caller with a token has its issuer as the Owner.
	Key, Owner string
}

type callerKey struct{}

// NameKey is the key under which the context of a request has the name of its door.
type NameKey struct{}

// NameOf returns the name of the door whose request ctx belongs to, or "" for other
// work.
func NameOf(ctx context.Context) string {
	name, _ := ctx.Value(NameKey{}).(string)
	return name
}

// Request is what the server knows about a request in progress, for logs.
type Request interface {
	// Operation is the name of the route or the method.
	Operation() string
	// Remote is the address of the client, with its port.
	Remote() string
	// ID is the id of the request; "" if it has none.
	ID() string
	// Author is the caller, as the log of a store has it; "" if there is none.
	Author() string
}

// RequestKey is the key under which the context of a request has its [Request].
type RequestKey struct{}

// RequestOf returns the request that ctx belongs to, or nil for other work.
func RequestOf(ctx context.Context) Request {
	r, _ := ctx.Value(RequestKey{}).(Request)
	return r
}

// WithCaller returns a context that carries the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller that [WithCaller] stored in ctx. It returns the
// zero Caller if the server does not authenticate.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
