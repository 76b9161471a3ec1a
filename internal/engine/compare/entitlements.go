package compare

import (
	"cmp"
	"context"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/schema"
)

// Entitlements answers each combination of an object and a relation as a check
// would. It fails with [authz.ErrBound] if there are more than Bounds.BatchItems
// combinations.
func (c *Comparer) Entitlements(ctx context.Context, r *authz.EntitlementsRequest) (authz.EntitlementsResult, error) {
	ctx, work := turns.With(ctx, c.timeline.Runtime.Turns)
	defer work.End()
	out, err := c.entitlements(ctx, r)
	return out, errs.Wrap("entitlements", c.timeline.ID, err)
}

func (c *Comparer) entitlements(ctx context.Context, r *authz.EntitlementsRequest) (authz.EntitlementsResult, error) {
	t := c.timeline
	bounds := &t.Runtime.Bounds
	if err := errs.CheckBound("BatchItems", len(r.Objects)*max(len(r.Relations), 1), bounds.BatchItems); err != nil {
		return authz.EntitlementsResult{}, err
	}
	v, err := t.At(ctx, r.Consistency)
	if err != nil {
		return authz.EntitlementsResult{}, err
	}
	out := authz.EntitlementsResult{Objects: make([]authz.ObjectEntitlements, len(r.Objects)), Revision: v.Head.Revision, Token: t.Token(v.Head)}
	x := entitlements{timeline: t, ctx: ctx, view: v, request: r, questionsLeft: bounds.BatchItems, env: query.Env(t, v, &r.QueryOptions)}
	for i := range r.Objects {
		o := &out.Objects[i]
		o.Object = r.Objects[i]
		if err := x.object(o, &out.Stats); err != nil {
			return authz.EntitlementsResult{}, err
		}
	}
	return out, nil
}

// entitlements answers one request. It asks the evaluator only if a decision
// does not follow from earlier decisions; see [entitlements.infer].
type entitlements struct {
	timeline      *snapshot.Timeline
	ctx           context.Context
	view          *snapshot.View
	request       *authz.EntitlementsRequest
	env           eval.Env
	part          turns.Part
	questionsLeft int // how many combinations may still be answered
	// relations is the memory that ObjectEntitlements.Relations are cut from.
	relations []string

	typeState
}

// typeState is the state that all objects of one type share. It is reused until
// the next object has another type, because most requests contain objects of one
// type only.
type typeState struct {
	typ    string
	schema *snapshot.BoundSchema
	err    error // why the type cannot be asked about
	reader eval.Reader
	names  []string // the relations to ask about
	// ids are the relations of names. They are nil if every name needs a check.
	ids []schema.RelationID
	// order holds the indexes of names in the order of evaluation: a relation comes
	// after those that it is computed from.
	order []int
	// answers are the answers for the current object, by index in names.
	answers []authz.Answer
	// holds is, by relation, whether the subject has it on the current object.
	holds []bool
	// subjectKind is the kind of the request's subject.
	subjectKind schema.KindID
	// checks counts the checks so far. reach is what the subject may be a member of;
	// it is nil until the walk is made, or if the walk found too much. walked is
	// true once the walk was tried.
	checks int
	reach  *reach
	walked bool
}

// object fills in the entry of one object, whose own errors are in o.Err. It
// returns the errors that concern the whole request.
func (x *entitlements) object(o *authz.ObjectEntitlements, stats *authz.Stats) error {
	if err := x.useType(o.Object.Type); err != nil {
		o.Err = errs.Wrap("check", x.timeline.ID, err)
		return x.ctx.Err()
	}
	q := authz.Question{Object: o.Object, Subject: x.request.Subject}
	if o.Err = errs.Wrap("check", x.timeline.ID, query.ValidQuestion(&q.Object, &q.Subject)); o.Err != nil {
		return nil
	}
	if x.questionsLeft -= len(x.names); x.questionsLeft < 0 {
		limit := x.timeline.Runtime.Bounds.BatchItems
		return errs.CheckBound("BatchItems", limit-x.questionsLeft, limit)
	}
	if err := x.part.Step(x.ctx, nil, stepsPerQuestion); err != nil {
		return err
	}
	clear(x.holds)
	for _, i := range x.order {
		answer := &x.answers[i]
		if decision, ok := x.infer(i, o.Object.ID); ok {
			*answer = authz.Answer{Decision: decision}
			continue
		}
		if x.checks++; x.checks == walkAfter && x.ids != nil && !x.walked {
			if err := x.walk(); err != nil {
				return err
			}
		}
		var err error
		q.Relation = x.names[i]
		if *answer, err = x.schema.Binding.Check(x.ctx, x.reader, q, &x.env); err != nil {
			o.Err = errs.Wrap("check", x.timeline.ID, err)
			return x.ctx.Err()
		}
		if err := x.part.Step(x.ctx, nil, stepsPerQuestion+answer.Stats.Nodes); err != nil {
			return err
		}
		stats.Probes += answer.Stats.Probes
		stats.Nodes += answer.Stats.Nodes
		stats.Conditions += answer.Stats.Conditions
		if answer.Decision == expr.True && x.ids != nil {
			x.holds[x.ids[i]] = true
		}
	}
	x.collect(o)
	return nil
}

// collect copies the answers for the current object to o, in the order of names.
func (x *entitlements) collect(o *authz.ObjectEntitlements) {
	from := len(x.relations)
	for i := range x.answers {
		switch a := &x.answers[i]; a.Decision {
		case expr.True:
			x.relations = append(x.relations, x.names[i])
		case expr.Unknown:
			o.Unknown = append(o.Unknown, authz.UnknownRelation{Relation: x.names[i], Reasons: a.Reasons})
		}
	}
	o.Relations = x.relations[from:len(x.relations):len(x.relations)]
}

// useType prepares the state for objects of a type, if the previous object had
// another type. It lays contextual tuples and attributes over the view once, so
// that not every check does it.
func (x *entitlements) useType(typ string) error {
	if typ == x.typ && (x.schema != nil || x.err != nil) {
		return x.err
	}
	r := x.request
	x.typ, x.names, x.reader = typ, r.Relations, x.view.Graph
	if x.schema, x.err = x.timeline.Schema(x.ctx, x.view, typ, r.SchemaID); x.err != nil {
		return x.err
	}
	if x.err = query.ValidInput(&x.timeline.Runtime.Bounds, x.schema, &r.QueryOptions); x.err != nil {
		return x.err
	}
	if len(r.Tuples)+len(r.Attributes) > 0 {
		x.env.Tuples, x.env.Attributes = nil, nil
		x.reader, x.err = x.schema.Binding.Overlay(x.view.Graph, r.Tuples, r.Attributes)
		if x.err != nil {
			return x.err
		}
	}
	t, ok := x.schema.Schema.Type(typ)
	if !ok {
		x.err = &eval.NameError{Err: eval.ErrNoType, Type: typ, Schema: x.schema.Schema}
		return x.err
	}
	if r.Relations == nil {
		x.names = relationNames(x.schema.Schema, t, r.Permissions)
	}
	x.prepareInference(t)
	return nil
}

// prepareInference sets what [entitlements.infer] needs. It leaves ids nil if the
// request has contextual tuples or attributes, if missing context can make any
// decision unknown, or if the schema lacks a relation.
func (x *entitlements) prepareInference(t *schema.Type) {
	x.reach, x.ids = nil, nil
	x.order, x.answers = make([]int, len(x.names)), make([]authz.Answer, len(x.names))
	for i := range x.order {
		x.order[i] = i
	}
	r, s := x.request, x.schema.Schema
	contextRequired := s.Options.MissingContextFails && len(s.Conditions) > 0
	if contextRequired || len(r.Tuples)+len(r.Attributes) > 0 {
		return
	}
	x.ids = make([]schema.RelationID, len(x.names))
	for i, name := range x.names {
		relation, ok := s.Relation(t.Name, name)
		if !ok {
			x.ids = nil
			return
		}
		x.ids[i] = relation.ID
	}
	slices.SortStableFunc(x.order, func(a, b int) int {
		return cmp.Compare(s.Relations[x.ids[a]].Component, s.Relations[x.ids[b]].Component)
	})
	x.holds = make([]bool, len(s.Relations))
	x.subjectKind, x.walked, x.checks = kindOf(s, r.Subject), false, 0
}

// walkAfter is how many checks a request makes before a walk from the subject
// pays.
const walkAfter = 16

// walk finds what the subject may be a member of. It leaves reach nil if that is
// more than the request has combinations.
func (x *entitlements) walk() error {
	x.walked = true
	r := newReach(x.ctx, x.schema, len(x.request.Objects)*len(x.names), x.view.Graph)
	r.addSubject(x.request.Subject)
	if err := r.run(); err != nil {
		return err
	}
	if !r.full {
		x.reach = r
	}
	return nil
}

// infer returns the decision about the i-th relation of names on an object, if it
// follows without a check. It is false if no path leads from the subject to the
// relation, and true if the relation is a union with a relation that holds.
func (x *entitlements) infer(i int, id string) (decision expr.Tristate, ok bool) {
	if x.ids == nil {
		return expr.False, false
	}
	r := &x.schema.Schema.Relations[x.ids[i]]
	if x.subjectKind != schema.None && x.request.Subject.Relation == "" && !r.Reaches(x.subjectKind) {
		return expr.False, true
	}
	if x.reach != nil && !r.ReachAny && !x.reach.contains(r.ID, id) {
		return expr.False, true
	}
	if r.Expr.Op == schema.OpUnion {
		for _, c := range r.Expr.Children {
			if c.Op == schema.OpComputed && x.holds[c.Relation] {
				x.holds[r.ID] = true
				return expr.True, true
			}
		}
	}
	return expr.False, false
}

// relationNames returns the names of a type's relations in the schema's order. If
// permissions is true, it returns only the relations that no tuple may name, or
// all relations if tuples may name each of them.
func relationNames(s *schema.Schema, t *schema.Type, permissions bool) []string {
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
