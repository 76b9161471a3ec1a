package openfga

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/door/openfga/wire"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Options are the door's limits: those that OpenFGA's server has settings for.
// The zero value is its defaults.
type Options struct {
	// WriteTuples is how many tuples one write may name, removed ones included.
	// Default 100.
	WriteTuples int
	// BatchChecks is how many questions one batch may have. Default 50.
	BatchChecks int
	// ListResults is how many objects or users a list may have; one that goes on
	// says so in the header Ostiary-Truncated. Streams have no such limit.
	// Default 1,000.
	ListResults int
	// ListTime is how long a list may take. Default 3 s.
	ListTime time.Duration
	// Depth is how many relations a question may follow one after the other;
	// beyond it is an error. Default 25.
	Depth int
	// ConditionContextBytes bounds the context that a tuple's condition stores.
	// Default 32 KiB.
	ConditionContextBytes int
	// Model bounds the types and the size of a model.
	Model language.Bounds
	// ChangesPage is the largest page of changes. Default 100.
	ChangesPage int
	// ChangesHorizon hides the changes that are younger. Default 0: none.
	ChangesHorizon time.Duration
	// AssertionBytes bounds a model's assertions. Default 64,000.
	AssertionBytes int
	// InlineExpressions admits the condition "$expression", which is OpenFGA's
	// experiment of that name. The engine's conditions must then be made with
	// Conditions.
	InlineExpressions bool
	// Report, if set, is called with each error that the caller is told nothing
	// about, but that it happened: for the log. It is called concurrently.
	Report func(error)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&o.WriteTuples, 100}, {&o.BatchChecks, 50}, {&o.ListResults, 1000}, {&o.Depth, 25},
		{&o.ConditionContextBytes, 32 << 10}, {&o.ChangesPage, 100}, {&o.AssertionBytes, 64_000},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.ListTime <= 0 {
		o.ListTime = 3 * time.Second
	}
	return o
}

// service answers the protocol's calls: one method each, whichever way they
// came. Safe for concurrent use.
type service struct {
	engine  *ostiary.Engine
	o       Options
	batches sync.Pool // of *many
}

// report tells of what the caller is not told. It returns err.
func (s *service) report(err error) error {
	var f *failure
	if err != nil && s.o.Report != nil && errors.As(err, &f) && f.cause != nil {
		s.o.Report(f.cause)
	}
	return err
}

// headers is what a request says beside its message, and what its answer does.
type headers struct {
	// revision is the token that the answer must not be older than; "" asks for
	// none.
	revision string

	// store and model are those that were asked; model is the one found where
	// the request names none.
	store, model string
	// token is the revision that was answered at or written.
	token ostiary.Token
	// truncated names the limit that cut a list: "max-results"; "" is none.
	truncated string
}

// setStore notes which store a request names, whether there is such a store or
// not, as the original does. What a header cannot say is left out.
func (c *headers) setStore(store string) {
	for i := 0; i < len(store); i++ {
		if store[i] < ' ' || store[i] > '~' {
			return
		}
	}
	c.store = store
}

// setRevision notes the revision that an answer is of.
func (c *headers) setRevision(ctx context.Context, s *ostiary.Store, r storage.Revision) error {
	t, err := s.TokenAt(ctx, r)
	c.token = t
	return translateError(err)
}

// store finds a store by its id, whose form was checked.
func (s *service) store(ctx context.Context, id string) (*ostiary.Store, error) {
	parsed, err := storage.ParseStoreID(id)
	if err != nil { // of the right letters, but beyond 128 bits
		return nil, failf(codeStoreNotFound, "Store ID not found")
	}
	st, err := s.engine.Store(ctx, parsed)
	return st, translateError(err)
}

// consistency chooses the revision of a read.
func (s *service) consistency(ctx context.Context, c *headers, st *ostiary.Store, consistency int32) (ostiary.Consistency, error) {
	token := ostiary.Token(c.revision)
	switch {
	case consistency == wire.ConsistencyHigher && token != "":
		// What is newest is not older than the token, if that is one at all.
		if _, err := st.Changes(ctx, ostiary.ChangesRequest{After: token, Limit: 1}); err != nil {
			return ostiary.Consistency{}, revisionError(err)
		}
		return ostiary.FullyConsistent(), nil
	case consistency == wire.ConsistencyHigher:
		return ostiary.FullyConsistent(), nil
	case token != "":
		return ostiary.AtLeast(token), nil
	}
	return ostiary.MinimizeLatency(), nil
}

// revisionError says that the error is about the header that names a revision.
func revisionError(err error) error {
	if errors.Is(err, ostiary.ErrToken) || errors.Is(err, ostiary.ErrTooOld) {
		return failf(codeValidation, "invalid %s: %s", headerRevision, reason(err))
	}
	return translateError(err)
}

// target is what a question is asked of.
type target struct {
	service     *service
	headers     *headers
	store       *ostiary.Store
	schema      *schema.Schema
	consistency ostiary.Consistency
}

// open finds the store and the model, the newest if no id is given.
func (s *service) open(ctx context.Context, c *headers, store, model string, consistency int32) (p target, err error) {
	st, err := s.store(ctx, store)
	if err != nil {
		if toFailure(err).code == codeStoreNotFound {
			return p, noModel(store, model)
		}
		return p, err
	}
	info, compiled, err := st.Compiled(ctx, model)
	if err != nil {
		if errors.Is(err, ostiary.ErrNoSchema) || errors.Is(err, ostiary.ErrNoStore) {
			return p, cmp.Or(namespaceHint(ctx, st, model), noModel(store, model))
		}
		return p, translateError(err)
	}
	c.model = info.ID
	at, err := s.consistency(ctx, c, st, consistency)
	return target{s, c, st, compiled, at}, err
}

// noModel is also what the protocol says of a store that is not there.
func noModel(store, model string) error {
	if model == "" {
		return failf(codeLatestNotFound, "No authorization models found for store '%s'", store)
	}
	return failf(codeModelNotFound, "Authorization Model '%s' not found", model)
}

// namespaceHint tells whom names no model how the models of namespaces, such as the
// policies of document access control, are asked; nil where there are none.
func namespaceHint(ctx context.Context, st *ostiary.Store, model string) error {
	if model != "" {
		return nil
	}
	infos, err := st.Schemas(ctx)
	if err != nil || len(infos) == 0 || infos[0].Namespace == "" {
		return nil
	}
	return failf(codeLatestNotFound, "No authorization models found for store '%s', but of namespaces, which are asked by their authorization_model_id: "+
		"the newest is '%s', of '%s'", st.ID(), infos[0].ID, infos[0].Namespace)
}

// queryOptions translates what questions share. An error is *invalid.
func (p *target) queryOptions(context expr.Values, tuples []wire.Tuple) (ostiary.QueryOptions, error) {
	options := ostiary.QueryOptions{SchemaID: p.headers.model, Consistency: p.consistency, Bounds: eval.Bounds{Depth: p.service.o.Depth}}
	if len(context) > 0 {
		options.Context = context
	}
	if len(tuples) == 0 {
		return options, nil
	}
	seen := make(map[rel.Key]struct{}, len(tuples))
	for i := range tuples {
		t, err := parseTuple(p.schema, &tuples[i])
		if err != nil {
			return options, err
		}
		if _, ok := seen[t.Key()]; !ok { // the first of equal ones counts
			seen[t.Key()] = struct{}{}
			options.Tuples = append(options.Tuples, t)
		}
	}
	return options, nil
}
