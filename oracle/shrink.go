package oracle

import (
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Shrink makes a failing world smaller as long as the law still fails on it:
// one question, then fewer tuples, values, relations, types and operators. It
// returns the smallest bench and its failure.
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

type shrinker struct {
	best    *Bench
	failure *Failure
	law     Law
}

// try takes a world in place of the best one if the law fails there too.
func (s *shrinker) try(w World, questions []Question) bool {
	b, err := NewBench(s.best.Seed, w, questions, nil)
	if err != nil {
		return false
	}
	for _, q := range questions {
		if b.Oracle.relation(q.Object.Type, q.Relation) == nil {
			return false // another failure, that of an unknown name
		}
	}
	f := s.law.try(b)
	if f == nil {
		return false
	}
	s.best, s.failure = b, f
	return true
}

// dropped tries without each element in turn, from the end, larger parts
// first, and says whether any could go.
func dropped[T any](s *shrinker, of func(*World) *[]T) bool {
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
	return dropped(s, func(w *World) *[]rel.Tuple { return &w.Contextual })
}

func (s *shrinker) stored() bool {
	return dropped(s, func(w *World) *[]rel.Tuple { return &w.Stored })
}

func (s *shrinker) values() bool {
	a := dropped(s, func(w *World) *[]rel.Attribute { return &w.Attributes })
	return dropped(s, func(w *World) *[]rel.Attribute { return &w.ContextualAttributes }) || a
}

// request drops parts of the context.
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

// details drops expiries and stored contexts, and moves contextual tuples
// into the store.
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
	any := dropped(s, func(w *World) *[]schema.TypeDef { return &w.Model.Types })
	any = dropped(s, func(w *World) *[]expr.Definition { return &w.Model.Conditions }) || any
	for i := 0; i < len(s.best.World.Model.Types); i++ {
		typ := func(w *World) *schema.TypeDef {
			w.Model.Types = slices.Clone(w.Model.Types)
			return &w.Model.Types[i]
		}
		any = dropped(s, func(w *World) *[]schema.RelationDef { return &typ(w).Relations }) || any
		any = dropped(s, func(w *World) *[]schema.AttributeDef { return &typ(w).Attributes }) || any
		for j := 0; j < len(s.best.World.Model.Types[i].Relations); j++ {
			any = dropped(s, func(w *World) *[]schema.SubjectType {
				t := typ(w)
				t.Relations = slices.Clone(t.Relations)
				return &t.Relations[j].Subjects
			}) || any
		}
	}
	return any
}

// rewrites puts a smaller rewrite in place of each relation's.
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

// smallerRewrites are r with one operator replaced by one of its operands, or
// with one operand less.
func smallerRewrites(r schema.Rewrite) []schema.Rewrite {
	var all []schema.Rewrite
	if r.Op != schema.OpArrow { // what stands under an arrow is read elsewhere
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
