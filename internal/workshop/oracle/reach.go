package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// typeRelation is a relation of a type.
type typeRelation struct{ typ, relation string }

// reach is the set of relations that can have a member of the subject's kind,
// with any tuples that the schema admits. A wildcard can be a member wherever
// an object of its type can.
type reach struct {
	oracle  *Oracle
	subject rel.Subject
	found   map[typeRelation]bool
}

// reach returns the set for subject u. It stays empty if the schema lacks
// MissingContextFails, since only that option needs it.
func (o *Oracle) reach(u rel.Subject) reach {
	x := reach{o, u, map[typeRelation]bool{}}
	if !o.world.Model.Options.MissingContextFails {
		return x // not needed
	}
	for changed := true; changed; {
		changed = false
		for typ, def := range o.types {
			for _, r := range def.Relations {
				at := typeRelation{typ, r.Name}
				own := typ == u.Type && r.Name == u.Relation
				if !x.found[at] && (own || x.canReach(r.Rewrite, typ, &r)) {
					x.found[at], changed = true, true
				}
			}
		}
	}
	return x
}

// canReach reports whether a rewrite of objects of a type can have a member of
// the subject's kind, by what is found so far. r is the relation that w
// defines, or nil under an arrow.
func (x reach) canReach(w schema.Rewrite, typ string, r *schema.RelationDef) bool {
	o, u := x.oracle, x.subject
	child := func(c schema.Rewrite) bool { return x.canReach(c, typ, r) }
	switch w.Op {
	case schema.OpDirect:
		return r != nil && slices.ContainsFunc(r.Subjects, func(s schema.SubjectType) bool {
			full := o.fullName(s.Type)
			if s.Relation != "" {
				return x.found[typeRelation{full, s.Relation}]
			}
			return full == u.Type && u.Relation == ""
		})
	case schema.OpComputed:
		return x.found[typeRelation{typ, w.Relation}]
	case schema.OpArrow:
		first := o.relation(typ, w.Relation)
		return first != nil && slices.ContainsFunc(first.Subjects, func(s schema.SubjectType) bool {
			if s.Wildcard && !o.world.Model.Options.StarIsOrdinary {
				return false
			}
			return x.canReach(w.Children[0], o.fullName(s.Type), nil)
		})
	case schema.OpUnion:
		return slices.ContainsFunc(w.Children, child)
	case schema.OpIntersection:
		return !slices.ContainsFunc(w.Children, func(c schema.Rewrite) bool { return !child(c) })
	case schema.OpExclusion:
		return child(w.Children[0])
	}
	return true // an attribute or a rule may be true for every subject
}

// isEvaluated reports whether a relation is evaluated at all. With
// MissingContextFails, a relation that the subject cannot be in is false, even
// if its conditions lack context.
func (x reach) isEvaluated(typ, relation string) bool {
	return !x.oracle.world.Model.Options.MissingContextFails || x.found[typeRelation{typ, relation}]
}

// isEvaluatedUnder is like isEvaluated for a rewrite under an arrow that leads
// to typ.
func (x reach) isEvaluatedUnder(w schema.Rewrite, typ string) bool {
	return !x.oracle.world.Model.Options.MissingContextFails || x.canReach(w, typ, nil)
}
