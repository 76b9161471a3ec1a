package pdp

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/value"
)

// Inputs are what decisions use apart from the request. All fields must be set.
type Inputs struct {
	Now     func() time.Time // current time
	History History          // history of operations
	// FailOpen makes a guard permit what it cannot decide.
	FailOpen bool
}

// Answer is the answer to a decision request.
type Answer struct {
	Application string          // name of the application
	Decision    policy.Decision // decision, if Decided is true
	// Decided is false if the request could not be translated.
	Decided bool
	// Err is an internal error, for example that the history cannot be read.
	Err error
}

// Serves reports whether an application serves an action.
func (e *Engine) Serves(action string) bool { return e.find(action) != nil }

func (e *Engine) find(action string) *plan {
	for i := range e.plans {
		if e.plans[i].action == action {
			return &e.plans[i]
		}
	}
	return nil
}

// Decide decides a request and appends the response to dst as JSON. The action of
// the request must be one that the engine serves.
func (e *Engine) Decide(ctx context.Context, dst []byte, r *Request, in *Inputs) ([]byte, Answer) {
	p := e.find(r.Action)
	a := Answer{Application: p.name}
	switch p.name {
	case Monitoring, Naming:
		return p.answer(ctx, dst, r.combined(), r.Brief && p.name == Monitoring, in, &a), a
	case Optimization:
		return p.optimize(ctx, dst, r, in, &a), a
	case Match:
		return p.answer(ctx, dst, r.matching(p.types), false, in, &a), a
	case Guard:
		return p.guard(ctx, dst, r, in, &a), a
	}
	return appendFailure(dst, "native policies decide XACML requests: expected POST /policy/pdpx/v1/xacml"), a
}

// DecideNative decides an XACML request with the native policies.
func (e *Engine) DecideNative(ctx context.Context, r *policy.Request, in *Inputs) []policy.Result {
	for i := range e.plans {
		if p := &e.plans[i]; p.name == Native {
			return p.compiled.Decide(ctx, r, p.options(&source{Inputs: in}))
		}
	}
	return nil
}

// options returns the options of a decision.
func (p *plan) options(s *source) policy.Options {
	return policy.Options{Now: s.Now, Attributes: s}
}

// decide decides one XACML request.
func (p *plan) decide(ctx context.Context, r *policy.Request, in *Inputs, a *Answer) policy.Result {
	s := source{Inputs: in}
	var one [1]policy.Result
	result := p.compiled.AppendDecisions(ctx, one[:0], r, p.options(&s))[0]
	a.Decision, a.Decided, a.Err = result.Decision, true, s.err
	return result
}

// answer decides a request and appends the response with the policies.
func (p *plan) answer(ctx context.Context, dst []byte, r *policy.Request, brief bool, in *Inputs, a *Answer) []byte {
	result := p.decide(ctx, r, in, a)
	return p.appendResult(dst, &result, brief, nil)
}

// appendFailure appends the response to a request that cannot be translated.
func appendFailure(dst []byte, message string) []byte {
	return append(jsonread.AppendString(append(dst, `{"status":"error","message":`...), message), '}')
}

// appendResult appends the response to a decision: the policies of the
// obligations, and advice if there is any.
func (p *plan) appendResult(dst []byte, result *policy.Result, brief bool, advice []byte) []byte {
	if result.Decision != policy.Permitted {
		dst = append(dst, `{"status":"error"`...)
		if result.Status != nil {
			dst = jsonread.AppendString(append(dst, `,"message":`...), result.Status.Message)
		}
		return append(dst, `,"policies":{}}`...)
	}
	dst = append(dst, '{')
	if advice != nil {
		dst = append(append(append(dst, `"advice":`...), advice...), ',')
	}
	dst = append(dst, `"policies":{`...)
	for i, m := range p.applied(result) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonread.AppendString(dst, m.entity.Name), ':')
		if brief {
			dst = append(dst, m.brief...)
		} else {
			dst = append(dst, m.full...)
		}
	}
	return append(dst, "}}"...)
}

// applied returns the policies of a result in order. If the application weighs
// policies, only those with the highest weight of their type remain.
func (p *plan) applied(result *policy.Result) []*member {
	list := make([]*member, 0, len(result.Obligations))
	for i := range result.Obligations {
		o := &result.Obligations[i]
		if o.ID != obligationBody || len(o.Arguments) == 0 {
			continue
		}
		if m := p.answers[o.Arguments[0].Value.Text()]; m != nil {
			list = append(list, m)
		}
	}
	if !p.weighs || len(list) < 2 {
		return list
	}
	highest := map[string]int{}
	for _, m := range list {
		highest[m.typ] = max(highest[m.typ], m.weight)
	}
	kept := list[:0]
	for _, m := range list {
		if m.weight == highest[m.typ] {
			kept = append(kept, m)
		}
	}
	return kept
}

// optimize decides a request of the application optimization. If the request has
// subscribers, their roles are added to the scope first.
func (p *plan) optimize(ctx context.Context, dst []byte, r *Request, in *Inputs, a *Answer) []byte {
	names := r.subscribers()
	if len(names) == 0 {
		return p.answer(ctx, dst, r.matching(p.types), false, in, a)
	}
	asked := *r
	resource := tosca.NewMap()
	if r.resource != nil {
		resource = *r.resource
	}
	first := resource.With("policy-type", tosca.NewString(typeSubscriber))
	asked.resource = &first
	xacml := asked.matching(p.types)
	list := tosca.Value{Kind: tosca.List, Items: names}
	xacml.Categories = append(xacml.Categories, policy.Category{Name: policy.CategorySubject,
		Attributes: []policy.Attribute{texts(attributeSubscriber, &list)}})
	result := p.decide(ctx, xacml, in, a)
	if result.Decision != policy.Permitted {
		return p.appendResult(dst, &result, false, nil)
	}
	roles, advice := readAdvice(&result)
	scope := tosca.Value{Kind: tosca.List}
	if v := resource.Get("scope"); v != nil {
		scope.Items = items(&resource, "scope")
	}
	scope.Items = append(scope.Items[:len(scope.Items):len(scope.Items)], roles...)
	second := resource.With("scope", scope)
	asked.resource = &second
	result = p.decide(ctx, asked.matching(p.types), in, a)
	return p.appendResult(dst, &result, false, advice)
}

// readAdvice returns the roles that the subscriber policies add, and the advice
// as JSON: the last role and the last status.
func readAdvice(result *policy.Result) (roles []tosca.Value, advice []byte) {
	var role, status value.Value
	for _, duty := range result.Advice {
		if duty.ID != adviceSubscriber {
			continue
		}
		for _, argument := range duty.Arguments {
			switch argument.ID {
			case adviceRole:
				role = argument.Value
				roles = append(roles, tosca.NewString(role.Text()))
			case adviceStatus:
				status = argument.Value
			}
		}
	}
	if roles == nil {
		return nil, nil
	}
	advice = jsonread.AppendString([]byte(`{"subscriberRole":`), role.Text())
	advice = jsonread.AppendString(append(advice, `,"provStatus":`...), status.Text())
	return roles, append(advice, '}')
}

// guard decides a request of the application guard. What no guard applies to is
// permitted. What cannot be decided is an error, unless guards fail open.
func (p *plan) guard(ctx context.Context, dst []byte, r *Request, in *Inputs, a *Answer) []byte {
	xacml, err := r.guard()
	if err != nil {
		return appendFailure(dst, err.Error())
	}
	result := p.decide(ctx, xacml, in, a)
	switch {
	case a.Err != nil && !in.FailOpen:
		// A guard that denies unless it permits would hide the error.
		a.Decision = policy.Indeterminate
		return appendFailure(dst, "the guards cannot decide: the history of operations cannot be read")
	case result.Decision == policy.Denied:
		return append(dst, `{"status":"Deny"}`...)
	case result.Decision == policy.Permitted, result.Decision == policy.NotApplicable, in.FailOpen:
		return append(dst, `{"status":"Permit"}`...)
	}
	message := "the guards cannot decide"
	if result.Status != nil {
		message += ": " + result.Status.Message
	}
	return appendFailure(dst, message)
}
