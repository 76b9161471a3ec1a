package authz

import (
	"github.com/ostiary/ostiary/rel"
)

// Rows is a small interface for an embedder's own data, by plain names.
// [NewReader] makes a Reader of it. Rows may also implement [Prober],
// [Reverser] and [Attributer].
type Rows interface {
	// Subjects calls yield for each tuple of object#relation until yield
	// returns false. Order and repetition do not matter.
	Subjects(object rel.Object, relation string, yield func(rel.Tuple) bool) error
}

// Prober is an optional interface of [Rows]: it reads one tuple by its key, so
// that a relation with very many subjects is not read in full.
type Prober interface {
	// Probe returns the tuple with the key k. It returns false if there is
	// none.
	Probe(k rel.Key) (rel.Tuple, bool, error)
}

// Reverser is an optional interface of [Rows]: it reads the tuples that name a
// subject. Lists of objects need it.
type Reverser interface {
	// Objects calls yield for each tuple that names subject, on objects of the
	// type and with the relation, until yield returns false.
	Objects(subject rel.Subject, objectType, relation string, yield func(rel.Tuple) bool) error
}

// Attributer is an optional interface of [Rows]: typed values of objects.
type Attributer interface {
	// Attribute returns a value as canonical JSON. It returns false if the
	// object does not have it.
	Attribute(object rel.Object, name string) (string, bool, error)
}
