package acp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// operation validates one requested change against the plan and adds the tuples
// and documents to write. It may be called again with a new plan, if the state
// changed before the write.
type operation func(ctx context.Context, p *plan) error

// plan collects one write: the state after the operations so far, and the changes
// that lead to it. The write's preconditions make it fail if the state that the
// plan is based on has changed.
type plan struct {
	e *Engine
	r *running
	w authz.WriteRequest
	// first is the first object, usually the only one; objects holds the others.
	first   objectState
	objects map[Object]*objectState
	states  []objectState // preallocated values for objects
	events  []Event
	// optimistic skips the lookup of an object that is registered: the plan assumes
	// that it is new, and the write's precondition fails if it is not.
	optimistic bool
	// several is true for a plan of more than one operation. Such a plan records in
	// added and removed which relationships, except owners, it has changed.
	several bool
	added   map[rel.Key]struct{}
	removed map[rel.Key]struct{}
	// add1 and pre2 are the memory of w for a single operation.
	add1 [1]rel.Tuple
	pre2 [2]authz.Precondition
}

// objectState is the state of one object in a plan.
type objectState struct {
	of       Object
	t        *table
	res      *resourceTable
	object   rel.Object
	owner    string // "" if the object is not registered
	archived bool
	// fresh is true if this plan registers the object.
	fresh bool
	// guarded is true if the write already has a precondition on the object's state.
	guarded bool
	// tuples are the tuples that the plan adds to the object.
	tuples []rel.Tuple
	// shrunk is true if the plan removes tuples of the object.
	shrunk bool
	// cleared is true if the plan removes all relationships of the object.
	cleared bool
}

// triesMax is how often a plan is made again because its base state has changed.
const triesMax = 100

// change runs operations and writes their changes as one entry of the log.
// revokes is true if an operation may revoke someone's authority.
func (e *Engine) change(ctx context.Context, revokes bool, ops ...operation) error {
	r, err := e.current(ctx)
	if err != nil {
		return err
	}
	p, token, err := e.write(ctx, r, revokes, ops)
	if err == nil && len(p.events) > 0 {
		e.notify(token, p.events)
	}
	if p != nil {
		*p = plan{}
		e.plans.Put(p)
	}
	return err
}

// write makes a plan and writes it, again if the state changed in between.
func (e *Engine) write(ctx context.Context, r *running, revokes bool, ops []operation) (*plan, authz.Token, error) {
	e.lockAuthority(revokes)
	defer e.unlockAuthority(revokes)
	for try := 0; ; try++ {
		p, err := e.plan(ctx, r, ops, try == 0)
		if err != nil || p.empty() {
			return p, "", err
		}
		token, err := r.store.Write(ctx, p.w)
		if err == nil || !outdated(err) || try == triesMax {
			return p, token, err
		}
	}
}

// lockAuthority locks [Engine.authority]: for writing if the change may revoke
// authority, else for reading.
func (e *Engine) lockAuthority(revokes bool) {
	if revokes {
		e.authority.Lock()
	} else {
		e.authority.RLock()
	}
}

// unlockAuthority undoes lockAuthority with the same argument.
func (e *Engine) unlockAuthority(revokes bool) {
	if revokes {
		e.authority.Unlock()
	} else {
		e.authority.RUnlock()
	}
}

// outdated reports whether a write failed because the state that its plan is
// based on has changed.
func outdated(err error) bool {
	return errors.Is(err, authz.ErrPrecondition) || errors.Is(err, authz.ErrTupleExists) || errors.Is(err, authz.ErrTupleMissing)
}

// plan runs the operations on a new plan. If the plan is optimistic and an
// operation of several fails, it starts again with lookups, since the failure may
// come from a wrong assumption about an earlier operation.
func (e *Engine) plan(ctx context.Context, r *running, ops []operation, optimistic bool) (*plan, error) {
	p, _ := e.plans.Get().(*plan)
	if p == nil {
		p = new(plan)
	}
	p.e, p.r, p.optimistic = e, r, optimistic
	p.w.Add, p.w.Preconditions = p.add1[:0], p.pre2[:0]
	if n := len(ops); n > 1 {
		p.several = true
		p.objects = make(map[Object]*objectState, n)
		p.states = make([]objectState, n-1)
		p.w.Add = make([]rel.Tuple, 0, n)
		p.w.Preconditions = make([]authz.Precondition, 0, n)
	}
	for i, op := range ops {
		err := op(ctx, p)
		switch {
		case err == nil:
		case len(ops) == 1:
			return nil, err
		case optimistic:
			return e.plan(ctx, r, ops, false)
		default:
			return nil, fmt.Errorf("operation %d: %w", i, withKind(err))
		}
	}
	return p, nil
}

// empty reports whether the plan changes nothing.
func (p *plan) empty() bool {
	w := &p.w
	return len(w.Add)+len(w.Remove)+len(w.RemoveMatching)+len(w.Documents)+len(w.RemoveDocuments) == 0
}

// object returns the state of an object, and looks it up the first time.
func (p *plan) object(ctx context.Context, o Object) (*objectState, error) {
	s, known, err := p.assumeNew(ctx, o)
	if err != nil || known {
		return s, err
	}
	var ok bool
	if s.owner, ok, err = s.res.owners.First(ctx, s.object.ID); err == nil && ok {
		_, s.archived, err = s.res.archived.First(ctx, s.object.ID)
	}
	return s, err
}

// assumeNew returns the state of an object. If the plan does not have the state
// yet (known is false), assumeNew assumes without a lookup that the object is not
// registered.
func (p *plan) assumeNew(ctx context.Context, o Object) (s *objectState, known bool, err error) {
	if p.first.t != nil && p.first.of == o {
		return &p.first, true, nil
	}
	if s := p.objects[o]; s != nil {
		return s, true, nil
	}
	t, err := p.r.table(ctx, o.Policy)
	if err != nil {
		return nil, false, err
	}
	res := t.resources[o.Resource]
	if res == nil {
		return nil, false, fmt.Errorf("%w: %q", ErrResourceNotFound, o.Resource)
	}
	object, err := res.object(o.ID)
	if err != nil {
		return nil, false, err
	}
	s = &p.first
	if s.t != nil {
		if len(p.states) > 0 {
			s, p.states = &p.states[0], p.states[1:]
		} else {
			s = new(objectState)
		}
		if p.objects == nil {
			p.objects = make(map[Object]*objectState, 1)
		}
		p.objects[o] = s
	}
	*s = objectState{of: o, t: t, res: res, object: object}
	return s, false, nil
}

// guard makes the write fail if the object's registration differs from the plan's.
func (p *plan) guard(s *objectState) {
	if s.guarded {
		return
	}
	s.guarded = true
	of := rel.Filter{ObjectType: s.object.Type, ObjectID: s.object.ID, Relation: ownerRelation}
	if s.owner == "" {
		p.w.Preconditions = append(p.w.Preconditions, authz.Precondition{Filter: of, Absent: true})
		return
	}
	of.SubjectType, of.SubjectID, of.SubjectPlain = s.t.actor, s.owner, true
	archived := rel.Filter{ObjectType: s.object.Type, ObjectID: s.object.ID, Relation: archivedRelation}
	p.w.Preconditions = append(p.w.Preconditions, authz.Precondition{Filter: of},
		authz.Precondition{Filter: archived, Absent: !s.archived})
}

// add adds a tuple of the object to the write.
func (p *plan) add(s *objectState, relation string, subject rel.Subject) {
	t := rel.Tuple{Object: s.object, Relation: relation, Subject: subject}
	p.w.Add = append(p.w.Add, t)
	if !p.several {
		return
	}
	if n := len(p.w.Add); s.tuples == nil {
		s.tuples = p.w.Add[n-1 : n : n] // usually the only tuple, so no copy
	} else {
		s.tuples = append(s.tuples, t)
	}
	if relation == ownerRelation {
		return
	}
	if p.added == nil {
		p.added = map[rel.Key]struct{}{}
	}
	p.added[t.Key()] = struct{}{}
}

// remove removes a tuple of the object in the write.
func (p *plan) remove(s *objectState, relation string, subject rel.Subject) {
	k := rel.Key{Object: s.object, Relation: relation, Subject: subject}
	p.w.Remove = append(p.w.Remove, k)
	s.shrunk = true
	if !p.several {
		return
	}
	if p.removed == nil {
		p.removed = map[rel.Key]struct{}{}
	}
	p.removed[k] = struct{}{}
}

// actorSubject returns an actor as a subject in the object's policy.
func (s *objectState) actorSubject(did string) rel.Subject {
	return rel.Subject{Type: s.t.actor, ID: did}
}

// has reports whether a relationship of an object exists after the operations so far. changed
// is true if an operation of this plan added or removed it; the plan then cannot
// reverse that, since a write names each tuple once.
func (p *plan) has(ctx context.Context, s *objectState, k rel.Key) (exists, changed bool, err error) {
	if _, ok := p.added[k]; ok {
		return true, true, nil
	}
	if _, ok := p.removed[k]; ok {
		return false, true, nil
	}
	if s.cleared {
		return false, false, nil
	}
	page, err := p.r.store.Read(ctx, authz.ReadRequest{Limit: 1, Filter: rel.Filter{
		ObjectType: k.Object.Type, ObjectID: k.Object.ID, Relation: k.Relation, SubjectType: k.Subject.Type,
		SubjectID: k.Subject.ID, SubjectRelation: k.Subject.Relation, SubjectPlain: k.Subject.Relation == ""}})
	return len(page.Tuples) > 0, false, err
}

// mayManage reports whether an actor may set and delete the relationships of a
// relation of a registered object: the owner may, and every actor in a relation
// that manages it.
func (p *plan) mayManage(ctx context.Context, actor string, s *objectState, relation string) (bool, error) {
	if s.owner == actor {
		return true, nil
	}
	if s.shrunk {
		return false, fmt.Errorf("%w: %s: authority cannot be checked after the batch removed relationships", ErrBatch, actor)
	}
	return decided(p.r.store.Check(ctx, authz.CheckRequest{Object: s.object, Relation: s.res.manage[relation],
		Subject: rel.Subject{Type: s.t.actor, ID: actorID(actor)}, QueryOptions: authz.QueryOptions{Tuples: s.tuples}}))
}

// register registers an object to an actor. See [Engine.Register].
func register(actor string, o Object) operation {
	return func(ctx context.Context, p *plan) error {
		var s *objectState
		var err error
		if p.optimistic {
			s, _, err = p.assumeNew(ctx, o)
		} else {
			s, err = p.object(ctx, o)
		}
		if err != nil {
			return err
		}
		if s.owner != "" {
			return fmt.Errorf("%w: %s", ErrRegistered, o)
		}
		p.guard(s)
		p.add(s, ownerRelation, s.actorSubject(actor))
		s.owner, s.fresh = actor, true
		p.event(Event{Kind: ObjectRegistered, Actor: actor, Policy: o.Policy, Object: o, Subject: ActorSubject(actor)})
		return nil
	}
}

// event records an event for after the write.
func (p *plan) event(ev Event) {
	if p.e.opts.Event != nil {
		p.events = append(p.events, ev)
	}
}

// relate sets a relationship. See [Engine.SetRelationship].
func relate(actor string, x Relationship, existed *bool) operation {
	return func(ctx context.Context, p *plan) error {
		*existed = false
		s, subject, err := p.relationship(ctx, actor, x)
		if err != nil {
			return err
		}
		if s.archived {
			return fmt.Errorf("%w: %s", ErrArchived, x.Object)
		}
		k := rel.Key{Object: s.object, Relation: x.Relation, Subject: subject}
		exists, changed, err := p.has(ctx, s, k)
		switch {
		case err != nil:
			return err
		case exists:
			*existed = true
			return nil
		case changed:
			return fmt.Errorf("%w: %s cannot be set after an earlier operation deleted it", ErrBatch, x)
		}
		p.guard(s)
		p.add(s, x.Relation, subject)
		p.event(Event{Kind: RelationshipSet, Actor: actor, Policy: x.Object.Policy, Object: x.Object, Relation: x.Relation, Subject: x.Subject})
		return nil
	}
}

// unrelate deletes a relationship. See [Engine.DeleteRelationship].
func unrelate(actor string, x Relationship, found *bool) operation {
	return func(ctx context.Context, p *plan) error {
		*found = false
		s, subject, err := p.relationship(ctx, actor, x)
		if errors.Is(err, ErrObjectNotFound) {
			return fmt.Errorf("%w: %s is not registered", ErrUnauthorized, x.Object)
		}
		if err != nil {
			return err
		}
		k := rel.Key{Object: s.object, Relation: x.Relation, Subject: subject}
		exists, changed, err := p.has(ctx, s, k)
		switch {
		case err != nil:
			return err
		case !exists:
			return nil
		case changed:
			return fmt.Errorf("%w: %s cannot be deleted after an earlier operation set it", ErrBatch, x)
		}
		*found = true
		p.guard(s)
		p.remove(s, x.Relation, subject)
		p.event(Event{Kind: RelationshipDeleted, Actor: actor, Policy: x.Object.Policy, Object: x.Object, Relation: x.Relation, Subject: x.Subject})
		return nil
	}
}

// relationship validates a relationship that an actor wants to set or delete, and
// checks the actor's authority.
func (p *plan) relationship(ctx context.Context, actor string, x Relationship) (*objectState, rel.Subject, error) {
	s, err := p.object(ctx, x.Object)
	if errors.Is(err, ErrResourceNotFound) {
		return nil, rel.Subject{}, unknownName(ErrResourceNotFound, x.Object.Resource)
	}
	if err != nil {
		return nil, rel.Subject{}, err
	}
	if x.Relation == ownerRelation {
		return nil, rel.Subject{}, ErrOwnerRelation
	}
	if s.res.def.relation(x.Relation) == nil {
		return nil, rel.Subject{}, unknownName(ErrRelationNotFound, x.Relation)
	}
	if s.owner == "" {
		return nil, rel.Subject{}, fmt.Errorf("%w: %s", ErrObjectNotFound, x.Object)
	}
	may, err := p.mayManage(ctx, actor, s, x.Relation)
	if err == nil && !may {
		err = fmt.Errorf("%w: %s does not manage %s of %s", ErrUnauthorized, actor, x.Relation, x.Object)
	}
	if err != nil {
		return nil, rel.Subject{}, err
	}
	subject, err := p.e.subject(s.t, s.res, x.Relation, x.Subject)
	if err == nil && subject.Type == s.object.Type && subject.ID == s.object.ID && subject.Relation == x.Relation {
		err = fmt.Errorf("%w: a subject set cannot be a member of itself", ErrRestriction)
	}
	return s, subject, err
}

// owned returns the state of an object. It fails unless the actor owns it.
func (p *plan) owned(ctx context.Context, actor string, o Object) (*objectState, error) {
	s, err := p.object(ctx, o)
	if err != nil {
		return nil, err
	}
	if s.owner == "" {
		return nil, fmt.Errorf("%w: %s", ErrObjectNotFound, o)
	}
	if s.owner != actor {
		return nil, fmt.Errorf("%w: %s does not own %s", ErrUnauthorized, actor, o)
	}
	return s, nil
}

// archive removes the relationships of an object and marks it as archived. See
// [Engine.Archive].
func archive(actor string, o Object, removed *int) operation {
	return func(ctx context.Context, p *plan) error {
		*removed = 0
		s, err := p.owned(ctx, actor, o)
		if errors.Is(err, ErrObjectNotFound) {
			return fmt.Errorf("%w: %w", ErrInput, err)
		}
		if err != nil || s.archived {
			return err
		}
		if len(s.tuples) > 0 || s.shrunk {
			return fmt.Errorf("%w: %s cannot be archived after an earlier operation changed it", ErrBatch, o)
		}
		p.guard(s)
		*removed = 1
		relations := map[string]bool{}
		for tuple, err := range p.r.tuples(ctx, rel.Filter{ObjectType: s.object.Type, ObjectID: s.object.ID}) {
			if err != nil {
				return err
			}
			if tuple.Relation != ownerRelation {
				*removed++
				relations[tuple.Relation] = true
			}
		}
		for name := range relations {
			p.w.RemoveMatching = append(p.w.RemoveMatching, storage.Filter{Target: storage.FilterTuples,
				Tuple: rel.Filter{ObjectType: s.object.Type, ObjectID: s.object.ID, Relation: name}})
		}
		p.add(s, archivedRelation, s.actorSubject(actor))
		s.archived, s.shrunk, s.cleared = true, true, true
		p.event(Event{Kind: ObjectArchived, Actor: actor, Policy: o.Policy, Object: o})
		return nil
	}
}

// unarchive removes the mark of an archived object. See [Engine.Unarchive].
func unarchive(actor string, o Object, modified *bool) operation {
	return func(ctx context.Context, p *plan) error {
		*modified = false
		s, err := p.owned(ctx, actor, o)
		if errors.Is(err, ErrObjectNotFound) {
			return fmt.Errorf("%w: %w", ErrInput, err)
		}
		if err != nil || !s.archived {
			return err
		}
		if len(s.tuples) > 0 {
			return fmt.Errorf("%w: %s cannot be unarchived after an earlier operation archived it", ErrBatch, o)
		}
		p.guard(s)
		p.remove(s, archivedRelation, s.actorSubject(s.owner))
		s.archived, *modified = false, true
		p.event(Event{Kind: ObjectUnarchived, Actor: actor, Policy: o.Policy, Object: o})
		return nil
	}
}

// transfer gives an object to another owner. See [Engine.Transfer].
func transfer(actor string, o Object, to string) operation {
	return func(ctx context.Context, p *plan) error {
		s, err := p.object(ctx, o)
		if err == nil && s.archived {
			err = fmt.Errorf("%w: %s", ErrArchived, o)
		}
		if err == nil {
			s, err = p.owned(ctx, actor, o)
		}
		if err != nil {
			return err
		}
		if err := p.e.dids.validate(to); err != nil {
			return err
		}
		if key := stampKey(o, s.object.ID); s.owner != to && len(key) <= authz.DocumentKeyBytesMax {
			// A registration time that Root set belongs to the old owner.
			p.w.RemoveDocuments = append(p.w.RemoveDocuments, authz.DocumentKey{Kind: registrationKind, Key: key})
		}
		return p.setOwner(s, o, to, Event{Kind: ObjectTransferred, Actor: actor})
	}
}

// setOwner replaces the owner of an object.
func (p *plan) setOwner(s *objectState, o Object, to string, ev Event) error {
	if s.owner == to {
		return nil
	}
	if s.fresh || s.shrunk {
		return fmt.Errorf("%w: the owner of %s cannot be changed after an earlier operation changed the object", ErrBatch, o)
	}
	p.guard(s)
	p.remove(s, ownerRelation, s.actorSubject(s.owner))
	p.add(s, ownerRelation, s.actorSubject(to))
	s.owner = to
	ev.Policy, ev.Object, ev.Subject = o.Policy, o, ActorSubject(to)
	p.event(ev)
	return nil
}

// amend replaces the owner of an object and sets the time of the registration. See
// [Root.AmendRegistration].
func amend(o Object, to string, at time.Time) operation {
	return func(ctx context.Context, p *plan) error {
		s, err := p.object(ctx, o)
		if err != nil {
			return err
		}
		switch {
		case s.owner == "":
			return fmt.Errorf("%w: %w: %s", ErrInput, ErrObjectNotFound, o)
		case s.archived:
			return fmt.Errorf("%w: %s", ErrArchived, o)
		}
		if err := p.e.dids.validate(to); err != nil {
			return err
		}
		if err := p.setOwner(s, o, to, Event{Kind: RegistrationAmended}); err != nil {
			return err
		}
		p.guard(s)
		return p.stamp(s, to, at)
	}
}
