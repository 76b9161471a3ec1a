package eval

import (
	"context"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// query is the state of one question: its subject, its environment and its
// cost. It belongs to one goroutine.
type query struct {
	// b binds the schema to the kinds of r.
	b *Binding
	// r is the data, including contextual tuples.
	r Reader
	// view is r where r is a *graph.View, and nil otherwise. Calls on the
	// concrete type can be inlined.
	view *graph.View
	// ctx ends the question early when it is canceled.
	ctx context.Context
	// env is the question's environment.
	env *Env

	// subject is the question's subject.
	subject rel.Subject
	// subjectType is the subject's type; nil if the schema does not have it.
	subjectType *typeNames
	// kind is the subject's kind in the schema; schema.None if the schema does
	// not have it.
	kind schema.KindID
	// node is the subject's node; 0 if no tuple names the subject.
	node graph.Node
	// star is the node of the wildcard that covers the subject, or 0. It is
	// valid once starred is true.
	star graph.Node
	// starred is true once star was looked up.
	starred bool

	// objectNode is the question's object as found by findEnds, and objectName
	// its name; 0 if it was not looked up by name.
	objectNode graph.Node
	objectName graph.Name

	// prefetched stores the result of a prefetching read, so that the compiler
	// keeps the read.
	prefetched uint32

	// depthMax, nodesMax and conditionCostMax are the question's bounds with
	// their defaults applied.
	depthMax, nodesMax, conditionCostMax int
	// work counts steps that are not visited nodes; see tick.
	work int
	// memory counts the memory of the question.
	memory memoryUse
	// turn is the question's use of the turns, once turning is true.
	turn    turns.Part
	turning bool
	// withExpired makes expired tuples count, for the memberships that an
	// explanation names; metExpired is true once one was met.
	withExpired, metExpired bool
	// prepared are the conditions that the question has evaluated.
	prepared []preparedCondition
	// visited counts nodes since the last resetNodes.
	visited int
	// nodesLimit bounds visited. It is nodesMax, or nestedNodesMax once a
	// search runs inside another one.
	nodesLimit int
	// stats count the whole work of the question.
	stats authz.Stats
	// err is the error that ended the question, from ctx or r.
	err error
	// prober is r if r can look up a single edge, and nil otherwise.
	prober prober

	// objectID is the id of the question's object. It is needed where the
	// object has no node.
	objectID string
	// scratch is the memory of searches that outgrew the stack; nil until it
	// is needed.
	scratch *scratch
	// searches numbers the searches of the question.
	searches uint32
	// nested is the number of searches inside which the current one runs.
	nested int
	// edgesRead counts edges that searches from the object followed. A walk
	// from the subject may cost as much (see decideByClosure).
	edgesRead int
	// stopped is true if a search ended early, by a bound of nodes or by err.
	stopped bool
}

// prober is a [Reader] that can look up a single edge without reading a list.
type prober interface {
	// probe returns the edge from object to subject; false if there is none.
	probe(object, subject graph.Node) (e graph.Edge, found bool)
}

// start begins a question about a subject.
func (q *query) start(ctx context.Context, b *Binding, r Reader, sub rel.Subject, env *Env) {
	if k := q.prepare(ctx, b, r, &sub, env); k != 0 {
		q.node, _ = r.Node(k, sub.ID)
	}
}

// prepare is start without the lookup of the subject's node. It returns the
// kind of that node; 0 if the subject can have none.
func (q *query) prepare(ctx context.Context, b *Binding, r Reader, sub *rel.Subject, env *Env) (k graph.Kind) {
	if !b.complete {
		b = b.rebound(r)
	}
	q.b, q.r, q.ctx, q.env, q.subject = b, r, ctx, env, *sub
	q.depthMax, q.nodesMax = env.Bounds.Depth, env.Bounds.Nodes
	if q.depthMax <= 0 {
		q.depthMax = authz.DepthDefault
	}
	if q.nodesMax <= 0 {
		q.nodesMax = authz.NodesDefault
	}
	q.nodesLimit = q.nodesMax
	if q.conditionCostMax = env.Bounds.ConditionCost; q.conditionCostMax <= 0 {
		q.conditionCostMax = authz.ConditionCostDefault
	}
	if q.memory.max == 0 { // a list asks several questions with one query
		if q.memory.max = env.Bounds.Memory; q.memory.max <= 0 {
			q.memory.max = authz.MemoryDefault
		}
		q.memory.granted = min(memoryFree, q.memory.max)
	}
	q.view, q.prober, q.objectNode = nil, nil, 0
	switch p := r.(type) {
	case *graph.View:
		q.view = p
	case *rowsReader:
		q.prober = p
	case *overlay:
		q.prober = p
	}
	q.kind, q.subjectType, k = b.subjectKind(&q.subject)
	return k
}

// finish ends the question. It returns what the question has taken.
func (q *query) finish() {
	if q.turning || q.memory.reserved > 0 {
		q.release()
	}
}

// baseView returns the view that holds the stored data, also where contextual
// tuples are in front of it; nil for other data.
func (q *query) baseView() *graph.View {
	if o, ok := q.r.(*overlay); ok {
		return o.view
	}
	return q.view
}

// findEnds finds the subject's node, of kind k, and returns the object's node
// of the first of kinds that has one, or 0.
func (q *query) findEnds(k graph.Kind, kinds []graph.Kind, id string) (object graph.Node) {
	v := q.view
	if v == nil || len(kinds) == 0 {
		if k != 0 {
			q.node, _ = q.r.Node(k, q.subject.ID)
		}
		return q.firstNode(kinds, id)
	}
	by := kinds[0]
	for i := 1; i < len(kinds) && !v.HasKind(by); i++ { // a view may be older than the binding
		by = kinds[i]
	}
	var subject graph.Name
	q.objectName, subject = v.Names(by, id, k, q.subject.ID)
	q.node, _ = v.NodeOf(subject, k)
	for _, kind := range kinds {
		if n, ok := v.NodeOf(q.objectName, kind); ok {
			q.objectNode = n
			return n
		}
	}
	return 0
}

// sibling finds the node of kind k of n's object; 0 if there is none.
func (q *query) sibling(n graph.Node, k graph.Kind) graph.Node {
	var m graph.Node
	switch {
	case q.view == nil:
		m, _ = q.r.Sibling(n, k)
	case n == q.objectNode:
		m, _ = q.view.NodeOf(q.objectName, k)
	default:
		m, _ = q.view.Sibling(n, k)
	}
	return m
}

// kindOf, forward and reverse are the methods of the Reader, called on the
// view where there is one.
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

// starNode returns the node of the wildcard that covers the subject, or 0.
func (q *query) starNode() graph.Node {
	if !q.starred {
		q.starred = true
		if wild := q.starKind(); wild != 0 {
			q.star, _ = q.r.Node(wild, rel.Wildcard)
		}
	}
	return q.star
}

// starKind is the kind of the wildcard that covers the subject, or 0. A
// wildcard covers plain objects only, neither usersets nor itself.
func (q *query) starKind() graph.Kind {
	if q.subjectType == nil || q.subject.IsWildcard() || q.b.s.Options.StarIsOrdinary {
		return 0
	}
	if q.subject.Relation != "" {
		return 0
	}
	return q.subjectType.star
}

// isItself reports whether the subject is the userset id of n's object. Every
// userset is a member of itself. n is 0 for an object without nodes, which
// then has the id objectID.
func (q *query) isItself(id schema.RelationID, n graph.Node, objectID string) bool {
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

// relationNode returns the node of kind k of n's object, or 0.
func (q *query) relationNode(n graph.Node, k graph.Kind) graph.Node {
	if n == 0 || k == 0 {
		return 0
	}
	if q.kindOf(n) == k {
		return n
	}
	return q.sibling(n, k)
}

// anchor finds any node of an object, or 0 if it has none.
func (q *query) anchor(o rel.Object) graph.Node {
	t := q.b.typeNamed(o.Type)
	if t == schema.None {
		return 0
	}
	for _, k := range q.b.objectKinds[t] {
		if n, ok := q.r.Node(k, o.ID); ok {
			return n
		}
	}
	return 0
}

// canonical returns the same node for every node of an object, so that objects
// can be compared by it.
func (q *query) canonical(n graph.Node) graph.Node {
	if n == 0 {
		return 0
	}
	own := q.r.KindOf(n)
	t := q.b.typeOf(own)
	if t == schema.None {
		return n
	}
	for _, k := range q.b.objectKinds[t] {
		if k == own {
			return n
		}
		if m, ok := q.r.Sibling(n, k); ok {
			return m
		}
	}
	return n
}

// probe is find, counted in the stats.
func (q *query) probe(n, x graph.Node, k graph.Kind) (graph.Edge, bool) {
	q.stats.Probes++
	return q.find(n, x, k)
}

// find looks for the edge from n, a node of a relation, to x of kind k. It
// searches the shorter list where n's list is long: the subjects of n, or the
// nodes in whose tuples x is the subject.
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

// listLong is the length from which find compares the lists of both ends.
const listLong = 64

// visit counts n nodes. It returns false if the question must stop: at a bound,
// which boundReached names, or because of an error, which it puts into q.err.
// It looks for errors once in 4096 nodes.
func (q *query) visit(n int) bool {
	before := q.visited
	q.visited += n
	q.stats.Nodes += n
	if q.visited > q.nodesLimit || q.exhausted() {
		return false
	}
	if before>>12 != q.visited>>12 {
		q.lookAndWait()
	}
	return q.err == nil
}

// tick counts n steps of work that visit no node. It returns false if the
// question has failed, for which it looks once in 4096 steps.
func (q *query) tick(n int) bool {
	before := q.work
	q.work += n
	if before>>12 != q.work>>12 {
		q.lookAndWait()
	}
	return q.err == nil
}

// look puts the error of the context or the Reader into q.err.
func (q *query) look() {
	if q.err = q.ctx.Err(); q.err == nil {
		q.err = q.r.Err()
	}
}

// lendTurn makes the turn of a question that of another query, which works for
// it.
func (q *query) lendTurn(to *query) {
	to.turn, to.turning, q.turn, q.turning = q.turn, q.turning, turns.Part{}, false
}

// lookAndWait is look for a question that has worked for a while. It waits for
// the question's turn.
func (q *query) lookAndWait() {
	if q.look(); q.err == nil && q.env.Turns != nil {
		q.turning = true
		q.err = q.turn.Wait(q.ctx, q.env.Turns, q.memory.large())
	}
}

// exhausted reports whether the question has used up what it may use in total.
// Nothing can then be decided any more, unlike at a bound of depth or nodes.
func (q *query) exhausted() bool {
	return q.stats.ConditionCost > q.conditionCostMax || q.memory.bound != ""
}

// boundReached names the bound because of which visit returned false.
func (q *query) boundReached() string {
	switch {
	case q.memory.bound != "":
		return q.memory.bound
	case q.exhausted():
		return authz.BoundConditionCost
	}
	return authz.BoundNodes
}

// tupleResult is how a tuple counts, apart from its subject.
type tupleResult struct {
	// truth is False if the tuple does not count, and otherwise the
	// condition's value; True without a condition.
	truth expr.Tristate
	// counts is true if the schema admits the tuple and it has not expired.
	counts bool
	// detail holds the tuple's condition, context and expiry.
	detail graph.Detail
	// result is the condition's result; zero without a condition.
	result expr.Result
}

// edge returns whether the tuple n#…@e counts and its condition holds. x is
// the type restriction under which e's kind was read.
func (q *query) edge(x *schema.Restriction, n graph.Node, e graph.Edge) expr.Tristate {
	if x.Bare && !e.Detailed() {
		return expr.True
	}
	return q.edgeInFull(x, n, e)
}

// edgeInFull is edge for tuples with details and restrictions with conditions.
func (q *query) edgeInFull(x *schema.Restriction, n graph.Node, e graph.Edge) expr.Tristate {
	if e.Detailed() {
		return q.tuple(x, n, e).truth
	}
	return expr.False
}

// tuple is edge with everything that an explanation needs.
func (q *query) tuple(x *schema.Restriction, n graph.Node, e graph.Edge) tupleResult {
	v := tupleResult{}
	if v.detail, v.counts = q.admitted(x, n, e); !v.counts {
		return v
	}
	v.truth = expr.True
	c := q.b.s.Conditions[v.detail.Condition]
	if v.detail.Condition == "" || c == nil {
		return v
	}
	v.result = q.evaluate(c, c.Program, v.detail.Values, q.env.Context)
	v.truth = v.result.Value
	return v
}

// admitted returns the details of the tuple n#…@e, and whether the schema admits
// it and it has not expired.
func (q *query) admitted(x *schema.Restriction, n graph.Node, e graph.Edge) (d graph.Detail, counts bool) {
	if e.Detailed() {
		d = q.r.Detail(n, e.Node())
	}
	return d, x.Admits(d.Condition) && !q.expired(d.Expires)
}

// expired reports whether a tuple with that expiry no longer counts. 0 means
// no expiry.
func (q *query) expired(expires rel.Time) bool {
	if expires == 0 || expires > q.env.Now {
		return false
	}
	q.metExpired = true
	return !q.withExpired
}

// key returns the names of the tuple n#…@e.
func (q *query) key(n graph.Node, e graph.Edge) rel.Key {
	k := q.b.s.Kinds[q.b.kindID(q.r.KindOf(n))]
	return rel.Key{Object: rel.Object{Type: k.Type, ID: q.r.ID(n)}, Relation: k.Relation,
		Subject: q.subjectOf(e.Node())}
}

// subjectOf returns the subject that a node represents.
func (q *query) subjectOf(n graph.Node) rel.Subject {
	k := q.b.s.Kinds[q.b.kindID(q.r.KindOf(n))]
	if k.Wildcard {
		return rel.Subject{Type: k.Type, ID: rel.Wildcard}
	}
	return rel.Subject{Type: k.Type, ID: q.r.ID(n), Relation: k.Relation}
}
