package compare

import (
	"context"

	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// userset is a relation of one object, object#relation. The object's type is the
// type that has the relation.
type userset struct {
	relation schema.RelationID
	id       string // of the object
}

// reach walks from usersets or from a subject to all usersets that can depend on
// them, in one view or in several views of one lineage. It follows tuples,
// computed relations and arrows, and ignores operators, conditions and expiry. So
// it finds too many usersets, but never too few: a userset that it does not find
// does not depend on the start.
type reach struct {
	schema  *schema.Schema
	binding *eval.Binding
	views   []*graph.View
	// seen holds the usersets found so far, each with a node of its object, or 0 if
	// no view has the object.
	seen map[userset]graph.Node
	// queue holds the usersets of seen in the order they were found.
	queue []userset
	// ctx and part end the walk early, and make it take turns. err is why it ended.
	ctx  context.Context
	part turns.Part
	err  error
	// left is how many more usersets may be found. full is true if there were more.
	left int
	full bool
}

// newReach returns a walk over views that finds at most limit usersets.
func newReach(ctx context.Context, s *snapshot.BoundSchema, limit int, views ...*graph.View) *reach {
	return &reach{ctx: ctx, schema: s.Schema, binding: s.Binding, views: views, seen: map[userset]graph.Node{}, left: limit}
}

// add records that the walk has found a userset. n is a node of its object, or 0.
func (r *reach) add(u userset, n graph.Node) {
	if _, ok := r.seen[u]; ok {
		return
	}
	if r.left == 0 {
		r.full = true
		return
	}
	r.left--
	r.seen[u] = n
	r.queue = append(r.queue, u)
}

// addSubject starts the walk at the usersets with tuples that name a subject or
// its type's wildcard.
func (r *reach) addSubject(sub rel.Subject) {
	k := kindOf(r.schema, sub)
	if k == schema.None {
		return
	}
	for _, v := range r.views {
		if n, ok := v.Node(r.objectKind(k, sub.ID), sub.ID); ok {
			r.addMemberships(v, n, k)
		}
	}
	if sub.Relation == "" {
		r.addWildcard(sub.Type)
	} else if relation, ok := r.schema.Relation(sub.Type, sub.Relation); ok {
		r.add(userset{relation.ID, sub.ID}, r.node(sub.Object()))
	}
}

// kindOf returns the kind under which the schema admits a subject, or schema.None.
func kindOf(s *schema.Schema, sub rel.Subject) schema.KindID {
	if t, ok := s.Type(sub.Type); ok && s.Options.StarIsOrdinary && sub.Relation == "" {
		return t.Plain
	}
	return s.SubjectKind(sub)
}

// objectKind returns the graph's kind of an object of kind k. Under the schema
// option StarIsOrdinary, "*" is an id like any other, but the graph still stores that
// object under the kind of its type's wildcard.
func (r *reach) objectKind(k schema.KindID, id string) graph.Kind {
	if id == rel.Wildcard && r.schema.Options.StarIsOrdinary {
		if t, ok := r.schema.Type(r.schema.Kinds[k].Type); ok && t.Plain == k {
			k = t.Wildcard
		}
	}
	return r.binding.GraphKind(k)
}

// addWildcard adds the usersets with tuples that name a type's wildcard.
func (r *reach) addWildcard(typ string) {
	t, ok := r.schema.Type(typ)
	if !ok || t.Wildcard == schema.None {
		return
	}
	for _, v := range r.views {
		if n, ok := v.Node(r.binding.GraphKind(t.Wildcard), rel.Wildcard); ok {
			r.addMemberships(v, n, t.Wildcard)
		}
	}
}

// node returns some node of an object, or 0 if no view has the object.
func (r *reach) node(o rel.Object) graph.Node {
	t, ok := r.schema.Type(o.Type)
	if !ok {
		return 0
	}
	for _, v := range r.views {
		name := v.Name(r.binding.GraphKind(t.Plain), o.ID)
		if n, ok := v.NodeOf(name, r.objectKind(t.Plain, o.ID)); ok {
			return n
		}
		for _, id := range r.schema.RelationsOf(t) {
			if n, ok := v.NodeOf(name, r.binding.GraphKind(r.schema.Relations[id].Kind)); ok {
				return n
			}
		}
	}
	return 0
}

// addMemberships adds the usersets with a tuple whose subject is n, a node of kind
// k.
func (r *reach) addMemberships(v *graph.View, n graph.Node, k schema.KindID) {
	for _, id := range r.schema.Backward().Naming[k] {
		r.addObjects(v, n, r.schema.Relations[id].Kind, id)
	}
}

// addObjects adds relation on each object that has a tuple of kind tuples whose
// subject is n.
func (r *reach) addObjects(v *graph.View, n graph.Node, tuples schema.KindID, relation schema.RelationID) {
	if tuples == schema.None {
		return
	}
	list := v.Reverse(n, r.binding.GraphKind(tuples))
	for i := range list.Chunks() {
		for _, e := range list.Chunk(i) {
			if r.err = r.part.Step(r.ctx, nil, stepsPerObject); r.err != nil {
				return
			}
			if r.add(userset{relation, v.ID(e.Node())}, e.Node()); r.full {
				return
			}
		}
	}
}

// run walks until it finds no new userset, or more than the limit. It returns the
// error of the context if that ends before.
func (r *reach) run() error {
	back := r.schema.Backward()
	for i := 0; i < len(r.queue) && !r.full && r.err == nil; i++ {
		u := r.queue[i]
		n := r.seen[u]
		for _, use := range back.Uses[u.relation] {
			if use.Op == schema.OpComputed {
				r.add(userset{use.To, u.id}, n)
			}
		}
		k := r.schema.Relations[u.relation].Kind
		for _, v := range r.views {
			if k != schema.None && back.Naming[k] != nil {
				if own, ok := v.Sibling(n, r.binding.GraphKind(k)); ok {
					r.addMemberships(v, own, k)
				}
			}
			for _, use := range back.Uses[u.relation] {
				if use.Op != schema.OpArrow {
					continue
				}
				if own, ok := v.Sibling(n, r.objectKind(use.Restriction.Kind, u.id)); ok {
					r.addObjects(v, own, r.schema.Relations[use.Tupleset].Kind, use.To)
				}
			}
		}
	}
	return r.err
}

// contains reports whether the walk found a userset.
func (r *reach) contains(relation schema.RelationID, id string) bool {
	_, ok := r.seen[userset{relation, id}]
	return ok
}
