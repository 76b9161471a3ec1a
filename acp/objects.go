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

// Register makes an actor the owner of an object. An object can be registered
// once: a second registration fails with [ErrRegistered], even by the owner and
// even if the object is archived.
func (e *Engine) Register(ctx context.Context, actor string, o Object) error {
	if err := e.authenticate(actor); err != nil {
		return failed("register", err)
	}
	return failed("register", e.change(ctx, false, register(actor, o)))
}

// Archive removes all relationships of an object. It keeps its owner, so no one
// else can register it. removed is the number of removed relationships plus one
// for the owner's. Only the owner can archive an object; archiving an archived
// object again does nothing.
func (e *Engine) Archive(ctx context.Context, actor string, o Object) (removed int, err error) {
	if err := e.authenticate(actor); err != nil {
		return 0, failed("archive", err)
	}
	err = e.change(ctx, true, archive(actor, o, &removed))
	return removed, failed("archive", err)
}

// Unarchive makes an archived object active again. Only the owner can do that.
// modified is false if the object was active.
func (e *Engine) Unarchive(ctx context.Context, actor string, o Object) (modified bool, err error) {
	if err := e.authenticate(actor); err != nil {
		return false, failed("unarchive", err)
	}
	err = e.change(ctx, false, unarchive(actor, o, &modified))
	return modified, failed("unarchive", err)
}

// Transfer gives an object that the actor owns to another owner, and keeps its
// other relationships.
func (e *Engine) Transfer(ctx context.Context, actor string, o Object, to string) error {
	if err := e.authenticate(actor); err != nil {
		return failed("transfer", err)
	}
	return failed("transfer", e.change(ctx, true, transfer(actor, o, to)))
}

// Root can correct the registration of every object. It is a value and not a
// name, so that no caller can claim to be root; pass it only to trusted code.
type Root struct{ e *Engine }

// Root returns the authority to correct registrations.
func (e *Engine) Root() Root { return Root{e} }

// AmendRegistration changes the owner of an object. at is stored as the time
// since when the new owner has owned it.
func (r Root) AmendRegistration(ctx context.Context, o Object, to string, at time.Time) error {
	return failed("amend registration", r.e.change(ctx, true, amend(o, to, at)))
}

// RevealRegistration registers an object to an actor. at is stored as the time of
// the registration.
func (r Root) RevealRegistration(ctx context.Context, actor string, o Object, at time.Time) error {
	if err := r.e.authenticate(actor); err != nil {
		return failed("reveal registration", err)
	}
	return failed("reveal registration", r.e.change(ctx, false, register(actor, o), func(_ context.Context, p *plan) error {
		return p.stamp(o, actor, at)
	}))
}

// stampRecord is the document that stores a registration time which differs from
// the time of the write.
type stampRecord struct {
	Owner string    `json:"owner"`
	At    time.Time `json:"at"`
}

// stampKey returns the document key of an object's registration time. The length
// of the resource's name keeps resource and id apart. The key begins with the
// policy's id, so that deleting the policy removes it by prefix.
func stampKey(o Object) string {
	b := binary.AppendUvarint([]byte(o.Policy), uint64(len(o.Resource)))
	return string(append(append(b, o.Resource...), o.ID...))
}

// stamp stores at as the registration time of owner.
func (p *plan) stamp(o Object, owner string, at time.Time) error {
	if len(stampKey(o)) > ostiary.DocumentKeyBytesMax {
		return fmt.Errorf("%w: %d bytes, expected at most %d in a registration with its own time", ErrInvalidID, len(o.ID),
			ostiary.DocumentKeyBytesMax-len(stampKey(o))+len(o.ID))
	}
	body, err := json.Marshal(stampRecord{owner, at.UTC()})
	p.w.Documents = append(p.w.Documents, ostiary.Document{Kind: registrationKind, Key: stampKey(o), Body: body})
	return err
}

// Registration is the registration of an object.
type Registration struct {
	// Owner is the owner's DID.
	Owner string
	// Archived is true if the object is archived.
	Archived bool
	// Since is when the owner became the owner, or the time that [Root] set.
	Since time.Time
}

// Registration returns the registration of an object, archived or not. It fails
// with [ErrObjectNotFound] if the object is not registered.
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

// Owner returns the DID of an object's owner. registered is false, and did empty,
// if the object is not registered. An archived object has an owner. An unknown
// policy or resource is an [ErrNotFound].
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

// IsRegistered reports whether an object has an owner. See [Engine.Owner].
func (e *Engine) IsRegistered(ctx context.Context, o Object) (bool, error) {
	_, registered, err := e.Owner(ctx, o)
	return registered, err
}
