package eval

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/graph"
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
	o := &overlay{}
	if err := o.fill(s, b, base, tuples, attributes); err != nil {
		return nil, err
	}
	for i := range o.lists {
		o.merge(&o.lists[i])
	}
	return o, nil
}

// overlay is a small graph before another Reader. Its own nodes count down
// from graph.NodeMax, so that they stand behind every node of the base. Most
// questions bring few tuples: what is searched is a slice, and has an index
// only from overlayFew entries on.
type overlay struct {
	base Reader
	view *graph.View // base, where it is one
	// binding, if there is one, has numbers for kinds that base, a view made
	// before the schema was bound, does not know yet.
	binding *Binding
	// env is the question's that the overlay is made for, if it is for one only.
	env *Env

	kinds []graph.KindName // kinds[i] is the own kind ^graph.Kind(0)-i
	own   []ownNode        // own[i] is the node graph.NodeMax-i
	nodes map[overlayNode]graph.Node

	lists   []overlayList
	index   map[overlayKey]int32
	touched uint64 // a bit for each node of lists, by the node's lowest ones

	details    []overlayDetail
	detailed   map[[2]graph.Node]int32
	attributes map[rel.Attribute]string // by object and name, the value empty
	types      map[graph.Kind]string    // by the kinds of types that attributes has
}

// overlayFew is how many entries are searched one by one.
const overlayFew = 16

// overlayNode names a node that the base does not have.
type overlayNode struct {
	kind graph.Kind
	id   string
}

type ownNode struct {
	overlayNode
	typ string
}

// overlayKey says whose neighbours a list has: those of a kind, in the tuples
// that node is the object of, or (back) the subject.
type overlayKey struct {
	node graph.Node
	kind graph.Kind
	back bool
}

// overlayList is a list that contextual tuples add to or replace edges of.
type overlayList struct {
	overlayKey
	own    []graph.Edge // the contextual ones, sorted by node
	all    []graph.Edge // with the base's, once they are merged
	merged bool
}

type overlayDetail struct {
	object, subject graph.Node
	graph.Detail
}

// fill adds what a question brings, if the schema admits it.
func (o *overlay) fill(s *schema.Schema, b *Binding, base Reader, tuples []rel.Tuple, attributes []rel.Attribute) error {
	o.binding, o.base = b, base
	o.view, _ = base.(*graph.View)
	for i := range tuples {
		if err := o.admit(s, &tuples[i]); err != nil {
			return err
		}
	}
	var last map[rel.Key]int
	if len(tuples) > overlayFew {
		last = make(map[rel.Key]int, len(tuples))
		for i := range tuples {
			last[tuples[i].Key()] = i
		}
	}
	for i := range tuples {
		if again(tuples, i, last) {
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

// again says whether the i-th tuple's key comes again later.
func again(tuples []rel.Tuple, i int, last map[rel.Key]int) bool {
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

// admit is Admit, without a detour over names where there is a binding.
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

func (o *overlay) add(t *rel.Tuple) error {
	from := o.node(o.kindOfRelation(t.Object.Type, t.Relation), t.Object.ID, t.Object.Type)
	to := o.node(o.kindOfSubject(&t.Subject), t.Subject.ID, t.Subject.Type)
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
		if len(o.details) == overlayFew {
			o.detailed = map[[2]graph.Node]int32{}
			for i := range o.details {
				o.detailed[[2]graph.Node{o.details[i].object, o.details[i].subject}] = int32(i)
			}
		}
		if o.detailed != nil {
			o.detailed[[2]graph.Node{from, to}] = int32(len(o.details))
		}
		o.details = append(o.details, overlayDetail{from, to, d})
	}
	o.list(overlayKey{from, o.KindOf(to), false}).put(graph.EdgeTo(to, detailed))
	o.list(overlayKey{to, o.KindOf(from), true}).put(graph.EdgeTo(from, detailed))
	return nil
}

// put adds an edge in its place.
func (l *overlayList) put(e graph.Edge) {
	i, _ := slices.BinarySearchFunc(l.own, e, func(a, b graph.Edge) int { return cmp.Compare(a.Node(), b.Node()) })
	l.own = slices.Insert(l.own, i, e)
}

// list finds a list or makes one.
func (o *overlay) list(k overlayKey) *overlayList {
	if l := o.find(k); l != nil {
		return l
	}
	if len(o.lists) == overlayFew {
		o.index = make(map[overlayKey]int32, 2*overlayFew)
		for i := range o.lists {
			o.index[o.lists[i].overlayKey] = int32(i)
		}
	}
	if o.index != nil {
		o.index[k] = int32(len(o.lists))
	}
	if n := len(o.lists); n < cap(o.lists) { // an earlier question's, for its memory
		o.lists = o.lists[:n+1]
	} else {
		o.lists = append(o.lists, overlayList{})
	}
	l := &o.lists[len(o.lists)-1]
	l.overlayKey, l.own, l.all, l.merged = k, l.own[:0], l.all[:0], false
	o.touched |= 1 << (k.node & 63)
	return l
}

// find finds a list that contextual tuples have a part in, or nil.
func (o *overlay) find(k overlayKey) *overlayList {
	if o.touched>>(k.node&63)&1 == 0 {
		return nil
	}
	if o.index != nil {
		if i, ok := o.index[k]; ok {
			return &o.lists[i]
		}
		return nil
	}
	for i := range o.lists {
		if o.lists[i].overlayKey == k {
			return &o.lists[i]
		}
	}
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
	o.node(o.kind(graph.KindName{Type: a.Object.Type}), a.Object.ID, a.Object.Type)
	o.typed(s, t)
	if o.attributes == nil {
		o.attributes = map[rel.Attribute]string{}
	}
	o.attributes[rel.Attribute{Object: a.Object, Name: a.Name}] = a.Value
	return nil
}

// typed notes which kinds a type's objects have, so that an attribute is
// found from any node of its object.
func (o *overlay) typed(s *schema.Schema, t *schema.Type) {
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

// merge puts the base's edges into a list.
func (o *overlay) merge(l *overlayList) {
	l.merged = true
	var old graph.List
	switch {
	case o.isOwn(l.node) || !o.known(l.kind):
	case !l.back:
		old = o.base.Forward(l.node, l.kind)
	case o.base.Reversible():
		old = o.base.Reverse(l.node, l.kind)
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

func (o *overlay) isOwn(n graph.Node) bool { return n > graph.NodeMax-graph.Node(len(o.own)) }

// known says whether the base may know a kind.
func (o *overlay) known(k graph.Kind) bool { return k <= ^graph.Kind(0)-graph.Kind(len(o.kinds)) }

// kind finds a kind or makes one, counting down from the greatest.
func (o *overlay) kind(name graph.KindName) graph.Kind {
	k, ok := o.Kind(name)
	if !ok {
		k = ^graph.Kind(0) - graph.Kind(len(o.kinds))
		o.kinds = append(o.kinds, name)
	}
	return k
}

// kindOfRelation is the kind of a relation's nodes.
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

// kindOfSubject is the kind of the node that stands for a subject.
func (o *overlay) kindOfSubject(s *rel.Subject) graph.Kind {
	if b := o.binding; b != nil {
		if _, _, k := b.subjectKind(s); k != 0 {
			return k
		}
	}
	return o.kind(graph.SubjectKind(*s))
}

// node finds a node or makes one.
func (o *overlay) node(k graph.Kind, id, typ string) graph.Node {
	if n, ok := o.Node(k, id); ok {
		return n
	}
	n := graph.NodeMax - graph.Node(len(o.own))
	if len(o.own) == overlayFew {
		o.nodes = make(map[overlayNode]graph.Node, 2*overlayFew)
		for i, own := range o.own {
			o.nodes[own.overlayNode] = graph.NodeMax - graph.Node(i)
		}
	}
	if o.nodes != nil {
		o.nodes[overlayNode{k, id}] = n
	}
	o.own = append(o.own, ownNode{overlayNode{k, id}, typ})
	return n
}

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

func (o *overlay) Node(k graph.Kind, id string) (graph.Node, bool) {
	if n := o.ownNode(k, id); n != 0 {
		return n, true
	}
	if !o.known(k) {
		return 0, false
	}
	return o.base.Node(k, id)
}

// ownNode finds a node that the base does not have, or 0.
func (o *overlay) ownNode(k graph.Kind, id string) graph.Node {
	if o.nodes != nil {
		return o.nodes[overlayNode{k, id}]
	}
	for i := range o.own {
		if own := &o.own[i]; own.kind == k && own.id == id {
			return graph.NodeMax - graph.Node(i)
		}
	}
	return 0
}

func (o *overlay) Sibling(n graph.Node, k graph.Kind) (graph.Node, bool) {
	if o.isOwn(n) {
		return o.Node(k, o.ID(n))
	}
	if o.known(k) {
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
	if o.nodes == nil && !slices.ContainsFunc(o.own, func(own ownNode) bool { return own.kind == k }) {
		return 0, false
	}
	m := o.ownNode(k, o.base.ID(n))
	return m, m != 0
}

func (o *overlay) KindOf(n graph.Node) graph.Kind {
	switch {
	case o.isOwn(n):
		return o.own[graph.NodeMax-n].kind
	case o.view != nil:
		return o.view.KindOf(n)
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
	if l := o.find(overlayKey{n, k, false}); l != nil {
		return o.whole(l)
	}
	switch {
	case o.isOwn(n) || !o.known(k):
		return graph.List{}
	case o.view != nil:
		return o.view.Forward(n, k)
	}
	return o.base.Forward(n, k)
}

func (o *overlay) Reverse(n graph.Node, k graph.Kind) graph.List {
	if l := o.find(overlayKey{n, k, true}); l != nil {
		return o.whole(l)
	}
	switch {
	case o.isOwn(n) || !o.known(k):
		return graph.List{}
	case o.view != nil:
		return o.view.Reverse(n, k)
	}
	return o.base.Reverse(n, k)
}

// whole is a list with the base's edges. Only an overlay for one question has
// lists that are not merged yet.
func (o *overlay) whole(l *overlayList) graph.List {
	if !l.merged {
		o.merge(l)
	}
	return graph.ListOf(l.all)
}

func (o *overlay) Reversible() bool { return o.base.Reversible() }

func (o *overlay) Detail(object, subject graph.Node) graph.Detail {
	if o.detailed != nil {
		if i, ok := o.detailed[[2]graph.Node{object, subject}]; ok {
			return o.details[i].Detail
		}
		return o.base.Detail(object, subject)
	}
	for i := range o.details {
		if d := &o.details[i]; d.object == object && d.subject == subject {
			return d.Detail
		}
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
	k, ok := o.base.Kind(graph.KindName{Type: o.own[graph.NodeMax-n].typ})
	if !ok {
		return "", false
	}
	plain, ok := o.base.Node(k, o.ID(n))
	if !ok {
		return "", false
	}
	return o.base.Attribute(plain, name)
}

// probe asks the base for what no contextual tuple replaces.
func (o *overlay) probe(object, subject graph.Node) (graph.Edge, bool) {
	k := o.KindOf(subject)
	if l := o.find(overlayKey{object, k, false}); l != nil {
		if e, ok := graph.ListOf(l.own).Find(subject); ok {
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
