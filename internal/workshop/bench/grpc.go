package bench

import (
	"context"
	"strconv"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// GRPC is a [Target] that speaks OpenFGA's gRPC API over one connection, or calls
// a service in this process.
type GRPC struct {
	conn   *grpc.ClientConn // nil for a service in this process
	door   string
	client openfgav1.OpenFGAServiceClient
	token  string
	store  string // the store's id
	model  string // the model's id
	// attached is true if another target created the store and removes it.
	attached bool
}

// NewGRPC returns a target for the server at address ("127.0.0.1:8081"). token,
// if not empty, is sent as the bearer token.
func NewGRPC(address, token string) (*GRPC, error) {
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(bodyMax)))
	if err != nil {
		return nil, err
	}
	return &GRPC{conn: c, door: "grpc", client: openfgav1.NewOpenFGAServiceClient(c), token: token}, nil
}

// NewService returns a target for a service in this process, which client calls
// without a network. It uses CreateStore, DeleteStore, WriteAuthorizationModel,
// Write, Check, BatchCheck and ListObjects.
func NewService(client openfgav1.OpenFGAServiceClient) *GRPC {
	return &GRPC{door: "embedded", client: client}
}

// Door returns "grpc", or "embedded" for a service in this process.
func (t *GRPC) Door() string { return t.door }

// Attach makes the target use the store and the model of like. Setup and Teardown
// then do nothing.
func (t *GRPC) Attach(like *HTTP) { t.store, t.model, t.attached = like.store, like.model, true }

// with returns ctx with the bearer token, if there is one.
func (t *GRPC) with(ctx context.Context) context.Context {
	if t.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t.token)
}

// Setup creates a store with the model and the tuples, like [HTTP.Setup].
func (t *GRPC) Setup(ctx context.Context, model string, tuples Tuples, progress func(int)) error {
	if t.attached {
		return nil
	}
	m, _, err := language.ParseDSL([]byte(model))
	if err != nil {
		return err
	}
	message, err := openfga.Message(m)
	if err != nil {
		return err
	}
	ctx = t.with(ctx)
	made, err := t.client.CreateStore(ctx, &openfgav1.CreateStoreRequest{Name: storeName})
	if err != nil {
		return err
	}
	t.store = made.GetId()
	written, err := t.client.WriteAuthorizationModel(ctx, &openfgav1.WriteAuthorizationModelRequest{
		StoreId: t.store, SchemaVersion: message.GetSchemaVersion(), TypeDefinitions: message.GetTypeDefinitions(), Conditions: message.GetConditions(),
	})
	if err != nil {
		return err
	}
	t.model = written.GetAuthorizationModelId()
	return writeChunks(ctx, tuples, progress, func(ctx context.Context, chunk []rel.Tuple) error {
		r, err := t.write(chunk, nil)
		if err == nil {
			_, err = t.client.Write(ctx, r)
		}
		return err
	})
}

// Prepare builds the message of r. The gRPC client encodes it for each call.
func (t *GRPC) Prepare(r Request) (Prepared, error) {
	switch {
	case r.Check != nil:
		c := r.Check
		keys, values, err := contextual(c.Tuples, c.Context)
		if err != nil {
			return nil, err
		}
		m := &openfgav1.CheckRequest{StoreId: t.store, AuthorizationModelId: t.model, TupleKey: c.key(), ContextualTuples: keys, Context: values}
		return grpcCall(func(ctx context.Context) (bool, error) {
			a, err := t.client.Check(t.with(ctx), m)
			return a.GetAllowed() == c.Allowed, err
		}), nil
	case r.Batch != nil:
		m := &openfgav1.BatchCheckRequest{StoreId: t.store, AuthorizationModelId: t.model}
		for i := range r.Batch {
			c := &r.Batch[i]
			keys, values, err := contextual(c.Tuples, c.Context)
			if err != nil {
				return nil, err
			}
			m.Checks = append(m.Checks, &openfgav1.BatchCheckItem{TupleKey: c.key(), CorrelationId: strconv.Itoa(i), ContextualTuples: keys, Context: values})
		}
		want := allowedOf(r.Batch)
		return grpcCall(func(ctx context.Context) (bool, error) {
			a, err := t.client.BatchCheck(t.with(ctx), m)
			n := 0
			for _, one := range a.GetResult() {
				if one.GetAllowed() {
					n++
				}
			}
			return n == want, err
		}), nil
	case r.List != nil:
		l := r.List
		keys, _, err := contextual(l.Tuples, nil)
		if err != nil {
			return nil, err
		}
		m := &openfgav1.ListObjectsRequest{StoreId: t.store, AuthorizationModelId: t.model, Type: l.Type, Relation: l.Relation, User: l.Subject.String(), ContextualTuples: keys}
		return grpcCall(func(ctx context.Context) (bool, error) {
			a, err := t.client.ListObjects(t.with(ctx), m)
			return l.Count < 0 || len(a.GetObjects()) == l.Count, err
		}), nil
	}
	m, err := t.write(r.Write, r.Remove)
	if err != nil {
		return nil, err
	}
	return grpcCall(func(ctx context.Context) (bool, error) {
		_, err := t.client.Write(t.with(ctx), m)
		return true, err
	}), nil
}

func (c *Check) key() *openfgav1.CheckRequestTupleKey {
	return &openfgav1.CheckRequestTupleKey{Object: c.Object.String(), Relation: c.Relation, User: c.Subject.String()}
}

// contextual returns contextual tuples and the parameters of conditions as
// messages. Nil values stay nil.
func contextual(tuples []rel.Tuple, values map[string]any) (*openfgav1.ContextualTupleKeys, *structpb.Struct, error) {
	var keys *openfgav1.ContextualTupleKeys
	if tuples != nil {
		list, err := messages(tuples)
		if err != nil {
			return nil, nil, err
		}
		keys = &openfgav1.ContextualTupleKeys{TupleKeys: list}
	}
	if values == nil {
		return keys, nil, nil
	}
	s, err := structpb.NewStruct(values)
	return keys, s, err
}

// messages returns tuples as messages.
func messages(tuples []rel.Tuple) ([]*openfgav1.TupleKey, error) {
	out := make([]*openfgav1.TupleKey, len(tuples))
	for i := range tuples {
		t := &tuples[i]
		out[i] = &openfgav1.TupleKey{Object: t.Object.String(), Relation: t.Relation, User: t.Subject.String()}
		if t.Condition == "" {
			continue
		}
		out[i].Condition = &openfgav1.RelationshipCondition{Name: t.Condition}
		if t.Context != "" {
			s := &structpb.Struct{}
			if err := protojson.Unmarshal([]byte(t.Context), s); err != nil {
				return nil, err
			}
			out[i].Condition.Context = s
		}
	}
	return out, nil
}

// write returns the message of a write.
func (t *GRPC) write(add, remove []rel.Tuple) (*openfgav1.WriteRequest, error) {
	r := &openfgav1.WriteRequest{StoreId: t.store, AuthorizationModelId: t.model}
	if add != nil {
		keys, err := messages(add)
		if err != nil {
			return nil, err
		}
		r.Writes = &openfgav1.WriteRequestWrites{TupleKeys: keys}
	}
	if remove != nil {
		r.Deletes = &openfgav1.WriteRequestDeletes{}
		for i := range remove {
			r.Deletes.TupleKeys = append(r.Deletes.TupleKeys, &openfgav1.TupleKeyWithoutCondition{
				Object: remove[i].Object.String(), Relation: remove[i].Relation, User: remove[i].Subject.String(),
			})
		}
	}
	return r, nil
}

// Teardown deletes the store.
func (t *GRPC) Teardown(ctx context.Context) error {
	if t.store == "" || t.attached {
		return nil
	}
	_, err := t.client.DeleteStore(t.with(ctx), &openfgav1.DeleteStoreRequest{StoreId: t.store})
	return err
}

// Close closes the connection. It does not close a service in this process.
func (t *GRPC) Close() error {
	if t.conn == nil {
		return nil
	}
	return t.conn.Close()
}

// grpcCall is a prepared call. It reports whether the answer was correct.
type grpcCall func(ctx context.Context) (bool, error)

func (call grpcCall) Send(ctx context.Context, _ int) error {
	ok, err := call(ctx)
	if err == nil {
		return correct(ok)
	}
	if ctx.Err() != nil {
		return &Failure{What: "timeout", Err: err}
	}
	return &Failure{What: "grpc " + status.Code(err).String(), Err: err}
}
