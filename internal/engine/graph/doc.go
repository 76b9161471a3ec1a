// Package graph keeps the tuples and attributes of one store in memory. A
// [View] is an immutable snapshot of them. For any object or userset, it
// returns the subjects of its tuples, and the tuples that have it as their
// subject, at the cost of a few memory reads. The package knows neither
// schemas nor rewrites, and it does not evaluate conditions: package eval does
// that while it walks the graph.
//
// # Names, kinds and nodes
//
// Strings are stored once and then replaced by numbers. A [Kind] numbers a type
// ("user"), a type's wildcard ("user:*") or a relation of a type
// ("group#member"). A [Node] numbers an object together with one kind, so
// object doc:1 has one node for each relation that tuples give it, and perhaps
// one for itself. [View.Node] turns a kind and an id into a node;
// [View.Sibling] leads from one node of an object to another.
//
// # Lists
//
// Each tuple is stored as two edges. The tuple doc:1#viewer@group:eng#member
// puts the node group:eng#member into the forward list of the node doc:1#viewer
// ([View.Forward]), and the node doc:1#viewer into the reverse list of the node
// group:eng#member ([View.Reverse]). A [List] holds the neighbors of one node,
// in one direction, that are of one kind. An [Edge] is the neighbor's number
// and one bit. The bit is set if the tuple has a condition or an expiry, which a
// separate map holds as a [Detail]. A list of up to 64 edges is stored in its
// node's segment, a longer one in chunks of up to 512 edges.
//
// # Segments and the tree
//
// Nodes get their numbers in blocks of 64 nodes of one kind. The lists of a
// block, in both directions, are one segment: a single slice of words. A view
// finds the segment of a node through three levels: a top slice, branches of
// 64 leaves, and leaves of 16 segments.
//
// # Writing
//
// A [Batch] collects the changes of one write. [Batch.Publish] turns them into
// edits of lists, sorts these by node, and rebuilds each segment that they
// touch. It copies the leaves, branches and top slice above these segments
// and shares everything else with the view before. So a view costs only what
// changed since the one before, and the garbage collector frees what no view
// uses any more. Edges that belong behind the end of a long list are written to
// spare memory behind its last chunk, without a copy.
//
// A [Loader] fills an empty graph: it sorts all tuples once and builds each
// segment once.
//
// # Lineages
//
// A [Graph] is a lineage: views that share one append-only table of symbols
// (names, kinds, nodes). Numbers mean the same in every view of a lineage.
// Readers take no lock: a view keeps the slices of the table as they were when
// it was made, and what these show never changes. Symbols are never removed, so
// a store whose objects come and go collects dead ones. [Compact] copies a view
// into a new lineage that has only the live ones.
//
// # Files
//
//	graph.go                 kinds, nodes, edges, lists
//	view.go, read.go         reading a view: by node, by filter, in full
//	ordered.go               the objects of a type in a given order
//	segment.go               the lists of a block of nodes as one slice
//	edit.go, append.go       a segment and a long list with edits
//	batch.go, pending.go     a write: collect, apply, publish
//	addabsent.go             adding many tuples that must be new
//	lineage.go, intern.go    the table of symbols
//	table.go                 hash table and arena that the symbols are stored in
//	loader.go, loadnames.go, build.go   filling an empty lineage
//	compact.go               copying a view into a new lineage
//	detail.go, expiring.go   conditions and expiries of tuples
//
// # Invariants
//
// These always hold. The tests check them by walking whole views.
//
//	G1  Forward and reverse lists mirror each other: s is in Forward(o, kind of s)
//	    exactly if o is in Reverse(s, kind of o), with the same detailed bit.
//	G2  A list is sorted by node, has no duplicates, and holds nodes of one
//	    kind only.
//	G3  No chunk is empty or has more than chunkMax edges. A list of up to
//	    inlineMax edges is stored in its segment, a longer one outside.
//	G4  A view has the symbols of every node in its lists: the name, the kind
//	    and the siblings are found, and the name leads back to the node.
//	G5  A tuple has an entry among the details exactly if its edges are detailed.
//	G6  The counts of tuples, live nodes, live names and bytes are those that a
//	    walk of the view finds.
//	G7  Names, nodes and kinds keep their numbers within a lineage; all nodes of
//	    a segment are of one kind.
//	G8  Nothing that a view shows is ever written again, except the link from an
//	    object's node to its next one, which only leads to newer nodes. The
//	    memory behind the end of a list's last chunk may belong to a newer list.
package graph
