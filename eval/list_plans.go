package eval

import (
	"maps"
	"sync/atomic"

	"github.com/ostiary/ostiary/schema"
)

// planCache caches a binding's plans. The map is immutable; adding a plan
// replaces it.
type planCache struct {
	known atomic.Pointer[map[planKey]*listPlan]
}

// plansMax bounds the plans that a binding caches. Further ones are planned
// for each question.
const plansMax = 1024

// planKey is everything that a plan depends on besides the binding.
type planKey struct {
	// target is the plan's target.
	target schema.RelationID
	// part is the part of a rewrite that is planned; nil for a relation.
	part *schema.Expr
	// kind is the subject's kind.
	kind schema.KindID
	// anyRelation is true if all memberships on the way are needed, and not
	// only the target's objects. Such a plan is not reduced.
	anyRelation bool
	// allOperands is as in planner.
	allOperands bool
}

// listPlan returns the plan of a relation, or of a part of its rewrite.
func (b *Binding) listPlan(key planKey) *listPlan {
	known := b.plans.known.Load()
	if known != nil {
		if p, ok := (*known)[key]; ok {
			return p
		}
	}
	var p *listPlan
	if key.part != nil {
		p = b.planOf(key.part, key.kind)
	} else {
		p = b.planFor(key.target, key.kind, key.allOperands)
	}
	if !key.anyRelation {
		p = p.reduced()
	}
	for known == nil || len(*known) < plansMax {
		more := map[planKey]*listPlan{key: p}
		if known != nil {
			maps.Copy(more, *known)
		}
		if b.plans.known.CompareAndSwap(known, &more) {
			break
		}
		known = b.plans.known.Load()
	}
	return p
}
