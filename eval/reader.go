package eval

import (
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
)

// Reader is what the evaluator needs of data: nodes by name, and each node's
// neighbours by kind. graph.View is one; NewReader makes one of an embedder's
// own rows; an overlay puts a question's contextual tuples before another.
//
// A Reader answers as of one moment and never changes while a question is
// evaluated on it. All methods are safe for concurrent use unless the Reader
// says otherwise.
type Reader interface {
	// Kind returns the number of a kind, or false where no node has it.
	Kind(k graph.KindName) (graph.Kind, bool)
	// Node finds a node by its kind and its object's id (rel.Wildcard for the
	// wildcard kind).
	Node(k graph.Kind, id string) (graph.Node, bool)
	// Sibling finds the node of another kind of n's object: from "doc:1#viewer"
	// to "doc:1#editor", or to "doc:1" itself.
	Sibling(n graph.Node, k graph.Kind) (graph.Node, bool)
	// KindOf returns a node's kind.
	KindOf(n graph.Node) graph.Kind
	// ID returns the id of a node's object.
	ID(n graph.Node) string
	// Forward lists the subjects of kind k that stand in tuples of n, a node
	// of a relation.
	Forward(n graph.Node, k graph.Kind) graph.List
	// Reverse lists the nodes of kind k (relations of objects) in whose tuples n
	// stands as the subject. Only asked where Reversible says true.
	Reverse(n graph.Node, k graph.Kind) graph.List
	// Reversible says whether Reverse answers.
	Reversible() bool
	// Detail tells of the tuple object#relation@subject behind a detailed edge.
	Detail(object, subject graph.Node) graph.Detail
	// Attribute returns the value, as canonical JSON, of an attribute of n's
	// object.
	Attribute(n graph.Node, name string) (string, bool)
	// Err returns an error that the data's owner met while the question was
	// evaluated (an embedder's database, say). A graph has none. Lists given
	// after an error are empty, and the answer is the error.
	Err() error
}

// Rows is the small Reader for an embedder's own data, in plain names. It
// may have Prober's and Reverser's powers besides.
type Rows interface {
	// Subjects calls yield for each tuple of object#relation until it returns
	// false. Order and repetition do not matter.
	Subjects(object rel.Object, relation string, yield func(rel.Tuple) bool) error
}

// Prober is an optional power of Rows: one tuple by its key, so that a
// relation with very many subjects is not read for one of them.
type Prober interface {
	Probe(k rel.Key) (rel.Tuple, bool, error)
}

// Reverser is an optional power of Rows: what a subject stands in directly.
// Lists of objects need it.
type Reverser interface {
	// Objects calls yield for each tuple in which subject stands, on objects of
	// the type and the relation.
	Objects(subject rel.Subject, objectType, relation string, yield func(rel.Tuple) bool) error
}
