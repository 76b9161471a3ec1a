package oracle

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/eval"
	"github.com/ostiary/ostiary/internal/engine/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// Law is a statement that must be true in every world.
type Law struct {
	// Name identifies the law in failures.
	Name string
	// Holds returns the first failure that it finds among the bench's
	// questions, or nil.
	Holds func(*Bench) *Failure
	// Every is the number of seeds of which one is tried; 1 tries all.
	Every uint64
	// Wide means that wide worlds are tried in addition, all of them.
	Wide bool
}

// due reports whether the i-th law is tried on the world of a seed. In a long
// run, expensive laws are tried thin times more rarely.
func (l Law) due(seed uint64, i int, thin uint64) bool {
	every := l.Every
	if every > thinFrom {
		every *= thin
	}
	return (seed+uint64(i))%every == 0 || l.Wide && isWide(seed)
}

// thinFrom is the largest Every of a law that is never thinned out.
const thinFrom = 3

// Failure describes how a law is broken.
type Failure struct {
	// Law is the law's name.
	Law string
	// Question is the question with the wrong answer; it may be zero.
	Question Question
	Text     string // the expected and the actual result
}

// Error returns the law, the question and the text.
func (f *Failure) Error() string { return f.Law + ": " + f.Question.String() + ": " + f.Text }

// Laws returns the laws that need no storage.
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
		{Name: "pages of expand", Holds: expandPagesLaw, Every: 16},
	}
	return laws
}

// checkLaw: a check equals the oracle's answer, in each mode of evaluation.
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
			if text := b.compareUnbounded(on, q); text != "" {
				return &Failure{Question: q, Text: text}
			}
			if mode == eval.ModeAuto && b.Coverage != nil {
				b.Coverage.addCheck(b.survey, q, b.truth(q))
			}
		}
		return nil
	}
}

// compare asks one question and describes how the answer differs from want; ""
// means that it does not.
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

// compareReasons checks the reasons of an unknown answer against the world.
func (b *Bench) compareReasons(o *Oracle, a authz.Answer) string {
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
		return "a cycle in addition to other reasons: " + r.String()
	case r.Bound != "" && r.Bound != authz.BoundDepth:
		return "bound " + r.Bound
	}
	missing := o.missing()
	for _, name := range r.Missing {
		if !missing[name] {
			return fmt.Sprintf("the reasons name %q as missing, but no condition lacks it", name)
		}
	}
	return ""
}

// compareUnbounded checks two kinds of reasons with an oracle that has no bound
// on depth. If the bound is the only reason, that oracle's answer must be
// certain. If a cycle is the reason, it must be unknown. One seed in four is
// enough.
func (b *Bench) compareUnbounded(on *eval.Binding, q Question) string {
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

// missing returns the names of the parameters, attributes and context values
// that any condition, rule or attribute of the world may lack.
func (o *Oracle) missing() map[string]bool {
	if o.missingNames == nil {
		o.missingNames = o.findMissing()
	}
	return o.missingNames
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
			eachRuleCall(r.Rewrite, func(call *schema.RuleCall) {
				for _, a := range call.Args { // an attribute or a context value
					names[a.Context] = true
				}
			})
		}
	}
	return names
}

func eachRuleCall(r schema.Rewrite, do func(*schema.RuleCall)) {
	if r.Op == schema.OpRule {
		do(r.Rule)
	}
	for _, c := range r.Children {
		eachRuleCall(c, do)
	}
}

// pastLaw: a view of the graph answers as of its revision, whatever was written
// before and after it. A view that was derived by undoing later changes does so
// too.
func pastLaw(b *Bench) *Failure {
	h := Route(b.Seed, &b.World)
	g := graph.New(graph.Options{})
	views := []*graph.View{g.View()}
	for _, changes := range h.Revisions {
		batch := g.Begin()
		if err := applyChanges(batch, changes); err != nil {
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
		if f := b.compareView(state, views[revision], fmt.Sprintf("view of revision %d", revision)); f != nil {
			return f
		}
		batch := g.From(undone)
		if err := applyChanges(batch, difference(state, h.At(revision-1))); err != nil {
			return &Failure{Text: "undo: " + err.Error()}
		}
		undone = batch.View()
		if f := b.compareView(h.At(revision-1), undone, fmt.Sprintf("revision %d by undoing", revision-1)); f != nil {
			return f
		}
	}
	return nil
}

// compareView compares a view with the oracle for a state.
func (b *Bench) compareView(s State, v *graph.View, what string) *Failure {
	o, err := b.oracleOn(s)
	if err != nil {
		return &Failure{Text: what + ": " + err.Error()}
	}
	on := eval.Bind(b.Schema, v)
	tables := map[rel.Subject]*Table{}
	for _, q := range b.Questions {
		t := tables[q.Subject]
		if t == nil {
			t = o.Members(q.Subject, b.questionObjects()...)
			tables[q.Subject] = t
		}
		if text := b.compare(o, on, v, q, t.Truth(q.Object, q.Relation)); text != "" {
			return &Failure{Question: q, Text: what + ": " + text}
		}
	}
	return nil
}

// questionObjects returns the objects of the questions.
func (b *Bench) questionObjects() []rel.Object {
	var all []rel.Object
	for _, q := range b.Questions {
		all = append(all, q.Object)
	}
	return all
}
