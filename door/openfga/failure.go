package openfga

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/quote"
)

// The protocol's error codes that the service returns, by short names. Their
// numbers are the gRPC status codes.
const (
	codeValidation        = codes.Code(openfgav1.ErrorCode_validation_error)
	codeModelNotFound     = codes.Code(openfgav1.ErrorCode_authorization_model_not_found)
	codeTooComplex        = codes.Code(openfgav1.ErrorCode_authorization_model_resolution_too_complex)
	codeEmptyWrite        = codes.Code(openfgav1.ErrorCode_invalid_write_input)
	codeDuplicateInWrite  = codes.Code(openfgav1.ErrorCode_cannot_allow_duplicate_tuples_in_one_request)
	codeContinuation      = codes.Code(openfgav1.ErrorCode_invalid_continuation_token)
	codeExpandInput       = codes.Code(openfgav1.ErrorCode_invalid_expand_input)
	codeWriteFailed       = codes.Code(openfgav1.ErrorCode_write_failed_due_to_invalid_input)
	codeLatestNotFound    = codes.Code(openfgav1.ErrorCode_latest_authorization_model_not_found)
	codeTypeNotFound      = codes.Code(openfgav1.ErrorCode_type_not_found)
	codeRelationNotFound  = codes.Code(openfgav1.ErrorCode_relation_not_found)
	codeInvalidTuple      = codes.Code(openfgav1.ErrorCode_invalid_tuple)
	codeTypeMismatch      = codes.Code(openfgav1.ErrorCode_query_string_type_continuation_token_mismatch)
	codeEntityLimit       = codes.Code(openfgav1.ErrorCode_exceeded_entity_limit)
	codeInvalidModel      = codes.Code(openfgav1.ErrorCode_invalid_authorization_model)
	codeCancelled         = codes.Code(openfgav1.ErrorCode_cancelled)
	codeInvalidStartTime  = codes.Code(openfgav1.ErrorCode_invalid_start_time)
	codeThrottled         = codes.Code(openfgav1.UnprocessableContentErrorCode_throttled_timeout_error)
	codeInternal          = codes.Code(openfgav1.InternalErrorCode_internal_error)
	codeDeadline          = codes.Code(openfgav1.InternalErrorCode_deadline_exceeded)
	codeResourceExhausted = codes.Code(openfgav1.InternalErrorCode_resource_exhausted)
	codePrecondition      = codes.Code(openfgav1.InternalErrorCode_failed_precondition)
	codeUnavailable       = codes.Code(openfgav1.InternalErrorCode_unavailable)
	codeDataLoss          = codes.Code(openfgav1.InternalErrorCode_data_loss)
	codeNoEndpoint        = codes.Code(openfgav1.NotFoundErrorCode_undefined_endpoint)
	codeStoreNotFound     = codes.Code(openfgav1.NotFoundErrorCode_store_id_not_found)
	codeUnimplemented     = codes.Code(openfgav1.NotFoundErrorCode_unimplemented)
	codeTokenMissing      = codes.Code(openfgav1.AuthErrorCode_bearer_token_missing)
	codeUnauthenticated   = codes.Code(openfgav1.AuthErrorCode_unauthenticated)
	codeForbidden         = codes.Code(openfgav1.AuthErrorCode_forbidden)
)

// failure is an error of the protocol. Its code is one of the above or a code of
// gRPC: InvalidArgument for the form of a field, Aborted for a conflict.
type failure struct {
	code    codes.Code
	message string
	// cause is an internal error, which is logged but not sent, or nil.
	cause error
	// limited is true if a limit of the caller or of the store is used up.
	limited bool
}

// Error returns the message.
func (f *failure) Error() string { return f.message }

// Unwrap returns the internal error, or nil.
func (f *failure) Unwrap() error { return f.cause }

// GRPCStatus returns the gRPC status. Package status calls it.
func (f *failure) GRPCStatus() *status.Status {
	if f.code == codes.Unavailable {
		return door.UnavailableStatus(f.message)
	}
	return status.New(f.code, f.message)
}

func newFailure(c codes.Code, message string) *failure { return &failure{code: c, message: message} }

func failf(c codes.Code, format string, args ...any) error {
	return newFailure(c, fmt.Sprintf(format, args...))
}

// errorKind maps a kind of the engine's errors to a code and a message. If the
// message is "", the text of the error is used.
type errorKind struct {
	kind    error
	code    codes.Code
	message string
}

// errorKinds are the kinds of errors for which OpenFGA has a code or a message, which
// replace those of [door.Describe]. Its HTTP API derives the status from the number of
// the code, so that 4006 is 500. The first match counts.
func errorKinds() []errorKind {
	return []errorKind{
		{authz.ErrCanceled, codeCancelled, "Request Cancelled"},
		{context.Canceled, codeCancelled, "Request Cancelled"},
		{authz.ErrNoStore, codeStoreNotFound, "Store ID not found"},
		{authz.ErrForbidden, codeForbidden, ""},
		{authz.ErrNoSchema, codeModelNotFound, ""},
		{authz.ErrTupleExists, codeWriteFailed, ""},
		{authz.ErrTupleMissing, codeWriteFailed, ""},
		{authz.ErrInvalidTuple, codeValidation, ""},
		{authz.ErrBound, codeEntityLimit, ""},
		{authz.ErrInvalidSchema, codeInvalidModel, ""},
		{authz.ErrInvalidName, codeValidation, ""},
		{authz.ErrInvalidRequest, codeValidation, ""},
		{authz.ErrNoType, codeTypeNotFound, ""},
		{authz.ErrNoRelation, codeRelationNotFound, ""},
		{authz.ErrToken, codeValidation, ""},
		{authz.ErrTooOld, codeValidation, ""},
		{authz.ErrCursor, codeContinuation, "Invalid continuation token"},
		{authz.ErrMemory, codeResourceExhausted, "the server's memory budget is reached"},
		{authz.ErrDisk, codeResourceExhausted, ""},
		{authz.ErrWatchBehind, codeDataLoss, ""},
		{authz.ErrDamaged, codeDataLoss, "stored data is damaged"},
		{authz.ErrUncertain, codeInternal, "the outcome of the write is not known; read to find out"},
		// No request of OpenFGA names what these are about.
		{authz.ErrStoreExists, codeInternal, internalMessage},
		{authz.ErrNoDocument, codeInternal, internalMessage},
		{authz.ErrPrecondition, codeInternal, internalMessage},
	}
}

// internalMessage is the message of every internal error.
const internalMessage = "Internal Server Error"

// toFailure translates any error. It returns nil for nil.
func toFailure(err error) *failure {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if refused, ok := door.RefusalOf(err); ok {
		return refusalFailure(refused)
	}
	described := door.Describe(err)
	f := &failure{code: described.Code, message: described.Text}
	switch f.code {
	case codes.DeadlineExceeded:
		return newFailure(codeDeadline, "Request Deadline Exceeded")
	case codes.Internal:
		f.code, f.message = codeInternal, internalMessage
	}
	kind := door.KindOf(err)
	for _, k := range errorKinds() {
		if errors.Is(kind, k.kind) {
			f.code, f.message = k.code, cmp.Or(k.message, f.message)
			break
		}
	}
	if f.code == codeInternal || f.code == codeDataLoss {
		f.cause = err
	}
	return f
}

// translateError is like toFailure, and returns a nil error for nil.
func translateError(err error) error {
	if err == nil {
		return nil
	}
	return toFailure(err)
}

// tooComplexMessage is the message of an evaluation that reached a bound.
const tooComplexMessage = "Authorization Model resolution required too many rewrite rules to be resolved: the bound %s is reached"

// unknownError returns the error for an unknown result with these reasons. It
// returns nil if there are none, or if the service answers "not allowed": for a
// cycle through an exclusion.
func unknownError(r *authz.Reasons) error {
	switch {
	case r == nil:
		return nil
	case r.Bound != "" && !conditionBound(r):
		return failf(codeTooComplex, tooComplexMessage, r.Bound)
	case len(r.Missing) > 0 && len(r.Errors) == 0:
		return failf(codeValidation, "failed to evaluate relationship condition: missing context parameters '%v'", r.Missing)
	case len(r.Errors) > 0:
		return failf(codeValidation, "failed to evaluate relationship condition: %s", r)
	}
	return nil
}

// conditionBound reports whether the bound in r is one of a condition. The
// protocol treats it as an error of the condition.
func conditionBound(r *authz.Reasons) bool {
	return slices.ContainsFunc(r.Errors, func(e authz.ConditionError) bool {
		var bound *expr.BoundError
		return errors.As(e.Err, &bound) && bound.Bound == r.Bound
	})
}

// listError is like unknownError for a list, which a bound may also have cut.
func listError(bound string, r *authz.Reasons) error {
	if bound != "" {
		return failf(codeTooComplex, tooComplexMessage, bound)
	}
	return unknownError(r)
}

// number returns the protocol's number of the code. Each code of gRPC has one.
func (f *failure) number() int32 {
	if f.code >= 1000 {
		return int32(f.code)
	}
	switch f.code {
	case codes.Unauthenticated:
		return int32(codeUnauthenticated)
	case codes.Canceled:
		return int32(codeCancelled)
	case codes.DeadlineExceeded:
		return int32(codeDeadline)
	case codes.NotFound:
		return int32(codeNoEndpoint)
	case codes.ResourceExhausted:
		return int32(codeResourceExhausted)
	case codes.FailedPrecondition:
		return int32(codePrecondition)
	case codes.Aborted:
		return int32(codes.Aborted)
	case codes.Unimplemented:
		return int32(codeUnimplemented)
	case codes.Unavailable:
		return int32(codeUnavailable)
	case codes.DataLoss:
		return int32(codeDataLoss)
	case codes.InvalidArgument:
		return fieldCode(f.message)
	}
	return int32(codeInternal)
}

// httpError is an error as it is sent over HTTP.
type httpError struct {
	status  int
	family  codes.Code // the code in streams, which do not have the name
	name    string
	message string
}

// httpError returns the error as it is sent over HTTP.
func (f *failure) httpError() httpError {
	n := f.number()
	message := lastCause(f.message)
	switch {
	case f.limited:
		return httpError{http.StatusTooManyRequests, codes.ResourceExhausted, "rate_limit_exceeded", message}
	case f.code == codes.ResourceExhausted: // the body is too large
		return httpError{http.StatusRequestEntityTooLarge, codes.ResourceExhausted, openfgav1.InternalErrorCode(n).String(), message}
	case f.code == codes.Unavailable:
		return httpError{http.StatusServiceUnavailable, codes.Unavailable, openfgav1.InternalErrorCode(n).String(), message}
	case n == int32(codes.Aborted):
		return httpError{http.StatusConflict, codes.Aborted, codes.Aborted.String(), message}
	case n == int32(codeForbidden):
		return httpError{http.StatusForbidden, codes.PermissionDenied, openfgav1.AuthErrorCode(n).String(), message}
	case n < 2000:
		return httpError{http.StatusUnauthorized, codes.Unauthenticated, openfgav1.AuthErrorCode(n).String(), message}
	case n < 3500:
		return httpError{http.StatusBadRequest, codes.InvalidArgument, openfgav1.ErrorCode(n).String(), message}
	case n < 4000:
		return httpError{http.StatusUnprocessableEntity, codes.ResourceExhausted, openfgav1.UnprocessableContentErrorCode(n).String(), message}
	case n < 5000:
		return httpError{http.StatusInternalServerError, codes.Internal, openfgav1.InternalErrorCode(n).String(), message}
	}
	return httpError{http.StatusNotFound, codes.NotFound, openfgav1.NotFoundErrorCode(n).String(), message}
}

// lastCause returns the last part of a message that is a chain of causes.
func lastCause(message string) string {
	if i := strings.LastIndex(message, "| caused by:"); i >= 0 {
		message = message[i+len("| caused by:"):]
	}
	return strings.TrimSpace(message)
}

// fieldCode returns the code of an error about the form of a field, whose message
// is "invalid Message.Field: reason".
func fieldCode(message string) int32 {
	where, reason, ok := strings.Cut(lastCause(message), ": ")
	_, field, dotted := strings.Cut(where, ".")
	if !ok || !dotted || strings.Contains(field, ".") {
		return int32(codeValidation)
	}
	if strings.HasPrefix(field, "Relations[") {
		field = "Relations[]"
	}
	for _, f := range fieldCodes() {
		if f.field == field && strings.HasPrefix(reason, f.reason) {
			return int32(f.code)
		}
	}
	return int32(codeValidation)
}

// fieldCodes returns the fields whose rules have their own codes over HTTP.
func fieldCodes() []struct {
	field, reason string
	code          openfgav1.ErrorCode
} {
	const tooLong, pattern, required = "value length must be at most", "value does not match regex pattern", "value is required"
	return []struct {
		field, reason string
		code          openfgav1.ErrorCode
	}{
		{"Assertions", "value must contain no more than", openfgav1.ErrorCode_assertions_too_many_items},
		{"AuthorizationModelId", tooLong, openfgav1.ErrorCode_authorization_model_id_too_long},
		{"Base", required, openfgav1.ErrorCode_difference_base_missing_value},
		{"Id", tooLong, openfgav1.ErrorCode_id_too_long},
		{"Object", tooLong, openfgav1.ErrorCode_object_too_long},
		{"PageSize", "value must be inside range", openfgav1.ErrorCode_page_size_invalid},
		{"Params", required, openfgav1.ErrorCode_param_missing_value},
		{"Relation", tooLong, openfgav1.ErrorCode_relation_too_long},
		{"Relations", "value must contain at least", openfgav1.ErrorCode_relations_too_few_items},
		{"Relations[]", tooLong, openfgav1.ErrorCode_relations_too_long},
		{"Relations[]", pattern, openfgav1.ErrorCode_relations_invalid_pattern},
		{"StoreId", "value length must be", openfgav1.ErrorCode_store_id_invalid_length},
		{"Subtract", required, openfgav1.ErrorCode_subtract_base_missing_value},
		{"TupleKey", required, openfgav1.ErrorCode_tuple_key_value_not_specified},
		{"TupleKeys", "value must contain between", openfgav1.ErrorCode_tuple_keys_too_many_or_too_few_items},
		{"Type", "value length must be at", openfgav1.ErrorCode_type_invalid_length},
		{"Type", pattern, openfgav1.ErrorCode_type_invalid_pattern},
		{"TypeDefinitions", "value must contain at least", openfgav1.ErrorCode_type_definitions_too_few_items},
	}
}

// clip shortens a text for an error, which may quote the whole input.
func clip(s string) string { return quote.OfForeign(s, 300) }
