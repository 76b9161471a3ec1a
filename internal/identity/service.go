package identity

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/tool/derived"
)

// Service is one deployment: the records, grants and passwords of one store. Its
// methods may be called concurrently. It starts no goroutine.
//
// Reads use a directory in memory, which a read brings up to date if the store
// has changed since, also by another process. Writes of one Service are decided one
// after another; if another process writes in between, a write is decided again.
// Concurrent writes that need only records to be decided become durable together.
type Service struct {
	store   *ostiary.Store
	options settings.Deployment
	// compliance are the rules of options.
	compliance compliance
	documents  *documents.Replica[*directory]
	// noncesMax bounds the nonces of signed requests that are stored.
	noncesMax int
	// guesses bounds wrong one-time passwords.
	guesses guesses
	decoyState
	pool     *password.Pool
	verified *verified // nil without a cache
	// expanded are the tokens that were validated at the newest revision.
	expanded   *derived.Cache[*documents.At[*directory], expandedKey, *Token]
	activities activities
}

// Open returns the service of a store. It installs the schema of assignments if
// the store has none, and reads all records. It fails if a project is deeper below
// its domain than o.Limits allows.
func Open(ctx context.Context, store *ostiary.Store, o settings.Deployment) (*Service, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.TokenLife <= 0 {
		o.TokenLife = time.Hour
	}
	if o.ExpiredWindow == 0 {
		o.ExpiredWindow = settings.ExpiredWindowDefault
	}
	o.ExpiredWindow = max(o.ExpiredWindow, 0)
	if o.Methods == nil {
		o.Methods = token.DefaultMethods()
	}
	if err := Validate(o); err != nil {
		return nil, err
	}
	rules, err := newCompliance(o.Compliance)
	if err != nil {
		return nil, err
	}
	if o.Limits == "" {
		o.Limits = settings.FlatLimits
	}
	s := &Service{store: store, options: o, compliance: rules, documents: documents.New(store, form(o.Limits)),
		pool: password.NewPool(password.PoolOptions{Threads: o.HashThreads, QueueMax: o.HashQueueMax, Waiting: o.HashesWaiting}), verified: newVerified(o.PasswordCache), noncesMax: noncesMax,
		expanded: derived.New[*documents.At[*directory], expandedKey, *Token](expandedMax)}
	if err := s.installSchema(ctx); err != nil {
		return nil, err
	}
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	return s, d.checkDepth()
}

// Enter returns nil if the request of ctx may use the deployment's store, and otherwise why not.
// A caller that keeps the service calls it with each request.
func (s *Service) Enter(ctx context.Context) error { return journal.Enter(ctx, s.store.Info()) }

// ExpiredWindow returns how long an expired token is valid for a service that asks
// for it.
func (s *Service) ExpiredWindow() time.Duration { return s.options.ExpiredWindow }

// Methods returns the methods of authentication that are switched on.
func (s *Service) Methods() token.Methods { return slices.Clone(token.Methods(s.options.Methods)) }

// Offers returns whether a method of authentication is switched on.
func (s *Service) Offers(method string) bool { return slices.Contains(s.options.Methods, method) }

// installSchema writes the schema of assignments unless the store has it.
func (s *Service) installSchema(ctx context.Context) error {
	_, err := s.store.CurrentSchema(ctx, "")
	if errors.Is(err, authz.ErrNoSchema) {
		_, _, err = s.store.WriteSchema(bootstrapping(ctx), authz.SchemaSource{Model: Model(), Dialect: "identity"})
	}
	return err
}

// at returns a directory that contains every write that was acknowledged before
// the call.
func (s *Service) at(ctx context.Context) (*directory, error) {
	at, err := s.documents.Newest(ctx)
	if err != nil {
		return nil, err
	}
	return at.Value, nil
}

// Newest returns the token of the newest revision. What is read afterwards is of that
// revision or of a newer one.
func (s *Service) Newest(ctx context.Context) (authz.Token, error) {
	at, err := s.documents.Newest(ctx)
	if err != nil {
		return "", err
	}
	return at.Token, nil
}

// prepare validates a change on a directory, and returns it. It is called again if
// the store has changed meanwhile.
type prepare func(*directory) (authz.WriteRequest, error)

// write validates and makes one change, while no other write of the service is
// made, and returns the directory with the change. It fails with Unauthorized if the
// proof of the request does not hold. Writes that need nothing but the directory use
// together.
func (s *Service) write(ctx context.Context, p prepare) (*directory, error) {
	return changed(s.documents.Change(ctx, s.deciding(ctx, p)))
}

// together is like write for a change that needs nothing but the directory to be
// decided: p must not read the store. Concurrent changes become durable together.
func (s *Service) together(ctx context.Context, p prepare) (*directory, error) {
	return changed(s.documents.Together(ctx, s.deciding(ctx, p)))
}

// deciding returns the decision of a request: p, if the proof of the request holds.
func (s *Service) deciding(ctx context.Context, p prepare) documents.Decide[*directory] {
	return func(base *documents.At[*directory]) (*authz.WriteRequest, *directory, error) {
		if err := s.proven(ctx, base.Value); err != nil {
			return nil, nil, err
		}
		w, err := p(base.Value)
		if err != nil {
			return nil, nil, err
		}
		next, err := base.Value.with(&w)
		return &w, next, err
	}
}

func changed(at *documents.At[*directory], err error) (*directory, error) {
	if err != nil {
		return nil, err
	}
	return at.Value, nil
}

// now returns the current time in UTC.
func (s *Service) now() time.Time { return s.options.Clock().UTC() }

// document returns the document of a record.
func (r *Record) document() authz.Document {
	return authz.Document{Kind: documentPrefix + string(r.Kind), Key: r.ID, Body: r.body()}
}

func (r *Record) key() authz.DocumentKey {
	return authz.DocumentKey{Kind: documentPrefix + string(r.Kind), Key: r.ID}
}
