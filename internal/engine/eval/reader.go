package eval

import (
	"github.com/ostiary/ostiary/internal/engine/graph"
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
