package eval

import (
	"context"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// query is one question under way: who asks, under what, and what it cost.
// It belongs to one goroutine.
type query struct {
	b    *Binding
	r    Reader
	view *graph.View // r, where it is one: calls that the compiler can see through
	ctx  context.Context
	env  *Env

	subject rel.Subject
	typ     *typeNames    // the subject's; nil where the schema has no such type
	kind    schema.KindID // the subject's; None where the schema has no such kind
	node    graph.Node    // the subject's node; 0 where no tuple names it
	star    graph.Node    // what starNode found
	starred bool

	// the question's object, where ends found it by its name
	named graph.Node
	name  graph.Name

	touched uint32 // keeps a read that is ahead of its use

	depthMax, nodesMax int
	visited            int // nodes, counted against limit
	limit              int // nodesMax, or what a walk with searches inside may take
	stats              Stats
	err                error // of the context
	prober             prober

	// of the walk
	object   string // the id of the question's object, for the node 0
	scratch  *scratch
	searches uint32
	nested   int
	spent    int  // edges that walks from the object followed
	over     bool // the walk ended early: bound of nodes, or err
}

// prober is a Reader that knows better than its lists whether one edge is
// there.
type prober interface {
	probe(object, subject graph.Node) (e graph.Edge, found bool)
}

// start begins a question of a subject.
func (q *query) start(ctx context.Context, b *Binding, r Reader, sub rel.Subject, env *Env) {
	if k := q.prepare(ctx, b, r, &sub, env); k != 0 {
		q.node, _ = r.Node(k, sub.ID)
	}
}

// prepare is start without finding the subject's node, whose kind it returns:
// 0 for a subject that has none.
func (q *query) prepare(ctx context.Context, b *Binding, r Reader, sub *rel.Subject, env *Env) (k graph.Kind) {
	if !b.whole {
		b = b.bound(r)
	}
	q.b, q.r, q.ctx, q.env, q.subject = b, r, ctx, env, *sub
	q.depthMax, q.nodesMax = env.Bounds.Depth, env.Bounds.Nodes
	if q.depthMax <= 0 {
		q.depthMax = DepthDefault
	}
	if q.nodesMax <= 0 {
		q.nodesMax = NodesDefault
	}
	q.limit = q.nodesMax
	q.view, q.prober, q.named = nil, nil, 0
	switch p := r.(type) {
	case *graph.View:
		q.view = p
	case *rowsReader:
		q.prober = p
	case *overlay:
		q.prober = p
	}
	q.kind, q.typ, k = b.subjectKind(&q.subject)
	return k
}

// under is the view that is read, below contextual tuples if there are any; nil
// for other data.
func (q *query) under() *graph.View {
	if o, ok := q.r.(*overlay); ok {
		return o.view
	}
	return q.view
}

// ends finds the subject's node, of kind k, and the object's first node of the
// kinds given, or 0.
func (q *query) ends(k graph.Kind, kinds []graph.Kind, id string) (object graph.Node) {
	v := q.view
	if v == nil || len(kinds) == 0 {
		if k != 0 {
			q.node, _ = q.r.Node(k, q.subject.ID)
		}
		return q.first(kinds, id)
	}
	by := kinds[0]
	for i := 1; i < len(kinds) && !v.HasKind(by); i++ { // a view may be older than the binding
		by = kinds[i]
	}
	var subject graph.Name
	q.name, subject = v.Names(by, id, k, q.subject.ID)
	q.node, _ = v.NodeOf(subject, k)
	for _, kind := range kinds {
		if n, ok := v.NodeOf(q.name, kind); ok {
			q.named = n
			return n
		}
	}
	return 0
}

// sibling finds the node of another kind of n's object.
func (q *query) sibling(n graph.Node, k graph.Kind) graph.Node {
	var m graph.Node
	switch {
	case q.view == nil:
		m, _ = q.r.Sibling(n, k)
	case n == q.named:
		m, _ = q.view.NodeOf(q.name, k)
	default:
		m, _ = q.view.Sibling(n, k)
	}
	return m
}

// kindOf, forward and reverse read as the Reader does.
func (q *query) kindOf(n graph.Node) graph.Kind {
	if q.view != nil {
		return q.view.KindOf(n)
	}
	return q.r.KindOf(n)
}

func (q *query) forward(n graph.Node, k graph.Kind) graph.List {
	if q.view != nil {
		return q.view.Forward(n, k)
	}
	return q.r.Forward(n, k)
}

func (q *query) reverse(n graph.Node, k graph.Kind) graph.List {
	if q.view != nil {
		return q.view.Reverse(n, k)
	}
	return q.r.Reverse(n, k)
}

// starNode finds the wildcard that covers the subject, the first time that it
// is wanted.
func (q *query) starNode() graph.Node {
	if !q.starred {
		q.starred = true
		if wild := q.starKind(); wild != 0 {
			q.star, _ = q.r.Node(wild, rel.Wildcard)
		}
	}
	return q.star
}

// starKind is the kind of the wildcard that covers the subject, or 0: a
// wildcard covers plain objects only, neither usersets nor itself.
func (q *query) starKind() graph.Kind {
	if q.typ == nil || q.subject.IsWildcard() || q.b.s.Options.StarIsOrdinary {
		return 0
	}
	if q.subject.Relation != "" {
		return 0
	}
	return q.typ.star
}

// is says whether the subject is the userset of a relation of n's object, so
// that it is a member of it by itself. n is 0 for an object without nodes.
func (q *query) is(id schema.RelationID, n graph.Node, objectID string) bool {
	if q.kind == schema.None || q.subject.Relation == "" || q.b.s.Relations[id].Kind != q.kind {
		return false
	}
	if n == q.node && n != 0 {
		return true
	}
	if n != 0 {
		objectID = q.r.ID(n)
	}
	return objectID == q.subject.ID
}

// at finds the node of a relation of n's object.
func (q *query) at(n graph.Node, k graph.Kind) graph.Node {
	if n == 0 || k == 0 {
		return 0
	}
	if q.kindOf(n) == k {
		return n
	}
	return q.sibling(n, k)
}

// anchor finds any node of a named object, or 0.
func (q *query) anchor(o rel.Object) graph.Node {
	t := q.b.typeNamed(o.Type)
	if t == schema.None {
		return 0
	}
	for _, k := range q.b.anchors[t] {
		if n, ok := q.r.Node(k, o.ID); ok {
			return n
		}
	}
	return 0
}

// canonical finds the one node that stands for n's object wherever objects
// are compared.
func (q *query) canonical(n graph.Node) graph.Node {
	if n == 0 {
		return 0
	}
	own := q.r.KindOf(n)
	t := q.b.typeOf(own)
	if t == schema.None {
		return n
	}
	for _, k := range q.b.anchors[t] {
		if k == own {
			return n
		}
		if m, ok := q.r.Sibling(n, k); ok {
			return m
		}
	}
	return n
}

// probe is find, counted.
func (q *query) probe(n, x graph.Node, k graph.Kind) (graph.Edge, bool) {
	q.stats.Probes++
	return q.find(n, x, k)
}

// find looks for the edge from n, a node of a relation, to x of kind k, on
// the side where that is cheaper.
func (q *query) find(n, x graph.Node, k graph.Kind) (graph.Edge, bool) {
	if q.prober != nil {
		return q.prober.probe(n, x)
	}
	l := q.forward(n, k)
	if l.Len() > listLong && q.r.Reversible() && q.b.mode != ModeForward {
		if back := q.reverse(x, q.kindOf(n)); back.Len() < l.Len() {
			e, ok := back.Find(n)
			return graph.EdgeTo(x, e.Detailed()), ok
		}
	}
	return l.Find(x)
}

// listLong is a length from which the other side of an edge is worth a look.
const listLong = 64

// visit counts nodes. It returns false where the question must stop: at the
// bound of nodes, or because its context ended.
func (q *query) visit(n int) bool {
	before := q.visited
	q.visited += n
	q.stats.Nodes += n
	if q.visited > q.limit {
		return false
	}
	if before>>12 != q.visited>>12 {
		if q.err = q.ctx.Err(); q.err == nil {
			q.err = q.r.Err()
		}
	}
	return q.err == nil
}

// verdict is what a tuple says, apart from its subject.
type verdict struct {
	truth  expr.Tristate
	counts bool // admitted by the schema and not expired
	detail graph.Detail
	result expr.Result // of the condition, where there is one
}

// edge says whether the tuple n#…@e counts and its condition holds, under the
// restriction that e's kind was read by.
func (q *query) edge(x *schema.Restriction, n graph.Node, e graph.Edge) expr.Tristate {
	if x.Bare && !e.Detailed() {
		return expr.True
	}
	return q.rareEdge(x, n, e)
}

// rareEdge is edge where more than a glance is needed.
func (q *query) rareEdge(x *schema.Restriction, n graph.Node, e graph.Edge) expr.Tristate {
	if e.Detailed() {
		return q.tuple(x, n, e).truth
	}
	return expr.False
}

// tuple is edge with everything that explains it.
func (q *query) tuple(x *schema.Restriction, n graph.Node, e graph.Edge) verdict {
	v := verdict{}
	if e.Detailed() {
		v.detail = q.r.Detail(n, e.Node())
	}
	if !x.Admits(v.detail.Condition) || q.expired(v.detail.Expires) {
		return v
	}
	v.counts, v.truth = true, expr.True
	c := q.b.s.Conditions[v.detail.Condition]
	if v.detail.Condition == "" || c == nil {
		return v
	}
	q.stats.Conditions++
	v.result = c.Program.Eval(v.detail.Values, q.env.Context, q.env.Now)
	v.truth = v.result.Value
	return v
}

func (q *query) expired(expires rel.Time) bool {
	return expires != 0 && expires <= q.env.Now
}

// key names the tuple n#…@e.
func (q *query) key(n graph.Node, e graph.Edge) rel.Key {
	k := q.b.s.Kinds[q.b.kindID(q.r.KindOf(n))]
	return rel.Key{Object: rel.Object{Type: k.Type, ID: q.r.ID(n)}, Relation: k.Relation,
		Subject: q.subjectOf(e.Node())}
}

// subjectOf names a node as a subject.
func (q *query) subjectOf(n graph.Node) rel.Subject {
	k := q.b.s.Kinds[q.b.kindID(q.r.KindOf(n))]
	if k.Wildcard {
		return rel.Subject{Type: k.Type, ID: rel.Wildcard}
	}
	return rel.Subject{Type: k.Type, ID: q.r.ID(n), Relation: k.Relation}
}
