package acp

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/authz"
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

// Root is the authority of the database itself: it corrects registrations, creates
// policies, and deletes those of any creator. It is a value and not a name, so that
// no caller can claim to be root; pass it only to trusted code.
type Root struct{ e *Engine }

// Root returns the authority of the database itself.
func (e *Engine) Root() Root { return Root{e} }

// AmendRegistration changes the owner of an object. at is stored as the time
// since when the new owner has owned it; the zero time and a time in the future are
// an [ErrInvalidTime]. An object that is not registered is an [ErrObjectNotFound]
// and an [ErrInput].
func (r Root) AmendRegistration(ctx context.Context, o Object, to string, at time.Time) error {
	const op = "amend registration"
	if err := checkTime(at); err != nil {
		return failed(op, err)
	}
	if now := r.e.opts.Clock(); at.After(now) {
		return failed(op, fmt.Errorf("%w: %s is in the future: expected at most %s", ErrInvalidTime,
			at.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano)))
	}
	return failed(op, r.e.change(ctx, true, amend(o, to, at)))
}

// RevealRegistration registers an object to an actor. at is stored as the time of
// the registration; the zero time is an [ErrInvalidTime].
func (r Root) RevealRegistration(ctx context.Context, actor string, o Object, at time.Time) error {
	const op = "reveal registration"
	if err := r.e.authenticate(actor); err != nil {
		return failed(op, err)
	}
	if err := checkTime(at); err != nil {
		return failed(op, err)
	}
	return failed(op, r.e.change(ctx, false, register(actor, o), func(ctx context.Context, p *plan) error {
		s, err := p.object(ctx, o)
		if err != nil {
			return err
		}
		return p.stamp(s, actor, at)
	}))
}

// stampRecord is the document that stores a registration time which differs from
// the time of the write.
type stampRecord struct {
	Owner string    `json:"owner"`
	At    time.Time `json:"at"`
}

// stampKey returns the document key of an object's registration time. stored is
// the stored form of the object's id. The length of the resource's name keeps
// resource and id apart. The key begins with the policy's id, so that deleting the
// policy removes it by prefix.
func stampKey(o Object, stored string) string {
	b := binary.AppendUvarint([]byte(o.Policy), uint64(len(o.Resource)))
	return string(append(append(b, o.Resource...), stored...))
}

// stamp stores at as the registration time of owner.
func (p *plan) stamp(s *objectState, owner string, at time.Time) error {
	key := stampKey(s.of, s.object.ID)
	if n := len(s.object.ID); len(key) > authz.DocumentKeyBytesMax {
		return fmt.Errorf("%w: the stored form has %d bytes, expected at most %d in a registration with its own time",
			ErrInvalidID, n, authz.DocumentKeyBytesMax-len(key)+n)
	}
	body, err := json.Marshal(stampRecord{owner, at.UTC()})
	p.w.Documents = append(p.w.Documents, authz.Document{Kind: registrationKind, Key: key, Body: body})
	return err
}

// checkTime fails with [ErrInvalidTime] unless at can be the time of a
// registration.
func checkTime(at time.Time) error {
	if y := at.UTC().Year(); at.IsZero() || y < 1 || y > 9999 {
		return fmt.Errorf("%w: %s: expected a time in the years 1 to 9999 that is not the zero time", ErrInvalidTime, at.UTC().Format(time.RFC3339))
	}
	return nil
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
	x, err := e.target(ctx, o)
	if err != nil {
		return Registration{}, err
	}
	page, err := x.r.store.Read(ctx, authz.ReadRequest{Limit: 1, Filter: rel.Filter{
		ObjectType: x.object.Type, ObjectID: x.object.ID, Relation: ownerRelation, SubjectType: x.t.actor}})
	if err != nil {
		return Registration{}, err
	}
	if len(page.Tuples) == 0 {
		return Registration{}, fmt.Errorf("%w: %s", ErrObjectNotFound, o)
	}
	reg := Registration{Owner: page.Tuples[0].Subject.ID, Since: page.Tuples[0].Created}
	if _, reg.Archived, err = x.res.archived.First(ctx, x.object.ID); err != nil {
		return reg, err
	}
	key := stampKey(o, x.object.ID)
	if len(key) > authz.DocumentKeyBytesMax {
		return reg, nil
	}
	doc, err := x.r.store.Document(ctx, authz.DocumentKey{Kind: registrationKind, Key: key})
	if errors.Is(err, authz.ErrNoDocument) {
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
// policy or resource is an [ErrNotFound], an id that cannot be registered an
// [ErrInvalidID].
func (e *Engine) Owner(ctx context.Context, o Object) (did string, registered bool, err error) {
	x, err := e.target(ctx, o)
	if err == nil {
		did, registered, err = x.res.owners.First(ctx, x.object.ID)
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
