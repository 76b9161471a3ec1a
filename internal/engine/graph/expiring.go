package graph

import (
	"iter"

	"github.com/ostiary/ostiary/rel"
)

// Expiring returns the tuples that have an expiry, expired or not, in a stable
// order. It reads only the tuples that have a condition or an expiry.
func (v *View) Expiring() iter.Seq[rel.Tuple] {
	return func(yield func(rel.Tuple) bool) {
		v.details.Ascend(0, func(at uint64, d *Detail) bool {
			if d.Expires == 0 {
				return true
			}
			o, s := Node(at>>32), Node(at&(1<<32-1))
			return yield(rel.Tuple{Object: v.Object(o), Relation: v.KindName(v.KindOf(o)).Relation, Subject: v.Subject(s),
				Condition: d.Condition, Context: d.Context, Expires: d.Expires})
		})
	}
}
