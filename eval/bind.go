package eval

import (
	"slices"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Binding joins a schema to the kinds of a lineage of Readers: what is the
// same for every question is worked out here, once. It is safe for concurrent
// use, and good for every Reader of the lineage whose kinds are a superset of
// the first one's.
type Binding struct {
	s     *schema.Schema
	kinds []graph.Kind // by schema.KindID; 0 where the reader has no such kind
	back  map[graph.Kind]schema.KindID
	names map[string]*typeNames
	// anchors are, by type, the kinds that a node of the type's objects may have.
	anchors [][]graph.Kind
	// always marks, by relation, what no subject's kind makes needless to look
	// at; nil without schema.Options.MissingContextFails.
	always []bool
	units  []unit
	unitOf map[*schema.Expr]int32 // operands of intersections and exclusions
	cyclic bool                   // a relation needs the equations
	// whole says that the reader knew every kind of the schema.
	whole bool
	mode  Mode
}

// typeNames finds a type's relations without going through its name again.
type typeNames struct {
	id        schema.TypeID
	relations map[string]schema.RelationID
}

// Bind resolves the schema's kinds in r.
func Bind(s *schema.Schema, r Reader) *Binding {
	b := &Binding{s: s, whole: true, names: make(map[string]*typeNames, len(s.Types)),
		back: make(map[graph.Kind]schema.KindID, len(s.Kinds)), kinds: make([]graph.Kind, len(s.Kinds)),
		anchors: make([][]graph.Kind, len(s.Types))}
	for i, k := range s.Kinds {
		g, ok := r.Kind(graph.KindName{Type: k.Type, Relation: k.Relation, Wildcard: k.Wildcard})
		if !ok {
			b.whole = false
			continue
		}
		b.kinds[i] = g
		b.back[g] = schema.KindID(i)
	}
	for i := range s.Types {
		t := &s.Types[i]
		b.names[t.Name] = &typeNames{id: t.ID, relations: map[string]schema.RelationID{}}
		b.anchor(t.ID, t.Plain)
		b.anchor(t.ID, t.Wildcard)
	}
	for i := range s.Relations {
		rel := &s.Relations[i]
		if !rel.Hidden {
			b.names[s.Types[rel.Type].Name].relations[rel.Name] = rel.ID
			b.anchor(rel.Type, rel.Kind)
		}
	}
	b.always = alwaysAsked(s)
	b.unitsOf()
	return b
}

func (b *Binding) anchor(t schema.TypeID, k schema.KindID) {
	if g := b.kinds[k]; g != 0 {
		b.anchors[t] = append(b.anchors[t], g)
	}
}

// alwaysAsked marks relations that must be evaluated for every subject,
// because an edge whose condition lacks context makes them unknown for all
// (schema.Options.MissingContextFails). It is nil without that option.
func alwaysAsked(s *schema.Schema) []bool {
	if !s.Options.MissingContextFails {
		return nil
	}
	always := make([]bool, len(s.Relations))
	var holds func(e *schema.Expr) bool
	holds = func(e *schema.Expr) bool {
		switch e.Op {
		case schema.OpDirect:
			for i := range e.Direct {
				x := &e.Direct[i]
				if x.Relation != schema.None && (len(x.Conditions) > 0 || always[x.Relation]) {
					return true
				}
			}
		case schema.OpComputed:
			return always[e.Relation]
		case schema.OpArrow:
			for i := range e.Via {
				if len(e.Via[i].Conditions) > 0 || always[e.Via[i].Target] {
					return true
				}
			}
			return len(deadEnds(s, e)) > 0
		}
		for _, ch := range e.Children {
			if holds(ch) {
				return true
			}
		}
		return false
	}
	for changed := true; changed; {
		changed = false
		for i := range s.Relations {
			if !always[i] && holds(s.Relations[i].Expr) {
				always[i], changed = true, true
			}
		}
	}
	return always
}

// deadEnds are the conditioned restrictions of an arrow's first relation that
// lead nowhere, because the type lacks the target. With MissingContextFails
// their tuples still count where their conditions lack context.
func deadEnds(s *schema.Schema, e *schema.Expr) []*schema.Restriction {
	var ends []*schema.Restriction
	all := s.Relations[e.Relation].Restrictions
	for i := range all {
		x := &all[i]
		leads := slices.ContainsFunc(e.Via, func(v schema.Via) bool { return v.Kind == x.Kind })
		if len(x.Conditions) > 0 && !leads && (!s.Kinds[x.Kind].Wildcard || s.Options.StarIsOrdinary) {
			ends = append(ends, x)
		}
	}
	return ends
}

// Schema returns the schema that b binds.
func (b *Binding) Schema() *schema.Schema { return b.s }

// kind returns the number that the lineage gives a kind of the schema, or 0.
func (b *Binding) kind(k schema.KindID) graph.Kind {
	if k < 0 {
		return 0
	}
	return b.kinds[k]
}

// kindID returns the schema's number for a kind, or None.
func (b *Binding) kindID(k graph.Kind) schema.KindID {
	if id, ok := b.back[k]; ok {
		return id
	}
	return schema.None
}

// typeOf returns the type of a node's object, or None.
func (b *Binding) typeOf(k graph.Kind) schema.TypeID {
	id := b.kindID(k)
	if id == schema.None {
		return schema.None
	}
	return b.names[b.s.Kinds[id].Type].id
}

// bound is b, or b bound anew where r has contextual tuples of kinds that the
// lineage did not know.
func (b *Binding) bound(r Reader) *Binding {
	if b.whole {
		return b
	}
	if _, ok := r.(*overlay); !ok {
		return b
	}
	return Bind(b.s, r).Force(b.mode)
}

// relation finds what a question asks for.
func (b *Binding) relation(typ, name string) (schema.RelationID, error) {
	t, ok := b.names[typ]
	if !ok {
		return schema.None, &NameError{ErrNoType, typ, ""}
	}
	id, ok := t.relations[name]
	if !ok {
		return schema.None, &NameError{ErrNoRelation, typ, name}
	}
	return id, nil
}

// subjectKind is schema.SubjectKind, but "*" is an id like any other where
// the schema says so.
func (b *Binding) subjectKind(sub *rel.Subject) schema.KindID {
	t, ok := b.names[sub.Type]
	if !ok {
		return schema.None
	}
	if sub.Relation != "" {
		id, ok := t.relations[sub.Relation]
		if !ok {
			return schema.None
		}
		return b.s.Relations[id].Kind
	}
	if sub.ID == rel.Wildcard && !b.s.Options.StarIsOrdinary {
		return b.s.Types[t.id].Wildcard
	}
	return b.s.Types[t.id].Plain
}

// reaches says whether a relation need be looked at for a subject's kind.
func (b *Binding) reaches(id schema.RelationID, k schema.KindID) bool {
	return b.s.Relations[id].Reaches(k) || b.always != nil && b.always[id]
}

// NameError is a question about a type or relation that the schema does not
// have. It wraps ErrNoType or ErrNoRelation.
type NameError struct {
	Err            error
	Type, Relation string
}

func (e *NameError) Error() string {
	if e.Relation == "" {
		return e.Err.Error() + ": " + e.Type
	}
	return e.Err.Error() + ": " + e.Type + "#" + e.Relation
}

// Unwrap returns the kind.
func (e *NameError) Unwrap() error { return e.Err }

// Mode forces one way of evaluation where several lead to the same answer. It
// is there for tests of exactly that.
type Mode uint8

const (
	// ModeAuto chooses by cost.
	ModeAuto Mode = iota
	// ModeSolver builds and solves the whole system of equations.
	ModeSolver
	// ModeForward only walks from the object.
	ModeForward
	// ModeBackward prefers the walk from the subject wherever there is one.
	ModeBackward
	// ModeShuffled is the walk from the object, each list and operand backwards.
	ModeShuffled
)

// Force returns a Binding like b that evaluates in one way only; for tests.
func (b *Binding) Force(m Mode) *Binding {
	f := *b
	f.mode = m
	return &f
}
