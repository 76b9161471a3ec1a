package domain

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/storage"
)

// Alias is the name of the door whose aliases name policy domains.
const Alias = "xacml"

// DefaultAlias is the alias of the domain for paths that name none.
const DefaultAlias = "default"

// RelationsPrefix precedes the id of a relation store in the alias of its own
// domain.
const RelationsPrefix = "relations-"

// domainsMax is the number of domains that a registry keeps compiled. Further
// ones are compiled again when they are used.
const domainsMax = 10_000

// Registry finds and makes the policy domains of an engine. It is safe for
// concurrent use.
type Registry struct {
	engine  *ostiary.Engine
	options Options

	mu sync.RWMutex
	// domains has an entry for each store that was looked up; nil for a store that
	// is not a policy domain and cannot become one.
	domains map[*ostiary.Store]*Domain
}

// NewRegistry returns the registry of an engine. It fails if the functions of the
// options have an id twice.
func NewRegistry(e *ostiary.Engine, o Options) (*Registry, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Registry{engine: e, options: o, domains: map[*ostiary.Store]*Domain{}}, nil
}

// Options returns the options of the registry with their defaults.
func (r *Registry) Options() Options { return r.options }

// Of returns the policy domain that a store is. It fails with [ErrNoDomain] if
// the store is not a policy domain.
func (r *Registry) Of(ctx context.Context, s *ostiary.Store) (*Domain, error) {
	r.mu.RLock()
	d, known := r.domains[s]
	r.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	if known {
		return nil, fmt.Errorf("%w: store %s is not a policy domain", ErrNoDomain, s.ID())
	}
	d, err := open(ctx, r.engine, s, r.options)
	if errors.Is(err, ErrNoDomain) {
		// Only a store without entries can still become a domain.
		head, headErr := s.Stats(ctx)
		if headErr == nil && head.Revision > 0 {
			r.remember(s, nil)
		}
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	return r.remember(s, d), nil
}

// remember adds a domain and returns it, or the one that another goroutine added
// first.
func (r *Registry) remember(s *ostiary.Store, d *Domain) *Domain {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.domains[s]; old != nil {
		return old
	}
	for len(r.domains) >= domainsMax {
		for any := range r.domains {
			delete(r.domains, any)
			break
		}
	}
	r.domains[s] = d
	return d
}

// Find returns a domain by the id of its store, by its alias, or by the id of a
// relation store that has a domain of its own. It fails with authz.ErrNoStore
// or [ErrNoDomain].
func (r *Registry) Find(ctx context.Context, name string) (*Domain, error) {
	d, _, err := r.find(ctx, name)
	return d, err
}

// find returns a domain by name, or the relation store that has the id and no
// domain yet, with the error.
func (r *Registry) find(ctx context.Context, name string) (*Domain, *ostiary.Store, error) {
	id, err := storage.ParseStoreID(name)
	if err != nil {
		s, err := r.engine.StoreByAlias(ctx, Alias, name)
		if err != nil {
			return nil, nil, err
		}
		d, err := r.Of(ctx, s)
		return d, nil, err
	}
	s, err := r.engine.Store(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	d, err := r.Of(ctx, s)
	if !errors.Is(err, ErrNoDomain) {
		return d, nil, err
	}
	own, err := r.engine.StoreByAlias(ctx, Alias, RelationsPrefix+id.String())
	if errors.Is(err, authz.ErrNoStore) {
		return nil, s, fmt.Errorf("%w: store %s has no policy domain: put a policy or a root to make one", ErrNoDomain, id)
	}
	if err != nil {
		return nil, nil, err
	}
	if d, err = r.Of(ctx, own); err == nil && d.Relations() != s {
		return nil, nil, fmt.Errorf("%w: domain %s was made for an earlier store with the id %s", ErrBinding, own.ID(), id)
	}
	return d, nil, err
}

// FindOrMake is like [Registry.Find], but makes the own domain of a relation
// store if there is none. That domain may ask only this store.
func (r *Registry) FindOrMake(ctx context.Context, name string) (*Domain, error) {
	d, relations, err := r.find(ctx, name)
	if relations == nil {
		return d, err
	}
	info := relations.Info()
	return r.ensure(ctx, "policies of "+info.Name, RelationsPrefix+info.ID.String(), relations)
}

// Default returns the domain with the alias "default", and makes it if there is
// none. relations is the store that it may ask, or nil for none. It fails with
// [ErrBinding] if the domain exists and was made with another relation store.
func (r *Registry) Default(ctx context.Context, relations *ostiary.Store) (*Domain, error) {
	s, err := r.engine.StoreByAlias(ctx, Alias, DefaultAlias)
	if errors.Is(err, authz.ErrNoStore) {
		return r.ensure(ctx, "default policies", DefaultAlias, relations)
	}
	if err != nil {
		return nil, err
	}
	d, err := r.Of(ctx, s)
	if errors.Is(err, ErrNoDomain) {
		return r.ensure(ctx, "default policies", DefaultAlias, relations)
	}
	if err == nil && relations != nil && d.Relations() != relations {
		return nil, fmt.Errorf("%w: the default domain is bound to %q, not to %s", ErrBinding, d.settings.Relations, relations.ID())
	}
	return d, err
}

// Make makes a domain with an alias. relations is the store that it may ask, or
// nil for none; it never changes. It fails with authz.ErrStoreExists if the
// alias is in use. If an earlier call with the same name and alias has only created
// the store, Make goes on with that.
func (r *Registry) Make(ctx context.Context, name, alias string, relations *ostiary.Store) (*Domain, error) {
	if relations != nil {
		switch _, err := r.Of(ctx, relations); {
		case err == nil:
			return nil, fmt.Errorf("%w: store %s is a policy domain itself: expected a store of relations", authz.ErrInvalidRequest, relations.ID())
		case !errors.Is(err, ErrNoDomain):
			return nil, err
		}
	}
	if err := validName(alias); err != nil {
		return nil, err
	}
	var s *ostiary.Store
	written := journal.Of(ctx).WroteBefore
	err := journal.Beforehand(ctx, func(ctx context.Context) (err error) {
		s, err = r.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{Alias: alias}})
		if errors.Is(err, authz.ErrStoreExists) {
			s, err = r.unfinished(ctx, written, name, alias, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d, made, err := r.begin(ctx, s, relations)
	if err == nil && !made {
		return nil, fmt.Errorf("%w: another caller has made the domain %q", authz.ErrStoreExists, alias)
	}
	return d, err
}

// unfinished returns the store with an alias if it has the name, and no entry except those
// of the author: an earlier call has ended before it had settings, or before its response
// was sent. Otherwise it returns exists.
func (r *Registry) unfinished(ctx context.Context, written func(storage.StoreID) bool, name, alias string, exists error) (*ostiary.Store, error) {
	s, err := r.engine.StoreByAlias(ctx, Alias, alias)
	if err != nil || s.Info().Name != name {
		return nil, exists
	}
	if head, err := s.Stats(ctx); err != nil || head.Revision > 0 && !written(s.ID()) {
		return nil, exists
	}
	return s, nil
}

// ensure makes the domain with an alias, unless another caller makes it first. If another
// node writes before the store has its settings, that node goes on with the store.
func (r *Registry) ensure(ctx context.Context, name, alias string, relations *ostiary.Store) (d *Domain, err error) {
	err = journal.Beforehand(ctx, func(ctx context.Context) error {
		s, err := r.engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: name, Aliases: map[string]string{Alias: alias}})
		if errors.Is(err, authz.ErrStoreExists) {
			s, err = r.engine.StoreByAlias(ctx, Alias, alias)
		}
		if err == nil {
			d, _, err = r.begin(ctx, s, relations)
		}
		return err
	})
	return d, err
}

// begin makes an empty store a policy domain. If another caller does so first, it
// returns that domain, and made is false. It fails with [ErrNoDomain] if the store has
// other data.
func (r *Registry) begin(ctx context.Context, s *ostiary.Store, relations *ostiary.Store) (d *Domain, made bool, err error) {
	empty, err := s.TokenAt(ctx, 0)
	if err != nil {
		return nil, false, err
	}
	_, err = s.Write(ctx, authz.WriteRequest{Documents: []authz.Document{newSettings(relations).document()}, After: empty})
	if err != nil && !errors.Is(err, authz.ErrPrecondition) {
		return nil, false, err
	}
	made = err == nil
	if d, err = r.Of(ctx, s); err == nil && d.Relations() != relations {
		return nil, made, fmt.Errorf("%w: domain %s", ErrBinding, s.ID())
	}
	return d, made, err
}
