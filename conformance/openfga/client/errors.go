package client

import (
	"errors"
	"fmt"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/eval"
)

// The codes that the service answers with, by the short names used here.
const (
	codeValidation        = codes.Code(openfgav1.ErrorCode_validation_error)
	codeModelNotFound     = codes.Code(openfgav1.ErrorCode_authorization_model_not_found)
	codeTooComplex        = codes.Code(openfgav1.ErrorCode_authorization_model_resolution_too_complex)
	codeEmptyWrite        = codes.Code(openfgav1.ErrorCode_invalid_write_input)
	codeDuplicateInWrite  = codes.Code(openfgav1.ErrorCode_cannot_allow_duplicate_tuples_in_one_request)
	codeWriteFailed       = codes.Code(openfgav1.ErrorCode_write_failed_due_to_invalid_input)
	codeLatestNotFound    = codes.Code(openfgav1.ErrorCode_latest_authorization_model_not_found)
	codeTypeNotFound      = codes.Code(openfgav1.ErrorCode_type_not_found)
	codeRelationNotFound  = codes.Code(openfgav1.ErrorCode_relation_not_found)
	codeInvalidTuple      = codes.Code(openfgav1.ErrorCode_invalid_tuple)
	codeEntityLimit       = codes.Code(openfgav1.ErrorCode_exceeded_entity_limit)
	codeInvalidModel      = codes.Code(openfgav1.ErrorCode_invalid_authorization_model)
	codeStoreNotFound     = codes.Code(openfgav1.NotFoundErrorCode_store_id_not_found)
	codeInternal          = codes.Code(openfgav1.InternalErrorCode_internal_error)
	codeCancelled         = codes.Code(openfgav1.ErrorCode_cancelled)
	codeResourceExhausted = codes.Code(openfgav1.InternalErrorCode_resource_exhausted)
)

func fail(c codes.Code, format string, args ...any) error {
	return status.Error(c, fmt.Sprintf(format, args...))
}

// kinds maps the library's kinds of errors to codes: the one table of it.
func kinds() []struct {
	kind error
	code codes.Code
} {
	return []struct {
		kind error
		code codes.Code
	}{
		{ostiary.ErrNoStore, codeStoreNotFound},
		{ostiary.ErrNoSchema, codeModelNotFound},
		{ostiary.ErrTupleExists, codeWriteFailed},
		{ostiary.ErrTupleMissing, codeWriteFailed},
		{ostiary.ErrInvalidTuple, codeValidation},
		{ostiary.ErrBound, codeTooComplex},
		{ostiary.ErrInvalidSchema, codeInvalidModel},
		{ostiary.ErrInvalidName, codeValidation},
		{ostiary.ErrNoType, codeTypeNotFound},
		{ostiary.ErrNoRelation, codeRelationNotFound},
	}
}

// wire turns an error of the library into one of the service. An error that
// has a code already keeps it.
func wire(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, k := range kinds() {
		if errors.Is(err, k.kind) {
			return fail(k.code, "%v", err)
		}
	}
	return fail(codeInternal, "%v", err)
}

// undecided says how the service answers where the library could not decide:
// with an error, or nil where it answers "not allowed" (a cycle).
func undecided(r *eval.Reasons) error {
	switch {
	case r == nil:
		return nil
	case r.Bound != "":
		return fail(codeTooComplex, "resolution too complex: bound reached: %s", r.Bound)
	case len(r.Missing) > 0 || len(r.Errors) > 0:
		return fail(codeValidation, "failed to evaluate relationship condition: %s", r)
	}
	return nil
}

// cut is undecided for a list, which a bound may also have cut short.
func cut(bound string, r *eval.Reasons) error {
	if bound != "" {
		return fail(codeTooComplex, "resolution too complex: bound reached: %s", bound)
	}
	return undecided(r)
}
