package authzen

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/expr"
)

// evaluation answers one question.
func (c *call) evaluation() error {
	var e evaluation
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		if !e.member(r) {
			r.Skip()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	return c.one(&e)
}

func (c *call) one(e *evaluation) error {
	if err := e.complete(whole); err != nil {
		return err
	}
	result, err := c.store.Check(c.ctx, e.check(c.unsent))
	c.out, err = appendDecision(c.out, result, err)
	return err
}

// appendDecision writes a decision. What the schema does not know is denied,
// saying so; what reached a bound is no decision.
func appendDecision(out []byte, r ostiary.CheckResult, err error) ([]byte, error) {
	if unknownName(err) {
		return appendError(out, http.StatusNotFound, text(err)), nil
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
		return out, &refusal{http.StatusInternalServerError, "undecided: the bound on " + r.Reasons.Bound + " was reached"}
	}
	out = append(out, `{"decision":false,"context":`...)
	return append(appendReasons(out, r.Reasons), '}'), nil
}

func unknownName(err error) bool {
	return errors.Is(err, ostiary.ErrNoType) || errors.Is(err, ostiary.ErrNoRelation)
}

func text(err error) string { _, s := describe(err); return s }

// appendReasons says why a question is undecided.
func appendReasons(out []byte, why *eval.Reasons) []byte {
	out = append(out, `{"reason":`...)
	if why == nil {
		return append(out, `"undecided"}`...)
	}
	out = jsonread.AppendString(out, why.String())
	if len(why.Missing) > 0 {
		out = append(out, `,"missing":[`...)
		for i, name := range why.Missing {
			if i > 0 {
				out = append(out, ',')
			}
			out = jsonread.AppendString(out, name)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// appendError writes the denial that stands for an error of one item.
func appendError(out []byte, status int, text string) []byte {
	out = append(out, `{"decision":false,"context":{"error":{"status":`...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, `,"message":`...)
	return append(jsonread.AppendString(out, text), "}}}"...)
}

// The semantics of evaluations.
const (
	executeAll         = "execute_all"
	denyOnFirstDeny    = "deny_on_first_deny"
	permitOnFirstAllow = "permit_on_first_permit"
)

// evaluationsMax bounds the items that are read; the engine's own bound on a
// batch may be lower.
const evaluationsMax = 100_000

// evaluations answers several questions, all at one revision.
func (c *call) evaluations() error {
	var top evaluation
	var items []evaluation
	var given [][4]bool
	semantic := executeAll
	r := jsonread.New(c.body)
	for r.Object(); r.Field(); {
		switch {
		case top.member(r):
		case string(r.Name()) == "evaluations":
			items, given = readItems(r)
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
		return c.one(&top)
	}
	for i := range items {
		items[i].inherit(&top, given[i])
	}
	return c.many(items, semantic)
}

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
			r.Fail("not one of " + executeAll + ", " + denyOnFirstDeny + ", " + permitOnFirstAllow)
		}
	}
	return semantic
}

// readItems reads the items, and which members each of them has.
func readItems(r *jsonread.Reader) (items []evaluation, given [][4]bool) {
	for r.Array(); r.Item(); {
		if len(items) == evaluationsMax {
			r.Fail("more than " + strconv.Itoa(evaluationsMax) + " evaluations")
			break
		}
		var e evaluation
		var has [4]bool
		for r.Object(); r.Field(); {
			if !e.member(r) {
				r.Skip()
			}
		}
		has[0], has[1], has[2], has[3] = e.subject.there, e.action.there, e.resource.there, e.context != nil
		items, given = append(items, e), append(given, has)
	}
	return items, given
}

// inherit takes from the top level, whole, what an item leaves out.
func (e *evaluation) inherit(top *evaluation, has [4]bool) {
	if !has[0] {
		e.subject = top.subject
	}
	if !has[1] {
		e.action = top.action
	}
	if !has[2] {
		e.resource = top.resource
	}
	if !has[3] {
		e.context = top.context
	}
}

// many answers items. One that fails is denied, saying why.
func (c *call) many(items []evaluation, semantic string) error {
	requests := make([]ostiary.CheckRequest, 0, len(items))
	wrong := make([]error, len(items))
	for i := range items {
		if wrong[i] = items[i].complete(whole); wrong[i] == nil {
			requests = append(requests, items[i].check(c.unsent))
		}
	}
	results, err := c.store.CheckMany(c.ctx, requests, ostiary.MinimizeLatency())
	if err != nil {
		return err
	}
	c.out = append(c.out, `{"evaluations":[`...)
	for i := range items {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		allowed := false
		if err := wrong[i]; err != nil {
			c.out = appendError(c.out, http.StatusBadRequest, err.Error())
		} else {
			allowed = results[0].Allowed()
			from := len(c.out)
			if c.out, err = appendDecision(c.out, results[0], results[0].Err); err != nil {
				status, text := describe(err)
				c.out = appendError(c.out[:from], status, text)
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
