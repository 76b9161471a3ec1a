package acp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// operation is one change that an actor asks for. It looks at the plan, and
// adds to it what is to be written. It may be called again, on a later state.
type operation func(ctx context.Context, p *plan) error

// plan is a write under way: what the operations so far lead to, on a state
// that the write's own preconditions hold fast.
type plan struct {
	e *Engine
	r *running
	w ostiary.WriteRequest
	// first is the first object, mostly the only one; objects are the others.
	first   objectState
	objects map[Object]*objectState
	states  []objectState // memory of those
	events  []Event
	// hopeful says that what is registered is taken for new, unseen: the write's
	// precondition tells.
	hopeful bool
	// several says that what one operation does is kept for those after it: added
	// and removed are the relationships, without owners, of which nobody asks so.
	several bool
	added   map[rel.Key]struct{}
	removed map[rel.Key]struct{}
	// Memory of a single operation.
	add1 [1]rel.Tuple
	pre2 [2]ostiary.Precondition
}

// objectState is what a plan knows of one object.
type objectState struct {
	of       Object
	t        *table
	res      *resourceTable
	object   rel.Object
	owner    string // "" is unregistered
	archived bool
	// fresh says that the plan itself registers it; sure, that a precondition
	// holds its state fast already.
	fresh, sure bool
	// tuples are those that the plan adds to the object, shrunk that it removes
	// some.
	tuples []rel.Tuple
	shrunk bool
}

// triesMax is how often a plan is made anew because somebody changed what it
// is based on.
const triesMax = 100

// change runs operations and writes what they say, in one entry.
func (e *Engine) change(ctx context.Context, takesAuthority bool, ops ...operation) error {
	r := e.run.Load()
	if r == nil {
		return ErrClosed
	}
	p, token, err := e.write(ctx, r, takesAuthority, ops)
	if err == nil && len(p.events) > 0 {
		e.tell(token, p.events)
	}
	if p != nil { // nobody looks at it any more
		*p = plan{}
		e.plans.Put(p)
	}
	return err
}

func (e *Engine) write(ctx context.Context, r *running, takesAuthority bool, ops []operation) (*plan, ostiary.Token, error) {
	defer e.release(e.hold(takesAuthority))
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

// hold takes the authority lock, and returns what release wants to know.
func (e *Engine) hold(takesAuthority bool) (takes bool) {
	if takesAuthority {
		e.authority.Lock()
	} else {
		e.authority.RLock()
	}
	return takesAuthority
}

func (e *Engine) release(takesAuthority bool) {
	if takesAuthority {
		e.authority.Unlock()
	} else {
		e.authority.RUnlock()
	}
}

// outdated says whether a write failed because what its plan is based on has
// changed since.
func outdated(err error) bool {
	return errors.Is(err, ostiary.ErrPrecondition) || errors.Is(err, ostiary.ErrTupleExists) || errors.Is(err, ostiary.ErrTupleMissing)
}

func (e *Engine) plan(ctx context.Context, r *running, ops []operation, hopeful bool) (*plan, error) {
	p, _ := e.plans.Get().(*plan)
	if p == nil {
		p = new(plan)
	}
	p.e, p.r, p.hopeful = e, r, hopeful
	p.w.Add, p.w.Preconditions = p.add1[:0], p.pre2[:0]
	if n := len(ops); n > 1 {
		p.several = true
		p.objects = make(map[Object]*objectState, n)
		p.states = make([]objectState, n-1)
		p.w.Add = make([]rel.Tuple, 0, n)
		p.w.Preconditions = make([]ostiary.Precondition, 0, n)
	}
	for i, op := range ops {
		err := op(ctx, p)
		switch {
		case err == nil:
		case len(ops) == 1:
			return nil, err
		case hopeful:
			return e.plan(ctx, r, ops, false) // an earlier operation may be to blame
		default:
			return nil, fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return p, nil
}

func (p *plan) empty() bool {
	w := &p.w
	return len(w.Add)+len(w.Remove)+len(w.RemoveMatching)+len(w.Documents)+len(w.RemoveDocuments) == 0
}

// object returns what is known of an object, looking it up the first time.
func (p *plan) object(ctx context.Context, o Object) (*objectState, error) {
	s, seen, err := p.place(ctx, o)
	if err != nil || seen {
		return s, err
	}
	var ok bool
	if s.owner, ok, err = s.res.owners.First(ctx, o.ID); err == nil && ok {
		_, s.archived, err = s.res.archived.First(ctx, o.ID)
	}
	return s, err
}

// place returns what is known of an object, and whether that was looked up; an
// object that was not stands there as one that is not registered.
func (p *plan) place(ctx context.Context, o Object) (s *objectState, seen bool, err error) {
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
	if err := validID(o.ID); err != nil {
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
	*s = objectState{of: o, t: t, res: res, object: res.object(o.ID)}
	return s, false, nil
}

// ensure makes the write fail where the object's registration is no longer
// what the plan saw.
func (p *plan) ensure(s *objectState) {
	if s.sure {
		return
	}
	s.sure = true
	of := rel.Filter{ObjectType: s.object.Type, ObjectID: s.object.ID, Relation: ownerRelation}
	if s.owner == "" {
		p.w.Preconditions = append(p.w.Preconditions, ostiary.Precondition{Filter: of, Absent: true})
		return
	}
	of.SubjectType, of.SubjectID, of.SubjectPlain = s.t.actor, s.owner, true
	archived := rel.Filter{ObjectType: s.object.Type, ObjectID: s.object.ID, Relation: archivedRelation}
	p.w.Preconditions = append(p.w.Preconditions, ostiary.Precondition{Filter: of},
		ostiary.Precondition{Filter: archived, Absent: !s.archived})
}

// add adds a tuple of the object.
func (p *plan) add(s *objectState, relation string, subject rel.Subject) {
	t := rel.Tuple{Object: s.object, Relation: relation, Subject: subject}
	p.w.Add = append(p.w.Add, t)
	if !p.several {
		return
	}
	if n := len(p.w.Add); s.tuples == nil {
		s.tuples = p.w.Add[n-1 : n : n] // mostly the only one
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

// actorSubject is an actor as the subject of the object's own relations.
func (s *objectState) actorSubject(did string) rel.Subject {
	return rel.Subject{Type: s.t.actor, ID: did}
}

// has says whether a relationship is there after the operations so far. One
// that an earlier operation of the batch removed, or added, cannot be turned
// round in it: a write names each once.
func (p *plan) has(ctx context.Context, k rel.Key) (there, here bool, err error) {
	if _, ok := p.added[k]; ok {
		return true, true, nil
	}
	if _, ok := p.removed[k]; ok {
		return false, true, nil
	}
	page, err := p.r.store.Read(ctx, ostiary.ReadRequest{Limit: 1, Filter: rel.Filter{
		ObjectType: k.Object.Type, ObjectID: k.Object.ID, Relation: k.Relation, SubjectType: k.Subject.Type,
		SubjectID: k.Subject.ID, SubjectRelation: k.Subject.Relation, SubjectPlain: k.Subject.Relation == ""}})
	return len(page.Tuples) > 0, false, err
}

// mayManage says whether an actor may set and delete the relationships of a
// relation: the owner, and who is in a relation that manages it.
func (p *plan) mayManage(ctx context.Context, actor string, s *objectState, relation string) (bool, error) {
	if s.owner == "" {
		return false, nil
	}
	if s.owner == actor {
		return true, nil
	}
	if s.shrunk {
		return false, fmt.Errorf("%w: the authority of %s after a removal", ErrBatch, actor)
	}
	return decided(p.r.store.Check(ctx, ostiary.CheckRequest{Object: s.object, Relation: s.res.manage[relation],
		Subject: rel.Subject{Type: s.t.actor, ID: actorID(actor)}, QueryOptions: ostiary.QueryOptions{Tuples: s.tuples}}))
}

// register registers an object to an actor.
func register(actor string, o Object) operation {
	return func(ctx context.Context, p *plan) error {
		var s *objectState
		var err error
		if p.hopeful {
			s, _, err = p.place(ctx, o)
		} else {
			s, err = p.object(ctx, o)
		}
		if err != nil {
			return err
		}
		if s.owner != "" {
			return fmt.Errorf("%w: %s", ErrRegistered, o)
		}
		p.ensure(s)
		p.add(s, ownerRelation, s.actorSubject(actor))
		s.owner, s.fresh = actor, true
		p.event(Event{Kind: ObjectRegistered, Actor: actor, Policy: o.Policy, Object: o, Subject: ActorSubject(actor)})
		return nil
	}
}

func (p *plan) event(ev Event) {
	if p.e.opts.Event != nil {
		p.events = append(p.events, ev)
	}
}

// relate sets a relationship.
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
		there, here, err := p.has(ctx, k)
		switch {
		case err != nil:
			return err
		case there:
			*existed = true
			return nil
		case here:
			return fmt.Errorf("%w: %s was deleted before", ErrBatch, x)
		}
		p.ensure(s)
		p.add(s, x.Relation, subject)
		p.event(Event{Kind: RelationshipSet, Actor: actor, Policy: x.Object.Policy, Object: x.Object, Relation: x.Relation, Subject: x.Subject})
		return nil
	}
}

// unrelate deletes a relationship.
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
		there, here, err := p.has(ctx, k)
		switch {
		case err != nil:
			return err
		case !there:
			return nil
		case here:
			return fmt.Errorf("%w: %s was set before", ErrBatch, x)
		}
		*found = true
		p.ensure(s)
		p.remove(s, x.Relation, subject)
		p.event(Event{Kind: RelationshipDeleted, Actor: actor, Policy: x.Object.Policy, Object: x.Object, Relation: x.Relation, Subject: x.Subject})
		return nil
	}
}

// relationship checks who sets or deletes what.
func (p *plan) relationship(ctx context.Context, actor string, x Relationship) (*objectState, rel.Subject, error) {
	s, err := p.object(ctx, x.Object)
	if err != nil {
		return nil, rel.Subject{}, err
	}
	if x.Relation == ownerRelation {
		return nil, rel.Subject{}, ErrOwnerRelation
	}
	if s.res.def.relation(x.Relation) == nil {
		return nil, rel.Subject{}, fmt.Errorf("%w: %q", ErrRelationNotFound, x.Relation)
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
		err = fmt.Errorf("%w: a set is in itself without being written", ErrRestriction)
	}
	return s, subject, err
}

// owned returns an object that an actor owns.
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

// archive removes the relationships of an object and marks it. removed counts
// the owner's record too.
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
			return fmt.Errorf("%w: %s was changed before it is archived", ErrBatch, o)
		}
		p.ensure(s)
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
		s.archived, s.shrunk = true, true
		p.event(Event{Kind: ObjectArchived, Actor: actor, Policy: o.Policy, Object: o})
		return nil
	}
}

// unarchive takes the mark off.
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
			return fmt.Errorf("%w: %s was archived before", ErrBatch, o)
		}
		p.ensure(s)
		p.remove(s, archivedRelation, s.actorSubject(s.owner))
		s.archived, *modified = false, true
		p.event(Event{Kind: ObjectUnarchived, Actor: actor, Policy: o.Policy, Object: o})
		return nil
	}
}

// transfer gives an object another owner; everything else stays.
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
		if err := p.e.sound.validate(to); err != nil {
			return err
		}
		if key := stampKey(o); s.owner != to && len(key) <= ostiary.DocumentKeyBytesMax {
			// A time that was given with the registration does not outlive its owner.
			p.w.RemoveDocuments = append(p.w.RemoveDocuments, ostiary.DocumentKey{Kind: registrationKind, Key: key})
		}
		return p.setOwner(s, o, to, Event{Kind: ObjectTransferred, Actor: actor})
	}
}

// setOwner replaces the owner.
func (p *plan) setOwner(s *objectState, o Object, to string, ev Event) error {
	if s.owner == to {
		return nil
	}
	if s.fresh || s.shrunk {
		return fmt.Errorf("%w: %s was changed before it gets another owner", ErrBatch, o)
	}
	p.ensure(s)
	p.remove(s, ownerRelation, s.actorSubject(s.owner))
	p.add(s, ownerRelation, s.actorSubject(to))
	s.owner = to
	ev.Policy, ev.Object, ev.Subject = o.Policy, o, ActorSubject(to)
	p.event(ev)
	return nil
}

// amend gives an object another owner as of another time, by the root.
func amend(o Object, to string, at time.Time) operation {
	return func(ctx context.Context, p *plan) error {
		s, err := p.object(ctx, o)
		if err != nil {
			return err
		}
		switch {
		case s.owner == "":
			return fmt.Errorf("%w: %s", ErrObjectNotFound, o)
		case s.archived:
			return fmt.Errorf("%w: %s", ErrArchived, o)
		}
		if err := p.e.sound.validate(to); err != nil {
			return err
		}
		if err := p.setOwner(s, o, to, Event{Kind: RegistrationAmended}); err != nil {
			return err
		}
		p.ensure(s)
		return p.stamp(o, to, at)
	}
}
