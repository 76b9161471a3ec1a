package door

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
)

// Reason is why a request was refused without an answer of the engine.
type Reason uint8

const (
	// NoCredentials: the server requires credentials and the request has none.
	NoCredentials Reason = iota + 1
	// BadCredentials: the server does not accept the request's credentials.
	BadCredentials
	// TooLarge: the body or message exceeds its bound.
	TooLarge
	// TooMany: a bound on what clients use together is reached.
	TooMany
	// TimedOut: the request's deadline passed before the response.
	TimedOut
	// ShuttingDown: the server accepts no new requests.
	ShuttingDown
	// Failed: the door panicked, and the server recovered.
	Failed
	// BadPath: the path is not in canonical form: it contains "//", ".." or an
	// encoded slash. A router and an authentication check could read such a
	// path differently.
	BadPath
	// ForeignPage: a web page of another origin sent the request through a
	// browser on this machine, and the server trusts every client on this
	// machine.
	ForeignPage
	// ForeignName: the request's Host is not a name of this machine, and the
	// server trusts every client on this machine. A web page can send such a
	// request if its own host name resolves to a loopback address (DNS
	// rebinding).
	ForeignName
	// BadReason: the header or metadata that names the reason of a write comes
	// twice, is too long, or is not UTF-8 without control characters.
	BadReason
	// BrokenBody: the client left before the end of the body, or the body breaks a rule
	// of HTTP.
	BrokenBody
	// NoHolder: the request writes, and no node took it before its deadline. It had no
	// effect.
	NoHolder
	// Lost: the request was sent to the node that writes, whose response was lost. It may
	// have had an effect.
	Lost
	// BadMedia: the route does not read bodies of the request's media type.
	BadMedia
	// BadQuery: the query of the URL is malformed, or has parameters that the route does
	// not accept.
	BadQuery
	// Forbidden: the server knows the caller, who may not use the door or do what the
	// request asks for.
	Forbidden
	// Unsure: the server cannot find out at the moment whether it accepts the credentials.
	Unsure
	// Unaudited: the request changes something, and the audit log, which is required,
	// cannot be written.
	Unaudited
	// Limited: a limit of the caller or of the store is used up. Bound and Limit are the
	// limit, Got is what is used, and Retry is when some of it is left again.
	Limited
)

// Refusal describes why the server refused a request. Its text contains no
// secrets.
type Refusal struct {
	// Reason is the kind of the refusal.
	Reason Reason
	// Bound is the name of the bound that the request exceeded, and Limit its
	// value. Bound is "" if the reason involves no bound.
	Bound string
	Limit int64
	// Detail is what is wrong, and what was expected, if the reason leaves that open.
	Detail string
	// Time is the value of a bound that is a duration. Limit is 0 then.
	Time time.Duration
	// Got is what the request has of what the bound is about; 0 if that is not known.
	Got int64
	// Retry is after which time the client may repeat the request; 0 if that is not known.
	Retry time.Duration
}

// Error returns the reason as a sentence.
func (r *Refusal) Error() string {
	s := reasons[r.Reason].text
	if s == "" {
		s = "refused"
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	switch {
	case r.Bound == "":
	case r.Time != 0:
		s += ": the bound " + r.Bound + " is " + r.Time.String()
	default:
		s += ": the bound " + r.Bound + " is " + strconv.FormatInt(r.Limit, 10)
	}
	if r.Got != 0 {
		s += ", and " + strconv.FormatInt(r.Got, 10) + " are used"
	}
	return s
}

// Status returns the HTTP status for protocols that define none of their own.
func (r *Refusal) Status() int {
	if s := reasons[r.Reason].status; s != 0 {
		return s
	}
	return http.StatusInternalServerError
}

// Code returns the gRPC code for protocols that define none of their own.
func (r *Refusal) Code() codes.Code {
	if reasons[r.Reason].status == 0 {
		return codes.Internal
	}
	return reasons[r.Reason].code
}

// Is reports whether target is a Refusal with the same reason, for [errors.Is].
// A Refusal with the reason [TimedOut] is also [context.DeadlineExceeded], and those that end a
// request because of its caller, [BadCredentials] and [Limited], are [context.Canceled].
func (r *Refusal) Is(target error) bool {
	switch {
	case r.Reason == TimedOut && target == context.DeadlineExceeded, (r.Reason == BadCredentials || r.Reason == Limited) && target == context.Canceled:
		return true
	}
	var other *Refusal
	return errors.As(target, &other) && other.Reason == r.Reason
}

// reasons holds the text, HTTP status and gRPC code of each reason. It has a row for
// every value of Reason, so that no value is out of range. The row of a value that is
// no reason is zero, and the refusal is an error of the server.
var reasons = [math.MaxUint8 + 1]struct {
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
	ForeignPage: {"a server without keys accepts requests from web pages of this machine only: list other origins with --cors",
		http.StatusForbidden, codes.PermissionDenied},
	BrokenBody: {"the request's body cannot be read", http.StatusBadRequest, codes.InvalidArgument},
	BadMedia:   {"unsupported Content-Type", http.StatusUnsupportedMediaType, codes.InvalidArgument},
	BadQuery:   {"invalid query", http.StatusBadRequest, codes.InvalidArgument},
	Unaudited:  {"the audit log cannot be written, which this server requires", http.StatusServiceUnavailable, codes.Unavailable},
	Limited:    {"too many requests", http.StatusTooManyRequests, codes.ResourceExhausted},
	Forbidden:  {"the caller may not do this", http.StatusForbidden, codes.PermissionDenied},
	Unsure:     {"the credentials cannot be checked at the moment", http.StatusServiceUnavailable, codes.Unavailable},
	BadReason: {"invalid Ostiary-Reason: expected one text of at most 512 bytes of UTF-8 without control characters",
		http.StatusBadRequest, codes.InvalidArgument},
	NoHolder: {"no node takes writes at the moment", http.StatusServiceUnavailable, codes.Unavailable},
	Lost:     {"the outcome of the write is not known: the response of the node that writes was lost", http.StatusInternalServerError, codes.Internal},
	ForeignName: {"unexpected Host: a server without keys accepts localhost and loopback addresses only, unless --auth-anonymous is set",
		http.StatusForbidden, codes.PermissionDenied},
}
