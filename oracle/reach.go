package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// memberOf is a relation of a type.
type memberOf struct{ typ, relation string }

// reach holds the relations that could have a subject of u's kind as a member,
// over all tuples that the schema admits. A wildcard could be where an object of
// its type could.
type reach struct {
	oracle  *Oracle
	subject rel.Subject
	found   map[memberOf]bool
}

func (o *Oracle) reach(u rel.Subject) reach {
	x := reach{o, u, map[memberOf]bool{}}
	if !o.world.Model.Options.MissingContextFails {
		return x // nobody asks
	}
	for changed := true; changed; {
		changed = false
		for typ, def := range o.types {
			for _, r := range def.Relations {
				at := memberOf{typ, r.Name}
				own := typ == u.Type && r.Name == u.Relation
				if !x.found[at] && (own || x.leads(r.Rewrite, typ, &r)) {
					x.found[at], changed = true, true
				}
			}
		}
	}
	return x
}

// leads says whether a rewrite, on objects of a type, leads to the subject's
// kind, given what is found so far. r is the relation that it is of, nil under
// an arrow.
func (x reach) leads(w schema.Rewrite, typ string, r *schema.RelationDef) bool {
	o, u := x.oracle, x.subject
	child := func(c schema.Rewrite) bool { return x.leads(c, typ, r) }
	switch w.Op {
	case schema.OpDirect:
		return r != nil && slices.ContainsFunc(r.Subjects, func(s schema.SubjectType) bool {
			full := o.full(s.Type)
			if s.Relation != "" {
				return x.found[memberOf{full, s.Relation}]
			}
			return full == u.Type && u.Relation == ""
		})
	case schema.OpComputed:
		return x.found[memberOf{typ, w.Relation}]
	case schema.OpArrow:
		first := o.relation(typ, w.Relation)
		return first != nil && slices.ContainsFunc(first.Subjects, func(s schema.SubjectType) bool {
			if s.Wildcard && !o.world.Model.Options.StarIsOrdinary {
				return false
			}
			return x.leads(w.Children[0], o.full(s.Type), nil)
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

// looksAt says whether a relation is looked at: with MissingContextFails one
// that the subject could not be in is false, whatever its conditions lack.
func (x reach) looksAt(typ, relation string) bool {
	return !x.oracle.world.Model.Options.MissingContextFails || x.found[memberOf{typ, relation}]
}

// looksUnder is looksAt for what stands under an arrow that leads to a type.
func (x reach) looksUnder(w schema.Rewrite, typ string) bool {
	return !x.oracle.world.Model.Options.MissingContextFails || x.leads(w, typ, nil)
}
