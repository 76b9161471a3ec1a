package differential

import (
	"context"
	"fmt"
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/openfga/openfga/pkg/server"
	"github.com/openfga/openfga/pkg/storage/memory"
)

// Answer is the result of a call: an error's code, or a decision, or a list.
type Answer struct {
	// Code is the code of an error, or 0.
	Code codes.Code
	// Allowed is the result of a check.
	Allowed bool
	// List is the result of a list, sorted; nil for a check.
	List []string
	// Message is the text of the error, for people.
	Message string
}

// Equal compares everything but the message.
func (a Answer) Equal(b Answer) bool {
	return a.Code == b.Code && a.Allowed == b.Allowed && slices.Equal(a.List, b.List)
}

func (a Answer) String() string {
	switch {
	case a.Code != 0:
		return fmt.Sprintf("error %d %s", uint32(a.Code), a.Message)
	case a.List != nil:
		return "[" + strings.Join(a.List, " ") + "]"
	}
	return fmt.Sprint(a.Allowed)
}

// Side is one of the two services that are compared.
type Side interface {
	// Load creates a store with a world's model and stored tuples.
	Load(ctx context.Context, w *World) (Place, error)
	// Put writes one tuple.
	Put(ctx context.Context, p Place, t *openfgav1.TupleKey) error
	// Send makes a write request, in which it sets the store and the model.
	Send(ctx context.Context, p Place, req *openfgav1.WriteRequest) error
	// Ask asks a question, with the world's contextual tuples and context.
	Ask(ctx context.Context, p Place, w *World, q Question) Answer
	// Close stops the service.
	Close()
}

// Place is a loaded world.
type Place struct {
	// Store and Model are the ids.
	Store, Model string
}

// calls are the calls of the service that both sides have.
type calls interface {
	CreateStore(context.Context, *openfgav1.CreateStoreRequest) (*openfgav1.CreateStoreResponse, error)
	WriteAuthorizationModel(context.Context, *openfgav1.WriteAuthorizationModelRequest) (*openfgav1.WriteAuthorizationModelResponse, error)
	Write(context.Context, *openfgav1.WriteRequest) (*openfgav1.WriteResponse, error)
	Check(context.Context, *openfgav1.CheckRequest) (*openfgav1.CheckResponse, error)
	ListObjects(context.Context, *openfgav1.ListObjectsRequest) (*openfgav1.ListObjectsResponse, error)
	ListUsers(context.Context, *openfgav1.ListUsersRequest) (*openfgav1.ListUsersResponse, error)
}

// side makes a [Side] of the service's calls.
type side struct {
	calls
	close func()
}

// Theirs starts OpenFGA in this process, on its memory datastore.
func Theirs() (Side, error) {
	s, err := server.NewServerWithOpts(
		server.WithDatastore(memory.New()),
		server.WithListObjectsDeadline(0), server.WithListUsersDeadline(0),
	)
	if err != nil {
		return nil, err
	}
	return &side{s, s.Close}, nil
}

func (s *side) Close() { s.close() }

func (s *side) Load(ctx context.Context, w *World) (Place, error) {
	store, err := s.CreateStore(ctx, &openfgav1.CreateStoreRequest{Name: fmt.Sprintf("world %d", w.Seed)})
	if err != nil {
		return Place{}, err
	}
	m := proto.Clone(w.Model).(*openfgav1.AuthorizationModel)
	model, err := s.WriteAuthorizationModel(ctx, &openfgav1.WriteAuthorizationModelRequest{
		StoreId: store.GetId(), SchemaVersion: m.GetSchemaVersion(), TypeDefinitions: m.GetTypeDefinitions(), Conditions: m.GetConditions(),
	})
	if err != nil {
		return Place{}, err
	}
	p := Place{store.GetId(), model.GetAuthorizationModelId()}
	if len(w.Stored) == 0 {
		return p, nil
	}
	_, err = s.Write(ctx, &openfgav1.WriteRequest{
		StoreId: p.Store, AuthorizationModelId: p.Model, Writes: &openfgav1.WriteRequestWrites{TupleKeys: w.Stored},
	})
	return p, err
}

func (s *side) Put(ctx context.Context, p Place, t *openfgav1.TupleKey) error {
	return s.Send(ctx, p, &openfgav1.WriteRequest{Writes: &openfgav1.WriteRequestWrites{TupleKeys: []*openfgav1.TupleKey{t}}})
}

func (s *side) Send(ctx context.Context, p Place, req *openfgav1.WriteRequest) error {
	r := proto.Clone(req).(*openfgav1.WriteRequest)
	r.StoreId, r.AuthorizationModelId = p.Store, p.Model
	_, err := s.Write(ctx, r)
	return err
}

func (s *side) Ask(ctx context.Context, p Place, w *World, q Question) Answer {
	switch q.Kind {
	case ListObjects:
		r, err := s.ListObjects(ctx, &openfgav1.ListObjectsRequest{
			StoreId: p.Store, AuthorizationModelId: p.Model, Type: q.Type, Relation: q.Relation, User: q.User,
			ContextualTuples: &openfgav1.ContextualTupleKeys{TupleKeys: w.Contextual}, Context: w.Context,
		})
		return listed(r.GetObjects(), err)
	case ListUsers:
		typ, id, _ := strings.Cut(q.Object, ":")
		r, err := s.ListUsers(ctx, &openfgav1.ListUsersRequest{
			StoreId: p.Store, AuthorizationModelId: p.Model, Object: &openfgav1.Object{Type: typ, Id: id}, Relation: q.Relation,
			UserFilters:      []*openfgav1.UserTypeFilter{{Type: q.Type, Relation: q.UserRelation}},
			ContextualTuples: w.Contextual, Context: w.Context,
		})
		var users []string
		for _, u := range r.GetUsers() {
			users = append(users, userText(u))
		}
		return listed(users, err)
	}
	r, err := s.Check(ctx, &openfgav1.CheckRequest{
		StoreId: p.Store, AuthorizationModelId: p.Model,
		TupleKey:         &openfgav1.CheckRequestTupleKey{Object: q.Object, Relation: q.Relation, User: q.User},
		ContextualTuples: &openfgav1.ContextualTupleKeys{TupleKeys: w.Contextual}, Context: w.Context,
	})
	return Answer{Code: code(err), Allowed: r.GetAllowed(), Message: message(err)}
}

func listed(list []string, err error) Answer {
	if err != nil {
		return Answer{Code: code(err), Message: message(err)}
	}
	list = slices.Clone(list)
	slices.Sort(list)
	if list == nil {
		list = []string{}
	}
	return Answer{List: list}
}

// code returns the code of an error as it is over a socket: what embedded OpenFGA
// returns for a malformed request is a validation error there.
func code(err error) codes.Code {
	if c := status.Code(err); c != codes.InvalidArgument {
		return c
	}
	return codeValidation
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(status.Convert(err).Message(), "\n", " ")
}

func userText(u *openfgav1.User) string {
	switch x := u.GetUser().(type) {
	case *openfgav1.User_Wildcard:
		return x.Wildcard.GetType() + ":*"
	case *openfgav1.User_Userset:
		return x.Userset.GetType() + ":" + x.Userset.GetId() + "#" + x.Userset.GetRelation()
	}
	return u.GetObject().GetType() + ":" + u.GetObject().GetId()
}
