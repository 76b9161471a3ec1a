package door

import (
	"errors"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
)

// Reason is why a server refused a request before its door saw it.
type Reason uint8

const (
	// NoCredentials: a key is needed and none was sent.
	NoCredentials Reason = iota + 1
	// BadCredentials: what was sent is not accepted.
	BadCredentials
	// TooLarge: the body or message passes its bound.
	TooLarge
	// TooMany: the server has as many requests or streams as it takes.
	TooMany
	// TimedOut: the request's time was up before it was answered.
	TimedOut
	// ShuttingDown: the server takes no new requests.
	ShuttingDown
	// Failed: the door failed, by a panic that the server caught.
	Failed
	// BadPath: the path is not in its one canonical form ("//", "..", an encoded
	// slash), so that routes and guards could read it in two ways.
	BadPath
	// ForeignPage: a web page of another machine asks, through a browser on this
	// one, where being on this machine is all that is asked for.
	ForeignPage
	// ForeignName: the request calls the server by a name that is not this
	// machine's, where being on this machine is all that is asked for: a web page
	// does so whose name was made to lead here (DNS rebinding).
	ForeignName
)

// Refusal is a reason with what it is about. As an error it says so in a
// sentence without secrets.
type Refusal struct {
	Reason Reason
	// Bound is the name of the bound that was passed, and Limit its value, where
	// Reason has one.
	Bound string
	Limit int64
}

// Error tells a person why.
func (r *Refusal) Error() string {
	s := reasons[r.Reason].text
	if s == "" {
		s = "refused"
	}
	if r.Bound != "" {
		s += ": the bound " + r.Bound + " is " + strconv.FormatInt(r.Limit, 10)
	}
	return s
}

// Status is the HTTP status that says it, for protocols without an own.
func (r *Refusal) Status() int {
	if s := reasons[r.Reason].status; s != 0 {
		return s
	}
	return http.StatusInternalServerError
}

// Code is the gRPC code that says it, for protocols without an own.
func (r *Refusal) Code() codes.Code {
	if reasons[r.Reason].status == 0 {
		return codes.Internal
	}
	return reasons[r.Reason].code
}

// Is makes a refusal comparable with another of the same reason.
func (r *Refusal) Is(target error) bool {
	var other *Refusal
	return errors.As(target, &other) && other.Reason == r.Reason
}

var reasons = [...]struct {
	text   string
	status int
	code   codes.Code
}{
	NoCredentials:  {"credentials are required", http.StatusUnauthorized, codes.Unauthenticated},
	BadCredentials: {"the credentials are not accepted", http.StatusUnauthorized, codes.Unauthenticated},
	TooLarge:       {"the request is too large", http.StatusRequestEntityTooLarge, codes.ResourceExhausted},
	TooMany:        {"the server has too many requests", http.StatusTooManyRequests, codes.ResourceExhausted},
	TimedOut:       {"the request took too long", http.StatusGatewayTimeout, codes.DeadlineExceeded},
	ShuttingDown:   {"the server is shutting down", http.StatusServiceUnavailable, codes.Unavailable},
	Failed:         {"the server failed", http.StatusInternalServerError, codes.Internal},
	BadPath:        {"the path is not in canonical form", http.StatusBadRequest, codes.InvalidArgument},
	ForeignPage: {"web pages of other machines may not ask a server without keys, unless --cors names them",
		http.StatusForbidden, codes.PermissionDenied},
	ForeignName: {"a server without keys is called localhost or by a loopback address, unless --auth-anonymous says that others are meant",
		http.StatusForbidden, codes.PermissionDenied},
}
