package domain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
	"github.com/ostiary/ostiary/storage"
)

// PinOptions choose what [Domain.Pin] pins. The zero value is the newest revision
// of the policies and of the relation store.
type PinOptions struct {
	// Revision is the revision of the policies; 0 means the newest.
	Revision storage.Revision
	// Relations chooses the revision of the relation store.
	Relations authz.Consistency
}

// Pinned decides at one revision of the policies, and at one revision and one
// time of the relation store, which is pinned by the first question. It belongs to
// one request and must not be used concurrently.
type Pinned struct {
	domain *Domain
	at     *atRevision
	asker  asker
}

// Pin pins the revisions of a request. The policies contain every change that was
// acknowledged before the call.
func (d *Domain) Pin(ctx context.Context, o PinOptions) (*Pinned, error) {
	at, err := d.replica.Newest(ctx)
	if err == nil && o.Revision != 0 && o.Revision != at.Revision {
		at, err = d.pastAt(ctx, o.Revision)
	}
	if err != nil {
		return nil, err
	}
	return d.pinned(at, o), nil
}

func (d *Domain) pinned(at *atRevision, o PinOptions) *Pinned {
	return &Pinned{domain: d, at: at, asker: asker{domain: d, chosen: o.Relations}}
}

// Revision returns the number of the pinned revision of the policies.
func (p *Pinned) Revision() storage.Revision { return p.at.Revision }

// Token returns the token of the pinned revision of the policies.
func (p *Pinned) Token() authz.Token { return p.at.Token }

// RelationsToken returns the token of the pinned revision of the relation store.
// It returns "" if no question was asked.
func (p *Pinned) RelationsToken(ctx context.Context) (authz.Token, error) {
	if !p.asker.pinned {
		return "", nil
	}
	return p.domain.relations.Resolve(ctx, p.asker.held)
}

// noRoot is the status message of a decision of a domain without a root.
const noRoot = "the policy domain has no root policy, so no policy applies"

// Decide decides a request. Without a root no policy applies, so every decision is
// NotApplicable, and its status says why. Stored policies that cannot be compiled make every decision
// Indeterminate. Decide fails with [ErrReserved] if the request has an attribute
// in the namespace of [StoredAttribute]. trace is nil if the decision is not
// traced.
func (p *Pinned) Decide(ctx context.Context, r *policy.Request, trace *policy.Trace) ([]policy.Result, error) {
	if err := checkReserved(r); err != nil {
		return nil, err
	}
	if p.at.Value.broken != nil {
		return []policy.Result{{Decision: policy.Indeterminate, Status: &status.Error{Code: status.ProcessingError,
			Message: "the stored policies cannot be compiled: " + p.at.Value.broken.Error()}}}, nil
	}
	if p.at.Value.root == nil {
		return []policy.Result{{Decision: policy.NotApplicable, Status: &status.Error{Code: status.OK, Message: noRoot}}}, nil
	}
	ctx, work := turns.With(ctx, p.domain.turns)
	defer work.End()
	return p.at.Value.plan.Decide(ctx, r, p.policyOptions(ctx, trace)), nil
}

// policyOptions returns the options of a decision, which may ask the relation
// store until ctx ends.
func (p *Pinned) policyOptions(ctx context.Context, trace *policy.Trace) policy.Options {
	o := policy.Options{Now: p.domain.options.Clock, Zone: p.domain.options.Zone, Bounds: p.domain.options.Bounds, Trace: trace}
	if p.domain.hasRelations() {
		p.asker.ctx, p.asker.left = ctx, p.domain.options.Questions
		o.Attributes, o.Related = &p.asker, p.asker.related
	}
	return o
}

// Decide pins the newest revisions and decides a request.
func (d *Domain) Decide(ctx context.Context, r *policy.Request) ([]policy.Result, error) {
	p, err := d.Pin(ctx, PinOptions{})
	if err != nil {
		return nil, err
	}
	return p.Decide(ctx, r, nil)
}

// hasRelations reports whether the domain was made with a relation store, even if
// that store was deleted.
func (d *Domain) hasRelations() bool { return d.relations != nil || d.unbound != nil }

// checkReserved fails if a request has an attribute that only the store may have:
// otherwise a client could replace the data of the store by its own.
func checkReserved(r *policy.Request) error {
	for i := range r.Categories {
		if err := reservedAmong(r.Categories[i].Attributes); err != nil {
			return err
		}
	}
	return nil
}

// reservedAmong fails if one of the attributes is in the namespace of the store.
func reservedAmong(attributes []policy.Attribute) error {
	for i := range attributes {
		if id := attributes[i].ID; strings.HasPrefix(id, StoredAttribute) {
			return fmt.Errorf("%w: %s: expected an id that does not begin with %q", ErrReserved, value.Quote(id), StoredAttribute)
		}
	}
	return nil
}

// failed returns the status of a question to the relation store that has no
// answer.
func failed(err error) *status.Error {
	s := &status.Error{Code: status.ProcessingError, Message: err.Error()}
	var own *authz.Error
	if errors.As(err, &own) {
		s.Message = own.Reason()
	}
	var bound *authz.BoundError
	if errors.As(err, &bound) {
		s.Bound = bound.Name
	}
	return s
}
