package eval

import (
	"encoding/binary"
	"slices"

	"github.com/ostiary/ostiary/schema"
)

// reducer makes a plan that finds the same objects with fewer steps. Computed
// relations are followed beforehand, so that a membership is taken once and not
// by each of its names; relations from which the same leads on count as one; and
// of steps over the same tuples those are left that lead furthest.
type reducer struct {
	p    *plan
	ends []ending
	uses [][]use // by relation, computed ones followed
	all  int
}

// ending says whether a relation is the target, by computed ones.
type ending int8

const (
	endsNowhere ending = iota
	endsOpen           // below an intersection or exclusion
	endsSure
)

// reduceMax bounds the uses that a plan may have when it is reduced.
const reduceMax = 1 << 13

// reduced returns the reduced plan, or p if it is too large for that.
func (p *plan) reduced() *plan {
	r := reducer{p: p, ends: make([]ending, len(p.relations)), uses: make([][]use, len(p.relations))}
	for i := range p.relations {
		if r.follow(int32(i)); r.all > reduceMax {
			return p
		}
	}
	r.merge()
	r.drop()
	out := *p
	out.relations = slices.Clone(p.relations)
	for i := range out.relations {
		out.relations[i].uses, out.relations[i].ends = r.uses[i], r.ends[i]
	}
	return &out
}

// follow collects what a membership in relation i leads to without a hop, and
// the uses of all that.
func (r *reducer) follow(i int32) {
	const unseen, openly, surely = 0, 1, 2
	seen := make([]int8, len(r.p.relations))
	todo := []step{{relation: i}}
	seen[i] = surely
	for n := 0; n < len(todo); n++ { // grows while it is read
		at := todo[n]
		if at.open && seen[at.relation] == surely && at.relation != i {
			continue // found again, surely
		}
		for _, u := range r.p.relations[at.relation].uses {
			next := step{relation: u.to, open: at.open || u.open}
			how := int8(surely)
			if next.open {
				how = openly
			}
			if u.op == schema.OpComputed && seen[u.to] < how {
				seen[u.to] = how
				todo = append(todo, next)
			}
		}
	}
	r.ends[i] = endsNowhere
	for j, how := range seen {
		if how == unseen {
			continue
		}
		open := how == openly
		if j == 0 {
			r.ends[i] = endsSure
			if open {
				r.ends[i] = endsOpen
			}
		}
		for _, u := range r.p.relations[j].uses {
			if u.op != schema.OpComputed {
				u.open = u.open || open
				r.uses[i] = append(r.uses[i], u)
			}
		}
	}
	r.all += len(r.uses[i])
}

// merge lets uses lead to the first of all relations from which the same leads
// on, until no more are alike.
func (r *reducer) merge() {
	for {
		first := map[string]int32{}
		same := make([]int32, len(r.uses))
		for i := range r.uses {
			key := r.key(i)
			if _, ok := first[key]; !ok {
				first[key] = int32(i)
			}
			same[i] = first[key]
		}
		changed := false
		for i := range r.uses {
			for j := range r.uses[i] {
				u := &r.uses[i][j]
				changed = changed || same[u.to] != u.to
				u.to = same[u.to]
			}
			r.uses[i] = distinct(r.uses[i])
		}
		if !changed {
			return
		}
	}
}

// key is equal for relations that lead on to the same.
func (r *reducer) key(i int) string {
	uses := make([]string, len(r.uses[i]))
	for j := range r.uses[i] {
		uses[j] = string(r.uses[i][j].key())
	}
	slices.Sort(uses)
	key := []byte{byte(r.ends[i])}
	for _, u := range slices.Compact(uses) {
		key = binary.AppendUvarint(key, uint64(len(u)))
		key = append(key, u...)
	}
	return string(key)
}

// key is equal for uses over the same tuples that lead to the same relation.
func (u *use) key() []byte {
	key := binary.AppendUvarint(u.edges(), uint64(u.to))
	if u.open {
		return append(key, 1)
	}
	return append(key, 0)
}

// edges is equal for uses over the same tuples.
func (u *use) edges() []byte {
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

// distinct keeps one of equal uses.
func distinct(uses []use) []use {
	seen := map[string]bool{}
	return slices.DeleteFunc(uses, func(u use) bool {
		key := string(u.key())
		again := seen[key]
		seen[key] = true
		return again
	})
}

// drop removes uses beside which another over the same tuples leads to all that
// they lead to.
func (r *reducer) drop() {
	for i, uses := range r.uses {
		edges := make([]string, len(uses))
		gone := make([]bool, len(uses))
		for j := range uses {
			edges[j] = string(uses[j].edges())
		}
		for j := range uses {
			for k := range uses {
				if j != k && !gone[k] && edges[j] == edges[k] && (!uses[k].open || uses[j].open) && r.covers(uses[k].to, uses[j].to) {
					gone[j] = true
					break
				}
			}
		}
		kept := make([]use, 0, len(uses))
		for j := range uses {
			if !gone[j] {
				kept = append(kept, uses[j])
			}
		}
		r.uses[i] = kept
	}
}

// covers says whether relation a leads to all that b leads to. Uses that were
// dropped from a are covered by those that were not.
func (r *reducer) covers(a, b int32) bool {
	if r.ends[a] < r.ends[b] {
		return false
	}
	return !slices.ContainsFunc(r.uses[b], func(u use) bool {
		return !slices.ContainsFunc(r.uses[a], func(v use) bool {
			return v.to == u.to && (!v.open || u.open) && string(v.edges()) == string(u.edges())
		})
	})
}
