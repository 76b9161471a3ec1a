package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy/content"
	"github.com/ostiary/ostiary/policy/function"
	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// run is the state of the evaluation of one request. Its memory is used again
// by later requests. It must not be used concurrently.
type run struct {
	ctx        context.Context
	plan       *Plan
	options    Options
	request    *Request    // the request of all decisions
	single     *Request    // the request of this decision; nil until something asks for it
	categories []*Category // the categories of this decision

	slots   []slotState // by slot
	touched []int32     // slots whose state is not zero

	env       function.Env
	args      []function.Operand // stack of arguments
	lazies    []lazyArguments    // stack of calls of lazy functions
	variables []variableState    // stack of the variables of policies
	owner     *node              // the policy whose rules are being evaluated
	frame     int                // beginning of its variables
	duties    []pendingDuty      // obligations and advice so far
	arguments int                // size of duties, for the bound
	policies  []PolicyVersion    // policies that applied so far
	found     []int32            // stack of the children that indexes found

	now      time.Time // the instant of the request
	nowKnown bool

	part  turns.Part // of the request of the context
	steps int        // steps so far, of all decisions
	next  int        // number of steps at which checkpoint must be called
	// aborted is set when a bound is reached or the context ends. Then nothing
	// that was evaluated counts.
	aborted *status.Error
	trace   *tracer // nil if nothing is recorded
}

// slotState is what is known about a slot in this decision.
type slotState struct {
	values []value.Value // the bag
	own    []value.Value // memory for a bag that is not that of one attribute
	err    *status.Error // why the bag is unknown
	known  bool          // the bag needs no more work
}

// variableState is the value of a variable, once it is known.
type variableState struct {
	value function.Operand
	err   *status.Error
	known bool
}

// pendingDuty is a duty of a decision that may still be overridden.
type pendingDuty struct {
	Duty
	advice bool
	effect Decision
}

// stepsBetweenChecks is the number of steps after which an evaluation looks at
// its context, and needs a turn.
const stepsBetweenChecks = 1024

// step counts n steps. It fails if the request must end.
func (r *run) step(n int) *status.Error {
	r.steps += n
	if r.steps < r.next {
		return nil
	}
	return r.checkpoint()
}

// checkpoint ends the request if a bound is reached or the context has ended.
func (r *run) checkpoint() *status.Error {
	if r.aborted != nil {
		return r.aborted
	}
	if most := r.options.Bounds.Steps; r.steps > most || r.steps < 0 {
		return r.abort(reached(BoundSteps, fmt.Sprintf("the evaluation takes more than %d steps", most)))
	}
	err := r.ctx.Err()
	if err == nil && r.steps >= stepsBetweenChecks {
		err = r.part.Wait(r.ctx, nil, false)
	}
	if err != nil {
		return r.abort(reached(BoundTime, "the evaluation was ended: "+err.Error()))
	}
	r.next = min(r.steps+stepsBetweenChecks, r.options.Bounds.Steps+1)
	return nil
}

// abort ends the request with a reason. The first reason counts.
func (r *run) abort(why *status.Error) *status.Error {
	if r.aborted == nil {
		r.aborted = why
	}
	r.next = 0
	return r.aborted
}

// newRun returns a state without a request.
func newRun() any {
	r := &run{}
	r.env.Content = r.content
	return r
}

// start prepares the state for a request.
func (p *Plan) start(ctx context.Context, request *Request, o Options) *run {
	r := p.runs.Get().(*run)
	r.ctx, r.plan, r.request = ctx, p, request
	r.options = o
	r.options.Bounds = o.Bounds.withDefaults()
	r.env.Context, r.env.Zone, r.env.Related = ctx, o.Zone, o.Related
	if o.Trace != nil {
		r.trace = &tracer{trace: o.Trace}
	}
	if have, need := len(r.slots), len(p.slots.list); have < need {
		r.slots = append(r.slots, make([]slotState, need-have)...)
	}
	r.next = 0
	return r
}

// finish puts the state back for the next request. Nothing in it refers to this
// one afterwards, apart from memory that is overwritten before it is read.
func (r *run) finish() {
	r.forget()
	r.part.End()
	r.part = turns.Part{}
	r.ctx, r.request, r.options, r.trace, r.aborted = nil, nil, Options{}, nil, nil
	r.env.Context, r.env.Zone, r.env.Related = nil, nil, nil
	r.steps, r.nowKnown = 0, false
	p := r.plan
	r.plan = nil
	p.runs.Put(r)
}

// forget drops everything that belongs to one decision.
func (r *run) forget() {
	for _, n := range r.touched {
		s := &r.slots[n]
		clear(s.own)
		*s = slotState{own: s.own[:0]}
	}
	r.touched = r.touched[:0]
	clear(r.categories)
	r.categories, r.single = r.categories[:0], nil
	clear(r.args[:cap(r.args)])
	clear(r.duties)
	clear(r.policies)
	r.args, r.lazies, r.variables = r.args[:0], r.lazies[:0], r.variables[:0]
	r.duties, r.policies, r.found = r.duties[:0], r.policies[:0], r.found[:0]
	r.owner, r.frame, r.arguments = nil, 0, 0
}

// fill gives the values of the decision's categories to the slots. It stops if the
// request must end.
func (r *run) fill() {
	for _, c := range r.categories {
		ids := r.plan.slots.categories[c.Name]
		if ids == nil {
			continue
		}
		for i := range c.Attributes {
			a := &c.Attributes[i]
			numbers := ids[a.ID]
			if r.step(1+len(numbers)) != nil {
				return
			}
			for _, n := range numbers {
				r.give(n, a)
			}
		}
	}
}

// give adds the values of an attribute to a slot, if they are of its type and
// issuer. The bag is the attribute's own memory if all of its values fit.
func (r *run) give(n int32, a *Attribute) {
	slot := &r.plan.slots.list[n]
	if issuer := slot.designator.Issuer; issuer != "" && issuer != a.Issuer || slot.clock && a.Issuer != "" {
		return
	}
	fit := 0
	for i := range a.Values {
		if a.Values[i].Type() == slot.designator.Type {
			fit++
		}
	}
	if fit == 0 {
		return
	}
	s := &r.slots[n]
	if !s.known {
		s.known = true
		r.touched = append(r.touched, n)
		if fit == len(a.Values) {
			s.values = a.Values
			return
		}
	} else if len(s.own) == 0 {
		s.own = append(s.own, s.values...)
	}
	for _, v := range a.Values {
		if v.Type() == slot.designator.Type {
			s.own = append(s.own, v)
		}
	}
	s.values = s.own
}

// bag returns the values of a slot.
func (r *run) bag(n int32) ([]value.Value, *status.Error) {
	if s := &r.slots[n]; s.known {
		return s.values, s.err
	}
	return r.resolve(n)
}

// resolve finds the values of a slot for which the request has none.
func (r *run) resolve(n int32) ([]value.Value, *status.Error) {
	slot := &r.plan.slots.list[n]
	r.touched = append(r.touched, n)
	s := &r.slots[n]
	s.known = true
	switch {
	case slot.selection != nil:
		values, err := r.selectValues(n)
		r.slots[n].values, r.slots[n].err = values, err
		return values, err
	case slot.clock && r.options.Now != nil:
		s.own = append(s.own[:0], r.clock(slot.designator.Type))
		s.values = s.own
	case r.options.Attributes != nil:
		values, err := r.options.Attributes.Attribute(r.ctx, &slot.designator, r.decision())
		s.values, s.err = checkSource(values, err, &slot.designator)
	}
	return s.values, s.err
}

// checkSource returns the values that an attribute source returned. It fails if
// the source failed, or if a value has another type than the attribute.
func checkSource(values []value.Value, err error, d *Designator) ([]value.Value, *status.Error) {
	if err != nil {
		return nil, asStatus(err)
	}
	for _, v := range values {
		if v.Type() != d.Type {
			return nil, &status.Error{Code: status.ProcessingError,
				Message: fmt.Sprintf("the source of attribute %s returned a value of type %s: expected %s", value.Quote(d.ID), v.Type(), d.Type)}
		}
	}
	return values, nil
}

// clock returns the instant of the request as a time, a date or both.
func (r *run) clock(t value.Type) value.Value {
	if !r.nowKnown {
		zone := r.options.Zone
		if zone == nil {
			zone = time.UTC
		}
		r.now, r.nowKnown = r.options.Now().In(zone), true
	}
	switch t {
	case value.Time:
		return value.NewTime(r.now)
	case value.Date:
		return value.NewDate(r.now)
	}
	return value.NewDateTime(r.now)
}

// decision returns the request of this decision: the caller's request, unless
// that asks for several decisions.
func (r *run) decision() *Request {
	if r.single == nil {
		r.single = &Request{ReturnPolicyIDs: r.request.ReturnPolicyIDs}
		for _, c := range r.categories {
			r.single.Categories = append(r.single.Categories, *c)
		}
	}
	return r.single
}

// content returns the XML content of a category, or nil if it has none.
func (r *run) content(category string) (*content.Node, error) {
	for _, c := range r.categories {
		if c.Name == category {
			return c.Content, nil
		}
	}
	return nil, nil
}

// asStatus returns the status of an error of a function or an attribute source.
func asStatus(err error) *status.Error {
	if s, ok := err.(*status.Error); ok {
		return s
	}
	var s *status.Error
	if errors.As(err, &s) {
		return s
	}
	return &status.Error{Code: status.ProcessingError, Message: err.Error()}
}
