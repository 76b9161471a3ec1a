package ostiary

import (
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// dependents are a schema's rewrites read backwards: what a membership leads
// to. They are worked out once for a bound schema.
type dependents struct {
	// admits are, by schema.KindID, the relations whose tuples may name the kind.
	admits [][]schema.RelationID
	// computed are, by relation, those of the same type that name it.
	computed [][]schema.RelationID
	// arrows are, by relation, the arrows that lead to it; over are, by tupleset,
	// the relations that have an arrow over it.
	arrows [][]arrowTo
	over   [][]schema.RelationID
	// valued are the relations that read an attribute of their object.
	valued []schema.RelationID
	// kinds are the graph's numbers, by schema.KindID. stars are those of what is
	// called "*", by schema.KindID of the plain kind, where that is a name like any
	// other: the graph keeps it apart all the same.
	kinds []graph.Kind
	stars map[schema.KindID]graph.Kind
	// deepens says that a condition may make any answer unknown, so that nothing
	// follows from what a subject reaches.
	deepens bool
}

// arrowTo is an arrow: where an object of kind via stands in a tuple of
// tupleset, the tuple's object has relation.
type arrowTo struct {
	via      schema.KindID
	tupleset schema.RelationID
	relation schema.RelationID
}

func dependentsOf(s *schema.Schema, lineage *graph.Graph) (*dependents, error) {
	d := &dependents{admits: make([][]schema.RelationID, len(s.Kinds)), computed: make([][]schema.RelationID, len(s.Relations)),
		arrows: make([][]arrowTo, len(s.Relations)), over: make([][]schema.RelationID, len(s.Relations)), kinds: make([]graph.Kind, len(s.Kinds)),
		deepens: s.Options.MissingContextFails && len(s.Conditions) > 0}
	for i := range s.Relations {
		r := &s.Relations[i]
		for j := range r.Restrictions {
			d.admits[r.Restrictions[j].Kind] = append(d.admits[r.Restrictions[j].Kind], r.ID)
		}
		d.read(r, r.Expr)
	}
	for i, k := range s.Kinds {
		n, err := lineage.Intern(graph.KindName{Type: k.Type, Relation: k.Relation, Wildcard: k.Wildcard})
		if err != nil {
			return nil, err
		}
		d.kinds[i] = n
		if !s.Options.StarIsOrdinary || k.Relation != "" || k.Wildcard {
			continue
		}
		if d.stars == nil {
			d.stars = map[schema.KindID]graph.Kind{}
		}
		if d.stars[schema.KindID(i)], err = lineage.Intern(graph.KindName{Type: k.Type, Wildcard: true}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *dependents) read(r *schema.Relation, e *schema.Expr) {
	if e == nil {
		return
	}
	switch e.Op {
	case schema.OpComputed:
		d.computed[e.Relation] = append(d.computed[e.Relation], r.ID)
	case schema.OpArrow:
		for i := range e.Via {
			if v := &e.Via[i]; v.Target != schema.None {
				d.arrows[v.Target] = append(d.arrows[v.Target], arrowTo{v.Kind, e.Relation, r.ID})
			}
		}
		d.over[e.Relation] = append(d.over[e.Relation], r.ID)
		return // its child stands in the targets
	case schema.OpAttribute, schema.OpRule:
		d.valued = append(d.valued, r.ID)
	}
	for _, c := range e.Children {
		d.read(r, c)
	}
}

// dependentsFor works out the dependents of a schema.
func dependentsFor(b *snapshot.BoundSchema, lineage *graph.Graph) (*dependents, error) {
	return dependentsOf(b.Schema, lineage)
}

// kind is the graph's number for a kind of an object of that id.
func (d *dependents) kind(k schema.KindID, id string) graph.Kind {
	if star, ok := d.stars[k]; ok && id == rel.Wildcard {
		return star
	}
	return d.kinds[k]
}

// place is a relation of an object, whose type is the relation's.
type place struct {
	relation schema.RelationID
	id       string
}

// reach walks from memberships to everything that may follow from them, over
// one view or several of a lineage: through usersets, computed relations and
// arrows, whatever the operators, conditions and times are. So it finds too
// much, and never too little: what is not in it does not depend on where it
// began. It decides nothing; that is the evaluator's.
type reach struct {
	schema *schema.Schema
	d      *dependents
	views  []*graph.View
	// seen are the places that were found, each with some node of its object (0
	// where the views do not know it).
	seen  map[place]graph.Node
	queue []place
	// left is how many places may still be found; full says that there were more.
	left int
	full bool
}

func newReach(ready *snapshot.BoundSchema, most int, views ...*graph.View) (*reach, error) {
	d, err := dependentsFor(ready, views[0].Lineage())
	if err != nil {
		return nil, err
	}
	return &reach{schema: ready.Schema, d: d, views: views, seen: map[place]graph.Node{}, left: most}, nil
}

// add puts a place that is reached.
func (r *reach) add(p place, n graph.Node) {
	if _, ok := r.seen[p]; ok {
		return
	}
	if r.left == 0 {
		r.full = true
		return
	}
	r.left--
	r.seen[p] = n
	r.queue = append(r.queue, p)
}

// subject begins at what a subject stands in, itself or by its wildcard.
func (r *reach) subject(sub rel.Subject) {
	k := kindOf(r.schema, sub)
	if k == schema.None {
		return
	}
	for _, v := range r.views {
		if n, ok := v.Node(r.d.kind(k, sub.ID), sub.ID); ok {
			r.members(v, n, k)
		}
	}
	if sub.Relation == "" {
		r.everybody(sub.Type)
	} else if rd, ok := r.schema.Relation(sub.Type, sub.Relation); ok {
		r.add(place{rd.ID, sub.ID}, r.node(sub.Object()))
	}
}

// kindOf is the kind that a subject is admitted as.
func kindOf(s *schema.Schema, sub rel.Subject) schema.KindID {
	if t, ok := s.Type(sub.Type); ok && s.Options.StarIsOrdinary && sub.Relation == "" {
		return t.Plain
	}
	return s.SubjectKind(sub)
}

// everybody begins at what a type's wildcard stands in.
func (r *reach) everybody(typ string) {
	t, ok := r.schema.Type(typ)
	if !ok || t.Wildcard == schema.None {
		return
	}
	for _, v := range r.views {
		if n, ok := v.Node(r.d.kinds[t.Wildcard], rel.Wildcard); ok {
			r.members(v, n, t.Wildcard)
		}
	}
}

// node finds some node of an object, 0 if no view knows it.
func (r *reach) node(o rel.Object) graph.Node {
	t, ok := r.schema.Type(o.Type)
	if !ok {
		return 0
	}
	for _, v := range r.views {
		name := v.Name(r.d.kinds[t.Plain], o.ID)
		if n, ok := v.NodeOf(name, r.d.kind(t.Plain, o.ID)); ok {
			return n
		}
		for _, id := range r.schema.RelationsOf(t) {
			if n, ok := v.NodeOf(name, r.d.kinds[r.schema.Relations[id].Kind]); ok {
				return n
			}
		}
	}
	return 0
}

// members adds every relation in whose tuples a node stands.
func (r *reach) members(v *graph.View, n graph.Node, k schema.KindID) {
	for _, id := range r.d.admits[k] {
		r.through(v, n, r.schema.Relations[id].Kind, id)
	}
}

// through adds relation on the objects in whose tuples of kind `in` a node
// stands.
func (r *reach) through(v *graph.View, n graph.Node, in schema.KindID, relation schema.RelationID) {
	if in == schema.None {
		return
	}
	list := v.Reverse(n, r.d.kinds[in])
	for i := range list.Chunks() {
		for _, e := range list.Chunk(i) {
			if r.add(place{relation, v.ID(e.Node())}, e.Node()); r.full {
				return
			}
		}
	}
}

// run goes on until nothing new is found, or too much.
func (r *reach) run() {
	for i := 0; i < len(r.queue) && !r.full; i++ {
		p := r.queue[i]
		n := r.seen[p]
		for _, id := range r.d.computed[p.relation] {
			r.add(place{id, p.id}, n)
		}
		k := r.schema.Relations[p.relation].Kind
		for _, v := range r.views {
			if k != schema.None && r.d.admits[k] != nil {
				if own, ok := v.Sibling(n, r.d.kinds[k]); ok {
					r.members(v, own, k)
				}
			}
			for _, a := range r.d.arrows[p.relation] {
				if own, ok := v.Sibling(n, r.d.kind(a.via, p.id)); ok {
					r.through(v, own, r.schema.Relations[a.tupleset].Kind, a.relation)
				}
			}
		}
	}
}

// has says whether a place was reached.
func (r *reach) has(relation schema.RelationID, id string) bool {
	_, ok := r.seen[place{relation, id}]
	return ok
}
