package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Bench is a world made ready for the laws: the oracle and the engine's parts
// on the same data, and the questions to ask. It belongs to one goroutine.
type Bench struct {
	Seed      uint64
	World     World
	Questions []Question
	Oracle    *Oracle
	Schema    *schema.Schema
	Coverage  *Coverage

	graph   *graph.Graph
	binding *eval.Binding
	env     eval.Env
	survey  *survey
	tables  map[rel.Subject]*Table
}

// ErrInvalid says that a world's model does not compile.
var ErrInvalid = errors.New("world's model does not compile")

// NewBench makes w ready. The questions are drawn from the seed if questions
// is nil.
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
		Attributes: w.ContextualAttributes, Bounds: eval.Bounds{Depth: w.Depth}}
	b.survey = surveyOf(b.Oracle)
	if questions == nil {
		b.draw()
	}
	return b, nil
}

// graphOf builds a graph of a state alone.
func graphOf(s State) (*graph.Graph, error) {
	g := graph.New(graph.Options{})
	batch := g.Begin()
	if err := applyToGraph(batch, difference(State{}, s)); err != nil {
		return nil, err
	}
	_, err := batch.Publish()
	return g, err
}

// on is b with another state in place of the world's, for the same questions.
func (b *Bench) on(s State) (*Oracle, error) {
	w := b.World
	w.Stored, w.Attributes = s.Tuples, s.Attributes
	return New(w, Conditions{})
}

// table is the oracle's answers about u.
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

// truth is the oracle's answer.
func (b *Bench) truth(q Question) expr.Tristate {
	return b.table(q.Subject).Truth(q.Object, q.Relation)
}

// How many questions a world is asked.
const (
	benchSubjects = 3
	benchEach     = 4 // of each truth
)

// draw chooses subjects, and of all that one could ask about each a balanced
// part: as many that are true as false as unknown, as far as there are.
func (b *Bench) draw() {
	r := rand.New(rand.NewPCG(b.Seed, 0x9d))
	subjects := Subjects(b.Seed, &b.World, benchSubjects)
	var own []rel.Object // perhaps those of strangers
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

// admissible says whether the schema admits every contextual tuple and
// declares every contextual attribute; where it does not, a question is an
// error.
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

// check asks the engine.
func (b *Bench) check(on *eval.Binding, r eval.Reader, q Question) (eval.Answer, error) {
	return on.Check(context.Background(), r, eval.Question(q), &b.env)
}
