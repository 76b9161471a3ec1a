package function

import (
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Set is a set of functions. It is immutable.
type Set struct {
	byID map[string]*Function
}

// Find returns the function with the id.
func (s *Set) Find(id string) (*Function, bool) {
	f, ok := s.byID[id]
	return f, ok
}

// With returns a set that has the functions of s and extra. It fails if an id
// comes twice or if a function has not exactly one of Call, Lazy and Bind.
func (s *Set) With(extra ...*Function) (*Set, error) {
	all := make(map[string]*Function, len(s.byID)+len(extra))
	maps.Copy(all, s.byID)
	for _, f := range extra {
		if _, exists := all[f.ID]; exists {
			return nil, fmt.Errorf("function %q is defined twice: expected distinct ids", f.ID)
		}
		if forms := count(f.Call != nil, f.Lazy != nil, f.Bind != nil); forms != 1 {
			return nil, fmt.Errorf("function %q has %d of Call, Lazy and Bind: expected one", f.ID, forms)
		}
		all[f.ID] = f
	}
	return &Set{byID: all}, nil
}

// count returns how many of the conditions are true.
func count(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// All returns the functions in the order of their ids.
func (s *Set) All() iter.Seq[*Function] {
	return func(yield func(*Function) bool) {
		for _, id := range slices.Sorted(maps.Keys(s.byID)) {
			if !yield(s.byID[id]) {
				return
			}
		}
	}
}
