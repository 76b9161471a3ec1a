package permify

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/internal/permifypb"
)

// failure is an error in the protocol's form. Every error that leaves this
// package is a failure or an error of the transport.
type failure struct {
	// code is the gRPC code; REST derives the HTTP status from it.
	code codes.Code
	// message is the name of an error code, or a text.
	message string
	// cause is the original error, for errors.Is. It is never sent to a client.
	cause error
}

func (f *failure) Error() string { return f.message }

func (f *failure) Unwrap() error { return f.cause }

// GRPCStatus returns the failure as a gRPC status. The gRPC server calls it.
// A client should repeat a request that ends with UNAVAILABLE.
func (f *failure) GRPCStatus() *status.Status {
	if f.code == codes.Unavailable {
		return door.UnavailableStatus(door.ShortText(f.message))
	}
	return status.New(f.code, door.ShortText(f.message))
}

// codeError returns a failure with an error code's name as its message.
func codeError(c permifypb.ErrorCode) *failure {
	return &failure{code: codeOf(c), message: c.String()}
}

// invalidArgument returns a failure for a request that breaks a rule, with a
// text as its message.
func invalidArgument(format string, args ...any) *failure {
	return &failure{code: codes.InvalidArgument, message: fmt.Sprintf(format, args...)}
}

// codeOf returns the gRPC code of an error code.
func codeOf(c permifypb.ErrorCode) codes.Code {
	switch c {
	case permifypb.ErrorCode_ERROR_CODE_CANCELLED:
		return codes.Canceled
	case permifypb.ErrorCode_ERROR_CODE_NOT_IMPLEMENTED:
		return codes.Unimplemented
	case permifypb.ErrorCode_ERROR_CODE_SERIALIZATION:
		return codes.Aborted
	}
	switch c / 1000 {
	case 1:
		return codes.Unauthenticated
	case 2:
		return codes.InvalidArgument
	case 4:
		return codes.NotFound
	}
	return codes.Internal
}

// errorCodes are the kinds of the engine's errors for which the protocol has an error
// code, which replaces the code and the text of [door.Describe]. The first kind that
// matches counts.
var errorCodes = []struct {
	kind error
	code permifypb.ErrorCode
}{
	{authz.ErrNoStore, permifypb.ErrorCode_ERROR_CODE_TENANT_NOT_FOUND},
	{authz.ErrStoreExists, permifypb.ErrorCode_ERROR_CODE_UNIQUE_CONSTRAINT},
	{authz.ErrNoSchema, permifypb.ErrorCode_ERROR_CODE_SCHEMA_NOT_FOUND},
	{authz.ErrNoType, permifypb.ErrorCode_ERROR_CODE_ENTITY_TYPE_NOT_FOUND},
	{authz.ErrNoRelation, permifypb.ErrorCode_ERROR_CODE_PERMISSION_NOT_FOUND},
	{authz.ErrCursor, permifypb.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN},
	{authz.ErrConflict, permifypb.ErrorCode_ERROR_CODE_SERIALIZATION},
	{authz.ErrCanceled, permifypb.ErrorCode_ERROR_CODE_CANCELLED},
	{context.Canceled, permifypb.ErrorCode_ERROR_CODE_CANCELLED},
	{authz.ErrNoDocument, permifypb.ErrorCode_ERROR_CODE_RECORD_NOT_FOUND},
	{authz.ErrStorage, permifypb.ErrorCode_ERROR_CODE_DATASTORE},
	{authz.ErrUncertain, permifypb.ErrorCode_ERROR_CODE_DATASTORE},
	{authz.ErrDamaged, permifypb.ErrorCode_ERROR_CODE_DATASTORE},
}

// translateError returns err as a failure; nil for nil. A failure stays as it
// is. An error of unknown kind becomes an internal error without its text,
// which could contain data.
func translateError(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	var e *language.Error
	if errors.As(err, &e) {
		return &failure{codes.InvalidArgument, e.Error(), err}
	}
	if refused, ok := door.RefusalOf(err); ok {
		f := refusalFailure(refused)
		f.cause = err
		return f
	}
	described := door.Describe(err)
	if described.Code == codes.DeadlineExceeded {
		return &failure{described.Code, "the request took too long", err}
	}
	for kind, i := door.KindOf(err), 0; i < len(errorCodes); i++ {
		if k := &errorCodes[i]; errors.Is(kind, k.kind) {
			return &failure{codeOf(k.code), k.code.String(), err}
		}
	}
	if described.Code == codes.Internal {
		described.Text = permifypb.ErrorCode_ERROR_CODE_INTERNAL.String()
	}
	return &failure{described.Code, described.Text, err}
}

// httpStatus returns the HTTP status of a gRPC code, as gRPC gateways map it.
func httpStatus(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.Canceled:
		return 499
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.Aborted:
		return http.StatusConflict
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// serveMissing is [door.Door.Missing].
func serveMissing(w http.ResponseWriter, _ *http.Request, methods []string) {
	if methods == nil {
		writeError(w, http.StatusNotFound, &failure{code: codes.NotFound, message: "Not Found"})
		return
	}
	writeError(w, http.StatusNotImplemented, &failure{code: codes.Unimplemented, message: "Method Not Allowed"})
}

// refusalFailure translates a refusal of the server.
func refusalFailure(why *door.Refusal) *failure {
	switch why.Reason {
	case door.NoCredentials:
		return codeError(permifypb.ErrorCode_ERROR_CODE_MISSING_BEARER_TOKEN)
	case door.BadCredentials:
		return &failure{code: codes.Unauthenticated, message: permifypb.ErrorCode_ERROR_CODE_INVALID_KEY.String()}
	case door.Failed:
		return codeError(permifypb.ErrorCode_ERROR_CODE_INTERNAL)
	}
	return &failure{code: why.Code(), message: why.Error()}
}

// serveRefusal is [door.Door.Refuse].
func serveRefusal(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
	writeError(w, why.Status(), refusalFailure(why))
}

// refusalStatus is [door.Door.RefuseRPC].
func refusalStatus(why *door.Refusal) error { return refusalFailure(why).GRPCStatus().Err() }
