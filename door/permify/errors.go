package permify

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/door/permify/language"
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
// A client should repeat a request for a store that is loading.
func (f *failure) GRPCStatus() *status.Status {
	if f.loading() {
		return door.UnavailableStatus(door.ShortText(f.message))
	}
	return status.New(f.code, door.ShortText(f.message))
}

// loading reports whether the request failed because its store is loading.
func (f *failure) loading() bool { return errors.Is(f.cause, ostiary.ErrLoading) }

// codeError returns a failure with an error code's name as its message.
func codeError(c basev1.ErrorCode) *failure {
	return &failure{code: codeOf(c), message: c.String()}
}

// invalidArgument returns a failure for a request that breaks a rule, with a
// text as its message.
func invalidArgument(format string, args ...any) *failure {
	return &failure{code: codes.InvalidArgument, message: fmt.Sprintf(format, args...)}
}

// codeOf returns the gRPC code of an error code.
func codeOf(c basev1.ErrorCode) codes.Code {
	switch c {
	case basev1.ErrorCode_ERROR_CODE_CANCELLED:
		return codes.Canceled
	case basev1.ErrorCode_ERROR_CODE_NOT_IMPLEMENTED:
		return codes.Unimplemented
	case basev1.ErrorCode_ERROR_CODE_SERIALIZATION:
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

// errorKinds maps the kinds of the engine's errors. The first kind that matches
// counts.
var errorKinds = []struct {
	// kind is the engine's error, for errors.Is.
	kind error
	// code is the error code of the protocol, or 0 if the protocol has no code for the error.
	code basev1.ErrorCode
	// textCode is the gRPC code if there is no error code. The message is then
	// the error's text.
	textCode codes.Code
}{
	{kind: ostiary.ErrNoStore, code: basev1.ErrorCode_ERROR_CODE_TENANT_NOT_FOUND},
	{kind: ostiary.ErrStoreExists, code: basev1.ErrorCode_ERROR_CODE_UNIQUE_CONSTRAINT},
	{kind: ostiary.ErrNoSchema, code: basev1.ErrorCode_ERROR_CODE_SCHEMA_NOT_FOUND},
	{kind: ostiary.ErrNoType, code: basev1.ErrorCode_ERROR_CODE_ENTITY_TYPE_NOT_FOUND},
	{kind: ostiary.ErrNoRelation, code: basev1.ErrorCode_ERROR_CODE_PERMISSION_NOT_FOUND},
	{kind: ostiary.ErrCursor, code: basev1.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN},
	{kind: ostiary.ErrConflict, code: basev1.ErrorCode_ERROR_CODE_SERIALIZATION},
	{kind: ostiary.ErrCanceled, code: basev1.ErrorCode_ERROR_CODE_CANCELLED},
	{kind: ostiary.ErrNoDocument, code: basev1.ErrorCode_ERROR_CODE_RECORD_NOT_FOUND},
	{kind: ostiary.ErrStorage, code: basev1.ErrorCode_ERROR_CODE_DATASTORE},
	{kind: ostiary.ErrUncertain, code: basev1.ErrorCode_ERROR_CODE_DATASTORE},
	{kind: ostiary.ErrDamaged, code: basev1.ErrorCode_ERROR_CODE_DATASTORE},
	{kind: ostiary.ErrToken, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrTooOld, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrFuture, textCode: codes.Unavailable},
	{kind: ostiary.ErrInvalidSchema, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrInvalidName, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrInvalidTuple, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrInvalidRequest, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrMemory, textCode: codes.ResourceExhausted},
	{kind: ostiary.ErrBound, textCode: codes.InvalidArgument},
	{kind: ostiary.ErrLoading, textCode: codes.Unavailable},
	{kind: ostiary.ErrImporting, textCode: codes.Unavailable},
	{kind: ostiary.ErrBusy, textCode: codes.Unavailable},
	{kind: ostiary.ErrClosed, textCode: codes.Unavailable},
	{kind: ostiary.ErrWatchBehind, textCode: codes.DataLoss},
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
	// The cause of ErrLoading may be the deadline.
	if !errors.Is(err, ostiary.ErrLoading) {
		var refused *door.Refusal
		switch {
		case errors.As(err, &refused):
			f := refusalFailure(refused)
			f.cause = err
			return f
		case errors.Is(err, context.DeadlineExceeded):
			return &failure{codes.DeadlineExceeded, "the request took too long", err}
		}
	}
	for i := range errorKinds {
		k := &errorKinds[i]
		switch {
		case !errors.Is(err, k.kind):
		case k.code != 0:
			return &failure{codeOf(k.code), k.code.String(), err}
		default:
			return &failure{k.textCode, reason(err, k.kind), err}
		}
	}
	if errors.Is(err, context.Canceled) {
		return &failure{codes.Canceled, basev1.ErrorCode_ERROR_CODE_CANCELLED.String(), err}
	}
	return &failure{codes.Internal, basev1.ErrorCode_ERROR_CODE_INTERNAL.String(), err}
}

// reason returns the text of err without the engine's prefix, which names the
// operation and the store. If err has no cause, it returns the text of its
// kind.
func reason(err, kind error) string {
	if e, ok := errors.AsType[*ostiary.Error](err); ok && e.Err != nil {
		return e.Reason()
	}
	return kind.Error()
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
		return codeError(basev1.ErrorCode_ERROR_CODE_MISSING_BEARER_TOKEN)
	case door.BadCredentials:
		return &failure{code: codes.Unauthenticated, message: basev1.ErrorCode_ERROR_CODE_INVALID_KEY.String()}
	case door.Failed:
		return codeError(basev1.ErrorCode_ERROR_CODE_INTERNAL)
	}
	return &failure{code: why.Code(), message: why.Error()}
}

// serveRefusal is [door.Door.Refuse].
func serveRefusal(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
	writeError(w, why.Status(), refusalFailure(why))
}

// refusalStatus is [door.Door.RefuseRPC].
func refusalStatus(why *door.Refusal) error { return refusalFailure(why).GRPCStatus().Err() }
