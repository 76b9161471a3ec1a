package eval

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/internal/fault"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Overlay returns a Reader that puts contextual tuples and attributes before
// base's. A contextual tuple replaces the stored one of its key, and of two
// with one key the later counts. The error wraps ErrTuple where the schema does
// not admit one of them. The result is safe for concurrent use if base is.
func Overlay(s *schema.Schema, base Reader, tuples []rel.Tuple, attributes []rel.Attribute) (Reader, error) {
	return overlaid(s, nil, base, tuples, attributes)
}

// overlaid is Overlay for questions that a binding asks, which may be nil.
func overlaid(s *schema.Schema, b *Binding, base Reader, tuples []rel.Tuple, attributes []rel.Attribute) (Reader, error) {
	o := &overlay{base: base, binding: b, kinds: map[graph.KindName]graph.Kind{}, kindNames: map[graph.Kind]graph.KindName{},
		kindTypes: map[graph.Kind]string{}, nodes: map[overlayNode]graph.Node{}, details: map[[2]graph.Node]graph.Detail{},
		forward: map[overlayList][]graph.Edge{}, reverse: map[overlayList][]graph.Edge{},
		attributes: map[rel.Attribute]string{}}
	last := make(map[rel.Key]int, len(tuples))
	for i := range tuples {
		if err := Admit(s, &tuples[i]); err != nil && !fault.On(fault.EvalNoContextualAdmission) {
			return nil, err
		}
		last[tuples[i].Key()] = i
	}
	for i := range tuples {
		if last[tuples[i].Key()] != i {
			continue
		}
		if err := o.add(&tuples[i]); err != nil {
			return nil, err
		}
	}
	for _, a := range attributes {
		if err := o.addAttribute(s, a); err != nil {
			return nil, err
		}
	}
	o.merge()
	return o, nil
}

// overlay is a small graph before another Reader. Its own nodes count down
// from graph.NodeMax, so that they stand behind every node of the base.
type overlay struct {
	base Reader
	// binding, if there is one, has numbers for kinds that base, a view made
	// before the schema was bound, does not know yet.
	binding   *Binding
	kinds     map[graph.KindName]graph.Kind
	kindNames map[graph.Kind]graph.KindName
	kindTypes map[graph.Kind]string // of the kinds of own nodes
	nodes     map[overlayNode]graph.Node
	own       []overlayNode // own[i] is the node graph.NodeMax-i
	details   map[[2]graph.Node]graph.Detail
	// forward and reverse hold whole lists, the base's edges among them.
	forward, reverse map[overlayList][]graph.Edge
	attributes       map[rel.Attribute]string // by object and name, the value empty
	types            map[graph.Kind]string    // by the kinds of types that attributes has
}

// overlayNode names a node that the base does not have.
type overlayNode struct {
	kind graph.Kind
	id   string
}

type overlayList struct {
	node graph.Node
	kind graph.Kind
}

func (o *overlay) add(t *rel.Tuple) error {
	sub := graph.KindName{Type: t.Subject.Type, Relation: t.Subject.Relation, Wildcard: t.Subject.IsWildcard()}
	from := o.node(o.kind(graph.KindName{Type: t.Object.Type, Relation: t.Relation}), t.Object.ID)
	to := o.node(o.kind(sub), t.Subject.ID)
	d := graph.Detail{Condition: t.Condition, Context: t.Context, Expires: t.Expires}
	if t.Context != "" {
		v, err := decode(t.Context)
		m, ok := v.(map[string]any)
		if err != nil || !ok {
			return fmt.Errorf("%w: %s: context is not a JSON object", ErrTuple, t.Key())
		}
		d.Values = m
	}
	detailed := d.Condition != "" || d.Expires != 0
	if detailed {
		o.details[[2]graph.Node{from, to}] = d
	}
	f, r := overlayList{from, o.KindOf(to)}, overlayList{to, o.KindOf(from)}
	o.forward[f] = append(o.forward[f], graph.EdgeTo(to, detailed))
	o.reverse[r] = append(o.reverse[r], graph.EdgeTo(from, detailed))
	return nil
}

func (o *overlay) addAttribute(s *schema.Schema, a rel.Attribute) error {
	t, ok := s.Type(a.Object.Type)
	if ok {
		_, ok = t.Attributes[a.Name]
	}
	if !ok {
		return fmt.Errorf("%w: attribute %s of %s is not in the schema", ErrTuple, a.Name, a.Object)
	}
	if _, err := decode(a.Value); err != nil {
		return fmt.Errorf("%w: attribute %s of %s: %w", ErrTuple, a.Name, a.Object, err)
	}
	o.node(o.kind(graph.KindName{Type: a.Object.Type}), a.Object.ID)
	o.typed(s, t)
	o.attributes[rel.Attribute{Object: a.Object, Name: a.Name}] = a.Value
	return nil
}

// typed notes which kinds a type's objects have, so that an attribute is
// found from any node of its object.
func (o *overlay) typed(s *schema.Schema, t *schema.Type) {
	if o.types == nil {
		o.types = map[graph.Kind]string{}
	}
	o.types[o.kind(graph.KindName{Type: t.Name})] = t.Name
	if k, ok := o.Kind(graph.KindName{Type: t.Name, Wildcard: true}); ok {
		o.types[k] = t.Name
	}
	for _, id := range s.RelationsOf(t) {
		if k, ok := o.Kind(graph.KindName{Type: t.Name, Relation: s.Relations[id].Name}); ok {
			o.types[k] = t.Name
		}
	}
}

// merge puts the base's edges into the lists that have contextual ones.
func (o *overlay) merge() {
	for k, l := range o.forward {
		o.forward[k] = o.merged(l, k, o.base.Forward)
	}
	if !o.base.Reversible() {
		return
	}
	for k, l := range o.reverse {
		o.reverse[k] = o.merged(l, k, o.base.Reverse)
	}
}

func (o *overlay) merged(l []graph.Edge, k overlayList, read func(graph.Node, graph.Kind) graph.List) []graph.Edge {
	byNode := func(a, b graph.Edge) int { return cmp.Compare(a.Node(), b.Node()) }
	slices.SortFunc(l, byNode)
	if o.isOwn(k.node) || !o.known(k.kind) {
		return l
	}
	old := read(k.node, k.kind)
	contextual := graph.ListOf(l)
	all := make([]graph.Edge, 0, len(l)+old.Len())
	for c := range old.Chunks() {
		for _, e := range old.Chunk(c) {
			if _, replaced := contextual.Find(e.Node()); !replaced {
				all = append(all, e)
			}
		}
	}
	all = append(all, l...)
	slices.SortFunc(all, byNode)
	return all
}

func (o *overlay) isOwn(n graph.Node) bool { return n > graph.NodeMax-graph.Node(len(o.own)) }

// known says whether the base knows a kind.
func (o *overlay) known(k graph.Kind) bool {
	_, own := o.kindNames[k]
	return !own
}

// kind finds a kind or makes one, counting down from the greatest.
func (o *overlay) kind(name graph.KindName) graph.Kind {
	k, ok := o.Kind(name)
	if !ok {
		k = ^graph.Kind(0) - graph.Kind(len(o.kinds))
		o.kinds[name], o.kindNames[k] = k, name
	}
	o.kindTypes[k] = name.Type
	return k
}

// node finds a node or makes one.
func (o *overlay) node(k graph.Kind, id string) graph.Node {
	if n, ok := o.Node(k, id); ok {
		return n
	}
	n := graph.NodeMax - graph.Node(len(o.own))
	o.own = append(o.own, overlayNode{k, id})
	o.nodes[overlayNode{k, id}] = n
	return n
}

func (o *overlay) Kind(name graph.KindName) (graph.Kind, bool) {
	if k, ok := o.kinds[name]; ok {
		return k, true
	}
	if k, ok := o.base.Kind(name); ok || o.binding == nil {
		return k, ok
	}
	id, ok := o.binding.s.Kind(schema.Kind(name))
	if !ok {
		return 0, false
	}
	k := o.binding.kind(id)
	return k, k != 0
}

func (o *overlay) Node(k graph.Kind, id string) (graph.Node, bool) {
	if len(o.own) > 0 {
		if n, ok := o.nodes[overlayNode{k, id}]; ok {
			return n, true
		}
	}
	if !o.known(k) {
		return 0, false
	}
	return o.base.Node(k, id)
}

func (o *overlay) Sibling(n graph.Node, k graph.Kind) (graph.Node, bool) {
	if !o.isOwn(n) && o.known(k) {
		if m, ok := o.base.Sibling(n, k); ok {
			return m, true
		}
	}
	return o.Node(k, o.ID(n))
}

func (o *overlay) KindOf(n graph.Node) graph.Kind {
	if o.isOwn(n) {
		return o.own[graph.NodeMax-n].kind
	}
	return o.base.KindOf(n)
}

func (o *overlay) ID(n graph.Node) string {
	if o.isOwn(n) {
		return o.own[graph.NodeMax-n].id
	}
	return o.base.ID(n)
}

func (o *overlay) Forward(n graph.Node, k graph.Kind) graph.List {
	if l, ok := o.forward[overlayList{n, k}]; ok {
		return graph.ListOf(l)
	}
	if o.isOwn(n) || !o.known(k) {
		return graph.List{}
	}
	return o.base.Forward(n, k)
}

func (o *overlay) Reverse(n graph.Node, k graph.Kind) graph.List {
	if l, ok := o.reverse[overlayList{n, k}]; ok {
		return graph.ListOf(l)
	}
	if o.isOwn(n) || !o.known(k) {
		return graph.List{}
	}
	return o.base.Reverse(n, k)
}

func (o *overlay) Reversible() bool { return o.base.Reversible() }

func (o *overlay) Detail(object, subject graph.Node) graph.Detail {
	if d, ok := o.details[[2]graph.Node{object, subject}]; ok {
		return d
	}
	return o.base.Detail(object, subject)
}

func (o *overlay) Attribute(n graph.Node, name string) (string, bool) {
	if typ := o.types[o.KindOf(n)]; typ != "" {
		object := rel.Object{Type: typ, ID: o.ID(n)}
		if v, ok := o.attributes[rel.Attribute{Object: object, Name: name}]; ok {
			return v, true
		}
	}
	if !o.isOwn(n) {
		return o.base.Attribute(n, name)
	}
	// The object may be one of the base's by another of its nodes: attributes
	// are kept by the plain one.
	k, ok := o.base.Kind(graph.KindName{Type: o.kindTypes[o.KindOf(n)]})
	if !ok {
		return "", false
	}
	plain, ok := o.base.Node(k, o.ID(n))
	if !ok {
		return "", false
	}
	return o.base.Attribute(plain, name)
}

// probe asks a base that probes for what no contextual tuple replaces.
func (o *overlay) probe(object, subject graph.Node) (graph.Edge, bool) {
	k := o.KindOf(subject)
	rows, ok := o.base.(*rowsReader)
	if _, merged := o.forward[overlayList{object, k}]; ok && !merged && !o.isOwn(object) && !o.isOwn(subject) {
		return rows.probe(object, subject)
	}
	return o.Forward(object, k).Find(subject)
}

func (o *overlay) Err() error { return o.base.Err() }
