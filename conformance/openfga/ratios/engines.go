package ratios

import (
	"context"
	"fmt"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"github.com/openfga/language/pkg/go/transformer"

	"github.com/openfga/openfga/pkg/server"
	"github.com/openfga/openfga/pkg/storage/memory"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/rel"
)

// Engine is a service that is measured. Each call does what an embedder does who
// has strings. A check returns the decision, and a list its length.
type Engine interface {
	Check(document, relation, user string) bool
	Batch(questions []Question) int
	List(relation, user string) int
	// Write adds the tuples, and Remove removes them.
	Write(tuples []rel.Tuple)
	Remove(tuples []rel.Tuple)
	Close()
}

// must panics on errors, which are mistakes of the benchmark.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// library is the engine of this project.
type library struct {
	ctx    context.Context
	engine *ostiary.Engine
	store  *ostiary.Store
}

// Library loads the data into the library, in memory.
func Library(ctx context.Context, d *Data) Engine {
	e, err := ostiary.Open(ctx, ostiary.Options{})
	must(err)
	s, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "ratios"})
	must(err)
	m, source, err := language.ParseDSL([]byte(model))
	must(err)
	_, _, err = s.WriteSchema(ctx, authz.SchemaSource{Model: m, Dialect: language.Dialect, Source: source})
	must(err)
	l := &library{ctx, e, s}
	for rest := d.Tuples; len(rest) > 0; {
		n := min(len(rest), 10_000)
		l.Write(rest[:n])
		rest = rest[n:]
	}
	return l
}

func (l *library) Check(document, relation, user string) bool {
	r, err := l.store.Check(l.ctx, authz.CheckRequest{
		Object: rel.Object{Type: "document", ID: document}, Relation: relation, Subject: rel.Subject{Type: "user", ID: user},
	})
	must(err)
	return r.Allowed()
}

func (l *library) Batch(questions []Question) int {
	asked := make([]authz.CheckRequest, len(questions))
	for i, q := range questions {
		asked[i] = authz.CheckRequest{Object: rel.Object{Type: "document", ID: q.Document}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: q.User}}
	}
	results, err := l.store.CheckBatch(l.ctx, asked, authz.Acknowledged())
	must(err)
	allowed := 0
	for i := range results {
		if results[i].Allowed() {
			allowed++
		}
	}
	return allowed
}

func (l *library) List(relation, user string) int {
	list, err := l.store.ListObjects(l.ctx, authz.ListObjectsRequest{Type: "document", Relation: relation, Subject: rel.Subject{Type: "user", ID: user}})
	must(err)
	return len(list.IDs)
}

func (l *library) Write(tuples []rel.Tuple) {
	_, err := l.store.Write(l.ctx, authz.WriteRequest{Add: tuples})
	must(err)
}

func (l *library) Remove(tuples []rel.Tuple) {
	keys := make([]rel.Key, len(tuples))
	for i, t := range tuples {
		keys[i] = t.Key()
	}
	_, err := l.store.Write(l.ctx, authz.WriteRequest{Remove: keys})
	must(err)
}

func (l *library) Close() { must(l.engine.Close()) }

// original is OpenFGA.
type original struct {
	ctx          context.Context
	server       *server.Server
	store, model string
}

// Original loads the data into OpenFGA, on its memory datastore.
func Original(ctx context.Context, d *Data) Engine {
	data := memory.New(memory.WithMaxTuplesPerWrite(1_000_000))
	s, err := server.NewServerWithOpts(server.WithDatastore(data))
	must(err)
	o := &original{ctx: ctx, server: s}
	made, err := s.CreateStore(ctx, &openfgav1.CreateStoreRequest{Name: "ratios"})
	must(err)
	o.store = made.GetId()
	m := transformer.MustTransformDSLToProto(model)
	written, err := s.WriteAuthorizationModel(ctx, &openfgav1.WriteAuthorizationModelRequest{
		StoreId: o.store, SchemaVersion: m.GetSchemaVersion(), TypeDefinitions: m.GetTypeDefinitions(),
	})
	must(err)
	o.model = written.GetAuthorizationModelId()
	// The datastore scans all tuples for each new one. Writing through the server
	// would add validation and take even longer.
	must(data.Write(ctx, o.store, nil, tupleKeys(d.Tuples)))
	return o
}

func tupleKeys(tuples []rel.Tuple) []*openfgav1.TupleKey {
	out := make([]*openfgav1.TupleKey, len(tuples))
	for i, t := range tuples {
		out[i] = &openfgav1.TupleKey{Object: t.Object.String(), Relation: t.Relation, User: t.Subject.String()}
	}
	return out
}

func (o *original) Check(document, relation, user string) bool {
	r, err := o.server.Check(o.ctx, &openfgav1.CheckRequest{
		StoreId: o.store, AuthorizationModelId: o.model,
		TupleKey: &openfgav1.CheckRequestTupleKey{Object: "document:" + document, Relation: relation, User: "user:" + user},
	})
	must(err)
	return r.GetAllowed()
}

func (o *original) Batch(questions []Question) int {
	req := &openfgav1.BatchCheckRequest{StoreId: o.store, AuthorizationModelId: o.model}
	for i, q := range questions {
		req.Checks = append(req.Checks, &openfgav1.BatchCheckItem{
			CorrelationId: fmt.Sprint(i),
			TupleKey:      &openfgav1.CheckRequestTupleKey{Object: "document:" + q.Document, Relation: "viewer", User: "user:" + q.User},
		})
	}
	r, err := o.server.BatchCheck(o.ctx, req)
	must(err)
	allowed := 0
	for _, x := range r.GetResult() {
		if x.GetAllowed() {
			allowed++
		}
	}
	return allowed
}

func (o *original) List(relation, user string) int {
	r, err := o.server.ListObjects(o.ctx, &openfgav1.ListObjectsRequest{
		StoreId: o.store, AuthorizationModelId: o.model, Type: "document", Relation: relation, User: "user:" + user,
	})
	must(err)
	return len(r.GetObjects())
}

func (o *original) Write(tuples []rel.Tuple) {
	_, err := o.server.Write(o.ctx, &openfgav1.WriteRequest{
		StoreId: o.store, AuthorizationModelId: o.model, Writes: &openfgav1.WriteRequestWrites{TupleKeys: tupleKeys(tuples)},
	})
	must(err)
}

func (o *original) Remove(tuples []rel.Tuple) {
	deletes := make([]*openfgav1.TupleKeyWithoutCondition, len(tuples))
	for i, t := range tuples {
		deletes[i] = &openfgav1.TupleKeyWithoutCondition{Object: t.Object.String(), Relation: t.Relation, User: t.Subject.String()}
	}
	_, err := o.server.Write(o.ctx, &openfgav1.WriteRequest{
		StoreId: o.store, AuthorizationModelId: o.model, Deletes: &openfgav1.WriteRequestDeletes{TupleKeys: deletes},
	})
	if err != nil && !strings.Contains(err.Error(), "cannot delete") {
		panic(err)
	}
}

func (o *original) Close() { o.server.Close() }
