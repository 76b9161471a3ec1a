package differential

import (
	"slices"
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/proto"
)

// recursiveMix returns the world as OpenFGA's recursive strategies see it, or nil
// if that is the same world. If a relation has itself among its usersets ("r:
// [group#r, group#other]"), they follow every userset of that type as if it were
// the relation itself. If it comes from parents of its own and of another type
// ("r from p", p: [group, folder]), they go on from a folder to the folder's own p.
func recursiveMix(w *World) *World {
	mixed := *w
	mixed.Model = proto.Clone(w.Model).(*openfgav1.AuthorizationModel)
	recursive := map[string]bool{} // by "type#relation"
	for _, d := range mixed.Model.GetTypeDefinitions() {
		for relation, meta := range d.GetMetadata().GetRelations() {
			for _, ref := range meta.GetDirectlyRelatedUserTypes() {
				if ref.GetType() == d.GetType() && ref.GetRelation() == relation {
					recursive[d.GetType()+"#"+relation] = true
				}
			}
			if recursive[d.GetType()+"#"+relation] {
				admitItself(meta, d.GetType(), relation)
			}
		}
	}
	changed := mixParents(mixed.Model)
	mix := func(tuples []*openfgav1.TupleKey) []*openfgav1.TupleKey {
		var out []*openfgav1.TupleKey
		for _, t := range tuples {
			typ, _, _ := strings.Cut(t.GetObject(), ":")
			object, relation, userset := strings.Cut(t.GetUser(), "#")
			userType, _, _ := strings.Cut(object, ":")
			if !userset || userType != typ || relation == t.GetRelation() || !recursive[typ+"#"+t.GetRelation()] {
				out = append(out, t)
				continue
			}
			changed = true
			if object != t.GetObject() { // a set is a member of itself anyway
				t = proto.Clone(t).(*openfgav1.TupleKey)
				t.User = object + "#" + t.GetRelation()
				out = append(out, t)
			}
		}
		return out
	}
	mixed.Stored, mixed.Contextual = mix(w.Stored), mix(w.Contextual)
	if !changed {
		return nil
	}
	mixed.Stored = distinctTuples(mixed.Stored)
	return &mixed
}

// mixParents adds "r from p" to the parents of another type of a recursive "r from
// p". It reports whether there are any.
func mixParents(m *openfgav1.AuthorizationModel) (changed bool) {
	types := map[string]*openfgav1.TypeDefinition{}
	for _, d := range m.GetTypeDefinitions() {
		types[d.GetType()] = d
	}
	type hand struct{ typ, tupleset, relation string }
	var hands []hand
	for _, d := range m.GetTypeDefinitions() {
		for relation, r := range d.GetRelations() {
			for _, tupleset := range arrowsOf(r, relation) {
				parents := d.GetMetadata().GetRelations()[tupleset].GetDirectlyRelatedUserTypes()
				if !slices.ContainsFunc(parents, func(ref *openfgav1.RelationReference) bool { return ref.GetType() == d.GetType() }) {
					continue
				}
				for _, ref := range parents {
					if u := types[ref.GetType()]; ref.GetType() != d.GetType() && u.GetRelations()[tupleset] != nil {
						hands = append(hands, hand{ref.GetType(), tupleset, relation})
					}
				}
			}
		}
	}
	for _, h := range hands {
		arrow := &openfgav1.Userset{Userset: &openfgav1.Userset_TupleToUserset{TupleToUserset: &openfgav1.TupleToUserset{
			Tupleset: &openfgav1.ObjectRelation{Relation: h.tupleset}, ComputedUserset: &openfgav1.ObjectRelation{Relation: h.relation},
		}}}
		d := types[h.typ]
		if own := d.GetRelations()[h.relation]; own != nil {
			arrow = &openfgav1.Userset{Userset: &openfgav1.Userset_Union{Union: &openfgav1.Usersets{Child: []*openfgav1.Userset{own, arrow}}}}
		} else {
			d.GetMetadata().GetRelations()[h.relation] = &openfgav1.RelationMetadata{}
		}
		d.GetRelations()[h.relation] = arrow
	}
	return len(hands) > 0
}

// arrowsOf lists the tuplesets of a rewrite's arrows to a relation.
func arrowsOf(r *openfgav1.Userset, relation string) []string {
	var out []string
	switch u := r.GetUserset().(type) {
	case *openfgav1.Userset_TupleToUserset:
		if u.TupleToUserset.GetComputedUserset().GetRelation() == relation {
			out = append(out, u.TupleToUserset.GetTupleset().GetRelation())
		}
	case *openfgav1.Userset_Union:
		for _, c := range u.Union.GetChild() {
			out = append(out, arrowsOf(c, relation)...)
		}
	case *openfgav1.Userset_Intersection:
		for _, c := range u.Intersection.GetChild() {
			out = append(out, arrowsOf(c, relation)...)
		}
	case *openfgav1.Userset_Difference:
		out = append(arrowsOf(u.Difference.GetBase(), relation), arrowsOf(u.Difference.GetSubtract(), relation)...)
	}
	return out
}

// admitItself adds the relation's own userset to its type restrictions, with
// every condition, so that the mixed tuples are admitted.
func admitItself(meta *openfgav1.RelationMetadata, typ, relation string) {
	for _, condition := range []string{"", "small", "named", "both"} {
		meta.DirectlyRelatedUserTypes = append(meta.DirectlyRelatedUserTypes, &openfgav1.RelationReference{
			Type: typ, Condition: condition,
			RelationOrWildcard: &openfgav1.RelationReference_Relation{Relation: relation},
		})
	}
	meta.DirectlyRelatedUserTypes = distinct(meta.DirectlyRelatedUserTypes)
}

// distinctTuples keeps the first of each key.
func distinctTuples(tuples []*openfgav1.TupleKey) []*openfgav1.TupleKey {
	var out []*openfgav1.TupleKey
	seen := map[string]bool{}
	for _, t := range tuples {
		key := t.GetObject() + "#" + t.GetRelation() + "@" + t.GetUser()
		if !seen[key] {
			seen[key] = true
			out = append(out, t)
		}
	}
	return out
}
