package eval

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Overlay returns a [Reader] with contextual tuples and attributes in front of
// base. A contextual tuple replaces the stored one with the same key; of two
// with one key the later counts. The error wraps [ErrTuple] if the schema does
// not admit one of them. The result is safe for concurrent use if base is.
func (b *Binding) Overlay(base Reader, tuples []rel.Tuple, attributes []rel.Attribute) (Reader, error) {
	return overlaid(b.s, b, base, tuples, attributes)
}

// overlaid is Overlay for the questions of a binding, which may be nil.
func overlaid(s *schema.Schema, b *Binding, base Reader, tuples []rel.Tuple, attributes []rel.Attribute) (Reader, error) {
	o := &overlay{}
	if err := o.fill(s, b, base, tuples, attributes); err != nil {
		return nil, err
	}
	for i := range o.lists.entries {
		o.merge(&o.lists.entries[i])
	}
	return o, nil
}

// overlay is a small graph in front of another Reader. Its own nodes and kinds
// count down from the greatest numbers, so that they never collide with those
// of base, and sort after them. Most questions bring few tuples, so a [smallMap]
// holds what belongs to them.
type overlay struct {
	// base holds the stored data.
	base Reader
	// view is base where base is a *graph.View, and nil otherwise.
	view *graph.View
	// binding has numbers for kinds that base does not know yet, if base is a
	// view from before the schema was bound. It may be nil.
	binding *Binding
	// env is the environment that the overlay was made for; nil if it serves
	// several questions.
	env *Env

	// kinds are kinds that base does not have: kinds[i] has the number
	// ^graph.Kind(0)-i.
	kinds []graph.KindName
	// own are nodes that base does not have, with the types of their objects:
	// the i-th entry has the number graph.NodeMax-i.
	own smallMap[overlayNode, string]

	// lists are the lists that contextual tuples change.
	lists smallMap[overlayKey, overlayList]
	// nodeBits has a bit for each node of lists, by the node's lowest six
	// bits. Most nodes without a list are recognized by it.
	nodeBits uint64

	// details are the conditions, contexts and expiries of contextual tuples, by
	// object and subject.
	details smallMap[[2]graph.Node, graph.Detail]
	// attributes are the contextual values, by object and name; the key's
	// Value is empty.
	attributes map[rel.Attribute]string
	// types has the type's name for each kind of a type that has contextual
	// attributes.
	types map[graph.Kind]string
}

// overlayNode names a node that base does not have.
type overlayNode struct {
	kind graph.Kind
	id   string
}

// overlayKey names a list: the neighbors of one kind of a node. They are the
// subjects in the node's tuples or, with back, the nodes in whose tuples the
// node is the subject.
type overlayKey struct {
	// node is the node whose neighbors the list has, kind is the neighbors'
	// kind.
	node graph.Node
	kind graph.Kind
	// back is true if the neighbors' tuples name node as the subject.
	back bool
}

// overlayList is a list to which contextual tuples add edges, or in which they
// replace edges.
type overlayList struct {
	// own are the contextual edges, sorted by node.
	own []graph.Edge
	// all are own and base's edges, once they are merged.
	all []graph.Edge
	// merged is true if all is valid.
	merged bool
}

// fill adds contextual tuples and attributes. It fails with [ErrTuple] if the
// schema does not admit one of them.
func (o *overlay) fill(s *schema.Schema, b *Binding, base Reader, tuples []rel.Tuple, attributes []rel.Attribute) error {
	o.binding, o.base = b, base
	o.view, _ = base.(*graph.View)
	for i := range tuples {
		if err := o.admit(s, &tuples[i]); err != nil {
			return err
		}
	}
	var last map[rel.Key]int
	if len(tuples) > smallMapLinearMax {
		last = make(map[rel.Key]int, len(tuples))
		for i := range tuples {
			last[tuples[i].Key()] = i
		}
	}
	for i := range tuples {
		if keyFollows(tuples, i, last) {
			continue
		}
		if err := o.add(&tuples[i]); err != nil {
			return err
		}
	}
	for _, a := range attributes {
		if err := o.addAttribute(s, a); err != nil {
			return err
		}
	}
	return nil
}

// keyFollows reports whether a later tuple has the key of the i-th one. last
// maps keys to the index of their last tuple; nil for few tuples.
func keyFollows(tuples []rel.Tuple, i int, last map[rel.Key]int) bool {
	if last != nil {
		return last[tuples[i].Key()] != i
	}
	t := &tuples[i]
	for j := i + 1; j < len(tuples); j++ {
		if u := &tuples[j]; u.Object == t.Object && u.Subject == t.Subject && u.Relation == t.Relation {
			return true
		}
	}
	return false
}

// admit is [Admit], with lookups by number where there is a binding.
func (o *overlay) admit(s *schema.Schema, t *rel.Tuple) error {
	if b := o.binding; b != nil && t.Object.ID != "" && t.Subject.ID != "" {
		if id, err := b.relation(t.Object.Type, t.Relation); err == nil {
			kind, _, _ := b.subjectKind(&t.Subject)
			all := b.s.Relations[id].Restrictions
			for i := range all {
				if all[i].Kind == kind && kind != schema.None && all[i].Admits(t.Condition) {
					return nil
				}
			}
		}
	}
	return Admit(s, t)
}

// add adds a tuple to the lists of both its ends.
func (o *overlay) add(t *rel.Tuple) error {
	from := o.node(o.kindOfRelation(t.Object.Type, t.Relation), t.Object.ID, t.Object.Type)
	to := o.node(o.kindOfSubject(&t.Subject), t.Subject.ID, t.Subject.Type)
	d := graph.Detail{Condition: t.Condition, Context: t.Context, Expires: t.Expires}
	if t.Context != "" {
		v, err := decode(t.Context)
		m, ok := v.(map[string]any)
		if err != nil || !ok {
			return fmt.Errorf("%w: %s: expected a JSON object as the context", ErrTuple, t.Key())
		}
		d.Values = m
	}
	detailed := d.Condition != "" || d.Expires != 0
	if detailed {
		*o.details.add([2]graph.Node{from, to}) = d
	}
	o.list(overlayKey{from, o.KindOf(to), false}).put(graph.EdgeTo(to, detailed))
	o.list(overlayKey{to, o.KindOf(from), true}).put(graph.EdgeTo(from, detailed))
	return nil
}

// put inserts an edge at its place.
func (l *overlayList) put(e graph.Edge) {
	i, _ := slices.BinarySearchFunc(l.own, e, func(a, b graph.Edge) int { return cmp.Compare(a.Node(), b.Node()) })
	l.own = slices.Insert(l.own, i, e)
}

// list finds or makes a list.
func (o *overlay) list(k overlayKey) *overlayList {
	if e := o.find(k); e != nil {
		return &e.value
	}
	l := o.lists.add(k) // an earlier question's list, whose memory is used again
	l.own, l.all, l.merged = l.own[:0], l.all[:0], false
	o.nodeBits |= 1 << (k.node & 63)
	return l
}

// find finds a list that contextual tuples change, or returns nil.
func (o *overlay) find(k overlayKey) *smallEntry[overlayKey, overlayList] {
	if o.nodeBits>>(k.node&63)&1 == 0 {
		return nil
	}
	if i := o.lists.find(k); i >= 0 {
		return &o.lists.entries[i]
	}
	return nil
}

// addAttribute adds a contextual attribute, if its object's type has it and
// its value is JSON.
func (o *overlay) addAttribute(s *schema.Schema, a rel.Attribute) error {
	t, ok := s.Type(a.Object.Type)
	if ok {
		_, ok = t.Attributes[a.Name]
	}
	if !ok {
		return fmt.Errorf("%w: attribute %s of %s: the schema has no such attribute", ErrTuple, a.Name, a.Object)
	}
	if _, err := decode(a.Value); err != nil {
		return fmt.Errorf("%w: attribute %s of %s: %w", ErrTuple, a.Name, a.Object, err)
	}
	o.node(o.kind(graph.KindName{Type: a.Object.Type}), a.Object.ID, a.Object.Type)
	o.addTypeKinds(s, t)
	if o.attributes == nil {
		o.attributes = map[rel.Attribute]string{}
	}
	o.attributes[rel.Attribute{Object: a.Object, Name: a.Name}] = a.Value
	return nil
}

// addTypeKinds records the kinds of a type's nodes, so that an attribute is
// found from any node of its object.
func (o *overlay) addTypeKinds(s *schema.Schema, t *schema.Type) {
	if o.types == nil {
		o.types = map[graph.Kind]string{}
	}
	plain := o.kind(graph.KindName{Type: t.Name})
	if o.types[plain] != "" {
		return
	}
	o.types[plain] = t.Name
	if k, ok := o.Kind(graph.KindName{Type: t.Name, Wildcard: true}); ok {
		o.types[k] = t.Name
	}
	for _, id := range s.RelationsOf(t) {
		if k, ok := o.Kind(graph.KindName{Type: t.Name, Relation: s.Relations[id].Name}); ok {
			o.types[k] = t.Name
		}
	}
}

// merge merges base's edges into a list.
func (o *overlay) merge(e *smallEntry[overlayKey, overlayList]) {
	k, l := e.key, &e.value
	l.merged = true
	var old graph.List
	switch {
	case o.isOwn(k.node) || !o.inBase(k.kind):
	case !k.back:
		old = o.base.Forward(k.node, k.kind)
	case o.base.Reversible():
		old = o.base.Reverse(k.node, k.kind)
	}
	own := l.own
	l.all = slices.Grow(l.all, old.Len()+len(own))
	for c := range old.Chunks() {
		for _, e := range old.Chunk(c) {
			for len(own) > 0 && own[0].Node() < e.Node() {
				l.all, own = append(l.all, own[0]), own[1:]
			}
			if len(own) == 0 || own[0].Node() != e.Node() {
				l.all = append(l.all, e)
			}
		}
	}
	l.all = append(l.all, own...)
}

// isOwn reports whether base does not have a node.
func (o *overlay) isOwn(n graph.Node) bool { return n > graph.NodeMax-graph.Node(len(o.own.entries)) }

// inBase reports whether base may have a kind.
func (o *overlay) inBase(k graph.Kind) bool { return k <= ^graph.Kind(0)-graph.Kind(len(o.kinds)) }

// kind finds or makes a kind.
func (o *overlay) kind(name graph.KindName) graph.Kind {
	k, ok := o.Kind(name)
	if !ok {
		k = ^graph.Kind(0) - graph.Kind(len(o.kinds))
		o.kinds = append(o.kinds, name)
	}
	return k
}

// kindOfRelation returns the kind of a relation's nodes.
func (o *overlay) kindOfRelation(typ, relation string) graph.Kind {
	if b := o.binding; b != nil {
		if id, err := b.relation(typ, relation); err == nil {
			if k := b.kind(b.s.Relations[id].Kind); k != 0 {
				return k
			}
		}
	}
	return o.kind(graph.KindName{Type: typ, Relation: relation})
}

// kindOfSubject returns the kind of a subject's node.
func (o *overlay) kindOfSubject(s *rel.Subject) graph.Kind {
	if b := o.binding; b != nil {
		if _, _, k := b.subjectKind(s); k != 0 {
			return k
		}
	}
	return o.kind(graph.SubjectKind(*s))
}

// node finds or makes a node.
func (o *overlay) node(k graph.Kind, id, typ string) graph.Node {
	if n, ok := o.Node(k, id); ok {
		return n
	}
	n := graph.NodeMax - graph.Node(len(o.own.entries))
	*o.own.add(overlayNode{k, id}) = typ
	return n
}

// Kind implements [Reader].
func (o *overlay) Kind(name graph.KindName) (graph.Kind, bool) {
	for i := range o.kinds {
		if o.kinds[i] == name {
			return ^graph.Kind(0) - graph.Kind(i), true
		}
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

// Node implements [Reader].
func (o *overlay) Node(k graph.Kind, id string) (graph.Node, bool) {
	if n := o.ownNode(k, id); n != 0 {
		return n, true
	}
	if !o.inBase(k) {
		return 0, false
	}
	return o.base.Node(k, id)
}

// ownNode finds a node that base does not have; 0 if there is none.
func (o *overlay) ownNode(k graph.Kind, id string) graph.Node {
	if i := o.own.find(overlayNode{k, id}); i >= 0 {
		return graph.NodeMax - graph.Node(i)
	}
	return 0
}

func (o *overlay) Sibling(n graph.Node, k graph.Kind) (graph.Node, bool) {
	if o.isOwn(n) {
		return o.Node(k, o.ID(n))
	}
	if o.inBase(k) {
		m, ok := graph.Node(0), false
		if o.view != nil {
			m, ok = o.view.Sibling(n, k)
		} else {
			m, ok = o.base.Sibling(n, k)
		}
		if ok {
			return m, true
		}
	}
	if o.own.index == nil && !slices.ContainsFunc(o.own.entries, func(own smallEntry[overlayNode, string]) bool { return own.key.kind == k }) {
		return 0, false
	}
	m := o.ownNode(k, o.base.ID(n))
	return m, m != 0
}

func (o *overlay) KindOf(n graph.Node) graph.Kind {
	switch {
	case o.isOwn(n):
		return o.own.entries[graph.NodeMax-n].key.kind
	case o.view != nil:
		return o.view.KindOf(n)
	}
	return o.base.KindOf(n)
}

func (o *overlay) ID(n graph.Node) string {
	if o.isOwn(n) {
		return o.own.entries[graph.NodeMax-n].key.id
	}
	return o.base.ID(n)
}

func (o *overlay) Forward(n graph.Node, k graph.Kind) graph.List {
	if e := o.find(overlayKey{n, k, false}); e != nil {
		return o.mergedList(e)
	}
	switch {
	case o.isOwn(n) || !o.inBase(k):
		return graph.List{}
	case o.view != nil:
		return o.view.Forward(n, k)
	}
	return o.base.Forward(n, k)
}

func (o *overlay) Reverse(n graph.Node, k graph.Kind) graph.List {
	if e := o.find(overlayKey{n, k, true}); e != nil {
		return o.mergedList(e)
	}
	switch {
	case o.isOwn(n) || !o.inBase(k):
		return graph.List{}
	case o.view != nil:
		return o.view.Reverse(n, k)
	}
	return o.base.Reverse(n, k)
}

// mergedList returns a list with base's edges. Only an overlay for one
// question has lists that are not merged yet, so merging here is not a race.
func (o *overlay) mergedList(e *smallEntry[overlayKey, overlayList]) graph.List {
	if !e.value.merged {
		o.merge(e)
	}
	return graph.ListOf(e.value.all)
}

func (o *overlay) Reversible() bool { return o.base.Reversible() }

func (o *overlay) Detail(object, subject graph.Node) graph.Detail {
	if i := o.details.find([2]graph.Node{object, subject}); i >= 0 {
		return o.details.entries[i].value
	}
	return o.base.Detail(object, subject)
}

func (o *overlay) Attribute(n graph.Node, name string) (string, bool) {
	if len(o.attributes) > 0 {
		if typ := o.types[o.KindOf(n)]; typ != "" {
			object := rel.Object{Type: typ, ID: o.ID(n)}
			if v, ok := o.attributes[rel.Attribute{Object: object, Name: name}]; ok {
				return v, true
			}
		}
	}
	if !o.isOwn(n) {
		return o.base.Attribute(n, name)
	}
	// The object may be one of the base's by another of its nodes: attributes
	// are kept by the plain one.
	k, ok := o.base.Kind(graph.KindName{Type: o.own.entries[graph.NodeMax-n].value})
	if !ok {
		return "", false
	}
	plain, ok := o.base.Node(k, o.ID(n))
	if !ok {
		return "", false
	}
	return o.base.Attribute(plain, name)
}

// probe looks for one edge: first among the contextual ones, then in base.
func (o *overlay) probe(object, subject graph.Node) (graph.Edge, bool) {
	k := o.KindOf(subject)
	if l := o.find(overlayKey{object, k, false}); l != nil {
		if e, ok := graph.ListOf(l.value.own).Find(subject); ok {
			return e, true
		}
	}
	switch rows, ok := o.base.(*rowsReader); {
	case o.isOwn(object) || o.isOwn(subject):
		return 0, false
	case o.view != nil:
		return o.view.Probe(object, subject)
	case ok:
		return rows.probe(object, subject)
	}
	return o.base.Forward(object, k).Find(subject)
}

func (o *overlay) Err() error { return o.base.Err() }
