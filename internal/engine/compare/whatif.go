package compare

import (
	"context"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/admit"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// WhatIf asks each question twice, at one revision and one time: as the store is,
// and after the proposed change. It ends early, with Partial set, after it visited
// Bounds.WhatIfNodes nodes and when ctx ends. An error of one question, such as a
// relation that the proposed schema lacks, is in its item.
func (c *Comparer) WhatIf(ctx context.Context, r *authz.WhatIfRequest) (authz.WhatIfResult, error) {
	ctx, work := turns.With(ctx, c.timeline.Runtime.Turns)
	defer work.End()
	out, err := c.whatIf(ctx, r)
	return out, errs.Wrap("what if", c.timeline.ID, err)
}

func (c *Comparer) whatIf(ctx context.Context, r *authz.WhatIfRequest) (authz.WhatIfResult, error) {
	t := c.timeline
	if err := validWhatIf(r, ctx, t.Runtime); err != nil {
		return authz.WhatIfResult{}, err
	}
	v, err := t.At(ctx, r.Consistency)
	if err != nil {
		return authz.WhatIfResult{}, err
	}
	p, err := newProposal(ctx, t, v, r)
	if err != nil {
		return authz.WhatIfResult{}, err
	}
	out := authz.WhatIfResult{Items: make([]authz.WhatIfItem, 0, min(len(r.Questions), 1024)), Revision: v.Head.Revision, Token: t.Token(v.Head)}
	nodesLeft := t.Runtime.Bounds.WhatIfNodes
	var part turns.Part
	for i := range r.Questions {
		if nodesLeft <= 0 {
			out.Partial = "WhatIfNodes"
			break
		}
		var item authz.WhatIfItem
		item.Before = p.check(ctx, &r.Questions[i], false)
		item.After = p.check(ctx, &r.Questions[i], true)
		nodes := item.Before.Stats.Nodes + item.After.Stats.Nodes
		if part.Step(ctx, nil, 2*stepsPerQuestion+nodes) != nil || ctx.Err() != nil {
			out.Partial = authz.BoundTime
			break
		}
		nodesLeft -= nodes + 1
		out.Items = append(out.Items, item)
		countItem(&out, &item)
	}
	return out, nil
}

// countItem adds an item to the counts of a result.
func countItem(w *authz.WhatIfResult, i *authz.WhatIfItem) {
	switch {
	case i.Before.Err != nil || i.After.Err != nil:
		w.Failed++
	case !i.Changed():
	case i.After.Decision == expr.True:
		w.Gained++
	case i.Before.Decision == expr.True:
		w.Lost++
	default:
		w.Other++
	}
}

// validate checks what does not depend on the store's data.
func validWhatIf(r *authz.WhatIfRequest, ctx context.Context, runtime *snapshot.Runtime) error {
	if err := errs.CheckBound("WhatIfQuestions", len(r.Questions), runtime.Bounds.WhatIfQuestions); err != nil {
		return err
	}
	w := &r.Changes
	if r.Model != nil && r.SchemaID != "" {
		return fmt.Errorf("%w: a proposal has both a model and the id of a schema, expected at most one", authz.ErrInvalidRequest)
	}
	for _, part := range [...]struct {
		name string
		set  bool
	}{
		{"Documents", len(w.Documents) > 0}, {"RemoveDocuments", len(w.RemoveDocuments) > 0}, {"Secrets", len(w.Secrets) > 0}, {"RemoveSecrets", len(w.RemoveSecrets) > 0},
		{"Schemas", len(w.Schemas) > 0}, {"RemoveSchemas", len(w.RemoveSchemas) > 0}, {"Preconditions", len(w.Preconditions) > 0}, {"After", w.After != ""}, {"SchemaID", w.SchemaID != ""},
	} {
		if part.set {
			return fmt.Errorf("%w: the changes of a proposal set %s, expected only tuples and attributes", authz.ErrInvalidRequest, part.name)
		}
	}
	_, err := commit.Validate(ctx, runtime, w)
	return err
}

// proposal is a view as it is, and the same view after a proposed change.
type proposal struct {
	timeline *snapshot.Timeline
	view     *snapshot.View
	now      rel.Time
	// proposed is the schema that replaces the current one of its namespace, or nil
	// if the proposal changes no schema.
	proposed *snapshot.BoundSchema
	// removed is the view without the tuples and attributes that the proposal
	// removes. added and set are what it adds.
	removed eval.Reader
	added   []rel.Tuple
	set     []rel.Attribute
	// overlays holds, by schema, removed with added and set laid over it.
	overlays map[*snapshot.BoundSchema]overlay
}

type overlay struct {
	reader eval.Reader
	err    error
}

// newProposal prepares the proposal of r on the view v. It fails if the proposed
// schema does not compile, or if it does not admit what the proposal adds.
func newProposal(ctx context.Context, t *snapshot.Timeline, v *snapshot.View, r *authz.WhatIfRequest) (*proposal, error) {
	p := &proposal{timeline: t, view: v, now: t.Now(v), removed: v.Graph, added: r.Changes.Add, overlays: map[*snapshot.BoundSchema]overlay{}}
	if err := p.setSchema(ctx, r); err != nil {
		return nil, err
	}
	p.remove(&r.Changes)
	var part turns.Part
	for i := range p.added {
		if err := part.Step(ctx, nil, stepsPerChange); err != nil {
			return nil, err
		}
		if err := p.admit(ctx, &p.added[i]); err != nil {
			return nil, err
		}
	}
	for _, a := range r.Changes.SetAttributes {
		s, err := p.schema(ctx, a.Object.Type, "", true)
		if err != nil {
			return nil, err
		}
		def, ok := s.Schema.Type(a.Object.Type)
		if !ok {
			return nil, &eval.NameError{Err: eval.ErrNoType, Type: a.Object.Type, Schema: s.Schema}
		}
		if a.Value, err = admit.AttributeValue(def, &a); err != nil {
			return nil, err
		}
		p.set = append(p.set, a)
	}
	return p, nil
}

// admit checks that the proposed schema admits a tuple.
func (p *proposal) admit(ctx context.Context, t *rel.Tuple) error {
	s, err := p.schema(ctx, t.Object.Type, "", true)
	if err == nil {
		err = eval.Admit(s.Schema, t)
	}
	if err == nil && t.Context != "" {
		err = admit.Context(s.Schema, t)
	}
	return err
}

// setSchema finds or compiles the proposed schema. It adds no kinds to the lineage:
// the graph has no tuples of a kind that it does not know.
func (p *proposal) setSchema(ctx context.Context, r *authz.WhatIfRequest) error {
	if r.SchemaID != "" {
		var err error
		p.proposed, err = p.timeline.SchemaByID(ctx, p.view, r.SchemaID)
		return err
	}
	if r.Model == nil {
		return nil
	}
	put, err := p.timeline.Runtime.PrepareSchema(ctx, &authz.SchemaSource{Model: r.Model})
	if err != nil {
		return err
	}
	p.proposed = &snapshot.BoundSchema{Info: authz.SchemaInfo{Namespace: put.Namespace}, Schema: put.Compiled,
		Binding: eval.Bind(put.Compiled, p.view.Graph), Timed: true}
	return nil
}

// remove sets removed to the view without what the proposal removes.
func (p *proposal) remove(w *authz.WriteRequest) {
	if len(w.Remove)+len(w.RemoveMatching)+len(w.RemoveAttributes) == 0 {
		return
	}
	b := p.view.Graph.Lineage().From(p.view.Graph)
	for i := range w.RemoveMatching {
		switch f := &w.RemoveMatching[i]; f.Target {
		case storage.FilterTuples:
			b.RemoveMatching(f.Tuple)
		case storage.FilterAttributes:
			b.RemoveAttributes(f.ObjectType, f.ObjectID, f.Name)
		}
	}
	for _, k := range w.Remove {
		b.Remove(k)
	}
	for _, a := range w.RemoveAttributes {
		b.RemoveAttribute(a.Object, a.Name)
	}
	p.removed = b.View()
}

// schema returns the schema for a question about a type: the one with the given
// id, or if id is "" the current one. After the proposed change it is the proposed
// one, unless that belongs to another namespace.
func (p *proposal) schema(ctx context.Context, typ, id string, after bool) (*snapshot.BoundSchema, error) {
	if !after || p.proposed == nil {
		return p.timeline.Schema(ctx, p.view, typ, id)
	}
	replaced, exists := p.view.SchemaFor(typ)
	if id != "" {
		named, err := p.timeline.Schema(ctx, p.view, typ, id)
		if err != nil {
			return nil, err
		}
		replaced, exists = named.Info, true
	}
	if _, ok := p.proposed.Schema.Type(typ); ok || !exists || replaced.Namespace == p.proposed.Info.Namespace {
		return p.proposed, nil
	}
	return p.timeline.Schema(ctx, p.view, typ, id)
}

// check answers a question, as the store is or after the proposed change. An error
// of the question is in the result.
func (p *proposal) check(ctx context.Context, r *authz.CheckRequest, after bool) authz.CheckResult {
	answer, err := p.evaluate(ctx, r, after)
	out := authz.CheckResult{Answer: answer, Revision: p.view.Head.Revision}
	if err != nil {
		out.Decision, out.Err = expr.False, errs.Wrap("check", p.timeline.ID, err)
	}
	return out
}

func (p *proposal) evaluate(ctx context.Context, r *authz.CheckRequest, after bool) (authz.Answer, error) {
	if r.Consistency != (authz.Consistency{}) {
		return authz.Answer{}, fmt.Errorf("%w: a question of a what-if sets Consistency, expected it only for the whole request", authz.ErrInvalidRequest)
	}
	if err := query.ValidQuestion(&r.Object, &r.Subject); err != nil {
		return authz.Answer{}, err
	}
	bounds := &p.timeline.Runtime.Bounds
	s, err := p.schema(ctx, r.Object.Type, r.SchemaID, after)
	if err == nil {
		err = query.ValidInput(bounds, s, &r.QueryOptions)
	}
	if err != nil {
		return authz.Answer{}, err
	}
	env := eval.Env{Now: p.now, Context: r.Context, Tuples: r.Tuples, Attributes: r.Attributes, Bounds: errs.QuestionBounds(bounds, r.Bounds),
		Memory: p.timeline.Runtime.QuestionsMemory, Turns: p.timeline.Runtime.Turns}
	var reader eval.Reader = p.view.Graph
	if after {
		if reader, err = p.reader(s, &env); err != nil {
			return authz.Answer{}, err
		}
	}
	return s.Binding.Check(ctx, reader, query.Question(r), &env)
}

// reader returns the data after the proposed change. The evaluator cannot lay one
// overlay over another: if the question has contextual tuples or attributes, the
// reader adds the proposed ones to env instead.
func (p *proposal) reader(s *snapshot.BoundSchema, env *eval.Env) (eval.Reader, error) {
	if len(p.added)+len(p.set) == 0 {
		return p.removed, nil
	}
	added, set := p.admitted(s)
	if len(env.Tuples)+len(env.Attributes) > 0 {
		env.Tuples, env.Attributes = append(slices.Clip(added), env.Tuples...), append(slices.Clip(set), env.Attributes...)
		return p.removed, nil
	}
	o, ok := p.overlays[s]
	if !ok {
		o.reader, o.err = s.Binding.Overlay(p.removed, added, set)
		p.overlays[s] = o
	}
	return o.reader, o.err
}

// admitted returns the proposed tuples and attributes that a schema admits. The
// others belong to another namespace.
func (p *proposal) admitted(s *snapshot.BoundSchema) (tuples []rel.Tuple, set []rel.Attribute) {
	for i := range p.added {
		if eval.Admit(s.Schema, &p.added[i]) == nil {
			tuples = append(tuples, p.added[i])
		}
	}
	for _, a := range p.set {
		if t, ok := s.Schema.Type(a.Object.Type); ok {
			if _, ok := t.Attributes[a.Name]; ok {
				set = append(set, a)
			}
		}
	}
	return tuples, set
}
