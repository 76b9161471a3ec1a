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

// failure is an error as the protocol tells it: a gRPC code, and as message the
// name of an error code or a text. Every error that leaves this package is one.
type failure struct {
	code    codes.Code
	message string
	// cause is kept for errors.Is within the door; it is not told.
	cause error
}

func (f *failure) Error() string { return f.message }

func (f *failure) Unwrap() error { return f.cause }

// GRPCStatus makes a failure the status of a gRPC call.
func (f *failure) GRPCStatus() *status.Status { return status.New(f.code, f.message) }

// coded is a failure whose message is an error code's name.
func coded(c basev1.ErrorCode) *failure {
	return &failure{code: codeOf(c), message: c.String()}
}

// invalid is a failure of a request, told in words.
func invalid(format string, args ...any) *failure {
	return &failure{code: codes.InvalidArgument, message: fmt.Sprintf(format, args...)}
}

// codeOf gives each error code its gRPC code.
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

// kinds says how each kind of the engine's errors is told. The first that fits
// counts.
var kinds = []struct {
	kind error
	code basev1.ErrorCode
}{
	{ostiary.ErrNoStore, basev1.ErrorCode_ERROR_CODE_TENANT_NOT_FOUND},
	{ostiary.ErrStoreExists, basev1.ErrorCode_ERROR_CODE_UNIQUE_CONSTRAINT},
	{ostiary.ErrNoSchema, basev1.ErrorCode_ERROR_CODE_SCHEMA_NOT_FOUND},
	{ostiary.ErrNoType, basev1.ErrorCode_ERROR_CODE_ENTITY_TYPE_NOT_FOUND},
	{ostiary.ErrNoRelation, basev1.ErrorCode_ERROR_CODE_PERMISSION_NOT_FOUND},
	{ostiary.ErrCursor, basev1.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN},
	{ostiary.ErrConflict, basev1.ErrorCode_ERROR_CODE_SERIALIZATION},
	{ostiary.ErrCanceled, basev1.ErrorCode_ERROR_CODE_CANCELLED},
	{ostiary.ErrNoDocument, basev1.ErrorCode_ERROR_CODE_RECORD_NOT_FOUND},
	{ostiary.ErrStorage, basev1.ErrorCode_ERROR_CODE_DATASTORE},
	{ostiary.ErrUncertain, basev1.ErrorCode_ERROR_CODE_DATASTORE},
	{ostiary.ErrDamaged, basev1.ErrorCode_ERROR_CODE_DATASTORE},
}

// told are kinds that the protocol has no error code for; their text is told.
var told = []struct {
	kind error
	code codes.Code
}{
	{ostiary.ErrToken, codes.InvalidArgument},
	{ostiary.ErrTooOld, codes.InvalidArgument},
	{ostiary.ErrFuture, codes.Unavailable},
	{ostiary.ErrInvalidSchema, codes.InvalidArgument},
	{ostiary.ErrInvalidName, codes.InvalidArgument},
	{ostiary.ErrInvalidTuple, codes.InvalidArgument},
	{ostiary.ErrInvalidRequest, codes.InvalidArgument},
	{ostiary.ErrMemory, codes.ResourceExhausted},
	{ostiary.ErrBound, codes.InvalidArgument},
	{ostiary.ErrLoading, codes.Unavailable},
	{ostiary.ErrBusy, codes.Unavailable},
	{ostiary.ErrClosed, codes.Unavailable},
	{ostiary.ErrWatchBehind, codes.DataLoss},
}

// translated tells an error of the engine as the protocol does. What nothing
// is known of is an internal error, without its text.
func translated(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	var e *language.Error
	if errors.As(err, &e) {
		return &failure{codes.InvalidArgument, e.Error(), err}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &failure{codes.DeadlineExceeded, "the request took too long", err}
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			return &failure{codeOf(k.code), k.code.String(), err}
		}
	}
	for _, k := range told {
		if errors.Is(err, k.kind) {
			return &failure{k.code, text(err, k.kind), err}
		}
	}
	if errors.Is(err, context.Canceled) {
		return &failure{codes.Canceled, basev1.ErrorCode_ERROR_CODE_CANCELLED.String(), err}
	}
	return &failure{codes.Internal, basev1.ErrorCode_ERROR_CODE_INTERNAL.String(), err}
}

// text is what an error says below the engine's own frame, which names the
// store.
func text(err, kind error) string {
	var e *ostiary.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err.Error()
	}
	return kind.Error()
}

// httpStatus is the HTTP status of a gRPC code, as gateways have it.
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

// missing answers a path or method that is not there.
func missing(w http.ResponseWriter, _ *http.Request, methods []string) {
	if methods == nil {
		writeError(w, http.StatusNotFound, &failure{code: codes.NotFound, message: "Not Found"})
		return
	}
	writeError(w, http.StatusNotImplemented, &failure{code: codes.Unimplemented, message: "Method Not Allowed"})
}

// refusal tells a server's refusal as the protocol does.
func refusal(why *door.Refusal) *failure {
	switch why.Reason {
	case door.NoCredentials:
		return coded(basev1.ErrorCode_ERROR_CODE_MISSING_BEARER_TOKEN)
	case door.BadCredentials:
		return &failure{code: codes.Unauthenticated, message: basev1.ErrorCode_ERROR_CODE_INVALID_KEY.String()}
	case door.Failed:
		return coded(basev1.ErrorCode_ERROR_CODE_INTERNAL)
	}
	return &failure{code: why.Code(), message: why.Error()}
}

func refuse(w http.ResponseWriter, _ *http.Request, why *door.Refusal) {
	writeError(w, why.Status(), refusal(why))
}

func refuseRPC(why *door.Refusal) error { return refusal(why).GRPCStatus().Err() }
