package eval

import (
	"github.com/ostiary/ostiary/internal/graph"
	"github.com/ostiary/ostiary/rel"
)

// Reader is the data that the evaluator needs: nodes by name, and each node's
// neighbors by kind. graph.View is a Reader; [NewReader] makes one of an
// embedder's own rows; [Overlay] puts contextual tuples in front of one.
//
// A Reader shows one moment and does not change while a question is evaluated.
// All methods are safe for concurrent use unless the Reader's documentation
// says otherwise.
type Reader interface {
	// Kind returns the number of a kind. It returns false if no node has that
	// kind.
	Kind(k graph.KindName) (graph.Kind, bool)
	// Node finds a node by its kind and its object's id (rel.Wildcard for a
	// wildcard kind).
	Node(k graph.Kind, id string) (graph.Node, bool)
	// Sibling finds the node of another kind of n's object: from
	// "doc:1#viewer" to "doc:1#editor", or to "doc:1".
	Sibling(n graph.Node, k graph.Kind) (graph.Node, bool)
	// KindOf returns a node's kind.
	KindOf(n graph.Node) graph.Kind
	// ID returns the id of a node's object.
	ID(n graph.Node) string
	// Forward lists the subjects of kind k in the tuples of n, a node of a
	// relation.
	Forward(n graph.Node, k graph.Kind) graph.List
	// Reverse lists the nodes of kind k (relations of objects) in whose tuples
	// n is the subject. It is called only if Reversible returns true.
	Reverse(n graph.Node, k graph.Kind) graph.List
	// Reversible reports whether Reverse is supported.
	Reversible() bool
	// Detail returns the condition, context and expiry of the tuple
	// object#relation@subject. It is called for detailed edges.
	Detail(object, subject graph.Node) graph.Detail
	// Attribute returns the value of an attribute of n's object, as canonical
	// JSON.
	Attribute(n graph.Node, name string) (string, bool)
	// Err returns the first error of the data's owner (an embedder's database,
	// for example); a graph has none. After an error all lists are empty, and
	// the question returns the error.
	Err() error
}

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
