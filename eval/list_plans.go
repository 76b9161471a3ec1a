package eval

import (
	"maps"
	"sync/atomic"

	"github.com/ostiary/ostiary/schema"
)

// plans are a binding's plans, as far as they were asked for: an immutable map,
// replaced to add one.
type plans struct {
	known atomic.Pointer[map[planKey]*plan]
}

// plansMax bounds the plans that a binding keeps; what is asked beyond it is
// planned for its question alone.
const plansMax = 1024

// planKey is everything that a plan depends on besides the binding.
type planKey struct {
	target schema.RelationID
	part   *schema.Expr // of planOf; nil for a relation's plan
	kind   schema.KindID
	way    bool // for what leads to the target
	whole  bool
}

// planned returns the plan of a relation, or of a part of its rewrite.
func (b *Binding) planned(key planKey) *plan {
	known := b.plans.known.Load()
	if known != nil {
		if p, ok := (*known)[key]; ok {
			return p
		}
	}
	var p *plan
	if key.part != nil {
		p = b.planOf(key.part, key.kind)
	} else {
		p = b.planFor(key.target, key.kind, key.whole)
	}
	if !key.way {
		p = p.reduced()
	}
	for known == nil || len(*known) < plansMax {
		more := map[planKey]*plan{key: p}
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
