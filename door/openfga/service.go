package openfga

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// Options are the limits of the door, one for each limit in the settings of
// OpenFGA's server. The zero value means OpenFGA's defaults.
type Options struct {
	// WriteTuples is the maximum number of tuples in one write, removed ones
	// included. Default 100.
	WriteTuples int
	// BatchChecks is the maximum number of checks in one batch. Default 50.
	BatchChecks int
	// ListResults is the maximum number of objects or users in a list. A list that
	// was cut has the header Ostiary-Truncated. Streams have no such limit. Default
	// 1,000.
	ListResults int
	// ListTime is the maximum duration of a list; a longer one is an error. Default
	// 3 s.
	ListTime time.Duration
	// Depth is how many relations a question may follow one after another; a deeper
	// one is an error. Default 25.
	Depth int
	// ConditionContextBytes bounds the context that a tuple's condition stores, in
	// the protocol's binary encoding. Default 32 KiB.
	ConditionContextBytes int
	// Model bounds the types and the size of a model.
	Model language.Bounds
	// ChangesPage is the maximum number of changes in a page. Default 100.
	ChangesPage int
	// ChangesHorizon hides changes that are younger than this. Default 0: none.
	ChangesHorizon time.Duration
	// AssertionBytes bounds the assertions of a model, in the protocol's binary
	// encoding. Default 64,000.
	AssertionBytes int
	// InlineExpressions admits the condition "$expression", OpenFGA's experiment of
	// that name. The engine must then use [Conditions].
	InlineExpressions bool
	// Report, if not nil, is called with each internal error, for example to log
	// it. The response does not contain the details of such an error. Report is
	// called concurrently.
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

// service handles the protocol's calls, one method each, for HTTP and gRPC. It is
// safe for concurrent use.
type service struct {
	engine  *ostiary.Engine
	o       Options
	batches sync.Pool // of *batch
}

// report calls [Options].Report for an internal error. It returns err.
func (s *service) report(err error) error {
	var f *failure
	if err != nil && s.o.Report != nil && errors.As(err, &f) && f.cause != nil {
		s.o.Report(f.cause)
	}
	return err
}

// headers are the HTTP headers, or the gRPC metadata, of a request and its
// response.
type headers struct {
	// revision comes from the request: the result must not be older than this token.
	// "" means any age.
	revision string

	// The others go into the response. store and model are the ids that were used.
	// model is the newest one if the request names none.
	store, model string
	// token is the revision that was read or written.
	token authz.Token
	// truncated is the limit that cut a list, "max-results", or "".
	truncated string
}

// setStore sets the store that a request names. As in OpenFGA, the store need not
// exist. An id with characters that a header cannot have is left out.
func (c *headers) setStore(store string) {
	for i := 0; i < len(store); i++ {
		if store[i] < ' ' || store[i] > '~' {
			return
		}
	}
	c.store = store
}

// setRevision sets the revision that a result was read at.
func (c *headers) setRevision(ctx context.Context, s *ostiary.Store, r storage.Revision) error {
	t, err := s.TokenAt(ctx, r)
	c.token = t
	return translateError(err)
}

// store finds a store by its id, for a read with a consistency. The caller has checked the
// form of the id.
func (s *service) store(ctx context.Context, id string, at authz.Consistency) (*ostiary.Store, error) {
	parsed, err := storage.ParseStoreID(id)
	if err != nil { // the right letters, but more than 128 bits
		return nil, failf(codeStoreNotFound, "Store ID not found")
	}
	st, err := s.engine.StoreAt(ctx, parsed, at)
	return st, translateError(err)
}

// lookup returns the consistency with which a call looks its store and its model up:
// [authz.MinimizeLatency] if it prefers that and needs no revision.
func (c *headers) lookup(consistency int32) authz.Consistency {
	if consistency == wire.ConsistencyMinimizeLatency && c.revision == "" {
		return authz.MinimizeLatency()
	}
	return authz.Acknowledged()
}

// consistency translates the consistency preference of a read.
func (s *service) consistency(ctx context.Context, c *headers, st *ostiary.Store, consistency int32) (authz.Consistency, error) {
	token := authz.Token(c.revision)
	switch {
	case consistency == wire.ConsistencyHigher && token != "":
		// The newest revision is not older than a valid token.
		return authz.FullyConsistent(), checkRevision(ctx, c, st)
	case consistency == wire.ConsistencyHigher:
		return authz.FullyConsistent(), nil
	case token != "":
		return authz.AtLeast(token), nil
	}
	return c.lookup(consistency), nil
}

// checkRevision fails if the request has a token that is not one of the store. It
// waits for the token's revision. Calls that choose no revision use it.
func checkRevision(ctx context.Context, c *headers, st *ostiary.Store) error {
	if c.revision == "" {
		return nil
	}
	if _, err := st.Resolve(ctx, authz.AtLeast(authz.Token(c.revision))); err != nil {
		return revisionError(err)
	}
	return nil
}

// storeAt is [service.store] for a call that chooses no revision. It checks the
// request's token.
func (s *service) storeAt(ctx context.Context, c *headers, id string) (*ostiary.Store, error) {
	st, err := s.store(ctx, id, authz.Acknowledged())
	if err != nil {
		return nil, err
	}
	return st, checkRevision(ctx, c, st)
}

// storeRequest is a request that names a store.
type storeRequest interface {
	validatable
	GetStoreId() string
}

// storeOf is [service.storeAt] for a request. It checks the rules of the request
// first.
func (s *service) storeOf(ctx context.Context, c *headers, in storeRequest) (*ostiary.Store, error) {
	if err := validateMessage(in); err != nil {
		return nil, err
	}
	return s.storeAt(ctx, c, in.GetStoreId())
}

// revisionError translates an error of a read. An invalid token is an error of the
// header that has it.
func revisionError(err error) error {
	if errors.Is(err, authz.ErrToken) || errors.Is(err, authz.ErrTooOld) {
		return failf(codeValidation, "invalid %s: %s", headerRevision, authz.Reason(err))
	}
	return translateError(err)
}

// target is the store and the model that a call works on.
type target struct {
	service *service
	headers *headers
	store   *ostiary.Store
	schema  *schema.Schema
	// implied is true if the request names no model.
	implied     bool
	consistency authz.Consistency
}

// open finds the store and the model, the newest one if model is "". It sets the
// headers of the response.
func (s *service) open(ctx context.Context, c *headers, store, model string, consistency int32) (p target, err error) {
	at := c.lookup(consistency)
	st, err := s.store(ctx, store, at)
	if err != nil {
		if toFailure(err).code == codeStoreNotFound {
			return p, noModel(store, model)
		}
		return p, err
	}
	info, compiled, err := st.CompiledAt(ctx, model, at)
	if err != nil {
		if errors.Is(err, authz.ErrNoSchema) || errors.Is(err, authz.ErrNoStore) {
			return p, cmp.Or(namespaceHint(ctx, st, model), noModel(store, model))
		}
		return p, translateError(err)
	}
	c.model = info.ID
	at, err = s.consistency(ctx, c, st, consistency)
	return target{s, c, st, compiled, model == "", at}, err
}

// noModel is the error for a missing model, and also for a missing store.
func noModel(store, model string) error {
	if model == "" {
		return failf(codeLatestNotFound, "No authorization models found for store '%s'", store)
	}
	return failf(codeModelNotFound, "Authorization Model '%s' not found", model)
}

// namespaceHint returns an error for a request without a model id to a store that
// has models in namespaces only, such as the policies of document access control.
// The error explains how to name them. It returns nil for other stores.
func namespaceHint(ctx context.Context, st *ostiary.Store, model string) error {
	if model != "" {
		return nil
	}
	infos, err := st.Schemas(ctx)
	if err != nil || len(infos) == 0 || infos[0].Namespace == "" {
		return nil
	}
	return failf(codeLatestNotFound, "No authorization models found for store '%s' outside of namespaces; name a model by its authorization_model_id: "+
		"the newest is '%s', of namespace '%s'", st.ID(), infos[0].ID, infos[0].Namespace)
}

// queryOptions translates the context and the contextual tuples of a question. Its
// errors are of type *nameError.
func (p *target) queryOptions(context expr.Values, tuples []wire.Tuple) (authz.QueryOptions, error) {
	options := authz.QueryOptions{SchemaID: p.headers.model, SchemaImplied: p.implied, Consistency: p.consistency, Bounds: authz.QuestionBounds{Depth: p.service.o.Depth}}
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
