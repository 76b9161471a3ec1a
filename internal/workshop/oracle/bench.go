package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Bench is a world ready for laws: the oracle and the engine's parts with the
// same data, and the questions to ask. It belongs to one goroutine.
type Bench struct {
	// Seed is the world's seed. Laws draw their own random choices from it.
	Seed uint64
	// World is the world.
	World World
	// Questions are asked by most laws.
	Questions []Question
	// Oracle gives the expected answers.
	Oracle *Oracle
	// Schema is the compiled model.
	Schema *schema.Schema
	// Coverage counts what the laws ask; nil counts nothing.
	Coverage *Coverage

	graph   *graph.Graph
	binding *eval.Binding
	env     eval.Env
	survey  *survey
	tables  map[rel.Subject]*Table // the oracle's answers by subject
}

// ErrInvalid is returned by [NewBench] for a world whose model does not
// compile.
var ErrInvalid = errors.New("world's model does not compile")

// NewBench returns a bench for w. If questions is nil, it draws them from the
// seed. It fails with [ErrInvalid] if the model does not compile.
func NewBench(seed uint64, w World, questions []Question, c *Coverage) (*Bench, error) {
	b := &Bench{Seed: seed, World: w, Questions: questions, Coverage: c, tables: map[rel.Subject]*Table{}}
	var err error
	if b.Schema, err = schema.Compile(&b.World.Model, Conditions{}); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if b.Oracle, err = New(w, Conditions{}); err != nil {
		return nil, err
	}
	if b.graph, err = graphOf(State{w.Stored, w.Attributes}); err != nil {
		return nil, err
	}
	b.binding = eval.Bind(b.Schema, b.graph.View())
	b.env = eval.Env{Now: w.Now, Context: w.Context, Tuples: w.Contextual,
		Attributes: w.ContextualAttributes, Bounds: authz.QuestionBounds{Depth: w.Depth}}
	b.survey = surveyOf(b.Oracle)
	if questions == nil {
		b.drawQuestions()
	}
	return b, nil
}

// graphOf returns a graph with the tuples and attributes of s.
func graphOf(s State) (*graph.Graph, error) {
	g := graph.New(graph.Options{})
	batch := g.Begin()
	if err := applyChanges(batch, difference(State{}, s)); err != nil {
		return nil, err
	}
	_, err := batch.Publish()
	return g, err
}

// oracleOn returns an oracle for the bench's world with other stored data.
func (b *Bench) oracleOn(s State) (*Oracle, error) {
	w := b.World
	w.Stored, w.Attributes = s.Tuples, s.Attributes
	return New(w, Conditions{})
}

// table returns the oracle's answers about u.
func (b *Bench) table(u rel.Subject) *Table {
	t := b.tables[u]
	if t == nil {
		var extra []rel.Object
		for _, q := range b.Questions {
			extra = append(extra, q.Object)
		}
		t = b.Oracle.Members(u, extra...)
		b.tables[u] = t
	}
	return t
}

// truth returns the oracle's answer.
func (b *Bench) truth(q Question) expr.Tristate {
	return b.table(q.Subject).Truth(q.Object, q.Relation)
}

// How many questions are drawn for a world.
const (
	benchSubjects = 3
	benchEach     = 4 // for each subject and each of true, false and unknown
)

// drawQuestions draws subjects. For each subject it draws about the same number
// of true, false and unknown questions, as far as the world has them.
func (b *Bench) drawQuestions() {
	r := rand.New(rand.NewPCG(b.Seed, 0x9d))
	subjects := Subjects(b.Seed, &b.World, benchSubjects)
	var own []rel.Object // the world may not mention them
	for _, u := range subjects {
		own = append(own, u.Object())
	}
	for _, u := range subjects {
		t := b.Oracle.Members(u, own...)
		b.tables[u] = t
		nodes := make([]node, 0, len(t.number))
		for n := range t.number {
			nodes = append(nodes, n)
		}
		slices.SortFunc(nodes, func(x, y node) int { return cmp.Compare(t.number[x], t.number[y]) })
		r.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		var taken [3]int
		for _, n := range nodes {
			if truth := t.Truth(n.object, n.relation); taken[truth] < benchEach {
				taken[truth]++
				b.Questions = append(b.Questions, Question{n.object, n.relation, u})
			}
		}
	}
	if isWide(b.Seed) {
		for _, q := range b.World.wide() {
			if b.Oracle.relation(q.Object.Type, q.Relation) != nil {
				b.Questions = append(b.Questions, q)
			}
		}
	}
}

// admissible reports whether the schema admits every contextual tuple and
// declares every contextual attribute. Otherwise every question must fail.
func (b *Bench) admissible() bool {
	declared := func(a rel.Attribute) bool {
		t := b.Oracle.types[a.Object.Type]
		return t != nil && slices.ContainsFunc(t.Attributes, func(d schema.AttributeDef) bool { return d.Name == a.Name })
	}
	for _, a := range b.World.ContextualAttributes {
		if !declared(a) {
			return false
		}
	}
	return !slices.ContainsFunc(b.World.Contextual, func(t rel.Tuple) bool { return !b.Oracle.admitted(t) })
}

// check asks the evaluator.
func (b *Bench) check(on *eval.Binding, r eval.Reader, q Question) (authz.Answer, error) {
	return on.Check(context.Background(), r, authz.Question(q), &b.env)
}
