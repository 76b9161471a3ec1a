package native

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// whatIfQuery is a decoded what-if request.
type whatIfQuery struct {
	authz.WhatIfRequest
	// source is the proposed schema.
	source schemaSource
	// context is that of questions that have none.
	context expr.Values
	// recorded is nil if the request has questions.
	recorded *recordedQuery
	// unchanged is true if the response must include items that do not change.
	unchanged bool
	// showModel is true if the response must include the proposed model.
	showModel bool
}

// recordedQuery selects recorded decisions as questions.
type recordedQuery struct {
	// within is the age of the oldest decision, and limit bounds their number;
	// 0 is the engine's default.
	within time.Duration
	limit  int
}

// read reads a request.
func (q *whatIfQuery) read(r *jsonread.Reader) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "questions":
			q.questions(r)
		case "context":
			q.context = r.Values()
		case "recorded":
			q.recorded = readRecorded(r)
		case "at":
			q.Consistency = readAt(r)
		case "proposed":
			for r.Object(); r.Field(); {
				if string(r.Name()) == "schema" {
					q.SchemaID = r.String()
				} else if !q.source.readMember(r) {
					r.Unknown()
				}
			}
		case "changes":
			for r.Object(); r.Field(); {
				if !readChange(r, &q.Changes) {
					r.Unknown()
				}
			}
		case "unchanged":
			q.unchanged = r.Bool()
		case "show_model":
			q.showModel = r.Bool()
		default:
			r.Unknown()
		}
	}
	if (q.Questions == nil) == (q.recorded == nil) {
		r.Fail("expected either questions or recorded")
	}
	if q.recorded != nil && q.context != nil {
		r.Fail("expected no context with recorded: each decision keeps its own")
	}
}

// questions reads the questions of a request.
func (q *whatIfQuery) questions(r *jsonread.Reader) {
	q.Questions = []authz.CheckRequest{}
	for r.Array(); r.Item(); {
		if len(q.Questions) == batchMax {
			r.Fail("more than " + strconv.Itoa(batchMax) + " questions")
			return
		}
		var one question
		for r.Object(); r.Field(); {
			if string(r.Name()) == "at" || !one.readMember(r) {
				r.Unknown()
			}
		}
		one.require(r)
		q.Questions = append(q.Questions, one.CheckRequest)
	}
}

// readRecorded reads a recordedQuery.
func readRecorded(r *jsonread.Reader) *recordedQuery {
	q := &recordedQuery{within: time.Hour}
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "minutes":
			q.within = time.Duration(r.Int(1, 60*24*7)) * time.Minute
		case "limit":
			q.limit = int(r.Int(1, batchMax))
		default:
			r.Unknown()
		}
	}
	return q
}

// responseReserve is the part of a request's time that is reserved for the
// response, so that a what-if that runs out of time can return a partial
// result.
const responseReserve = 500 * time.Millisecond

// whatIf serves WhatIf: it evaluates questions as the store is and under a
// proposal.
func (c *call) whatIf() error {
	var q whatIfQuery
	r := jsonread.New(c.body)
	q.read(r)
	if err := r.End(); err != nil {
		return err
	}
	if q.source.given {
		src, err := q.source.read(c)
		if err != nil {
			return err
		}
		q.Model = src.Model
	}
	if q.recorded != nil {
		found := c.store.RecordedDecisions(c.Context(), q.recorded.within, q.recorded.limit)
		if found == nil {
			return &problem{status: http.StatusConflict, Code: "not_recorded", Message: "this server does not record decisions"}
		}
		for i := range found {
			q.Questions = append(q.Questions, found[i].Question)
		}
	}
	ctx := c.Context()
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-responseReserve))
		defer cancel()
	}
	result, err := c.store.WhatIf(ctx, q.request())
	if err != nil {
		return err
	}
	c.encodeWhatIf(&q, &result)
	if q.showModel && q.Model != nil {
		model, err := json.Marshal(q.Model)
		if err != nil {
			return err
		}
		c.out = append(append(append(c.out[:len(c.out)-1], `,"model":`...), model...), '}')
	}
	return nil
}

// request returns the request with the context in the questions that have none.
func (q *whatIfQuery) request() authz.WhatIfRequest {
	out := q.WhatIfRequest
	if q.context == nil {
		return out
	}
	out.Questions = slices.Clone(q.Questions)
	for i := range out.Questions {
		if out.Questions[i].Context == nil {
			out.Questions[i].Context = q.context
		}
	}
	return out
}

// encodeWhatIf sets the response. It includes the items that change, or all of
// them if the request has "unchanged".
func (c *call) encodeWhatIf(q *whatIfQuery, result *authz.WhatIfResult) {
	out := append(make([]byte, 0, 1024), `{"items":[`...)
	first := true
	for i := range result.Items {
		item := &result.Items[i]
		if !item.Changed() && !q.unchanged {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(out, `{"number":`...)
		out = strconv.AppendInt(out, int64(i), 10)
		question := &q.Questions[i]
		for _, part := range [...][2]string{{`,"object":`, question.Object.String()}, {`,"relation":`, question.Relation}, {`,"subject":`, question.Subject.String()}} {
			out = jsonread.AppendString(append(out, part[0]...), part[1])
		}
		if question.Context != nil {
			out = appendJSON(append(out, `,"context":`...), question.Context)
		}
		out = appendResult(append(out, `,"before":`...), &item.Before)
		out = appendResult(append(out, `,"after":`...), &item.After)
		out = append(out, '}')
	}
	out = append(out, `],"questions":`...)
	out = strconv.AppendInt(out, int64(len(q.Questions)), 10)
	for _, n := range [...]struct {
		name string
		n    int
	}{{"asked", len(result.Items)}, {"gained", result.Gained}, {"lost", result.Lost}, {"other", result.Other}, {"failed", result.Failed}} {
		out = append(append(append(out, `,"`...), n.name...), `":`...)
		out = strconv.AppendInt(out, int64(n.n), 10)
	}
	if result.Partial != "" {
		out = jsonread.AppendString(append(out, `,"partial":`...), result.Partial)
	}
	out = appendRevision(out, result.Revision)
	out = append(out, `,"token":`...)
	c.out = append(jsonread.AppendString(out, string(result.Token)), '}')
}
