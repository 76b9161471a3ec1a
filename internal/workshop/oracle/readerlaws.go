package oracle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/rel"
)

// rows holds the world's stored tuples as an embedder's own data. The types
// that follow implement its optional interfaces.
type rows struct{ w *World }

func (r rows) Subjects(object rel.Object, relation string, yield func(rel.Tuple) bool) error {
	for _, t := range r.w.Stored {
		if t.Object == object && t.Relation == relation && !yield(t) {
			break
		}
	}
	return nil
}

func (r rows) Attribute(object rel.Object, name string) (string, bool, error) {
	for _, a := range r.w.Attributes {
		if a.Object == object && a.Name == name {
			return a.Value, true, nil
		}
	}
	return "", false, nil
}

// probing implements [authz.Rows]' optional lookup of one tuple.
type probing struct{ w *World }

func (r probing) Probe(k rel.Key) (rel.Tuple, bool, error) {
	i := slices.IndexFunc(r.w.Stored, func(t rel.Tuple) bool { return t.Key() == k })
	if i < 0 {
		return rel.Tuple{}, false, nil
	}
	return r.w.Stored[i], true, nil
}

// reversing implements the optional lookup by subject.
type reversing struct{ w *World }

func (r reversing) Objects(subject rel.Subject, objectType, relation string, yield func(rel.Tuple) bool) error {
	for _, t := range r.w.Stored {
		if t.Subject == subject && t.Object.Type == objectType && t.Relation == relation && !yield(t) {
			break
		}
	}
	return nil
}

// rowsReaders returns the world's data as rows with each combination of the
// optional interfaces.
func (b *Bench) rowsReaders() []authz.Rows {
	w := &b.World
	return []authz.Rows{
		rows{w},
		struct {
			rows
			probing
		}{rows{w}, probing{w}},
		struct {
			rows
			reversing
		}{rows{w}, reversing{w}},
		struct {
			rows
			probing
			reversing
		}{rows{w}, probing{w}, reversing{w}},
	}
}

// rowsLaw: the evaluator gives the same answers on an embedder's own rows as on
// a graph.
func rowsLaw(b *Bench) *Failure {
	if len(b.World.Stored) > wideMin {
		return nil // rows have no index and would take too long
	}
	for power, data := range b.rowsReaders() {
		for _, q := range b.Questions {
			r := eval.NewReader(data)
			if text := b.compare(b.Oracle, eval.Bind(b.Schema, r), r, q, b.truth(q)); text != "" {
				return &Failure{Question: q, Text: fmt.Sprintf("rows with interfaces %d: %s", power, text)}
			}
		}
	}
	return nil
}

// nodesLaw: with a low bound on visited nodes, an answer is either correct or
// unknown because of the bound, and a list contains nothing wrong.
func nodesLaw(b *Bench) *Failure {
	if !b.admissible() {
		return nil
	}
	env := b.env
	for i, q := range b.Questions {
		env.Bounds.Nodes = 1 + (i*3+int(b.Seed%7))%20
		want := b.truth(q)
		a, err := b.binding.Check(context.Background(), b.graph.View(), authz.Question(q), &env)
		stopped := a.Decision == expr.Unknown && a.Reasons != nil && a.Reasons.Bound == authz.BoundNodes
		if err != nil || a.Decision != want && !stopped {
			return &Failure{Question: q, Text: fmt.Sprintf("within %d nodes: want %s, got %s (%s), %v",
				env.Bounds.Nodes, want, a.Decision, a.Reasons, err)}
		}
		if a.Stats.Nodes > 100*env.Bounds.Nodes+1000 {
			return &Failure{Question: q, Text: fmt.Sprintf("%d nodes visited, the bound is %d", a.Stats.Nodes, env.Bounds.Nodes)}
		}
		l, err := b.binding.ListObjects(context.Background(), b.graph.View(),
			eval.ListObjectsQuestion{Type: q.Object.Type, Relation: q.Relation, Subject: q.Subject}, &env)
		if err != nil {
			return &Failure{Question: q, Text: err.Error()}
		}
		for _, id := range l.IDs {
			if got := b.table(q.Subject).Truth(rel.Object{Type: q.Object.Type, ID: id}, q.Relation); got != expr.True {
				return &Failure{Question: q, Text: fmt.Sprintf("within %d nodes: %s is listed, but is %s", env.Bounds.Nodes, id, got)}
			}
		}
		if text := b.missingFromList(q, &l); text != "" {
			return &Failure{Question: q, Text: fmt.Sprintf("within %d nodes: %s", env.Bounds.Nodes, text)}
		}
	}
	return nil
}

// missingFromList describes the entries that are missing from a list marked as
// complete. It returns "" if none is missing.
func (b *Bench) missingFromList(q Question, l *eval.ObjectList) string {
	if l.Bound != "" || l.UnknownCount > 0 || b.Oracle.optionalID(q) != "" {
		return ""
	}
	for _, x := range b.Oracle.listable(q) {
		if x.Type == q.Object.Type && b.table(q.Subject).Truth(x, q.Relation) == expr.True && !slices.Contains(l.IDs, x.ID) {
			return x.ID + " is missing from a list that claims to be complete"
		}
	}
	return ""
}

// canceledLaw: a question whose context is canceled fails with
// [context.Canceled].
func canceledLaw(b *Bench) *Failure {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, q := range b.Questions[:min(1, len(b.Questions))] {
		if a, err := b.binding.Check(ctx, b.graph.View(), authz.Question(q), &b.env); !errors.Is(err, context.Canceled) {
			return &Failure{Question: q, Text: fmt.Sprintf("want context.Canceled, got %s, %v", a.Decision, err)}
		}
	}
	return nil
}
