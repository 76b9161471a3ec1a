package compare

import (
	"cmp"
	"context"
	"maps"

	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// changeGroup holds changes that reach the same objects: the changed tuples of one
// userset, or the changed attributes of one object. candidates.go fills in the
// candidate subjects, when the first affected object is compared.
type changeGroup struct {
	tuples []changedTuple
	// anySubject is true if every subject is a candidate.
	anySubject bool
	// expanded is true once candidates is filled in.
	expanded   bool
	candidates map[string]struct{} // subject ids
}

// changedTuple is a tuple as it is in each snapshot.
type changedTuple struct {
	before, after     rel.Tuple
	inBefore, inAfter bool // whether the snapshot has the tuple, unexpired
}

// usersetName is a userset, object#relation, by its names.
type usersetName struct {
	object   rel.Object
	relation string
}

// findAffected finds the objects that the changes between the two snapshots reach.
func (c *comparison) findAffected(ctx context.Context) error {
	if c.schemaChanged {
		return c.affectAll(ctx)
	}
	keys, err := changedBetween(ctx, c.timeline, c.before.view, c.after.view)
	if err != nil {
		return err
	}
	return c.findAffectedBy(ctx, keys)
}

// affectAll takes every object of the permission's type that a tuple or an attribute
// names, in either snapshot, and every subject.
func (c *comparison) affectAll(ctx context.Context) error {
	var part turns.Part
	c.groups = append(c.groups, changeGroup{anySubject: true})
	for _, v := range c.views() {
		for a := range v.Graph.Attributes(c.permission.ObjectType, "", "") {
			if err := cmp.Or(part.Step(ctx, nil, stepsPerObject), c.affect(a.Object.ID, 0)); err != nil {
				return err
			}
		}
		for n := range v.Graph.Objects(c.permission.ObjectType) {
			if err := cmp.Or(part.Step(ctx, nil, stepsPerObject), c.affect(v.Graph.ID(n), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *comparison) views() [2]*snapshot.View {
	return [2]*snapshot.View{c.before.view, c.after.view}
}

// affect records that a group of changes reaches an object.
func (c *comparison) affect(id string, group int) error {
	if c.objects != nil && !c.objects[id] {
		return nil
	}
	if list := c.affected[id]; len(list) == 0 || list[len(list)-1] != group {
		c.affected[id] = append(list, group)
	}
	return errs.CheckBound("DifferenceUsersets", len(c.affected), c.timeline.Runtime.Bounds.DifferenceUsersets)
}

// findAffectedBy finds the objects that changes of keys reach, and also expired
// tuples. It does not change keys, which several comparisons may share.
func (c *comparison) findAffectedBy(ctx context.Context, keys changedKeys) error {
	var part turns.Part
	left := c.timeline.Runtime.Bounds.DifferenceUsersets
	for userset, tuples := range c.changedTuples(c.withExpired(keys.tuples)) {
		relation, ok := c.after.schema.Schema.Relation(userset.object.Type, userset.relation)
		if !ok {
			continue // both snapshots have this schema, and it lacks the relation
		}
		if err := part.Step(ctx, nil, stepsPerObject*len(tuples)); err != nil {
			return err
		}
		if err := c.walk(ctx, userset.object, []schema.RelationID{relation.ID}, changeGroup{tuples: tuples}, &left); err != nil {
			return err
		}
	}
	return c.findAffectedByAttributes(ctx, keys.attributes, &left)
}

// withExpired returns keys and those of the tuples that expired between the two
// snapshots.
func (c *comparison) withExpired(keys map[rel.Key]struct{}) map[rel.Key]struct{} {
	if !c.timeline.HasExpiring() {
		return keys
	}
	keys = maps.Clone(keys)
	for _, v := range c.views() {
		for t := range v.Graph.Expiring() {
			if t.Expires > c.before.env.Now && t.Expires <= c.after.env.Now {
				keys[t.Key()] = struct{}{}
			}
		}
	}
	return keys
}

// findAffectedByAttributes walks from the relations that read the attributes of an
// object, if one of its attributes changed. left is as in [comparison.walk].
func (c *comparison) findAffectedByAttributes(ctx context.Context, attributes map[rel.Attribute]struct{}, left *int) error {
	s := c.after.schema.Schema
	done := map[rel.Object]bool{}
	for a := range attributes {
		if done[a.Object] || !c.attributeDiffers(a) {
			continue
		}
		done[a.Object] = true
		var starts []schema.RelationID
		for _, id := range s.Backward().Valued {
			if s.Types[s.Relations[id].Type].Name == a.Object.Type {
				starts = append(starts, id)
			}
		}
		if err := c.walk(ctx, a.Object, starts, changeGroup{anySubject: true}, left); err != nil {
			return err
		}
	}
	return nil
}

// changedTuples returns the tuples of keys that differ between the two snapshots,
// by userset.
func (c *comparison) changedTuples(keys map[rel.Key]struct{}) map[usersetName][]changedTuple {
	out := map[usersetName][]changedTuple{}
	for k := range keys {
		var t changedTuple
		t.before, t.inBefore = c.before.view.Graph.Get(k)
		t.after, t.inAfter = c.after.view.Graph.Get(k)
		t.inBefore = t.inBefore && !t.before.Expired(c.before.env.Now)
		t.inAfter = t.inAfter && !t.after.Expired(c.after.env.Now)
		if t.inBefore != t.inAfter || t.inBefore && (t.before.Condition != t.after.Condition || t.before.Context != t.after.Context) {
			userset := usersetName{k.Object, k.Relation}
			out[userset] = append(out[userset], t)
		}
	}
	return out
}

// attributeDiffers reports whether an attribute has different values in the two
// snapshots. No value counts as "".
func (c *comparison) attributeDiffers(a rel.Attribute) bool {
	var values [2]string
	for i, v := range c.views() {
		for found := range v.Graph.Attributes(a.Object.Type, a.Object.ID, a.Name) {
			values[i] = found.Value
		}
	}
	return values[0] != values[1]
}

// walk follows the relations starts of object o to the objects of the
// permission. For each of these objects it records that group reaches it. It
// subtracts the usersets that it visits from left, and fails with
// [authz.ErrBound] if left is too small.
func (c *comparison) walk(ctx context.Context, o rel.Object, starts []schema.RelationID, group changeGroup, left *int) error {
	r := newReach(ctx, c.after.schema, *left, c.before.view.Graph, c.after.view.Graph)
	n := r.node(o)
	for _, id := range starts {
		r.add(userset{id, o.ID}, n)
		for _, arrow := range r.schema.Backward().Arrows[id] {
			r.add(userset{arrow.To, o.ID}, n)
		}
	}
	if err := r.run(); err != nil {
		return err
	}
	if *left -= len(r.seen); r.full {
		limit := c.timeline.Runtime.Bounds.DifferenceUsersets
		return errs.CheckBound("DifferenceUsersets", limit+1, limit)
	}
	index := -1
	for _, u := range r.queue {
		if u.relation != c.relation.ID {
			continue
		}
		if index < 0 {
			index = len(c.groups)
			c.groups = append(c.groups, group)
		}
		if err := c.affect(u.id, index); err != nil {
			return err
		}
	}
	return nil
}
