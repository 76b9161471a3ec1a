package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Shrink makes a failing world smaller as long as the law still fails: first it
// reduces the questions to one, then it drops tuples, values, relations, types
// and operators. It returns the smallest bench and its failure.
func Shrink(b *Bench, law Law, f *Failure) (*Bench, *Failure) {
	s := shrinker{best: b, failure: f, law: law}
	for _, q := range b.Questions {
		if s.try(b.World, []Question{q}) {
			break
		}
	}
	for again := true; again; {
		again = false
		for _, step := range []func() bool{s.contextual, s.stored, s.values, s.request, s.details, s.model, s.options, s.rewrites} {
			for step() {
				again = true
			}
		}
	}
	return s.best, s.failure
}

// shrinker holds the smallest failing world so far.
type shrinker struct {
	best    *Bench
	failure *Failure
	law     Law
}

// try replaces the best world by w if the law fails on w as well.
func (s *shrinker) try(w World, questions []Question) bool {
	b, err := NewBench(s.best.Seed, w, questions, nil)
	if err != nil {
		return false
	}
	for _, q := range questions {
		if b.Oracle.relation(q.Object.Type, q.Relation) == nil {
			return false // the law would fail for another reason: an unknown name
		}
	}
	f := s.law.try(b)
	if f == nil {
		return false
	}
	s.best, s.failure = b, f
	return true
}

// dropElements tries the world without parts of a slice, larger parts first and
// from the end. It reports whether it could drop any.
func dropElements[T any](s *shrinker, of func(*World) *[]T) bool {
	any := false
	for size := len(*of(&s.best.World)) / 2; size >= 1; size /= 2 {
		for i := len(*of(&s.best.World)) - size; i >= 0; i -= size {
			w := s.best.World
			all := of(&w)
			*all = append(slices.Clone((*all)[:i]), (*all)[i+size:]...)
			any = s.try(w, s.best.Questions) || any
			i = min(i, len(*of(&s.best.World)))
		}
	}
	if len(*of(&s.best.World)) == 1 {
		w := s.best.World
		*of(&w) = nil
		any = s.try(w, s.best.Questions) || any
	}
	return any
}

func (s *shrinker) contextual() bool {
	return dropElements(s, func(w *World) *[]rel.Tuple { return &w.Contextual })
}

func (s *shrinker) stored() bool {
	return dropElements(s, func(w *World) *[]rel.Tuple { return &w.Stored })
}

func (s *shrinker) values() bool {
	a := dropElements(s, func(w *World) *[]rel.Attribute { return &w.Attributes })
	return dropElements(s, func(w *World) *[]rel.Attribute { return &w.ContextualAttributes }) || a
}

// request drops values of the request's context.
func (s *shrinker) request() bool {
	any := false
	for name := range s.best.World.Context {
		w := s.best.World
		w.Context = expr.Values{}
		for n, v := range s.best.World.Context {
			if n != name {
				w.Context[n] = v
			}
		}
		any = s.try(w, s.best.Questions) || any
	}
	return any
}

// details drops expiries, stored contexts and conditions of stored tuples.
func (s *shrinker) details() bool {
	any := false
	for i := range s.best.World.Stored {
		for _, change := range []func(*rel.Tuple){
			func(t *rel.Tuple) { t.Expires = 0 },
			func(t *rel.Tuple) { t.Context = "" },
			func(t *rel.Tuple) { t.Condition, t.Context = "", "" },
		} {
			w := s.best.World
			w.Stored = slices.Clone(w.Stored)
			if change(&w.Stored[i]); w.Stored[i] != s.best.World.Stored[i] {
				any = s.try(w, s.best.Questions) || any
			}
		}
	}
	return any
}

func (s *shrinker) options() bool {
	any := false
	w := s.best.World
	for _, on := range options(&w.Model.Options) {
		if *on {
			*on = false
			any = s.try(w, s.best.Questions) || any
			*on = true
		}
	}
	return any
}

// model drops types, relations, restrictions and conditions.
func (s *shrinker) model() bool {
	any := dropElements(s, func(w *World) *[]schema.TypeDef { return &w.Model.Types })
	any = dropElements(s, func(w *World) *[]expr.Definition { return &w.Model.Conditions }) || any
	for i := 0; i < len(s.best.World.Model.Types); i++ {
		typ := func(w *World) *schema.TypeDef {
			w.Model.Types = slices.Clone(w.Model.Types)
			return &w.Model.Types[i]
		}
		any = dropElements(s, func(w *World) *[]schema.RelationDef { return &typ(w).Relations }) || any
		any = dropElements(s, func(w *World) *[]schema.AttributeDef { return &typ(w).Attributes }) || any
		for j := 0; j < len(s.best.World.Model.Types[i].Relations); j++ {
			any = dropElements(s, func(w *World) *[]schema.SubjectType {
				t := typ(w)
				t.Relations = slices.Clone(t.Relations)
				return &t.Relations[j].Subjects
			}) || any
		}
	}
	return any
}

// rewrites replaces the rewrite of each relation by a smaller one.
func (s *shrinker) rewrites() bool {
	any := false
	for i := range s.best.World.Model.Types {
		for j := range s.best.World.Model.Types[i].Relations {
			for _, smaller := range smallerRewrites(s.best.World.Model.Types[i].Relations[j].Rewrite) {
				w := s.best.World
				w.Model.Types = slices.Clone(w.Model.Types)
				t := &w.Model.Types[i]
				t.Relations = slices.Clone(t.Relations)
				r := &t.Relations[j]
				if r.Rewrite = smaller; !holdsDirect(smaller) {
					r.Subjects = nil
				}
				if s.try(w, s.best.Questions) {
					any = true
					break
				}
			}
		}
	}
	return any
}

// smallerRewrites returns r with one operator replaced by one of its operands,
// and r with one operand less.
func smallerRewrites(r schema.Rewrite) []schema.Rewrite {
	var all []schema.Rewrite
	if r.Op != schema.OpArrow { // a child of an arrow is about another object
		all = append(all, r.Children...)
	}
	for i, c := range r.Children {
		if len(r.Children) > 2 {
			less := r
			less.Children = append(slices.Clone(r.Children[:i]), r.Children[i+1:]...)
			all = append(all, less)
		}
		for _, smaller := range smallerRewrites(c) {
			other := r
			other.Children = slices.Clone(r.Children)
			other.Children[i] = smaller
			all = append(all, other)
		}
	}
	return all
}
