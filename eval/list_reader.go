package eval

import (
	"iter"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// listReader is what a list is asked of, with the binding of its kinds: a
// contextual tuple may be the first of its kind. The overlay, if there is one,
// is the caller's to release.
func (b *Binding) listReader(r Reader, env *Env) (*Binding, Reader, *overlay, error) {
	if len(env.Tuples) == 0 && len(env.Attributes) == 0 {
		return b, r, nil, nil
	}
	o, err := b.over(r, env)
	if err != nil {
		return nil, nil, nil, err
	}
	return b.bound(o), o, o, nil
}

// attributed is an optional power of a Reader besides Enumerator's: the
// attributes of objects of a type.
type attributed interface {
	Attributes(objectType, objectID, name string) iter.Seq[rel.Attribute]
}

// objects yields the objects of a type, some perhaps more than once. It
// returns false where the data cannot name them.
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
			if n := b.named(r, t.ID, a.Object.ID); n != 0 && !yield(n) {
				return
			}
		}
	}, ok
}

// named finds any node of an object, or 0.
func (b *Binding) named(r Reader, t schema.TypeID, id string) graph.Node {
	for _, k := range b.anchors[t] {
		if n, ok := r.Node(k, id); ok {
			return n
		}
	}
	return 0
}

// objects yields the nodes of a type's objects of which contextual tuples or
// attributes tell: its own nodes, and those of the base that only now matter.
// The wildcard is one where the schema says that it is an id like any other.
func (o *overlay) objects(b *Binding, t *schema.Type, yield func(graph.Node) bool) bool {
	of := func(n graph.Node) bool {
		k := o.KindOf(n)
		return b.typeOf(k) != t.ID || k == b.kinds[t.Wildcard] && !b.s.Options.StarIsOrdinary || yield(n)
	}
	for i := range o.own {
		if !of(graph.NodeMax - graph.Node(i)) {
			return false
		}
	}
	for i := range o.lists {
		if !of(o.lists[i].node) {
			return false
		}
	}
	for a := range o.attributes {
		if a.Object.Type != t.Name {
			continue
		}
		if n := b.named(o, t.ID, a.Object.ID); n != 0 && !yield(n) {
			return false
		}
	}
	return true
}
