package eval

import (
	"iter"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// listReader returns the data of a list, with a binding of its kinds: a
// contextual tuple may be the first of its kind. The caller releases the
// overlay if it is not nil.
func (b *Binding) listReader(r Reader, env *Env) (*Binding, Reader, *overlay, error) {
	if len(env.Tuples) == 0 && len(env.Attributes) == 0 {
		return b, r, nil, nil
	}
	o, err := b.contextualOverlay(r, env)
	if err != nil {
		return nil, nil, nil, err
	}
	return b.rebound(o), o, o, nil
}

// attributed is an optional interface of a Reader besides [Enumerator]: it
// enumerates the attributes of a type's objects.
type attributed interface {
	// Attributes yields the attributes of a type's objects; "" for objectID
	// and name means any.
	Attributes(objectType, objectID, name string) iter.Seq[rel.Attribute]
}

// objects yields the objects of a type, some possibly more than once. It
// returns false if the data cannot enumerate them.
func objects(b *Binding, r Reader, t *schema.Type) (iter.Seq[graph.Node], bool) {
	base := r
	own, ok := r.(*overlay)
	if ok {
		base = own.base
	}
	all, ok := base.(Enumerator)
	return func(yield func(graph.Node) bool) {
		if own != nil && !own.objects(b, t, yield) {
			return
		}
		for n := range all.Objects(t.Name) {
			if !yield(n) {
				return
			}
		}
		if n, ok := r.Node(b.kinds[t.Wildcard], rel.Wildcard); ok && b.s.Options.StarIsOrdinary && !yield(n) {
			return
		}
		values, ok := base.(attributed)
		if !ok || len(t.Attributes) == 0 {
			return
		}
		for a := range values.Attributes(t.Name, "", "") {
			if n := b.objectNode(r, t.ID, a.Object.ID); n != 0 && !yield(n) {
				return
			}
		}
	}, ok
}

// objectNode finds any node of an object, or 0.
func (b *Binding) objectNode(r Reader, t schema.TypeID, id string) graph.Node {
	for _, k := range b.objectKinds[t] {
		if n, ok := r.Node(k, id); ok {
			return n
		}
	}
	return 0
}

// objects yields the nodes of a type's objects that are in contextual tuples
// or have contextual attributes. The wildcard is among them under
// schema.Options.StarIsOrdinary.
func (o *overlay) objects(b *Binding, t *schema.Type, yield func(graph.Node) bool) bool {
	of := func(n graph.Node) bool {
		k := o.KindOf(n)
		return b.typeOf(k) != t.ID || k == b.kinds[t.Wildcard] && !b.s.Options.StarIsOrdinary || yield(n)
	}
	for i := range o.own.entries {
		if !of(graph.NodeMax - graph.Node(i)) {
			return false
		}
	}
	for i := range o.lists.entries {
		if !of(o.lists.entries[i].key.node) {
			return false
		}
	}
	for a := range o.attributes {
		if a.Object.Type != t.Name {
			continue
		}
		if n := b.objectNode(o, t.ID, a.Object.ID); n != 0 && !yield(n) {
			return false
		}
	}
	return true
}
