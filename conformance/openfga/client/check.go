package client

import (
	"context"
	"errors"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary"
)

// Check is the service's.
func (c *Client) Check(ctx context.Context, in *openfgav1.CheckRequest, _ ...grpc.CallOption) (*openfgav1.CheckResponse, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	p, err := c.open(ctx, in.GetStoreId(), in.GetAuthorizationModelId())
	if err != nil {
		return nil, err
	}
	allowed, err := p.check(ctx, in.GetTupleKey(), in.GetContextualTuples().GetTupleKeys(), in.GetContext())
	if err != nil {
		return nil, err
	}
	return &openfgav1.CheckResponse{Allowed: allowed}, nil
}

// BatchCheck is the service's: the single checks, one by one, each with its
// own context; the items see one revision only if nobody writes between.
func (c *Client) BatchCheck(ctx context.Context, in *openfgav1.BatchCheckRequest, _ ...grpc.CallOption) (*openfgav1.BatchCheckResponse, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	if n := len(in.GetChecks()); n > batchMax {
		return nil, fail(codeValidation, "batchCheck received %d checks, the maximum allowed is %d", n, batchMax)
	}
	p, err := c.open(ctx, in.GetStoreId(), in.GetAuthorizationModelId())
	if err != nil {
		return nil, err
	}
	results := map[string]*openfgav1.BatchCheckSingleResult{}
	for _, item := range in.GetChecks() {
		if _, ok := results[item.GetCorrelationId()]; ok {
			return nil, fail(codeValidation, "received duplicate correlation id: %s", item.GetCorrelationId())
		}
		allowed, err := p.check(ctx, item.GetTupleKey(), item.GetContextualTuples().GetTupleKeys(), item.GetContext())
		results[item.GetCorrelationId()] = single(allowed, err)
	}
	return &openfgav1.BatchCheckResponse{Result: results}, nil
}

func single(allowed bool, err error) *openfgav1.BatchCheckSingleResult {
	if err == nil {
		return &openfgav1.BatchCheckSingleResult{CheckResult: &openfgav1.BatchCheckSingleResult_Allowed{Allowed: allowed}}
	}
	e := &openfgav1.CheckError{Message: status.Convert(err).Message()}
	switch code := status.Code(err); {
	case code >= 4000 && code < 5000:
		e.Code = &openfgav1.CheckError_InternalError{InternalError: openfgav1.InternalErrorCode(code)}
	default:
		e.Code = &openfgav1.CheckError_InputError{InputError: openfgav1.ErrorCode(code)}
	}
	return &openfgav1.BatchCheckSingleResult{CheckResult: &openfgav1.BatchCheckSingleResult_Error{Error: e}}
}

func (p place) check(ctx context.Context, tk *openfgav1.CheckRequestTupleKey, contextual []*openfgav1.TupleKey, values *structpb.Struct) (bool, error) {
	k, err := question(p.schema, tk.GetObject(), tk.GetRelation(), tk.GetUser())
	if err != nil {
		return false, fail(codeValidation, "invalid relation: %v", err)
	}
	if err := printable(values); err != nil {
		return false, fail(codeValidation, "invalid context: %v", err)
	}
	ask, err := p.ask(values, contextual)
	if err != nil {
		var e *invalid
		if errors.As(err, &e) {
			return false, fail(codeInvalidTuple, "%v", err) // whatever is wrong with it
		}
		return false, wire(err)
	}
	res, err := p.store.Check(ctx, ostiary.CheckRequest{Object: k.Object, Relation: k.Relation, Subject: k.Subject, Ask: ask})
	if err != nil {
		return false, wire(err)
	}
	return res.Allowed(), undecided(res.Reasons)
}
