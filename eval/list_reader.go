package eval

import (
	"iter"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/internal/fault"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// listReader is what a list is asked of, with the binding of its kinds: a
// contextual tuple may be the first of its kind.
func (b *Binding) listReader(r Reader, env *Env) (*Binding, Reader, error) {
	o, err := b.reader(r, env)
	if err != nil {
		return nil, nil, err
	}
	if fault.On(fault.EvalContextualMissedInList) {
		return b, r, nil
	}
	return b.bound(o), o, nil
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
		if own != nil && !own.objects(b, t.ID, yield) {
			return
		}
		for n := range all.Objects(t.Name) {
			if !yield(n) {
				return
			}
		}
		if n, ok := base.Node(b.kinds[t.Wildcard], rel.Wildcard); ok && b.s.Options.StarIsOrdinary && !yield(n) {
			return
		}
		values, ok := base.(attributed)
		if !ok || len(t.Attributes) == 0 {
			return
		}
		for a := range values.Attributes(t.Name, "", "") {
			if n, ok := base.Node(b.kinds[t.Plain], a.Object.ID); ok && !yield(n) {
				return
			}
		}
	}, ok
}

// objects yields the nodes of a type that only the overlay has.
func (o *overlay) objects(b *Binding, typ schema.TypeID, yield func(graph.Node) bool) bool {
	for i, own := range o.own {
		n := graph.NodeMax - graph.Node(i)
		if own.id != rel.Wildcard && b.typeOf(own.kind) == typ && !yield(n) {
			return false
		}
	}
	return true
}
