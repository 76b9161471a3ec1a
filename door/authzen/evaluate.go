package authzen

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// serveEvaluation serves the access evaluation API.
func (c *call) serveEvaluation() error {
	var e evaluation
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if !e.readMember(r.Name(), r) {
			r.Skip()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	return c.decide(&e)
}

// decide writes the decision of one evaluation.
func (c *call) decide(e *evaluation) error {
	if c.domain != nil {
		p, err := c.domain.Pin(c.Context(), domain.PinOptions{})
		if err == nil {
			c.out, _, err = c.decideByPolicy(p, e)
		}
		return err
	}
	if err := e.checkParts(evaluationParts); err != nil {
		return err
	}
	result, err := c.store.Check(c.Context(), e.check(c.emptyParams))
	c.out, err = appendDecision(c.out, result, err)
	return err
}

// appendDecision appends the decision of a check with the result r and err. An
// unknown type or action is denied with an error in the context. An undecided
// check is denied with a reason, but it is an error if it reached a bound.
func appendDecision(out []byte, r authz.CheckResult, err error) ([]byte, error) {
	if isUnknownName(err) {
		return appendError(out, http.StatusNotFound, errorText(err)), nil
	}
	if err != nil {
		return out, err
	}
	switch {
	case r.Decision == expr.True:
		return append(out, `{"decision":true}`...), nil
	case r.Decision == expr.False:
		return append(out, `{"decision":false}`...), nil
	case r.Reasons != nil && r.Reasons.Bound != "":
		return out, &requestError{http.StatusInternalServerError, "undecided: the evaluation reached the bound on " + r.Reasons.Bound}
	}
	out = append(out, `{"decision":false,"context":`...)
	return append(appendReasons(out, r.Reasons), '}'), nil
}

// isUnknownName reports whether the schema lacks the type or relation of a
// request.
func isUnknownName(err error) bool {
	return errors.Is(err, authz.ErrNoType) || errors.Is(err, authz.ErrNoRelation)
}

// errorText returns the text of an error for a client.
func errorText(err error) string { _, text := describe(err); return text }

// appendReasons appends why a check is undecided.
func appendReasons(out []byte, reasons *authz.Reasons) []byte {
	out = append(out, `{"reason":`...)
	if reasons == nil {
		return append(out, `"undecided"}`...)
	}
	out = jsonread.AppendString(out, reasons.String())
	if len(reasons.Missing) > 0 {
		out = append(out, `,"missing":[`...)
		for i, name := range reasons.Missing {
			if i > 0 {
				out = append(out, ',')
			}
			out = jsonread.AppendString(out, name)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// appendError appends a denial for an item that failed.
func appendError(out []byte, status int, text string) []byte {
	out = append(out, `{"decision":false,"context":{"error":{"status":`...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, `,"message":`...)
	return append(jsonread.AppendString(out, door.ShortText(text)), "}}}"...)
}

// The values of evaluations_semantic.
const (
	// executeAll decides all items.
	executeAll = "execute_all"
	// denyOnFirstDeny stops after the first denial.
	denyOnFirstDeny = "deny_on_first_deny"
	// permitOnFirstAllow stops after the first permit.
	permitOnFirstAllow = "permit_on_first_permit"
)

// evaluationsMax bounds the items of a request. The engine's bound on a batch
// may be lower.
const evaluationsMax = 100_000

// serveEvaluations serves the access evaluations API, with one revision for all
// items. A request without items is a single evaluation.
func (c *call) serveEvaluations() error {
	var top evaluation
	var items []evaluation
	var present [][4]bool
	semantic := executeAll
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch {
		case top.readMember(r.Name(), r):
		case string(r.Name()) == "evaluations":
			items, present = readItems(r)
		case string(r.Name()) == "options":
			semantic = readSemantic(r)
		default:
			r.Skip()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if len(items) == 0 {
		return c.decide(&top)
	}
	for i := range items {
		items[i].inherit(&top, present[i])
	}
	if c.domain != nil {
		return c.decideAllByPolicy(items, semantic)
	}
	return c.decideAll(items, semantic)
}

// readSemantic reads the options of a request.
func readSemantic(r *jsonread.Reader) string {
	semantic := executeAll
	for r.Object(); r.Field(); {
		if string(r.Name()) != "evaluations_semantic" {
			r.Skip()
			continue
		}
		switch semantic = r.String(); semantic {
		case executeAll, denyOnFirstDeny, permitOnFirstAllow:
		default:
			r.Fail("expected one of " + executeAll + ", " + denyOnFirstDeny + ", " + permitOnFirstAllow)
		}
	}
	return semantic
}

// readItems reads the items. For each item, present has the members that it
// contains: subject, action, resource and context.
func readItems(r *jsonread.Reader) (items []evaluation, present [][4]bool) {
	for r.Array(); r.Item(); {
		if len(items) == evaluationsMax {
			r.Fail("more than " + strconv.Itoa(evaluationsMax) + " evaluations")
			break
		}
		var e evaluation
		for r.Object(); r.Field(); {
			if !e.readMember(r.Name(), r) {
				r.Skip()
			}
		}
		items = append(items, e)
		present = append(present, [4]bool{e.subject.present, e.action.present, e.resource.present, e.context != nil})
	}
	return items, present
}

// inherit copies the members that an item lacks from the top level.
func (e *evaluation) inherit(top *evaluation, present [4]bool) {
	if !present[0] {
		e.subject = top.subject
	}
	if !present[1] {
		e.action = top.action
	}
	if !present[2] {
		e.resource = top.resource
	}
	if !present[3] {
		e.context = top.context
	}
}

// decideAll writes the decisions of all items. An item that fails is denied with
// an error in the context.
func (c *call) decideAll(items []evaluation, semantic string) error {
	requests := make([]authz.CheckRequest, 0, len(items))
	invalid := make([]error, len(items))
	for i := range items {
		if invalid[i] = items[i].checkParts(evaluationParts); invalid[i] == nil {
			requests = append(requests, items[i].check(c.emptyParams))
		}
	}
	results, err := c.store.CheckBatch(c.Context(), requests, authz.Acknowledged())
	if err != nil {
		return err
	}
	c.out = append(c.out, `{"evaluations":[`...)
	for i := range items {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		allowed := false
		if err := invalid[i]; err != nil {
			c.out = appendError(c.out, http.StatusBadRequest, err.Error())
		} else {
			allowed = results[0].Allowed()
			start := len(c.out)
			if c.out, err = appendDecision(c.out, results[0], results[0].Err); err != nil {
				status, text := describe(err)
				c.out = appendError(c.out[:start], status, text)
			}
			results = results[1:]
		}
		if semantic == denyOnFirstDeny && !allowed || semantic == permitOnFirstAllow && allowed {
			break
		}
	}
	c.out = append(c.out, "]}"...)
	return nil
}
