package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// memberOf is a relation of a type.
type memberOf struct{ typ, relation string }

// reached holds the relations that could have a subject of u's kind as a
// member, over all tuples that the schema admits.
func (o *Oracle) reached(u rel.Subject) map[memberOf]bool {
	found := map[memberOf]bool{}
	for changed := true; changed; {
		changed = false
		for typ, def := range o.types {
			for _, r := range def.Relations {
				at := memberOf{typ, r.Name}
				own := typ == u.Type && r.Name == u.Relation
				if !found[at] && (own || o.reaches(found, r.Rewrite, typ, &r, u)) {
					found[at], changed = true, true
				}
			}
		}
	}
	return found
}

// reaches says whether a rewrite, on objects of a type, leads to u's kind,
// given what is found so far. r is the relation that it is of, nil under an
// arrow.
func (o *Oracle) reaches(found map[memberOf]bool, w schema.Rewrite, typ string, r *schema.RelationDef, u rel.Subject) bool {
	child := func(c schema.Rewrite) bool { return o.reaches(found, c, typ, r, u) }
	switch w.Op {
	case schema.OpDirect:
		return r != nil && slices.ContainsFunc(r.Subjects, func(s schema.SubjectType) bool {
			full := o.full(s.Type)
			switch {
			case s.Relation != "":
				return found[memberOf{full, s.Relation}]
			case full != u.Type || u.Relation != "":
				return false
			}
			return s.Wildcard || !o.wildcard(u)
		})
	case schema.OpComputed:
		return found[memberOf{typ, w.Relation}]
	case schema.OpArrow:
		first := o.relation(typ, w.Relation)
		return first != nil && slices.ContainsFunc(first.Subjects, func(s schema.SubjectType) bool {
			if s.Wildcard && !o.world.Model.Options.StarIsOrdinary {
				return false
			}
			return o.reaches(found, w.Children[0], o.full(s.Type), nil, u)
		})
	case schema.OpUnion:
		return slices.ContainsFunc(w.Children, child)
	case schema.OpIntersection:
		return !slices.ContainsFunc(w.Children, func(c schema.Rewrite) bool { return !child(c) })
	case schema.OpExclusion:
		return child(w.Children[0])
	}
	return true // an attribute or a rule may hold for everybody
}
