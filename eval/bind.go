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
	names words // of types: their numbers
	types []typeNames
	// anchors are, by type, the kinds that a node of the type's objects may have.
	anchors [][]graph.Kind
	// fails says that in a relation that the subject could have, the conditions
	// of all usersets and arrows count (schema.Options.MissingContextFails).
	fails  bool
	units  []unit
	unitOf map[*schema.Expr]int32 // operands of intersections and exclusions
	cyclic bool                   // a relation needs the equations
	plans  *plans                 // of lists
	// whole says that the reader knew every kind of the schema.
	whole bool
	mode  Mode
}

// typeNames finds a type's relations and kinds without going through its name
// again. Kinds that the reader does not know are 0.
type typeNames struct {
	relations   words // their numbers
	plain, wild schema.KindID
	star        graph.Kind // of wild
}

// words finds the number of a name among some that are known beforehand, in
// less time than a map takes where the name is of wordBytesMax bytes or less: it
// is compared as two numbers.
type words struct {
	slots []wordSlot // a power of two; at most half full
	more  map[string]int32
}

type wordSlot struct {
	key    wordKey // length 0 is free
	number int32
}

// wordKey is a short name: no two names have the same.
type wordKey struct {
	first, last uint64
	length      int
}

const (
	wordBytesMax = 16
	// wordsProbed is how many slots are looked at before the map is.
	wordsProbed = 8
)

// keyOf is the key of a name of 1 to wordBytesMax bytes.
func keyOf(s string) wordKey {
	n := len(s)
	switch {
	case n >= 8:
		return wordKey{eightBytes(s), eightBytes(s[n-8:]), n}
	case n >= 4:
		return wordKey{uint64(fourBytes(s)), uint64(fourBytes(s[n-4:])), n}
	}
	return wordKey{uint64(s[0]) | uint64(s[n/2])<<8, uint64(s[n-1]), n}
}

func eightBytes(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func fourBytes(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func (k *wordKey) home() int {
	h := (k.first ^ k.last<<29 ^ k.last>>35 ^ uint64(k.length)<<53) * 0x9e3779b97f4a7c15
	return int(h >> 40)
}

func newWords(n int) words {
	size := 4
	for size < 2*n {
		size *= 2
	}
	return words{slots: make([]wordSlot, size)}
}

func (w *words) add(name string, number int32) {
	if name != "" && len(name) <= wordBytesMax {
		key := keyOf(name)
		for i := range wordsProbed {
			if s := &w.slots[(key.home()+i)&(len(w.slots)-1)]; s.key.length == 0 {
				*s = wordSlot{key, number}
				return
			}
		}
	}
	if w.more == nil {
		w.more = map[string]int32{}
	}
	w.more[name] = number
}

func (w *words) find(name string) (int32, bool) {
	slots := w.slots
	if uint(len(name))-1 < wordBytesMax && len(slots) > 0 {
		key := keyOf(name)
		for i, home := 0, key.home(); i < wordsProbed; i++ {
			s := &slots[(home+i)&(len(slots)-1)]
			if s.key == key {
				return s.number, true
			}
			if s.key.length == 0 {
				return 0, false
			}
		}
	}
	n, ok := w.more[name]
	return n, ok
}

// Bind resolves the schema's kinds in r.
func Bind(s *schema.Schema, r Reader) *Binding {
	b := &Binding{s: s, whole: true, names: newWords(len(s.Types)), types: make([]typeNames, len(s.Types)),
		back: make(map[graph.Kind]schema.KindID, len(s.Kinds)), kinds: make([]graph.Kind, len(s.Kinds)),
		anchors: make([][]graph.Kind, len(s.Types)), plans: &plans{}}
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
		b.names.add(t.Name, int32(t.ID))
		b.types[t.ID] = typeNames{plain: t.Plain, wild: t.Wildcard, star: b.kinds[t.Wildcard]}
		b.anchor(t.ID, t.Plain)
		b.anchor(t.ID, t.Wildcard)
	}
	b.relationNames()
	for i := range s.Relations {
		if rel := &s.Relations[i]; !rel.Hidden {
			b.anchor(rel.Type, rel.Kind)
		}
	}
	b.fails = s.Options.MissingContextFails && len(s.Conditions) > 0
	b.unitsOf()
	return b
}

func (b *Binding) relationNames() {
	count := make([]int, len(b.types))
	for i := range b.s.Relations {
		count[b.s.Relations[i].Type]++
	}
	for t, n := range count {
		b.types[t].relations = newWords(n)
	}
	for i := range b.s.Relations {
		if r := &b.s.Relations[i]; !r.Hidden {
			b.types[r.Type].relations.add(r.Name, int32(r.ID))
		}
	}
}

func (b *Binding) anchor(t schema.TypeID, k schema.KindID) {
	if g := b.kinds[k]; g != 0 {
		b.anchors[t] = append(b.anchors[t], g)
	}
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

// GraphKind returns the number that the graph has for a kind of the schema, or 0
// if the graph did not know the kind when [Bind] was called.
func (b *Binding) GraphKind(k schema.KindID) graph.Kind { return b.kinds[k] }

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
	return b.typeNamed(b.s.Kinds[id].Type)
}

// typeNamed returns the number of a type, or None.
func (b *Binding) typeNamed(name string) schema.TypeID {
	if id, ok := b.names.find(name); ok {
		return schema.TypeID(id)
	}
	return schema.None
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
	t, ok := b.names.find(typ)
	if !ok {
		return schema.None, &NameError{ErrNoType, typ, ""}
	}
	id, ok := b.types[t].relations.find(name)
	if !ok {
		return schema.None, &NameError{ErrNoRelation, typ, name}
	}
	return schema.RelationID(id), nil
}

// subjectKind is schema.SubjectKind, but "*" is an id like any other where
// the schema says so. It returns the subject's type besides, and the kind of
// the node that stands for it.
func (b *Binding) subjectKind(sub *rel.Subject) (kind schema.KindID, t *typeNames, node graph.Kind) {
	id, ok := b.names.find(sub.Type)
	if !ok {
		return schema.None, nil, 0
	}
	t = &b.types[id]
	switch {
	case sub.Relation != "":
		id, ok := t.relations.find(sub.Relation)
		if !ok {
			return schema.None, t, 0
		}
		kind = b.s.Relations[id].Kind
	case sub.ID != rel.Wildcard:
		kind = t.plain
	case b.s.Options.StarIsOrdinary:
		return t.plain, t, t.star
	default:
		kind = t.wild
	}
	return kind, t, b.kind(kind)
}

// reaches says whether a relation need be looked at for a subject's kind. Where
// what is looked at can tell in the answer, a wildcard's is that of its objects.
func (b *Binding) reaches(id schema.RelationID, k schema.KindID) bool {
	if b.fails && k != schema.None && b.s.Kinds[k].Wildcard {
		k = b.types[b.typeNamed(b.s.Kinds[k].Type)].plain
	}
	return b.s.Relations[id].Reaches(k)
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
