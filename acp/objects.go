package acp

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
)

// Register makes an actor the owner of an object. The first who registers it
// owns it; a second time, by whomever, is ErrRegistered, archived or not.
func (e *Engine) Register(ctx context.Context, actor string, o Object) error {
	if err := e.authenticated(actor); err != nil {
		return failed("register", err)
	}
	return failed("register", e.change(ctx, false, register(actor, o)))
}

// Archive removes all relationships of an object; its owner stays, and nobody
// else can register it. It returns how many were removed, the owner's record
// among them. Archiving twice is nothing, to the owner.
func (e *Engine) Archive(ctx context.Context, actor string, o Object) (removed int, err error) {
	if err := e.authenticated(actor); err != nil {
		return 0, failed("archive", err)
	}
	err = e.change(ctx, true, archive(actor, o, &removed))
	return removed, failed("archive", err)
}

// Unarchive makes an archived object an active one; modified is false where it
// was.
func (e *Engine) Unarchive(ctx context.Context, actor string, o Object) (modified bool, err error) {
	if err := e.authenticated(actor); err != nil {
		return false, failed("unarchive", err)
	}
	err = e.change(ctx, false, unarchive(actor, o, &modified))
	return modified, failed("unarchive", err)
}

// Transfer gives an object of the actor's to another owner. Other relationships
// stay.
func (e *Engine) Transfer(ctx context.Context, actor string, o Object, to string) error {
	if err := e.authenticated(actor); err != nil {
		return failed("transfer", err)
	}
	return failed("transfer", e.change(ctx, true, transfer(actor, o, to)))
}

// Root may set registrations right. Who has it may do that to every object, so
// it is a value to hand out with care, and no name that a caller could claim.
type Root struct{ e *Engine }

// Root returns the power over registrations.
func (e *Engine) Root() Root { return Root{e} }

// AmendRegistration changes the owner of an object, as of a time.
func (r Root) AmendRegistration(ctx context.Context, o Object, to string, at time.Time) error {
	return failed("amend registration", r.e.change(ctx, true, amend(o, to, at)))
}

// RevealRegistration registers an object to an actor as of a time.
func (r Root) RevealRegistration(ctx context.Context, actor string, o Object, at time.Time) error {
	if err := r.e.authenticated(actor); err != nil {
		return failed("reveal registration", err)
	}
	return failed("reveal registration", r.e.change(ctx, false, register(actor, o), func(_ context.Context, p *plan) error {
		return p.stamp(o, actor, at)
	}))
}

// stampRecord is the document of a registration as of another time than it was
// written at.
type stampRecord struct {
	Owner string    `json:"owner"`
	At    time.Time `json:"at"`
}

// stampKey keeps resource and id apart, whatever they hold. It begins with the
// policy's id, by which they go with the policy.
func stampKey(o Object) string {
	b := binary.AppendUvarint([]byte(o.Policy), uint64(len(o.Resource)))
	return string(append(append(b, o.Resource...), o.ID...))
}

func (p *plan) stamp(o Object, owner string, at time.Time) error {
	if len(stampKey(o)) > ostiary.DocumentKeyBytesMax {
		return fmt.Errorf("%w: an id with a time of its own has at most %d bytes", ErrInvalidID,
			ostiary.DocumentKeyBytesMax-len(stampKey(o))+len(o.ID))
	}
	body, err := json.Marshal(stampRecord{owner, at.UTC()})
	p.w.Documents = append(p.w.Documents, ostiary.Document{Kind: registrationKind, Key: stampKey(o), Body: body})
	return err
}

// Registration is what is known of an object's registration.
type Registration struct {
	Owner    string
	Archived bool
	// Since is when the owner got it, or the time that was given with it.
	Since time.Time
}

// Registration returns an object's registration, archived or not, or
// ErrObjectNotFound.
func (e *Engine) Registration(ctx context.Context, o Object) (Registration, error) {
	reg, err := e.registration(ctx, o)
	return reg, failed("get registration", err)
}

func (e *Engine) registration(ctx context.Context, o Object) (Registration, error) {
	r, t, res, err := e.resource(ctx, o.Policy, o.Resource)
	if err != nil {
		return Registration{}, err
	}
	if err := validID(o.ID); err != nil {
		return Registration{}, err
	}
	page, err := r.store.Read(ctx, ostiary.ReadRequest{Limit: 1, Filter: rel.Filter{
		ObjectType: res.typ, ObjectID: o.ID, Relation: ownerRelation, SubjectType: t.actor}})
	if err != nil {
		return Registration{}, err
	}
	if len(page.Tuples) == 0 {
		return Registration{}, fmt.Errorf("%w: %s", ErrObjectNotFound, o)
	}
	reg := Registration{Owner: page.Tuples[0].Subject.ID, Since: page.Tuples[0].Created}
	if _, reg.Archived, err = res.archived.First(ctx, o.ID); err != nil {
		return reg, err
	}
	if len(stampKey(o)) > ostiary.DocumentKeyBytesMax {
		return reg, nil
	}
	doc, err := r.store.Document(ctx, ostiary.DocumentKey{Kind: registrationKind, Key: stampKey(o)})
	if errors.Is(err, ostiary.ErrNoDocument) {
		return reg, nil
	}
	var s stampRecord
	if err == nil {
		err = json.Unmarshal(doc.Body, &s)
	}
	if err == nil && s.Owner == reg.Owner {
		reg.Since = s.At
	}
	return reg, err
}

// Owner returns the DID of an object's owner, and whether it has one: whether
// it is registered, archived or not. An unknown policy or resource is an error.
func (e *Engine) Owner(ctx context.Context, o Object) (did string, registered bool, err error) {
	_, _, res, err := e.resource(ctx, o.Policy, o.Resource)
	if err == nil {
		did, registered, err = res.owners.First(ctx, o.ID)
	}
	if err != nil {
		return "", false, failed("owner", err)
	}
	return did, registered, nil
}

// IsRegistered is Owner without the owner.
func (e *Engine) IsRegistered(ctx context.Context, o Object) (bool, error) {
	_, registered, err := e.Owner(ctx, o)
	return registered, err
}
