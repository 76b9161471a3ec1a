package oracle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Law is something that holds on every world. It returns the first failure
// that it meets among the bench's questions.
type Law struct {
	Name  string
	Holds func(*Bench) *Failure
	// Every is how rarely a run of many worlds tries it: each Every-th one. Wide
	// ones, those with long lists, are all tried besides, where Wide is set.
	Every uint64
	Wide  bool
}

// due says whether the law that stands at place i is tried on a seed's world.
// A long run thins out the laws that are tried rarely and cost most.
func (l Law) due(seed uint64, i int, thin uint64) bool {
	every := l.Every
	if every > thinFrom {
		every *= thin
	}
	return (seed+uint64(i))%every == 0 || l.Wide && isWide(seed)
}

// thinFrom is the greatest Every of a law that no run thins out.
const thinFrom = 3

// Failure is a world on which a law does not hold.
type Failure struct {
	Law      string
	Question Question
	Text     string // what was expected and what came
}

func (f *Failure) Error() string { return f.Law + ": " + f.Question.String() + ": " + f.Text }

// Laws returns all laws that need no storage.
func Laws() []Law {
	laws := []Law{
		{Name: "check", Holds: checkLaw(eval.ModeAuto), Every: 1},
		{Name: "check by solver", Holds: checkLaw(eval.ModeSolver), Every: 3, Wide: true},
		{Name: "check forward", Holds: checkLaw(eval.ModeForward), Every: 3, Wide: true},
		{Name: "check backward", Holds: checkLaw(eval.ModeBackward), Every: 3, Wide: true},
		{Name: "check shuffled", Holds: checkLaw(eval.ModeShuffled), Every: 3, Wide: true},
		{Name: "past views", Holds: pastLaw, Every: 24},
		{Name: "list objects", Holds: listObjectsLaw, Every: 4},
		{Name: "list subjects", Holds: listSubjectsLaw, Every: 8},
		{Name: "explain", Holds: explainLaw, Every: 8},
		{Name: "rows of an embedder", Holds: rowsLaw, Every: 12},
		{Name: "few nodes", Holds: nodesLaw, Every: 8},
		{Name: "canceled", Holds: canceledLaw, Every: 64},
		{Name: "expand", Holds: expandLaw, Every: 16},
	}
	return laws
}

// checkLaw: check is what the oracle says, whatever the way.
func checkLaw(mode eval.Mode) func(*Bench) *Failure {
	return func(b *Bench) *Failure {
		on := b.binding
		if mode != eval.ModeAuto {
			on = on.Force(mode)
		}
		for _, q := range b.Questions {
			if text := b.compare(b.Oracle, on, b.graph.View(), q, b.truth(q)); text != "" {
				return &Failure{Question: q, Text: text}
			}
			if text := b.deep(on, q); text != "" {
				return &Failure{Question: q, Text: text}
			}
			if mode == eval.ModeAuto && b.Coverage != nil {
				b.Coverage.count(b.survey, q, b.truth(q))
			}
		}
		return nil
	}
}

// compare asks one question and says how the answer differs from want; "" if
// it does not.
func (b *Bench) compare(o *Oracle, on *eval.Binding, r eval.Reader, q Question, want expr.Tristate) string {
	a, err := b.check(on, r, q)
	if !b.admissible() {
		if !errors.Is(err, eval.ErrTuple) {
			return fmt.Sprintf("want ErrTuple for a contextual tuple, got %v, %v", a.Decision, err)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("want %s, got error %v", want, err)
	}
	if a.Decision != want {
		return fmt.Sprintf("want %s, got %s (%s)", want, a.Decision, a.Reasons)
	}
	return b.compareReasons(o, a)
}

// compareReasons holds an unknown answer's reasons against the world.
func (b *Bench) compareReasons(o *Oracle, a eval.Answer) string {
	r := a.Reasons
	if a.Decision != expr.Unknown {
		if r != nil {
			return fmt.Sprintf("%s with reasons: %s", a.Decision, r)
		}
		return ""
	}
	if r == nil {
		return "unknown without reasons"
	}
	if b.Coverage != nil {
		for i, is := range [reasonCount]bool{len(r.Missing) > 0, len(r.Errors) > 0, r.Cycle, r.Bound != ""} {
			if is {
				b.Coverage.Reasons[i]++
			}
		}
	}
	conditions := len(r.Missing) + len(r.Errors)
	switch {
	case conditions == 0 && !r.Cycle && r.Bound == "":
		return "unknown for no reason"
	case r.Cycle && (conditions > 0 || r.Bound != ""):
		return "a cycle besides other reasons: " + r.String()
	case r.Bound != "" && r.Bound != eval.BoundDepth:
		return "bound " + r.Bound
	}
	missing := o.missing()
	for _, name := range r.Missing {
		if !missing[name] {
			return fmt.Sprintf("%q is said to be missing, but no condition lacks it", name)
		}
	}
	return ""
}

// deep holds the reasons that are no condition's against the oracle without a
// bound on hops: where the bound is the reason the answer is clear without it,
// where a cycle is it is not. A part of the worlds is enough.
func (b *Bench) deep(on *eval.Binding, q Question) string {
	if b.truth(q) != expr.Unknown || b.Seed%4 != 0 || len(b.World.Stored) > wideMin || !b.admissible() {
		return ""
	}
	a, err := b.check(on, b.graph.View(), q)
	if err != nil || !a.Reasons.Cycle && (a.Reasons.Bound == "" || len(a.Reasons.Missing)+len(a.Reasons.Errors) > 0) {
		return ""
	}
	w := b.World
	w.Depth = 1 + len(w.Stored) + len(w.Contextual)
	o, err := New(w, Conditions{})
	if err != nil {
		return err.Error()
	}
	if truth := o.Check(q); (truth == expr.Unknown) != a.Reasons.Cycle {
		return fmt.Sprintf("unknown (%s), without a bound on hops %s", a.Reasons, truth)
	}
	return ""
}

// missing names what any condition, rule or attribute of the world lacks.
func (o *Oracle) missing() map[string]bool {
	if o.lacking == nil {
		o.lacking = o.findMissing()
	}
	return o.lacking
}

func (o *Oracle) findMissing() map[string]bool {
	names := map[string]bool{}
	note := func(r expr.Result) {
		for _, m := range r.Missing {
			names[m] = true
		}
	}
	for _, t := range append(slices.Clone(o.world.Stored), o.world.Contextual...) {
		if p := o.programs[t.Condition]; p != nil {
			note(p.Eval(o.storedValues(t), o.world.Context, o.world.Now))
		}
	}
	for name, t := range o.types {
		for _, a := range t.Attributes {
			names[name+"."+a.Name] = true
		}
		for _, r := range t.Relations {
			eachRule(r.Rewrite, func(call *schema.RuleCall) {
				for _, a := range call.Args { // an attribute or an entry of the context
					names[a.Context] = true
				}
			})
		}
	}
	return names
}

func eachRule(r schema.Rewrite, do func(*schema.RuleCall)) {
	if r.Op == schema.OpRule {
		do(r.Rule)
	}
	for _, c := range r.Children {
		eachRule(c, do)
	}
}

// pastLaw: a view answers as of its revision, however the graph came there
// and whatever came later; so does a view that is won back by undoing.
func pastLaw(b *Bench) *Failure {
	h := Route(b.Seed, &b.World)
	g := graph.New(graph.Options{})
	views := []*graph.View{g.View()}
	for _, changes := range h.Revisions {
		batch := g.Begin()
		if err := applyToGraph(batch, changes); err != nil {
			return &Failure{Text: "apply: " + err.Error()}
		}
		v, err := batch.Publish()
		if err != nil {
			return &Failure{Text: "publish: " + err.Error()}
		}
		views = append(views, v)
	}
	undone := g.View()
	for revision := len(views) - 1; revision > 0; revision-- {
		state := h.At(revision)
		if f := b.sameAs(state, views[revision], fmt.Sprintf("view of revision %d", revision)); f != nil {
			return f
		}
		batch := g.From(undone)
		if err := applyToGraph(batch, difference(state, h.At(revision-1))); err != nil {
			return &Failure{Text: "undo: " + err.Error()}
		}
		undone = batch.View()
		if f := b.sameAs(h.At(revision-1), undone, fmt.Sprintf("revision %d by undoing", revision-1)); f != nil {
			return f
		}
	}
	return nil
}

// sameAs holds a view against the oracle on a state.
func (b *Bench) sameAs(s State, v *graph.View, what string) *Failure {
	o, err := b.on(s)
	if err != nil {
		return &Failure{Text: what + ": " + err.Error()}
	}
	on := eval.Bind(b.Schema, v)
	tables := map[rel.Subject]*Table{}
	for _, q := range b.Questions {
		t := tables[q.Subject]
		if t == nil {
			t = o.Members(q.Subject, b.objects()...)
			tables[q.Subject] = t
		}
		if text := b.compare(o, on, v, q, t.Truth(q.Object, q.Relation)); text != "" {
			return &Failure{Question: q, Text: what + ": " + text}
		}
	}
	return nil
}

// objects are those of the questions.
func (b *Bench) objects() []rel.Object {
	var all []rel.Object
	for _, q := range b.Questions {
		all = append(all, q.Object)
	}
	return all
}
