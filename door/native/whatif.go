package native

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/jsonread"
)

// whatIfQuery is a what-if as it is sent.
type whatIfQuery struct {
	ostiary.WhatIfRequest
	source    schemaSource
	recorded  *recordedQuery
	unchanged bool
}

// recordedQuery asks for the decisions that were recorded.
type recordedQuery struct {
	within time.Duration
	limit  int
}

func (q *whatIfQuery) read(r *jsonread.Reader) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "questions":
			q.questions(r)
		case "recorded":
			q.recorded = readRecorded(r)
		case "at":
			q.Consistency = readAt(r)
		case "proposed":
			for r.Object(); r.Field(); {
				if string(r.Name()) == "schema" {
					q.SchemaID = r.String()
				} else if !q.source.member(r) {
					r.Unknown()
				}
			}
		case "changes":
			for r.Object(); r.Field(); {
				if !readWrite(r, &q.Changes) {
					r.Unknown()
				}
			}
		case "unchanged":
			q.unchanged = r.Bool()
		default:
			r.Unknown()
		}
	}
	if (q.Questions == nil) == (q.recorded == nil) {
		r.Fail("either questions or recorded is wanted")
	}
}

func (q *whatIfQuery) questions(r *jsonread.Reader) {
	q.Questions = []ostiary.CheckRequest{}
	for r.Array(); r.Item(); {
		if len(q.Questions) == batchMax {
			r.Fail("more than " + strconv.Itoa(batchMax) + " questions")
			return
		}
		var one question
		for r.Object(); r.Field(); {
			if string(r.Name()) == "at" || !one.member(r) {
				r.Unknown()
			}
		}
		one.all(r)
		q.Questions = append(q.Questions, one.CheckRequest)
	}
}

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

// answerTime is what is kept back of a request's time, so that a what-if that is
// cut can still be told.
const answerTime = 500 * time.Millisecond

// whatIf asks questions today and under a proposal.
func (c *call) whatIf() error {
	var q whatIfQuery
	r := jsonread.New(c.body)
	q.read(r)
	if err := r.End(); err != nil {
		return err
	}
	if q.source.given {
		src, err := q.source.read(c.service)
		if err != nil {
			return err
		}
		q.Model = src.Model
	}
	if q.recorded != nil {
		found := c.store.RecordedDecisions(c.ctx, q.recorded.within, q.recorded.limit)
		if found == nil {
			return &problem{status: http.StatusConflict, Code: "not_recorded", Message: "decisions are not recorded here"}
		}
		for i := range found {
			q.Questions = append(q.Questions, found[i].Question)
		}
	}
	ctx := c.ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-answerTime))
		defer cancel()
	}
	got, err := c.store.WhatIf(ctx, q.WhatIfRequest)
	if err != nil {
		return err
	}
	c.tellWhatIf(&q, &got)
	return nil
}

// tellWhatIf writes the answer: the items that change, or all of them.
func (c *call) tellWhatIf(q *whatIfQuery, got *ostiary.WhatIfResult) {
	out := append(make([]byte, 0, 1024), `{"items":[`...)
	first := true
	for i := range got.Items {
		item := &got.Items[i]
		if !item.Changed() && !q.unchanged {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(out, `{"number":`...)
		out = strconv.AppendInt(out, int64(i), 10)
		asked := &q.Questions[i]
		for _, part := range [...][2]string{{`,"object":`, asked.Object.String()}, {`,"relation":`, asked.Relation}, {`,"subject":`, asked.Subject.String()}} {
			out = jsonread.AppendString(append(out, part[0]...), part[1])
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
	}{{"asked", len(got.Items)}, {"gained", got.Gained}, {"lost", got.Lost}, {"other", got.Other}} {
		out = append(append(append(out, `,"`...), n.name...), `":`...)
		out = strconv.AppendInt(out, int64(n.n), 10)
	}
	if got.Partial != "" {
		out = jsonread.AppendString(append(out, `,"partial":`...), got.Partial)
	}
	out = appendRevision(out, got.Revision)
	out = append(out, `,"token":`...)
	c.out = append(jsonread.AppendString(out, string(got.Token)), '}')
}
