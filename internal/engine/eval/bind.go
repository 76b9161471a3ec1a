package eval

import (
	"slices"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Binding joins a schema to the kinds of a lineage of Readers. Everything that
// is the same for all questions is computed once and kept here. It is safe for
// concurrent use, and valid for every Reader of the lineage that has at least
// the kinds of the first one.
type Binding struct {
	// s is the schema.
	s *schema.Schema
	// kinds are the reader's kinds, by schema.KindID; 0 where the reader has
	// none.
	kinds []graph.Kind
	// kindIDs is the reverse of kinds.
	kindIDs map[graph.Kind]schema.KindID
	// typeNumbers finds a type's number by its name.
	typeNumbers nameTable
	// types are by schema.TypeID.
	types []typeNames
	// objectKinds are, by schema.TypeID, the kinds that a node of the type's
	// objects may have.
	objectKinds [][]graph.Kind
	// missingFails is true if the conditions of all usersets and arrows count
	// in a relation that the subject could have
	// (schema.Options.MissingContextFails, in a schema with conditions).
	missingFails bool
	// certain is the same binding without missingFails; nil where that is not
	// set. It finds the allows that missing context cannot take back.
	certain *Binding
	// units are what searches decide. unitOf finds those of operands.
	units []unit
	// unitOf has the units of operands of intersections and exclusions.
	unitOf map[*schema.Expr]int32
	// cyclic is true if some relation needs the equations.
	cyclic bool
	// plans caches the plans of lists.
	plans *planCache
	// complete is true if the reader knew every kind of the schema.
	complete bool
	// mode forces a way of evaluation, in tests.
	mode Mode
}

// typeNames finds the relations and kinds of a type.
type typeNames struct {
	// relations finds a relation's number by its name.
	relations nameTable
	// plain and wild are the kinds of the type's objects and of its wildcard.
	plain, wild schema.KindID
	// star is the reader's kind for wild; 0 if it has none.
	star graph.Kind
}

// nameTable maps names that are known beforehand to numbers. It is faster than
// a map for names of at most nameBytesMax bytes, which are compared as two
// numbers.
type nameTable struct {
	// slots are a power of two in number and at most half full.
	slots []nameSlot
	// overflow holds longer names, and those that found no free slot.
	overflow map[string]int32
}

// nameSlot is a name and its number.
type nameSlot struct {
	// key has length 0 in a free slot.
	key    nameKey
	number int32
}

// nameKey is a short name as numbers. Different names have different keys.
type nameKey struct {
	first, last uint64
	length      int
}

const (
	// nameBytesMax is the length of the longest name that a key can hold.
	nameBytesMax = 16
	// nameSlotsProbed is the number of slots that are looked at before the
	// map.
	nameSlotsProbed = 8
)

// keyOf returns the key of a name of 1 to nameBytesMax bytes.
func keyOf(s string) nameKey {
	n := len(s)
	switch {
	case n >= 8:
		return nameKey{eightBytes(s), eightBytes(s[n-8:]), n}
	case n >= 4:
		return nameKey{uint64(fourBytes(s)), uint64(fourBytes(s[n-4:])), n}
	}
	return nameKey{uint64(s[0]) | uint64(s[n/2])<<8, uint64(s[n-1]), n}
}

// eightBytes and fourBytes read the first bytes of s as a little-endian
// number.
func eightBytes(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func fourBytes(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// home is the index of the slot to look at first, before it is reduced to the
// table's size.
func (k *nameKey) home() int {
	h := (k.first ^ k.last<<29 ^ k.last>>35 ^ uint64(k.length)<<53) * 0x9e3779b97f4a7c15
	return int(h >> 40)
}

// newNameTable makes a table with room for n names.
func newNameTable(n int) nameTable {
	size := 4
	for size < 2*n {
		size *= 2
	}
	return nameTable{slots: make([]nameSlot, size)}
}

// add adds a name that is not in the table.
func (w *nameTable) add(name string, number int32) {
	if name != "" && len(name) <= nameBytesMax {
		key := keyOf(name)
		for i := range nameSlotsProbed {
			if s := &w.slots[(key.home()+i)&(len(w.slots)-1)]; s.key.length == 0 {
				*s = nameSlot{key, number}
				return
			}
		}
	}
	if w.overflow == nil {
		w.overflow = map[string]int32{}
	}
	w.overflow[name] = number
}

// find returns the number of a name; false if the table does not have it.
func (w *nameTable) find(name string) (int32, bool) {
	slots := w.slots
	if uint(len(name))-1 < nameBytesMax && len(slots) > 0 {
		key := keyOf(name)
		for i, home := 0, key.home(); i < nameSlotsProbed; i++ {
			s := &slots[(home+i)&(len(slots)-1)]
			if s.key == key {
				return s.number, true
			}
			if s.key.length == 0 {
				return 0, false
			}
		}
	}
	n, ok := w.overflow[name]
	return n, ok
}

// Bind returns the [Binding] of a schema for r and its lineage.
func Bind(s *schema.Schema, r Reader) *Binding {
	b := &Binding{s: s, complete: true, typeNumbers: newNameTable(len(s.Types)), types: make([]typeNames, len(s.Types)),
		kindIDs: make(map[graph.Kind]schema.KindID, len(s.Kinds)), kinds: make([]graph.Kind, len(s.Kinds)),
		objectKinds: make([][]graph.Kind, len(s.Types)), plans: &planCache{}}
	for i, k := range s.Kinds {
		g, ok := r.Kind(graph.KindName{Type: k.Type, Relation: k.Relation, Wildcard: k.Wildcard})
		if !ok {
			b.complete = false
			continue
		}
		b.kinds[i] = g
		b.kindIDs[g] = schema.KindID(i)
	}
	for i := range s.Types {
		t := &s.Types[i]
		b.typeNumbers.add(t.Name, int32(t.ID))
		b.types[t.ID] = typeNames{plain: t.Plain, wild: t.Wildcard, star: b.kinds[t.Wildcard]}
		b.addObjectKind(t.ID, t.Plain)
		b.addObjectKind(t.ID, t.Wildcard)
	}
	b.relationNames()
	for i := range s.Relations {
		if rel := &s.Relations[i]; !rel.Hidden {
			b.addObjectKind(rel.Type, rel.Kind)
		}
	}
	b.missingFails = s.Options.MissingContextFails && len(s.Conditions) > 0
	b.numberUnits()
	if b.missingFails {
		certain := *b
		certain.missingFails = false
		certain.numberUnits() // routes depend on fails
		b.certain = &certain
	}
	return b
}

// relationNames fills the tables of relation names.
func (b *Binding) relationNames() {
	count := make([]int, len(b.types))
	for i := range b.s.Relations {
		count[b.s.Relations[i].Type]++
	}
	for t, n := range count {
		b.types[t].relations = newNameTable(n)
	}
	for i := range b.s.Relations {
		if r := &b.s.Relations[i]; !r.Hidden {
			b.types[r.Type].relations.add(r.Name, int32(r.ID))
		}
	}
}

// addObjectKind records a kind that a type's nodes may have.
func (b *Binding) addObjectKind(t schema.TypeID, k schema.KindID) {
	if g := b.kinds[k]; g != 0 {
		b.objectKinds[t] = append(b.objectKinds[t], g)
	}
}

// deadEnds returns the restrictions with conditions of an arrow's first
// relation whose types lack the target. Their tuples lead nowhere. With
// schema.Options.MissingContextFails their conditions still count.
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

// kind returns the reader's number of a kind of the schema, or 0.
func (b *Binding) kind(k schema.KindID) graph.Kind {
	if k < 0 {
		return 0
	}
	return b.kinds[k]
}

// kindID returns the schema's number of a reader's kind, or schema.None.
func (b *Binding) kindID(k graph.Kind) schema.KindID {
	if id, ok := b.kindIDs[k]; ok {
		return id
	}
	return schema.None
}

// typeOf returns the type of the objects of a reader's kind, or schema.None.
func (b *Binding) typeOf(k graph.Kind) schema.TypeID {
	id := b.kindID(k)
	if id == schema.None {
		return schema.None
	}
	return b.typeNamed(b.s.Kinds[id].Type)
}

// typeNamed returns the number of a type, or schema.None.
func (b *Binding) typeNamed(name string) schema.TypeID {
	if id, ok := b.typeNumbers.find(name); ok {
		return schema.TypeID(id)
	}
	return schema.None
}

// rebound returns b, or a new binding where r has contextual tuples of kinds
// that the lineage does not have yet.
func (b *Binding) rebound(r Reader) *Binding {
	if b.complete {
		return b
	}
	if _, ok := r.(*overlay); !ok {
		return b
	}
	return Bind(b.s, r).Force(b.mode)
}

// relation returns the number of a relation. It fails with a [NameError].
func (b *Binding) relation(typ, name string) (schema.RelationID, error) {
	t, ok := b.typeNumbers.find(typ)
	if !ok {
		return schema.None, &NameError{Err: ErrNoType, Type: typ, Schema: b.s}
	}
	id, ok := b.types[t].relations.find(name)
	if !ok {
		return schema.None, &NameError{Err: ErrNoRelation, Type: typ, Relation: name, Schema: b.s}
	}
	return schema.RelationID(id), nil
}

// subjectKind returns a subject's kind, its type and the reader's kind of its
// node. It is like schema.SubjectKind, but under schema.Options.StarIsOrdinary
// "*" is an id like any other. Unknown results are schema.None, nil and 0.
func (b *Binding) subjectKind(sub *rel.Subject) (kind schema.KindID, t *typeNames, node graph.Kind) {
	id, ok := b.typeNumbers.find(sub.Type)
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

// reaches reports whether a relation must be read for subjects of a kind. With
// missingFails a wildcard reads what the objects of its type read.
func (b *Binding) reaches(id schema.RelationID, k schema.KindID) bool {
	if b.missingFails && k != schema.None && b.s.Kinds[k].Wildcard {
		k = b.types[b.typeNamed(b.s.Kinds[k].Type)].plain
	}
	return b.s.Relations[id].Reaches(k)
}

// NameError means that the schema lacks a type or a relation. It wraps
// [ErrNoType] or [ErrNoRelation].
type NameError struct {
	// Err is ErrNoType or ErrNoRelation.
	Err error
	// Type and Relation are the names that were not found. Relation is "" if
	// the type is not in the schema.
	Type, Relation string
	// Schema is the schema that lacks the name. Error suggests one of its names. It
	// may be nil.
	Schema *schema.Schema
}

// Error names the type or the relation, and suggests a similar name if the schema
// has one.
func (e *NameError) Error() string {
	text := e.Err.Error() + ": " + e.Type
	if e.Relation != "" {
		text += "#" + e.Relation
	}
	if e.Schema != nil {
		text += e.Schema.Suggestion(e.Type, e.Relation)
	}
	return text
}

// Unwrap returns Err.
func (e *NameError) Unwrap() error { return e.Err }

// Mode forces one way of evaluation where several give the same answer. Tests
// use it to compare them.
type Mode uint8

const (
	// ModeAuto chooses by cost.
	ModeAuto Mode = iota
	// ModeSolver builds and solves the whole system of equations.
	ModeSolver
	// ModeForward only searches from the object.
	ModeForward
	// ModeBackward prefers the walk from the subject wherever there is one.
	ModeBackward
	// ModeShuffled searches from the object and reads each list and operand in
	// reverse order.
	ModeShuffled
)

// Force returns a Binding like b that evaluates in one way only. It is for
// tests.
func (b *Binding) Force(m Mode) *Binding {
	f := *b
	f.mode = m
	if f.certain != nil {
		f.certain = f.certain.Force(m)
	}
	return &f
}
