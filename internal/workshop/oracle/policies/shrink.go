package policies

import (
	"slices"

	"github.com/ostiary/ostiary/policy"
)

// shrinkTriesMax is the largest number of smaller worlds that shrink tries.
const shrinkTriesMax = 20_000

// shrink drops parts of a world as long as the law still fails, until no part can
// be dropped, and returns what is left with its problem.
func shrink(w *World, law Law) (*World, string) {
	problem := law.try(w, &Coverage{})
	isRejected := rejected(problem)
	changed := false
	for i, tries := 0, 0; tries < shrinkTriesMax; tries++ {
		small := w.clone()
		edits := small.edits()
		if i >= len(edits) {
			if !changed {
				break
			}
			i, changed = 0, false
			continue
		}
		edits[i]()
		if p := law.try(small, &Coverage{}); p != "" && rejected(p) == isRejected {
			w, problem, changed = small, p, true
			continue // the next part is at the same place now
		}
		i++
	}
	return w, problem
}

// clone returns a copy of the world that shares nothing that edits change.
func (w *World) clone() *World {
	out := *w
	out.plan, out.problem = nil, ""
	same := map[*policy.Policy]*policy.Policy{}
	out.Root = cloneElement(w.Root, same)
	out.Library, out.Requests, out.Changes = nil, nil, nil
	for _, e := range w.Library {
		out.Library = append(out.Library, cloneElement(e, same))
	}
	for _, r := range w.Requests {
		q := *r
		q.Categories = slices.Clone(r.Categories)
		for i := range q.Categories {
			c := &q.Categories[i]
			c.Attributes = slices.Clone(c.Attributes)
			for j := range c.Attributes {
				c.Attributes[j].Values = slices.Clone(c.Attributes[j].Values)
			}
		}
		out.Requests = append(out.Requests, &q)
	}
	for _, c := range w.Changes {
		old := same[c.Old]
		if old == nil {
			old = c.Old
		}
		out.Changes = append(out.Changes, Change{old, cloneElement(c.New, map[*policy.Policy]*policy.Policy{}).(*policy.Policy)})
	}
	return &out
}

// cloneElement copies an element, and notes the copies of policies.
func cloneElement(e policy.Element, same map[*policy.Policy]*policy.Policy) policy.Element {
	switch e := e.(type) {
	case *policy.Policy:
		p := *e
		p.Target, p.Variables = cloneTarget(p.Target), slices.Clone(p.Variables)
		p.Obligations, p.Advice = cloneDuties(p.Obligations), cloneDuties(p.Advice)
		p.Rules = slices.Clone(p.Rules)
		for i := range p.Rules {
			r := &p.Rules[i]
			r.Target, r.Obligations, r.Advice = cloneTarget(r.Target), cloneDuties(r.Obligations), cloneDuties(r.Advice)
		}
		same[e] = &p
		return &p
	case *policy.PolicySet:
		s := *e
		s.Target, s.Children = cloneTarget(s.Target), slices.Clone(s.Children)
		s.Obligations, s.Advice = cloneDuties(s.Obligations), cloneDuties(s.Advice)
		for i := range s.Children {
			s.Children[i] = cloneElement(s.Children[i], same)
		}
		return &s
	}
	return e
}

func cloneTarget(t policy.Target) policy.Target {
	t = slices.Clone(t)
	for i := range t {
		t[i] = slices.Clone(t[i])
		for j := range t[i] {
			t[i][j] = slices.Clone(t[i][j])
		}
	}
	return t
}

func cloneDuties(list []policy.Obligation) []policy.Obligation {
	list = slices.Clone(list)
	for i := range list {
		list[i].Assignments = slices.Clone(list[i].Assignments)
	}
	return list
}

// edits are changes that make a world smaller.
type edits []func()

// drop adds one edit for each member of a list, which removes it.
func drop[T any](e *edits, list *[]T) {
	for i := range *list {
		*e = append(*e, func() { *list = slices.Delete(*list, i, i+1) })
	}
}

// edits returns the changes that make a world smaller, the largest ones first.
func (w *World) edits() []func() {
	var e edits
	drop(&e, &w.Requests)
	drop(&e, &w.Changes)
	drop(&e, &w.Library)
	if w.Source != nil {
		e = append(e, func() { w.Source = nil })
	}
	if s, ok := w.Root.(*policy.PolicySet); ok {
		for _, child := range s.Children {
			e = append(e, func() { w.Root = w.resolve(child) })
		}
	}
	e.element(w.Root)
	for _, m := range w.Library {
		e.element(m)
	}
	for i := range w.Changes {
		e.element(w.Changes[i].New)
	}
	for _, r := range w.Requests {
		drop(&e, &r.References)
		drop(&e, &r.Categories)
		for i := range r.Categories {
			c := &r.Categories[i]
			drop(&e, &c.Attributes)
			for j := range c.Attributes {
				if len(c.Attributes[j].Values) > 1 {
					drop(&e, &c.Attributes[j].Values)
				}
			}
		}
	}
	return e
}

// element adds the edits of an element.
func (e *edits) element(x policy.Element) {
	switch x := x.(type) {
	case *policy.PolicySet:
		drop(e, &x.Children)
		e.target(&x.Target)
		e.duties(&x.Obligations)
		e.duties(&x.Advice)
		for _, child := range x.Children {
			e.element(child)
		}
	case *policy.Policy:
		drop(e, &x.Rules)
		drop(e, &x.Variables)
		e.target(&x.Target)
		e.duties(&x.Obligations)
		e.duties(&x.Advice)
		for i := range x.Rules {
			r := &x.Rules[i]
			if r.Condition != nil {
				*e = append(*e, func() { r.Condition = nil })
				e.expression(&r.Condition)
			}
			e.target(&r.Target)
			e.duties(&r.Obligations)
			e.duties(&r.Advice)
		}
	}
}

// expression adds edits that replace a call by one of its arguments.
func (e *edits) expression(x *policy.Expression) {
	if call, ok := (*x).(*policy.Apply); ok {
		for _, argument := range call.Arguments {
			*e = append(*e, func() { *x = argument })
		}
	}
}

// target adds the edits of a target.
func (e *edits) target(t *policy.Target) {
	drop(e, (*[]policy.AnyOf)(t))
	for i := range *t {
		if len((*t)[i]) > 1 {
			drop(e, (*[]policy.AllOf)(&(*t)[i]))
		}
		for j := range (*t)[i] {
			if len((*t)[i][j]) > 1 {
				drop(e, (*[]policy.Match)(&(*t)[i][j]))
			}
		}
	}
}

// duties adds the edits of obligations or advice.
func (e *edits) duties(list *[]policy.Obligation) {
	drop(e, list)
	for i := range *list {
		drop(e, &(*list)[i].Assignments)
	}
}
