package client

import (
	"context"
	"io"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// objectsRequest is what both calls that list objects ask.
type objectsRequest interface {
	Validate() error
	GetStoreId() string
	GetAuthorizationModelId() string
	GetType() string
	GetRelation() string
	GetUser() string
	GetContextualTuples() *openfgav1.ContextualTupleKeys
	GetContext() *structpb.Struct
}

// ListObjects is the service's: at most 1,000, without saying what was cut.
func (c *Client) ListObjects(ctx context.Context, in *openfgav1.ListObjectsRequest, _ ...grpc.CallOption) (*openfgav1.ListObjectsResponse, error) {
	objects, err := c.objects(ctx, in, resultsMax)
	if err != nil {
		return nil, err
	}
	return &openfgav1.ListObjectsResponse{Objects: objects}, nil
}

// StreamedListObjects is the service's: all of them. An error comes with the
// stream, as it does over the wire.
func (c *Client) StreamedListObjects(ctx context.Context, in *openfgav1.StreamedListObjectsRequest, _ ...grpc.CallOption) (openfgav1.OpenFGAService_StreamedListObjectsClient, error) {
	objects, err := c.objects(ctx, in, 0)
	return &stream{objects: objects, err: err}, nil
}

// stream gives out a list that is there already.
type stream struct {
	grpc.ClientStream
	objects []string
	err     error
}

func (s *stream) Recv() (*openfgav1.StreamedListObjectsResponse, error) {
	if s.err != nil {
		return nil, s.err
	}
	if len(s.objects) == 0 {
		return nil, io.EOF
	}
	o := s.objects[0]
	s.objects = s.objects[1:]
	return &openfgav1.StreamedListObjectsResponse{Object: o}, nil
}

// objects lists up to max objects; 0 is all.
func (c *Client) objects(ctx context.Context, in objectsRequest, max int) ([]string, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	p, err := c.open(ctx, in.GetStoreId(), in.GetAuthorizationModelId())
	if err != nil {
		return nil, err
	}
	ask, err := p.ask(in.GetContext(), in.GetContextualTuples().GetTupleKeys())
	if err != nil {
		return nil, fail(codeOf(err), "%v", err)
	}
	if err := hasRelation(p.schema, in.GetType(), in.GetRelation()); err != nil {
		return nil, fail(codeOf(err), "%v", err)
	}
	sub, err := subject(p.schema, in.GetUser())
	if err != nil {
		return nil, fail(codeValidation, "invalid 'user' value: %v", err)
	}
	req := ostiary.ListObjectsRequest{Type: in.GetType(), Relation: in.GetRelation(), Subject: sub, Ask: ask}
	var out []string
	for {
		list, err := p.store.ListObjects(ctx, req)
		if err != nil {
			return nil, wire(err)
		}
		if err := cut(list.Bound, list.Reasons); err != nil {
			return nil, err
		}
		for _, id := range list.IDs {
			if out = append(out, in.GetType()+":"+id); len(out) == max {
				return out, nil
			}
		}
		if list.Next == "" {
			return out, nil
		}
		req.Cursor = list.Next
	}
}

// ListUsers is the service's.
func (c *Client) ListUsers(ctx context.Context, in *openfgav1.ListUsersRequest, _ ...grpc.CallOption) (*openfgav1.ListUsersResponse, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	p, err := c.open(ctx, in.GetStoreId(), in.GetAuthorizationModelId())
	if err != nil {
		return nil, err
	}
	ask, err := p.ask(in.GetContext(), in.GetContextualTuples())
	if err != nil {
		return nil, fail(codeOf(err), "%v", err)
	}
	filter := in.GetUserFilters()[0] // Validate saw that there is one
	if err := hasFilter(p, filter); err != nil {
		return nil, fail(codeOf(err), "%v", err)
	}
	if err := hasRelation(p.schema, in.GetObject().GetType(), in.GetRelation()); err != nil {
		return nil, fail(codeOf(err), "%v", err)
	}
	object := rel.Object{Type: in.GetObject().GetType(), ID: in.GetObject().GetId()}
	if object.Validate() != nil { // no tuple can name it; the service does not look
		return &openfgav1.ListUsersResponse{}, nil
	}
	users, err := p.users(ctx, ostiary.ListSubjectsRequest{
		Object:   object,
		Relation: in.GetRelation(), SubjectType: filter.GetType(), SubjectRelation: filter.GetRelation(), Ask: ask,
	})
	if err != nil {
		return nil, err
	}
	return &openfgav1.ListUsersResponse{Users: users}, nil
}

func hasFilter(p place, f *openfgav1.UserTypeFilter) error {
	if f.GetRelation() == "" {
		return hasType(p.schema, f.GetType())
	}
	return hasRelation(p.schema, f.GetType(), f.GetRelation())
}

func (p place) users(ctx context.Context, req ostiary.ListSubjectsRequest) ([]*openfgav1.User, error) {
	var out []*openfgav1.User
	for {
		list, err := p.store.ListSubjects(ctx, req)
		if err != nil {
			return nil, wire(err)
		}
		if err := cut(list.Bound, list.Reasons); err != nil {
			return nil, err
		}
		if list.Wildcard == expr.True && req.Cursor == "" {
			out = append(out, user(rel.Subject{Type: req.SubjectType, ID: rel.Wildcard}))
		}
		for _, id := range list.IDs {
			if len(out) == resultsMax {
				return out, nil
			}
			out = append(out, user(rel.Subject{Type: req.SubjectType, ID: id, Relation: req.SubjectRelation}))
		}
		if list.Next == "" {
			return out, nil
		}
		req.Cursor = list.Next
	}
}

func user(s rel.Subject) *openfgav1.User {
	switch {
	case s.Relation != "":
		return &openfgav1.User{User: &openfgav1.User_Userset{Userset: &openfgav1.UsersetUser{Type: s.Type, Id: s.ID, Relation: s.Relation}}}
	case s.IsWildcard():
		return &openfgav1.User{User: &openfgav1.User_Wildcard{Wildcard: &openfgav1.TypedWildcard{Type: s.Type}}}
	}
	return &openfgav1.User{User: &openfgav1.User_Object{Object: &openfgav1.Object{Type: s.Type, Id: s.ID}}}
}
