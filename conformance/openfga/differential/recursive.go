package differential

import (
	"strings"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/proto"
)

// recursiveMix is the world as their recursive strategy sees it: where a
// relation names itself among its usersets ("r: [group#r, group#other]"), it
// follows every userset of that type as if it were the relation itself. It
// is nil where that changes no tuple.
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
	changed := false
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
