package ostiary

import (
	"context"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/admit"
	"github.com/ostiary/ostiary/internal/commit"
	"github.com/ostiary/ostiary/internal/errs"
	"github.com/ostiary/ostiary/internal/query"
	"github.com/ostiary/ostiary/internal/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// WhatIfRequest asks questions as the store is, and as it would be under a
// proposal: another schema, other tuples, or both. Nothing of it is stored.
type WhatIfRequest struct {
	// Questions are asked twice each. What they bring along (context, contextual
	// tuples) is theirs on both sides; their own At must be the zero one.
	Questions []CheckRequest
	// Consistency chooses the revision of both sides.
	Consistency Consistency
	// Model is the proposed schema, which takes the place of its namespace's
	// current one; or SchemaID names one that is written already. Neither is
	// today's.
	Model    *schema.Model
	SchemaID string
	// Changes are proposed: Add, Remove, RemoveMatching, SetAttributes and
	// RemoveAttributes count, in Write's order; the rest must not be set. What is
	// added must be admitted by the proposed schema; an Add of a live key
	// replaces it, a Remove of another one does nothing.
	Changes WriteRequest
}

// WhatIfResult is what a proposal would change, question by question.
type WhatIfResult struct {
	// Items stand in the order of the questions. Where Partial is set there are
	// fewer: only those that were asked.
	Items []WhatIfItem
	// Gained, Lost and Other count the items that change: to true, from true, and
	// in any other way (an error that comes or goes, unknown to false).
	Gained, Lost, Other int
	// Partial names the bound that ended it before all questions were asked; ""
	// says that all were.
	Partial  string
	Revision storage.Revision
	Token    Token
}

// WhatIfItem is one question's two answers.
type WhatIfItem struct{ Before, After CheckResult }

// Changed says whether the two answers differ.
func (i *WhatIfItem) Changed() bool {
	return i.Before.Decision != i.After.Decision || (i.Before.Err == nil) != (i.After.Err == nil)
}

// BoundTime is what WhatIf.Partial says where the context ended.
const BoundTime = "time"

// WhatIf asks each question today and under the proposal, at one revision and
// one time. It ends early, and says so, when Bounds.WhatIfNodes were visited or
// when ctx ends.
func (s *Store) WhatIf(ctx context.Context, r WhatIfRequest) (WhatIfResult, error) {
	const op = "what if"
	if err := s.validProposal(&r); err != nil {
		return WhatIfResult{}, errs.Wrap(op, s.ID(), err)
	}
	v, err := s.timeline.At(ctx, r.Consistency)
	if err != nil {
		return WhatIfResult{}, errs.Wrap(op, s.ID(), err)
	}
	p, err := s.propose(ctx, v, &r)
	if err != nil {
		return WhatIfResult{}, errs.Wrap(op, s.ID(), err)
	}
	out := WhatIfResult{Items: make([]WhatIfItem, 0, min(len(r.Questions), 1024)), Revision: v.Head.Revision, Token: s.timeline.Token(v.Head)}
	left := s.timeline.Runtime.Bounds.WhatIfNodes
	for i := range r.Questions {
		if left <= 0 {
			out.Partial = "WhatIfNodes"
			break
		}
		var item WhatIfItem
		item.Before = p.ask(ctx, &r.Questions[i], false)
		item.After = p.ask(ctx, &r.Questions[i], true)
		if ctx.Err() != nil {
			out.Partial = BoundTime
			break
		}
		left -= item.Before.Stats.Nodes + item.After.Stats.Nodes + 1
		out.Items = append(out.Items, item)
		out.count(&item)
	}
	return out, nil
}

func (w *WhatIfResult) count(i *WhatIfItem) {
	switch {
	case !i.Changed():
	case i.After.Decision == expr.True:
		w.Gained++
	case i.Before.Decision == expr.True:
		w.Lost++
	default:
		w.Other++
	}
}

// validProposal checks what needs no state.
func (s *Store) validProposal(r *WhatIfRequest) error {
	if err := errs.CheckBound("WhatIfQuestions", len(r.Questions), s.timeline.Runtime.Bounds.WhatIfQuestions); err != nil {
		return err
	}
	w := &r.Changes
	if r.Model != nil && r.SchemaID != "" {
		return fmt.Errorf("%w: a proposal has a model or the id of a schema", ErrInvalidRequest)
	}
	if len(w.Documents)+len(w.RemoveDocuments)+len(w.Secrets)+len(w.RemoveSecrets)+len(w.Preconditions) > 0 || w.SchemaID != "" {
		return fmt.Errorf("%w: a proposal changes tuples and attributes", ErrInvalidRequest)
	}
	return commit.Validate(s.timeline.Runtime, w)
}

// proposal is the two worlds that questions are asked in.
type proposal struct {
	s    *Store
	view *snapshot.View
	now  rel.Time
	// proposed is the schema that takes the place of a namespace's, nil if none
	// does, and model the one it takes it from.
	proposed *snapshot.BoundSchema
	// removed is the view without what the proposal removes; added and set are laid
	// over it, once for each schema that questions are asked under.
	removed  eval.Reader
	added    []rel.Tuple
	set      []rel.Attribute
	overlays map[*snapshot.BoundSchema]overlaid
}

type overlaid struct {
	reader eval.Reader
	err    error
}

func (s *Store) propose(ctx context.Context, v *snapshot.View, r *WhatIfRequest) (*proposal, error) {
	p := &proposal{s: s, view: v, now: s.timeline.Now(v), removed: v.Graph, added: r.Changes.Add, overlays: map[*snapshot.BoundSchema]overlaid{}}
	if err := p.schema(ctx, r); err != nil {
		return nil, err
	}
	p.remove(&r.Changes)
	for i := range p.added {
		t := &p.added[i]
		ready, err := p.ready(ctx, t.Object.Type, "", true)
		if err == nil {
			err = eval.Admit(ready.Schema, t)
		}
		if err == nil && t.Context != "" {
			err = admit.Context(ready.Schema, t)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, a := range r.Changes.SetAttributes {
		ready, err := p.ready(ctx, a.Object.Type, "", true)
		if err != nil {
			return nil, err
		}
		def, ok := ready.Schema.Type(a.Object.Type)
		if !ok {
			return nil, &eval.NameError{Err: eval.ErrNoType, Type: a.Object.Type}
		}
		if a.Value, err = admit.AttributeValue(def, &a); err != nil {
			return nil, err
		}
		p.set = append(p.set, a)
	}
	return p, nil
}

// schema makes the proposed schema ready. It gives the graph no new kinds: what
// no tuple has is not in it.
func (p *proposal) schema(ctx context.Context, r *WhatIfRequest) error {
	if r.SchemaID != "" {
		var err error
		p.proposed, err = p.s.timeline.SchemaByID(ctx, p.view, r.SchemaID)
		return err
	}
	if r.Model == nil {
		return nil
	}
	put, err := p.s.timeline.Runtime.PrepareSchema(&SchemaSource{Model: r.Model})
	if err != nil {
		return err
	}
	p.proposed = &snapshot.BoundSchema{Info: SchemaInfo{Namespace: put.Namespace}, Schema: put.Compiled,
		Binding: eval.Bind(put.Compiled, p.view.Graph), Timed: true}
	return nil
}

// remove takes away what the proposal removes.
func (p *proposal) remove(w *WriteRequest) {
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

// ready finds the schema of a type on one side.
func (p *proposal) ready(ctx context.Context, typ, id string, after bool) (*snapshot.BoundSchema, error) {
	if after && id == "" && p.proposed != nil {
		current, found := p.view.SchemaFor(typ)
		if _, ok := p.proposed.Schema.Type(typ); ok || !found || current.Namespace == p.proposed.Info.Namespace {
			return p.proposed, nil
		}
	}
	return p.s.timeline.Schema(ctx, p.view, typ, id)
}

// ask answers a question on one side. What the proposed schema does not know
// any more is an error of the item.
func (p *proposal) ask(ctx context.Context, r *CheckRequest, after bool) (out CheckResult) {
	answer, err := p.answer(ctx, r, after)
	out = CheckResult{Answer: answer, Revision: p.view.Head.Revision}
	if err != nil {
		out.Decision, out.Err = expr.False, errs.Wrap("check", p.s.ID(), err)
	}
	return out
}

func (p *proposal) answer(ctx context.Context, r *CheckRequest, after bool) (eval.Answer, error) {
	if r.Consistency != (Consistency{}) {
		return eval.Answer{}, fmt.Errorf("%w: a question of many chooses no revision", ErrInvalidRequest)
	}
	if err := query.ValidQuestion(&r.Object, &r.Subject); err != nil {
		return eval.Answer{}, err
	}
	ready, err := p.ready(ctx, r.Object.Type, r.SchemaID, after)
	if err == nil {
		err = query.ValidInput(&p.s.timeline.Runtime.Bounds, ready, &r.QueryOptions)
	}
	if err != nil {
		return eval.Answer{}, err
	}
	env := eval.Env{Now: p.now, Context: r.Context, Tuples: r.Tuples, Attributes: r.Attributes, Bounds: p.s.timeline.Runtime.Bounds.Query(r.Bounds)}
	var reader eval.Reader = p.view.Graph
	if after {
		if reader, err = p.reader(ready, &env); err != nil {
			return eval.Answer{}, err
		}
	}
	return ready.Binding.Check(ctx, reader, eval.Question{Object: r.Object, Relation: r.Relation, Subject: r.Subject}, &env)
}

// reader is the proposed world for a question. Overlays do not stand on each
// other: where the question brings its own, one is made of both.
func (p *proposal) reader(ready *snapshot.BoundSchema, env *eval.Env) (eval.Reader, error) {
	if len(p.added)+len(p.set) == 0 {
		return p.removed, nil
	}
	added, set := p.admitted(ready)
	if len(env.Tuples)+len(env.Attributes) > 0 {
		env.Tuples, env.Attributes = append(slices.Clip(added), env.Tuples...), append(slices.Clip(set), env.Attributes...)
		return p.removed, nil
	}
	o, ok := p.overlays[ready]
	if !ok {
		o.reader, o.err = eval.Overlay(ready.Schema, p.removed, added, set)
		p.overlays[ready] = o
	}
	return o.reader, o.err
}

// admitted are the proposed tuples and attributes that a schema admits: others
// are of another namespace's.
func (p *proposal) admitted(ready *snapshot.BoundSchema) (tuples []rel.Tuple, set []rel.Attribute) {
	for i := range p.added {
		if eval.Admit(ready.Schema, &p.added[i]) == nil {
			tuples = append(tuples, p.added[i])
		}
	}
	for _, a := range p.set {
		if t, ok := ready.Schema.Type(a.Object.Type); ok {
			if _, ok := t.Attributes[a.Name]; ok {
				set = append(set, a)
			}
		}
	}
	return tuples, set
}
