package eval

import (
	"encoding/binary"
	"slices"

	"github.com/ostiary/ostiary/schema"
)

// reducer makes an equivalent plan with fewer steps:
//   - Computed relations are followed in advance, so that a membership is visited
//     once and not once per name.
//   - Relations from which the same steps lead on become one.
//   - Of several steps over the same tuples, those that another one covers are
//     dropped.
type reducer struct {
	// p is the plan to reduce.
	p *listPlan
	// targets are, by relation, whether it is the target.
	targets []targetKind
	// steps are, by relation, its steps with computed relations followed.
	steps [][]planStep
	// stepsTotal is the number of all steps.
	stepsTotal int
}

// targetKind is whether a membership in a relation is also one in the target,
// by computed relations.
type targetKind int8

const (
	// notTarget means that it is not.
	notTarget targetKind = iota
	// uncertainTarget means that it may be, below an intersection or an
	// exclusion.
	uncertainTarget
	// certainTarget means that it is.
	certainTarget
)

// reduceStepsMax bounds the steps of a plan that is reduced.
const reduceStepsMax = 1 << 13

// reduced returns the reduced plan, or p if it is too large.
func (p *listPlan) reduced() *listPlan {
	r := reducer{p: p, targets: make([]targetKind, len(p.relations)), steps: make([][]planStep, len(p.relations))}
	for i := range p.relations {
		if r.followComputed(int32(i)); r.stepsTotal > reduceStepsMax {
			return p
		}
	}
	r.mergeRelations()
	r.dropCovered()
	out := *p
	out.relations = slices.Clone(p.relations)
	for i := range out.relations {
		out.relations[i].steps, out.relations[i].target = r.steps[i], r.targets[i]
	}
	return &out
}

// followComputed collects the relations that a membership in relation i leads
// to without a hop, and the steps from all of them.
func (r *reducer) followComputed(i int32) {
	const unseen, uncertainly, certainly = 0, 1, 2
	seen := make([]int8, len(r.p.relations))
	todo := []step{{relation: i}}
	seen[i] = certainly
	for n := 0; n < len(todo); n++ { // the loop appends to todo
		at := todo[n]
		if at.uncertain && seen[at.relation] == certainly && at.relation != i {
			continue // it was found again as certain
		}
		for _, u := range r.p.relations[at.relation].steps {
			next := step{relation: u.to, uncertain: at.uncertain || u.uncertain}
			how := int8(certainly)
			if next.uncertain {
				how = uncertainly
			}
			if u.op == schema.OpComputed && seen[u.to] < how {
				seen[u.to] = how
				todo = append(todo, next)
			}
		}
	}
	r.targets[i] = notTarget
	for j, how := range seen {
		if how == unseen {
			continue
		}
		uncertain := how == uncertainly
		if j == 0 {
			r.targets[i] = certainTarget
			if uncertain {
				r.targets[i] = uncertainTarget
			}
		}
		for _, u := range r.p.relations[j].steps {
			if u.op != schema.OpComputed {
				u.uncertain = u.uncertain || uncertain
				r.steps[i] = append(r.steps[i], u)
			}
		}
	}
	r.stepsTotal += len(r.steps[i])
}

// mergeRelations redirects steps to the first of all relations from which the
// same steps lead on, until no two are alike.
func (r *reducer) mergeRelations() {
	for {
		first := map[string]int32{}
		same := make([]int32, len(r.steps))
		for i := range r.steps {
			key := r.key(i)
			if _, ok := first[key]; !ok {
				first[key] = int32(i)
			}
			same[i] = first[key]
		}
		changed := false
		for i := range r.steps {
			for j := range r.steps[i] {
				u := &r.steps[i][j]
				changed = changed || same[u.to] != u.to
				u.to = same[u.to]
			}
			r.steps[i] = distinct(r.steps[i])
		}
		if !changed {
			return
		}
	}
}

// key returns the same text for relations from which the same steps lead on.
func (r *reducer) key(i int) string {
	uses := make([]string, len(r.steps[i]))
	for j := range r.steps[i] {
		uses[j] = string(r.steps[i][j].key())
	}
	slices.Sort(uses)
	key := []byte{byte(r.targets[i])}
	for _, u := range slices.Compact(uses) {
		key = binary.AppendUvarint(key, uint64(len(u)))
		key = append(key, u...)
	}
	return string(key)
}

// key returns the same bytes for steps over the same tuples to the same
// relation.
func (u *planStep) key() []byte {
	key := binary.AppendUvarint(u.tuplesKey(), uint64(u.to))
	if u.uncertain {
		return append(key, 1)
	}
	return append(key, 0)
}

// tuplesKey returns the same bytes for steps over the same tuples.
func (u *planStep) tuplesKey() []byte {
	key := binary.AppendUvarint([]byte{byte(u.op)}, uint64(u.reads))
	key = binary.AppendUvarint(key, uint64(len(u.from)))
	for _, k := range u.from {
		key = binary.AppendUvarint(key, uint64(k))
	}
	key = binary.AppendVarint(key, int64(u.by.Kind))
	if u.by.Bare {
		key = append(key, 1)
	} else {
		key = append(key, 0)
	}
	for _, c := range u.by.Conditions {
		key = binary.AppendUvarint(key, uint64(len(c)))
		key = append(key, c...)
	}
	return binary.AppendUvarint(key, 0)
}

// distinct keeps one of equal steps.
func distinct(uses []planStep) []planStep {
	seen := map[string]bool{}
	return slices.DeleteFunc(uses, func(u planStep) bool {
		key := string(u.key())
		again := seen[key]
		seen[key] = true
		return again
	})
}

// dropCovered removes a step if another one over the same tuples leads to
// everything that it leads to.
func (r *reducer) dropCovered() {
	for i, uses := range r.steps {
		edges := make([]string, len(uses))
		gone := make([]bool, len(uses))
		for j := range uses {
			edges[j] = string(uses[j].tuplesKey())
		}
		for j := range uses {
			for k := range uses {
				if j != k && !gone[k] && edges[j] == edges[k] && (!uses[k].uncertain || uses[j].uncertain) && r.covers(uses[k].to, uses[j].to) {
					gone[j] = true
					break
				}
			}
		}
		kept := make([]planStep, 0, len(uses))
		for j := range uses {
			if !gone[j] {
				kept = append(kept, uses[j])
			}
		}
		r.steps[i] = kept
	}
}

// covers reports whether relation a leads to everything that b leads to. Steps
// that were dropped from a are covered by those that stayed.
func (r *reducer) covers(a, b int32) bool {
	if r.targets[a] < r.targets[b] {
		return false
	}
	return !slices.ContainsFunc(r.steps[b], func(u planStep) bool {
		return !slices.ContainsFunc(r.steps[a], func(v planStep) bool {
			return v.to == u.to && (!v.uncertain || u.uncertain) && string(v.tuplesKey()) == string(u.tuplesKey())
		})
	})
}
