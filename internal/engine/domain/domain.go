package domain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/storage"
)

// Options are the settings of all domains of a [Registry]. The zero value is
// useful.
type Options struct {
	// Functions are the functions that policies may use. Nil means the standard
	// functions and [Related].
	Functions *function.Set
	// Bounds limit one compilation and one decision.
	Bounds policy.Bounds
	// PoliciesMax is the number of named policies of a domain. Default
	// [PoliciesMaxDefault].
	PoliciesMax int
	// BytesMax is the size of the texts of all policies of a domain, in bytes.
	// Default [BytesMaxDefault]. The engine's bound DocumentBytes limits one text.
	BytesMax int
	// Questions is the number of questions that one call of [Pinned.Decide] may ask
	// the relation store. Default [QuestionsDefault].
	Questions int
	// Candidates is the number of candidates of one search. Default
	// [CandidatesDefault].
	Candidates int
	// Clock returns the current time. Default time.Now.
	Clock func() time.Time
	// Zone is the time zone of dates and times that have none. Default UTC.
	Zone *time.Location
}

// The defaults of [Options].
const (
	PoliciesMaxDefault = 100_000
	BytesMaxDefault    = 512 << 20
	QuestionsDefault   = 10_000
	CandidatesDefault  = 100_000
)

// NameBytesMax is the largest size of the name of a policy.
const NameBytesMax = 512

// withDefaults returns the options with every unset field at its default.
func (o Options) withDefaults() (Options, error) {
	for _, f := range [...]struct {
		field    *int
		standard int
	}{{&o.PoliciesMax, PoliciesMaxDefault}, {&o.BytesMax, BytesMaxDefault}, {&o.Questions, QuestionsDefault}, {&o.Candidates, CandidatesDefault}} {
		if *f.field <= 0 {
			*f.field = f.standard
		}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	if o.Functions == nil {
		set, err := function.Standard().With(Related())
		if err != nil {
			return o, err
		}
		o.Functions = set
	}
	return o, nil
}

// Domain is a policy domain: a store with named policies and a root. All methods
// are safe for concurrent use. Several Domains of the same store, also in
// several processes, see each other's changes.
type Domain struct {
	store   *ostiary.Store
	options Options
	// relations is the only store that policies may ask; nil if there is none.
	relations *ostiary.Store
	// turns are those of the engine.
	turns *turns.Turns
	// unbound is why the relation store cannot be asked; nil if it can be, or if the
	// domain has none.
	unbound error
	// settings is what the domain was made with.
	settings settings

	replica *documents.Replica[*collection]
	past    pastRevisions
	objects objectNames
}

// open returns the domain of a store. It fails with [ErrNoDomain] if the store is
// not a policy domain.
func open(ctx context.Context, e *ostiary.Engine, s *ostiary.Store, o Options) (*Domain, error) {
	doc, err := s.Document(ctx, authz.DocumentKey{Kind: settingsKind, Key: settingsKey})
	if errors.Is(err, authz.ErrNoDocument) {
		return nil, fmt.Errorf("%w: store %s is not a policy domain", ErrNoDomain, s.ID())
	}
	if err != nil {
		return nil, err
	}
	d := &Domain{store: s, turns: turns.Of(e.ShareTurn), options: o}
	d.replica, d.past.making = documents.New(s, d.form()), make(chan struct{}, 1)
	if d.settings, err = readSettings(doc.Body); err != nil {
		return nil, err
	}
	if d.settings.Relations == "" {
		return d, nil
	}
	id, err := storage.ParseStoreID(d.settings.Relations)
	if err != nil {
		return nil, fmt.Errorf("%w: settings of a domain: %v", authz.ErrFormat, err)
	}
	d.relations, err = e.Store(ctx, id)
	switch {
	case errors.Is(err, authz.ErrNoStore):
		d.relations, d.unbound = nil, fmt.Errorf("the relation store %s of this policy domain was deleted", id)
	case err != nil:
		return nil, err
	default:
		if info := d.relations.Info(); hex.EncodeToString(info.Incarnation[:]) != d.settings.Incarnation {
			d.relations, d.unbound = nil, fmt.Errorf("the relation store %s of this policy domain was deleted, and another one was created with its id", id)
		}
	}
	return d, nil
}

// Store returns the store that keeps the policies.
func (d *Domain) Store() *ostiary.Store { return d.store }

// Relations returns the store that policies may ask. It returns nil if the domain
// was made without one, or if that store was deleted.
func (d *Domain) Relations() *ostiary.Store { return d.relations }

// Info describes a domain.
type Info struct {
	// Store is the id of the store that keeps the policies.
	Store storage.StoreID
	// Name is the name of that store.
	Name string
	// Alias is the alias under which the domain is found; "" if there is none.
	Alias string
	// Relations is the id of the relation store; "" if there is none.
	Relations string
	// Unbound is why the relation store cannot be asked; "" if it can be.
	Unbound string
	// Revision is the newest revision, and Token its token.
	Revision storage.Revision
	Token    authz.Token
	// Policies is the number of named policies, and Bytes the size of all texts.
	Policies, Bytes int
	// Root is the root; nil if there is none.
	Root *Stored
	// Broken is why the stored policies cannot decide; "" if they can.
	Broken string
}

// Info returns the description of the newest revision.
func (d *Domain) Info(ctx context.Context) (Info, error) {
	at, err := d.replica.Newest(ctx)
	if err != nil {
		return Info{}, err
	}
	policies := at.Value
	s := d.store.Info()
	out := Info{Store: s.ID, Name: s.Name, Alias: s.Aliases[Alias], Relations: d.settings.Relations,
		Revision: at.Revision, Token: at.Token, Policies: len(policies.policies), Bytes: policies.bytes}
	if d.unbound != nil {
		out.Unbound = d.unbound.Error()
	}
	if policies.root != nil {
		root := *policies.root
		out.Root = &root
	}
	if policies.broken != nil {
		out.Broken = policies.broken.Error()
	}
	return out, nil
}
