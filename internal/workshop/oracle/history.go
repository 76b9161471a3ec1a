package oracle

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// History is a sequence of writes that leads to a world and continues after it.
type History struct {
	// Revisions[i] are the changes of revision i+1.
	Revisions [][]storage.Change
	// Present is the revision whose state is the world's.
	Present int
}

// State is the live data at a revision, computed by plain slices.
type State struct {
	// Tuples are the live tuples, including expired ones.
	Tuples []rel.Tuple
	// Attributes are the live attributes.
	Attributes []rel.Attribute
}

// Route returns a random history that reaches the state of w indirectly (it
// adds tuples and removes them again, replaces conditions, removes single
// tuples and by filter) and continues after it.
func Route(seed uint64, w *World) History {
	g := newGenerator(seed ^ 0x4157)
	g.w, g.ids = *w, 4
	var h History
	commit := func(changes []storage.Change) {
		if len(changes) > 0 {
			h.Revisions = append(h.Revisions, changes)
		}
	}
	commit(g.detour())
	commit(g.removals(stateAfter(h.Revisions)))
	state := stateAfter(h.Revisions)
	arrival := difference(state, State{w.Stored, w.Attributes})
	g.r.Shuffle(len(arrival), func(i, j int) { arrival[i], arrival[j] = arrival[j], arrival[i] })
	cut := 0
	if len(arrival) > 0 {
		cut = g.r.IntN(len(arrival))
	}
	commit(arrival[:cut])
	commit(arrival[cut:])
	h.Present = len(h.Revisions)
	for range 1 + g.r.IntN(3) {
		commit(append(g.removals(stateAfter(h.Revisions)), g.detour()...))
	}
	return h
}

// detour returns changes that add altered versions of the world's tuples, and
// other tuples.
func (g *generator) detour() []storage.Change {
	var all []storage.Change
	for _, t := range g.w.Stored {
		if g.chance(25) {
			all = append(all, storage.Change{Kind: storage.TupleAdd, Tuple: g.altered(t)})
		}
	}
	for range g.r.IntN(8) {
		if t, ok := g.tuple(); ok {
			all = append(all, storage.Change{Kind: storage.TupleAdd, Tuple: t})
		}
	}
	for _, a := range g.w.Attributes {
		if g.chance(25) {
			a.Value = pick(g, "true", "false", "4", "6", `"a"`)
			all = append(all, storage.Change{Kind: storage.AttributeSet, Attribute: a})
		}
	}
	return all
}

// removals returns changes that remove some tuples and attributes of s, singly
// and by filter.
func (g *generator) removals(s State) []storage.Change {
	var all []storage.Change
	for _, t := range s.Tuples {
		switch {
		case g.chance(20):
			all = append(all, storage.Change{Kind: storage.TupleRemove,
				Tuple: rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: t.Subject}})
		case g.chance(5):
			all = append(all, storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{
				Target: storage.FilterTuples, Tuple: g.filterFor(t)}})
		}
	}
	for _, a := range s.Attributes {
		switch {
		case g.chance(20):
			a.Value = ""
			all = append(all, storage.Change{Kind: storage.AttributeRemove, Attribute: a})
		case g.chance(5):
			all = append(all, storage.Change{Kind: storage.RemoveByFilter, Filter: storage.Filter{
				Target: storage.FilterAttributes, ObjectType: a.Object.Type, ObjectID: pick(g, a.Object.ID, ""),
				Name: pick(g, a.Name, "")}})
		}
	}
	return all
}

// filterFor returns a filter that selects t and perhaps others.
func (g *generator) filterFor(t rel.Tuple) rel.Filter {
	all := rel.Filter{
		ObjectType: t.Object.Type, ObjectID: t.Object.ID, Relation: t.Relation,
		SubjectType: t.Subject.Type, SubjectID: t.Subject.ID,
		SubjectRelation: t.Subject.Relation, SubjectPlain: t.Subject.Relation == "",
	}
	some := rel.Filter{}
	if g.chance(50) { // everything about an object
		some.ObjectType, some.ObjectID = all.ObjectType, all.ObjectID
	}
	if g.chance(50) {
		some.Relation = all.Relation
	}
	if g.chance(50) || some == (rel.Filter{}) { // everything about a subject
		some.SubjectType, some.SubjectID = all.SubjectType, all.SubjectID
		if g.chance(50) {
			some.SubjectRelation, some.SubjectPlain = all.SubjectRelation, all.SubjectPlain
		}
	}
	return some
}

// At returns the state after a revision; 0 is the empty store.
func (h History) At(revision int) State { return stateAfter(h.Revisions[:revision]) }

func stateAfter(revisions [][]storage.Change) State {
	var s State
	for _, changes := range revisions {
		for _, c := range changes {
			s.apply(c)
		}
	}
	return s
}

func (s *State) apply(c storage.Change) {
	switch c.Kind {
	case storage.TupleAdd, storage.TupleRemove:
		s.Tuples = slices.DeleteFunc(s.Tuples, func(t rel.Tuple) bool { return t.Key() == c.Tuple.Key() })
		if c.Kind == storage.TupleAdd {
			s.Tuples = append(s.Tuples, c.Tuple)
		}
	case storage.AttributeSet, storage.AttributeRemove:
		s.Attributes = slices.DeleteFunc(s.Attributes, func(a rel.Attribute) bool {
			return a.Object == c.Attribute.Object && a.Name == c.Attribute.Name
		})
		if c.Kind == storage.AttributeSet {
			s.Attributes = append(s.Attributes, c.Attribute)
		}
	case storage.RemoveByFilter:
		f := c.Filter
		if f.Target == storage.FilterTuples {
			s.Tuples = slices.DeleteFunc(s.Tuples, func(t rel.Tuple) bool { return f.Tuple.Match(t.Key()) })
		} else {
			any := func(want, got string) bool { return want == "" || want == got }
			s.Attributes = slices.DeleteFunc(s.Attributes, func(a rel.Attribute) bool {
				return any(f.ObjectType, a.Object.Type) && any(f.ObjectID, a.Object.ID) && any(f.Name, a.Name)
			})
		}
	}
}

// difference returns changes that lead from one state to another.
func difference(from, to State) []storage.Change {
	var all []storage.Change
	for _, t := range from.Tuples {
		if !slices.ContainsFunc(to.Tuples, func(x rel.Tuple) bool { return x.Key() == t.Key() }) {
			all = append(all, storage.Change{Kind: storage.TupleRemove,
				Tuple: rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: t.Subject}})
		}
	}
	for _, t := range to.Tuples {
		if !slices.Contains(from.Tuples, t) {
			all = append(all, storage.Change{Kind: storage.TupleAdd, Tuple: t})
		}
	}
	for _, a := range from.Attributes {
		same := func(x rel.Attribute) bool { return x.Object == a.Object && x.Name == a.Name }
		if !slices.ContainsFunc(to.Attributes, same) {
			a.Value = ""
			all = append(all, storage.Change{Kind: storage.AttributeRemove, Attribute: a})
		}
	}
	for _, a := range to.Attributes {
		if !slices.Contains(from.Attributes, a) {
			all = append(all, storage.Change{Kind: storage.AttributeSet, Attribute: a})
		}
	}
	return all
}

// sorted returns a sorted copy, so that states can be compared.
func (s State) sorted() State {
	out := State{slices.Clone(s.Tuples), slices.Clone(s.Attributes)}
	slices.SortFunc(out.Tuples, func(a, b rel.Tuple) int { return strings.Compare(a.String(), b.String()) })
	slices.SortFunc(out.Attributes, func(a, b rel.Attribute) int {
		return strings.Compare(a.Object.String()+"\x00"+a.Name, b.Object.String()+"\x00"+b.Name)
	})
	return out
}

// applyChanges applies changes to a batch, as a store applies an entry of its
// log.
func applyChanges(b *graph.Batch, changes []storage.Change) error {
	for _, c := range changes {
		var err error
		switch c.Kind {
		case storage.TupleAdd:
			err = b.Add(c.Tuple)
		case storage.TupleRemove:
			b.Remove(c.Tuple.Key())
		case storage.AttributeSet:
			err = b.SetAttribute(c.Attribute)
		case storage.AttributeRemove:
			b.RemoveAttribute(c.Attribute.Object, c.Attribute.Name)
		case storage.RemoveByFilter:
			if f := c.Filter; f.Target == storage.FilterTuples {
				b.RemoveMatching(f.Tuple)
			} else {
				b.RemoveAttributes(f.ObjectType, f.ObjectID, f.Name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
