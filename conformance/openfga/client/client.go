// Package client is OpenFGA's service in process: the calls that OpenFGA's own
// suites make, answered by the library. Its main type is Client. It decodes,
// translates, asks and translates back, and keeps nothing but what the calls
// wrote; it opens no socket and knows no rule of authorization.
package client

import (
	"context"
	"encoding/json"
	"sync"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// The service's own limits.
const (
	conditionCostMax = 100
	depthMax         = 25
	writesMax        = 100 // tuples of one write, removed ones included
	batchMax         = 50
	contextBytesMax  = 32 << 10
	resultsMax       = 1000 // of one list
	typesMax         = 100
)

// Client answers the service's calls. It is safe for concurrent use.
type Client struct {
	engine *ostiary.Engine

	mu     sync.RWMutex
	models map[modelKey]*schema.Schema
	newest map[storage.StoreID]string
}

// modelKey names a model: ids are the library's own.
type modelKey struct {
	store storage.StoreID
	model string
}

// New returns a client of an engine of its own, over the driver or, if that
// is nil, in memory. The driver stays the caller's to close.
func New(ctx context.Context, driver storage.Driver) (*Client, error) {
	conditions := Conditions{cel.New(cel.Options{CostMax: conditionCostMax})}
	engine, err := ostiary.Open(ctx, ostiary.Options{Driver: driver, Conditions: conditions})
	if err != nil {
		return nil, err
	}
	return &Client{engine: engine, models: map[modelKey]*schema.Schema{}, newest: map[storage.StoreID]string{}}, nil
}

// Close closes the engine.
func (c *Client) Close() error { return c.engine.Close() }

// CreateStore is the service's.
func (c *Client) CreateStore(ctx context.Context, in *openfgav1.CreateStoreRequest, _ ...grpc.CallOption) (*openfgav1.CreateStoreResponse, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	s, err := c.engine.CreateStore(ctx, ostiary.CreateStore{Name: in.GetName()})
	if err != nil {
		return nil, wire(err)
	}
	info := s.Info()
	created := timestamppb.New(info.Created.Time())
	return &openfgav1.CreateStoreResponse{Id: info.ID.String(), Name: info.Name, CreatedAt: created, UpdatedAt: created}, nil
}

// WriteAuthorizationModel is the service's.
func (c *Client) WriteAuthorizationModel(ctx context.Context, in *openfgav1.WriteAuthorizationModelRequest, _ ...grpc.CallOption) (*openfgav1.WriteAuthorizationModelResponse, error) {
	if err := in.Validate(); err != nil {
		return nil, fail(codeValidation, "%v", err)
	}
	store, err := c.store(ctx, in.GetStoreId())
	if err != nil {
		return nil, err
	}
	if n := len(in.GetTypeDefinitions()); n > typesMax {
		return nil, fail(codeEntityLimit, "%d type definitions, the maximum is %d", n, typesMax)
	}
	model, err := openfga.Translate(&openfgav1.AuthorizationModel{
		SchemaVersion: in.GetSchemaVersion(), TypeDefinitions: in.GetTypeDefinitions(), Conditions: in.GetConditions(),
	})
	if err != nil {
		return nil, fail(codeInvalidModel, "%v", err)
	}
	addInline(model)
	source, err := json.Marshal(in)
	if err != nil {
		return nil, wire(err)
	}
	info, _, err := store.WriteSchema(ctx, ostiary.SchemaSource{Model: model, Dialect: "openfga", Source: source})
	if err != nil {
		return nil, wire(err)
	}
	written, err := store.Schema(ctx, info.ID)
	if err != nil {
		return nil, wire(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models[modelKey{store.ID(), info.ID}] = written.Compiled
	c.newest[store.ID()] = info.ID
	return &openfgav1.WriteAuthorizationModelResponse{AuthorizationModelId: info.ID}, nil
}

func (c *Client) store(ctx context.Context, id string) (*ostiary.Store, error) {
	parsed, err := storage.ParseStoreID(id)
	if err != nil {
		return nil, fail(codeValidation, "invalid store id: %v", err)
	}
	s, err := c.engine.Store(ctx, parsed)
	return s, wire(err)
}

// place is what each question is asked of.
type place struct {
	store  *ostiary.Store
	schema *schema.Schema
	model  string
}

// open finds the store and the model, the newest if no id is given.
func (c *Client) open(ctx context.Context, store, model string) (place, error) {
	s, err := c.store(ctx, store)
	if err != nil {
		return place{}, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	given := model
	if model == "" {
		model = c.newest[s.ID()]
	}
	compiled, ok := c.models[modelKey{s.ID(), model}]
	switch {
	case ok:
		return place{s, compiled, model}, nil
	case given == "":
		return place{}, fail(codeLatestNotFound, "No authorization models found for store '%s'", store)
	}
	return place{}, fail(codeModelNotFound, "Authorization Model '%s' not found", model)
}

// ask translates what questions share. Contextual tuples that do not fit are
// refused with a code of the caller's choice.
func (p place) ask(context *structpb.Struct, tuples []*openfgav1.TupleKey) (ostiary.Ask, error) {
	ask := ostiary.Ask{
		SchemaID: p.model, Context: context.AsMap(),
		Bounds: eval.Bounds{Depth: depthMax},
	}
	seen := map[rel.Key]bool{}
	for _, tk := range tuples {
		t, err := tuple(p.schema, tk)
		if err != nil {
			return ask, err
		}
		if !seen[t.Key()] { // the first of equal ones counts
			seen[t.Key()] = true
			ask.Tuples = append(ask.Tuples, t)
		}
	}
	return ask, nil
}
