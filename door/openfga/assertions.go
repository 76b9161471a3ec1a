package openfga

import (
	"context"
	"errors"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
)

// assertionsKind is the kind of the documents that hold the assertions of a model,
// in the protocol's JSON. The key of a document is the id of the model.
const assertionsKind = "openfga.assertions"

// openAssertions opens the model that a request about assertions names, after
// it has checked the request and its revision.
func (s *service) openAssertions(ctx context.Context, c *headers, in interface {
	storeRequest
	GetAuthorizationModelId() string
}) (p target, err error) {
	if err := validateMessage(in); err != nil {
		return p, err
	}
	if p, err = s.open(ctx, c, in.GetStoreId(), in.GetAuthorizationModelId(), wire.ConsistencyUnspecified); err != nil {
		return p, err
	}
	return p, checkRevision(ctx, c, p.store)
}

func (s *service) writeAssertions(ctx context.Context, c *headers, in *openfgav1.WriteAssertionsRequest) (*openfgav1.WriteAssertionsResponse, error) {
	p, err := s.openAssertions(ctx, c, in)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, a := range in.GetAssertions() {
		size += proto.Size(a)
	}
	if size > s.o.AssertionBytes {
		return nil, failf(codeEntityLimit, "The number of bytes exceeds the allowed limit of %d", s.o.AssertionBytes)
	}
	for _, a := range in.GetAssertions() {
		if err := p.assertion(a); err != nil {
			return nil, failf(codeValidation, "%v", err)
		}
	}
	body, err := canonicalJSON(&openfgav1.ReadAssertionsResponse{AuthorizationModelId: c.model, Assertions: in.GetAssertions()})
	if err != nil {
		return nil, translateError(err)
	}
	c.token, err = p.store.Write(ctx, authz.WriteRequest{Documents: []authz.Document{{Kind: assertionsKind, Key: c.model, Body: body}}})
	if err != nil {
		return nil, translateError(err)
	}
	return &openfgav1.WriteAssertionsResponse{}, nil
}

// assertion checks the names of an assertion and of its contextual tuples.
func (p *target) assertion(a *openfgav1.Assertion) error {
	k := a.GetTupleKey()
	if _, err := parseCheckKey(p.schema, &wire.Key{User: k.GetUser(), Relation: k.GetRelation(), Object: k.GetObject()}); err != nil {
		return err
	}
	var tuples wire.WriteRequest
	tuples.FromProto(&openfgav1.WriteRequest{Writes: &openfgav1.WriteRequestWrites{TupleKeys: a.GetContextualTuples()}})
	for i := range tuples.Writes {
		if _, err := parseTuple(p.schema, &tuples.Writes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) readAssertions(ctx context.Context, c *headers, in *openfgav1.ReadAssertionsRequest) (*openfgav1.ReadAssertionsResponse, error) {
	p, err := s.openAssertions(ctx, c, in)
	if err != nil {
		return nil, err
	}
	out := &openfgav1.ReadAssertionsResponse{AuthorizationModelId: c.model}
	d, err := p.store.Document(ctx, authz.DocumentKey{Kind: assertionsKind, Key: c.model})
	if errors.Is(err, authz.ErrNoDocument) {
		return out, nil
	}
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(d.Body, out)
	}
	if err != nil {
		return nil, translateError(err)
	}
	return out, nil
}
