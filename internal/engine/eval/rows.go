package eval

import (
	"cmp"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
)

// NewReader makes a [Reader] of an embedder's rows. It reads each list once,
// the first time that it is needed, and keeps it together with all names that
// it met. Make one Reader per request, and a new one when the rows may have
// changed. It is not safe for concurrent use. After the first error of the
// rows every list is empty and Err returns that error.
func NewReader(rows authz.Rows) Reader {
	r := &rowsReader{rows: rows, kinds: map[graph.KindName]graph.Kind{}, nodes: map[rowsNode]graph.Node{},
		forward: map[graph.Node]map[graph.Kind][]graph.Edge{}, reverse: map[rowsListKey][]graph.Edge{},
		details: map[[2]graph.Node]graph.Detail{}, probed: map[[2]graph.Node]graph.Edge{}}
	r.prober, _ = rows.(authz.Prober)
	r.reverser, _ = rows.(authz.Reverser)
	r.attributer, _ = rows.(authz.Attributer)
	return r
}

// rowsListKey names a list: the neighbors of one kind of a node.
type rowsListKey struct {
	node graph.Node
	kind graph.Kind
}

// rowsReader is the [Reader] that NewReader returns. Nodes and kinds are
// numbered as they are met, from 1.
type rowsReader struct {
	// rows are the embedder's rows.
	rows authz.Rows
	// prober, reverser and attributer are rows where rows implements them, and
	// nil otherwise.
	prober     authz.Prober
	reverser   authz.Reverser
	attributer authz.Attributer
	// err is the first error of rows.
	err error

	// kinds are the numbers of kinds.
	kinds map[graph.KindName]graph.Kind
	// names are the reverse: names[k-1] is the name of kind k.
	names []graph.KindName
	// nodes are the numbers of nodes.
	nodes map[rowsNode]graph.Node
	// objects are the reverse: objects[n-1] is node n.
	objects []rowsNode
	// forward holds a node's lists of all kinds, because rows are read
	// together.
	forward map[graph.Node]map[graph.Kind][]graph.Edge
	// reverse holds lists that were read from the subject's side.
	reverse map[rowsListKey][]graph.Edge
	// details are those of detailed edges, by object and subject.
	details map[[2]graph.Node]graph.Detail
	// probed are the results of probes, by object and subject; 0 where there
	// is no tuple.
	probed map[[2]graph.Node]graph.Edge
}

// rowsNode names a node.
type rowsNode struct {
	kind graph.Kind
	id   string
}

func (r *rowsReader) Kind(name graph.KindName) (graph.Kind, bool) {
	k, ok := r.kinds[name]
	if !ok {
		r.names = append(r.names, name)
		k = graph.Kind(len(r.names))
		r.kinds[name] = k
	}
	return k, true
}

func (r *rowsReader) Node(k graph.Kind, id string) (graph.Node, bool) {
	n, ok := r.nodes[rowsNode{k, id}]
	if !ok {
		r.objects = append(r.objects, rowsNode{k, id})
		n = graph.Node(len(r.objects))
		r.nodes[rowsNode{k, id}] = n
	}
	return n, true
}

func (r *rowsReader) Sibling(n graph.Node, k graph.Kind) (graph.Node, bool) {
	return r.Node(k, r.ID(n))
}

func (r *rowsReader) KindOf(n graph.Node) graph.Kind { return r.objects[n-1].kind }
func (r *rowsReader) ID(n graph.Node) string         { return r.objects[n-1].id }
func (r *rowsReader) Reversible() bool               { return r.reverser != nil }
func (r *rowsReader) Err() error                     { return r.err }

// fail records the first error.
func (r *rowsReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *rowsReader) object(n graph.Node) rel.Object {
	return rel.Object{Type: r.names[r.KindOf(n)-1].Type, ID: r.ID(n)}
}

func (r *rowsReader) subject(n graph.Node) rel.Subject {
	name := r.names[r.KindOf(n)-1]
	return rel.Subject{Type: name.Type, ID: r.ID(n), Relation: name.Relation}
}

// subjectNode returns the node of a tuple's subject.
func (r *rowsReader) subjectNode(s rel.Subject) graph.Node {
	k, _ := r.Kind(graph.KindName{Type: s.Type, Relation: s.Relation, Wildcard: s.IsWildcard()})
	n, _ := r.Node(k, s.ID)
	return n
}

// addEdge returns the edge to far, the node at the other end of a tuple, and
// records the tuple's details.
func (r *rowsReader) addEdge(t *rel.Tuple, object, subject, far graph.Node) graph.Edge {
	detailed := t.Condition != "" || t.Expires != 0
	if !detailed {
		return graph.EdgeTo(far, false)
	}
	d := graph.Detail{Condition: t.Condition, Context: t.Context, Expires: t.Expires}
	if t.Context != "" {
		v, err := decode(t.Context)
		if err != nil {
			r.fail(err)
		}
		d.Values, _ = v.(map[string]any)
	}
	r.details[[2]graph.Node{object, subject}] = d
	return graph.EdgeTo(far, true)
}

func (r *rowsReader) Forward(n graph.Node, k graph.Kind) graph.List {
	if r.err != nil {
		return graph.List{}
	}
	lists, ok := r.forward[n]
	if !ok {
		lists = map[graph.Kind][]graph.Edge{}
		object, relation := r.object(n), r.names[r.KindOf(n)-1].Relation
		err := r.rows.Subjects(object, relation, func(t rel.Tuple) bool {
			if t.Object != object || t.Relation != relation {
				return true // rows may yield other tuples; they are ignored
			}
			s := r.subjectNode(t.Subject)
			lists[r.KindOf(s)] = append(lists[r.KindOf(s)], r.addEdge(&t, n, s, s))
			return true
		})
		if err != nil {
			r.fail(err)
			return graph.List{}
		}
		for kind, l := range lists {
			lists[kind] = sortUnique(l)
		}
		r.forward[n] = lists
	}
	return graph.ListOf(lists[k])
}

// sortUnique sorts edges and removes repetitions.
func sortUnique(l []graph.Edge) []graph.Edge {
	slices.SortFunc(l, func(a, b graph.Edge) int { return cmp.Compare(a.Node(), b.Node()) })
	return slices.CompactFunc(l, func(a, b graph.Edge) bool { return a.Node() == b.Node() })
}

func (r *rowsReader) Reverse(n graph.Node, k graph.Kind) graph.List {
	if r.err != nil || r.reverser == nil {
		return graph.List{}
	}
	key := rowsListKey{n, k}
	l, ok := r.reverse[key]
	if !ok {
		sub, name := r.subject(n), r.names[k-1]
		err := r.reverser.Objects(sub, name.Type, name.Relation, func(t rel.Tuple) bool {
			if t.Subject != sub || t.Object.Type != name.Type || t.Relation != name.Relation {
				return true
			}
			o, _ := r.Node(k, t.Object.ID)
			l = append(l, r.addEdge(&t, o, n, o))
			return true
		})
		if err != nil {
			r.fail(err)
			return graph.List{}
		}
		l = sortUnique(l)
		r.reverse[key] = l
	}
	return graph.ListOf(l)
}

// probe looks for one tuple. It does not read the object's list if rows can
// look up a single tuple, unless that list was already read.
func (r *rowsReader) probe(object, subject graph.Node) (graph.Edge, bool) {
	if _, read := r.forward[object]; read || r.prober == nil || r.err != nil {
		return r.Forward(object, r.KindOf(subject)).Find(subject)
	}
	key := [2]graph.Node{object, subject}
	e, known := r.probed[key]
	if !known {
		t, ok, err := r.prober.Probe(rel.Key{Object: r.object(object), Relation: r.names[r.KindOf(object)-1].Relation,
			Subject: r.subject(subject)})
		if err != nil {
			r.fail(err)
			return 0, false
		}
		if ok {
			e = r.addEdge(&t, object, subject, subject)
		}
		r.probed[key] = e
	}
	return e, e != 0
}

func (r *rowsReader) Detail(object, subject graph.Node) graph.Detail {
	return r.details[[2]graph.Node{object, subject}]
}

func (r *rowsReader) Attribute(n graph.Node, name string) (string, bool) {
	if r.attributer == nil || r.err != nil {
		return "", false
	}
	v, ok, err := r.attributer.Attribute(r.object(n), name)
	if err != nil {
		r.fail(err)
		return "", false
	}
	return v, ok
}
