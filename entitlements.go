package ostiary

import (
	"cmp"
	"context"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/query"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// EntitlementsRequest asks what one subject may do to some objects: objects ×
// relations, in one call, at one revision and one time.
type EntitlementsRequest struct {
	Subject rel.Subject
	Objects []rel.Object
	// Relations are those that are asked of every object. Nil is all that the
	// object's type has, or with Permissions its permissions.
	Relations []string
	// Permissions leaves out, where Relations is nil, the relations that tuples
	// may name: what is left is computed. A type without permissions shows all its
	// relations.
	Permissions bool
	QueryOptions
}

// EntitlementsResult are what a subject may do, an entry for each object that was
// asked for, in the same order.
type EntitlementsResult struct {
	Objects  []ObjectEntitlements
	Revision storage.Revision
	// Token is the revision's, to ask again with Exactly.
	Token Token
	// Stats sum up the work.
	Stats eval.Stats
}

// ObjectEntitlements are a subject's relations on one object.
type ObjectEntitlements struct {
	Object rel.Object
	// Relations are those for which check is true, in the order they were asked
	// for, or else in the schema's.
	Relations []string
	// Unknown are those for which check is unknown, with the reasons, in the
	// same order.
	Unknown []UnknownRelation
	// Err is why the object could not be asked for: its type, or one of the
	// relations that were asked for by name, is not in the schema.
	Err error
}

// UnknownRelation is a relation for which check is unknown.
type UnknownRelation struct {
	Relation string
	Reasons  *eval.Reasons
}

// Entitlements answers objects × relations, each as Check would. The number of
// questions that come of it is bounded by Bounds.BatchItems.
func (s *Store) Entitlements(ctx context.Context, r EntitlementsRequest) (EntitlementsResult, error) {
	const op = "entitlements"
	most := s.timeline.Runtime.Bounds.BatchItems
	if err := errs.CheckBound("BatchItems", len(r.Objects)*max(len(r.Relations), 1), most); err != nil {
		return EntitlementsResult{}, errs.Wrap(op, s.ID(), err)
	}
	v, err := s.timeline.At(ctx, r.Consistency)
	if err != nil {
		return EntitlementsResult{}, errs.Wrap(op, s.ID(), err)
	}
	out := EntitlementsResult{Objects: make([]ObjectEntitlements, len(r.Objects)), Revision: v.Head.Revision, Token: s.timeline.Token(v.Head)}
	w := entitling{s: s, ctx: ctx, view: v, request: &r, left: most, env: eval.Env{Now: s.timeline.Now(v), Context: r.Context,
		Tuples: r.Tuples, Attributes: r.Attributes, Bounds: s.timeline.Runtime.Bounds.Query(r.Bounds)}}
	for i := range r.Objects {
		o := &out.Objects[i]
		o.Object = r.Objects[i]
		if err := w.object(o, &out.Stats); err != nil {
			return EntitlementsResult{}, errs.Wrap(op, s.ID(), err)
		}
	}
	return out, nil
}

// entitling is a request for entitlements under way.
type entitling struct {
	s       *Store
	ctx     context.Context
	view    *snapshot.View
	request *EntitlementsRequest
	env     eval.Env
	left    int // questions that may still be asked

	// What follows is of the last object's type, since most requests have one.
	typ    string
	ready  *snapshot.BoundSchema
	err    error
	reader eval.Reader
	names  []string
	found  []string // memory for relations, cut from for each object
	// reach is what the subject may be a member of at all; nil is not known. It is
	// walked once so many questions were asked that it pays.
	reach  *reach
	walked bool
	asked  int
	kind   schema.KindID // of the subject
	// ids are those of names; nil where nothing follows from anything.
	ids   []schema.RelationID
	truth []bool // by relation, what held on the object at hand
	// order is that in which names are asked: what others follow from comes first.
	// answers are those of the object at hand, by name.
	order   []int
	answers []eval.Answer
}

// object fills in one object. Its own errors are in it, those of the whole are
// returned.
func (w *entitling) object(o *ObjectEntitlements, stats *eval.Stats) error {
	if err := w.prepare(o.Object.Type); err != nil {
		o.Err = errs.Wrap("check", w.s.ID(), err)
		return w.ctx.Err()
	}
	q := eval.Question{Object: o.Object, Subject: w.request.Subject}
	if o.Err = errs.Wrap("check", w.s.ID(), query.ValidQuestion(&q.Object, &q.Subject)); o.Err != nil {
		return nil
	}
	if w.left -= len(w.names); w.left < 0 {
		most := w.s.timeline.Runtime.Bounds.BatchItems
		return errs.CheckBound("BatchItems", most-w.left, most)
	}
	clear(w.truth)
	for _, i := range w.order {
		answer := &w.answers[i]
		if known, yes := w.follows(i, o.Object.ID); known {
			*answer = eval.Answer{}
			if yes {
				answer.Decision = expr.True
			}
			continue
		}
		if w.asked++; w.asked == reachFrom && w.ids != nil && !w.walked {
			if err := w.walk(); err != nil {
				return err
			}
		}
		var err error
		q.Relation = w.names[i]
		if *answer, err = w.ready.Binding.Check(w.ctx, w.reader, q, &w.env); err != nil {
			o.Err = errs.Wrap("check", w.s.ID(), err)
			return w.ctx.Err()
		}
		stats.Probes += answer.Stats.Probes
		stats.Nodes += answer.Stats.Nodes
		stats.Conditions += answer.Stats.Conditions
		if answer.Decision == expr.True && w.ids != nil {
			w.truth[w.ids[i]] = true
		}
	}
	w.tell(o)
	return nil
}

// tell puts the answers into the object, in the order that was asked for.
func (w *entitling) tell(o *ObjectEntitlements) {
	from := len(w.found)
	for i := range w.answers {
		switch a := &w.answers[i]; a.Decision {
		case expr.True:
			w.found = append(w.found, w.names[i])
		case expr.Unknown:
			o.Unknown = append(o.Unknown, UnknownRelation{w.names[i], a.Reasons})
		}
	}
	o.Relations = w.found[from:len(w.found):len(w.found)]
}

// prepare finds what is the same for all objects of a type. What the request
// brings along is laid over the view once, not once for each question.
func (w *entitling) prepare(typ string) error {
	if typ == w.typ && (w.ready != nil || w.err != nil) {
		return w.err
	}
	r := w.request
	w.typ, w.names, w.reader = typ, r.Relations, w.view.Graph
	if w.ready, w.err = w.s.timeline.Schema(w.ctx, w.view, typ, r.SchemaID); w.err != nil {
		return w.err
	}
	if w.err = query.ValidInput(&w.s.timeline.Runtime.Bounds, w.ready, &r.QueryOptions); w.err != nil {
		return w.err
	}
	if len(r.Tuples)+len(r.Attributes) > 0 {
		w.env.Tuples, w.env.Attributes = nil, nil
		w.reader, w.err = eval.Overlay(w.ready.Schema, w.view.Graph, r.Tuples, r.Attributes)
		if w.err != nil {
			return w.err
		}
	}
	t, ok := w.ready.Schema.Type(typ)
	if !ok {
		w.err = &eval.NameError{Err: eval.ErrNoType, Type: typ}
		return w.err
	}
	if r.Relations == nil {
		w.names = namesOf(w.ready.Schema, t, r.Permissions)
	}
	return w.share(t)
}

// share works out what the questions of a request have in common, unless what
// the request brings along, or the schema, leaves nothing to be shared.
func (w *entitling) share(t *schema.Type) error {
	w.reach, w.ids = nil, nil
	w.order, w.answers = make([]int, len(w.names)), make([]eval.Answer, len(w.names))
	for i := range w.order {
		w.order[i] = i
	}
	r := w.request
	d, err := dependentsFor(w.ready, w.view.Graph.Lineage())
	if err != nil || d.deepens || len(r.Tuples)+len(r.Attributes) > 0 {
		return err
	}
	w.ids = make([]schema.RelationID, len(w.names))
	for i, name := range w.names {
		rd, ok := w.ready.Schema.Relation(t.Name, name)
		if !ok {
			w.ids = nil
			return nil
		}
		w.ids[i] = rd.ID
	}
	relations := w.ready.Schema.Relations
	slices.SortStableFunc(w.order, func(a, b int) int { return cmp.Compare(relations[w.ids[a]].Component, relations[w.ids[b]].Component) })
	w.truth = make([]bool, len(relations))
	w.kind, w.walked, w.asked = kindOf(w.ready.Schema, r.Subject), false, 0
	return nil
}

// walk finds what the subject may be a member of, if that is not too much.
func (w *entitling) walk() error {
	w.walked = true
	reach, err := newReach(w.ready, len(w.request.Objects)*len(w.names), w.view.Graph)
	if err != nil {
		return err
	}
	reach.subject(w.request.Subject)
	if reach.run(); !reach.full {
		w.reach = reach
	}
	return nil
}

// reachFrom is how many questions the evaluator is asked before a walk from the
// subject is worth while.
const reachFrom = 16

// follows says what the i-th relation is on an object where that follows from
// what is known: no way leads there from the subject, or its union holds since
// one of its relations does.
func (w *entitling) follows(i int, id string) (known, yes bool) {
	if w.ids == nil {
		return false, false
	}
	r := &w.ready.Schema.Relations[w.ids[i]]
	if w.kind != schema.None && w.request.Subject.Relation == "" && !r.Reaches(w.kind) {
		return true, false
	}
	if w.reach != nil && !r.ReachAny && !w.reach.has(r.ID, id) {
		return true, false
	}
	if r.Expr.Op == schema.OpUnion {
		for _, c := range r.Expr.Children {
			if c.Op == schema.OpComputed && w.truth[c.Relation] {
				w.truth[r.ID] = true
				return true, true
			}
		}
	}
	return false, false
}

// namesOf returns the names of a type's relations in the schema's order.
func namesOf(s *schema.Schema, t *schema.Type, permissions bool) []string {
	var all, computed []string
	for _, id := range s.RelationsOf(t) {
		r := &s.Relations[id]
		all = append(all, r.Name)
		if r.Restrictions == nil {
			computed = append(computed, r.Name)
		}
	}
	if permissions && computed != nil {
		return computed
	}
	return all
}
