package server

import (
	"io"
	"net/http"
	"strconv"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/trail/audit"
)

// audited is what a request's record in the audit log needs. Its methods accept nil.
type audited struct {
	store   string // as the path names it
	method  string
	refusal *door.Refusal // of the request, or nil
	content *keptContent  // nil if it is not asked for
	ending  bool          // the request ends, see request.end
	done    bool          // it has its record, or needs none
}

// storeParams are the names that parameters of paths have for a store.
var storeParams = [...]string{"store", "store_id", "tenant_id", "domain"}

// beginAudit prepares the record of a request, if there is an audit log.
func (q *request) beginAudit(r *http.Request, p *door.Params) {
	if q.trail == nil {
		return
	}
	q.audit = &audited{method: r.Method}
	for _, name := range storeParams {
		if q.audit.store = p.Named(name); q.audit.store != "" {
			break
		}
	}
	if q.auditContent && q.op.writes && !q.op.own {
		q.audit.content = &keptContent{}
	}
}

// keepContent makes the record have the content of the request.
func (a *audited) keepContent(r *http.Request) {
	if a != nil && a.content != nil {
		a.content.ReadCloser = r.Body
		r.Body = a.content
	}
}

// keptContent is a body whose beginning is kept.
type keptContent struct {
	io.ReadCloser
	kept []byte
}

func (k *keptContent) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	if room := audit.ContentMax + 1 - len(k.kept); room > 0 {
		k.kept = append(k.kept, p[:min(n, room)]...)
	}
	return n, err
}

// noteRefusal remembers the refusal of a request. A request that no route has seen gets
// its record at once.
func (q *request) noteRefusal(r *http.Request, why *door.Refusal) {
	switch {
	case q.audit != nil:
		q.audit.refusal = why
	case q.trail != nil && q.op == nil:
		record := audit.Record{Time: q.start, Kind: audit.KindRefusal, Method: r.Method, From: q.remote, Request: q.requestID(),
			Outcome: audit.Refused, Status: strconv.Itoa(why.Status()), Why: why.Error()}
		if q.door != nil {
			record.Door = q.door.Name
		}
		_ = q.trail.Refused(&record) // the request has no effect
	}
}

// recordFirst adds the record before the first part of the response is sent, if the
// request may not be answered without it. The response to a stream begins earlier than
// its writes.
func (q *request) recordFirst() *door.Refusal {
	if q.audit == nil || q.audit.ending || q.op.streams || !q.trail.Required() {
		return nil
	}
	return q.record(outcomeOf(q.status))
}

// recordEnd adds the record of a request that has ended. whole is false if the response
// broke off.
func (q *request) recordEnd(whole bool) *door.Refusal {
	if q.audit == nil {
		return nil
	}
	outcome := outcomeOf(q.status)
	if !whole {
		outcome = audit.Failed
		if q.ctx.journal.Changed() {
			outcome = audit.Uncertain
		}
	}
	return q.record(outcome)
}

// record adds the record of a request, once. It returns a refusal if it must not be
// answered otherwise.
func (q *request) record(outcome audit.Outcome) *door.Refusal {
	a := q.audit
	if a.done {
		return nil
	}
	a.done = true
	status := q.status
	if status == 0 {
		status = http.StatusOK
	}
	r := audit.Record{Time: q.start, Door: q.door.Name, Operation: q.op.series.route, Method: a.method, From: q.remote, Request: q.requestID(),
		Store: a.store, Outcome: outcome, Status: strconv.Itoa(status)}
	if a.content != nil {
		r.Content = string(a.content.kept)
	}
	return q.passage.record(&r, a.refusal, status == http.StatusUnauthorized || status == http.StatusForbidden)
}

// record completes the record of a request and adds it, if the request needs one. denied is true
// if the door refuses the caller. record returns a refusal if the request must not be answered
// without a record and has none.
func (p *passage) record(r *audit.Record, refusal *door.Refusal, denied bool) *door.Refusal {
	j := &p.ctx.journal
	if limited := p.ctx.limits.refusedBy(); limited != nil {
		same := *limited
		same.Got = 0 // so that all such refusals are counted together
		refusal = &same
	}
	switch {
	case refusal != nil && refusesCaller(refusal.Reason) && !j.Changed():
		r.Kind, r.Outcome = audit.KindRefusal, audit.Refused
	case p.op.login:
		r.Kind = audit.KindLogin
	case p.op.writes || j.Changed():
		r.Kind = audit.KindWrite
	case denied:
		r.Kind = audit.KindRefusal
	default:
		return nil
	}
	if refusal != nil {
		if r.Why = refusal.Error(); refusal.Reason == door.Lost {
			r.Outcome = audit.Uncertain
		}
	}
	r.Caller, r.Reason = callerOf(p.door.Door, p.ctx.key, &j.Author), j.Reason
	for _, c := range j.ChangedStores() {
		r.Changes = append(r.Changes, audit.Change{Store: c.Store.String(), Revision: uint64(c.Revision)})
	}
	// A request without an effect can be repeated without a bound, also by a caller who may
	// write nothing. A known caller's request with an uncertain outcome may have an effect.
	repeatable := !j.Changed() && r.Outcome != audit.Made && (r.Caller.ID == "" || r.Outcome != audit.Uncertain)
	var err error
	if r.Kind == audit.KindRefusal || repeatable {
		_ = p.trail.Refused(r) // the request has no effect
	} else {
		err = p.trail.Record(r)
	}
	if err != nil {
		p.log.Error("a request has no record in the audit log yet", "id", r.Request, "error", err)
		return &door.Refusal{Reason: door.Unaudited, Detail: "the request may have had an effect"}
	}
	return nil
}

// callerOf returns the caller of a request; without an ID if it was not authenticated.
func callerOf(d *door.Door, key *hashedKey, a *authz.Author) (c audit.Caller) {
	if text := callerText(d, key, a); key != nil || text != callers.CallerAnonymous {
		c.ID = text
	}
	switch {
	case key != nil:
		c.Method, c.Owner, c.Certificate = key.caller.Method, key.caller.Owner, key.certificate
		if key.matched != nil {
			c.Keys = key.matched.Names()
		}
	case c.ID != "" && d.OwnAuthentication:
		c.Method = "identity"
	}
	return c
}

// refusesCaller reports whether a refusal is about who calls, from where, or how much, and
// not about what a request has.
func refusesCaller(r door.Reason) bool {
	switch r {
	case door.NoCredentials, door.BadCredentials, door.Forbidden, door.Unsure, door.BadPath, door.ForeignPage, door.ForeignName,
		door.BadReason, door.TooMany, door.ShuttingDown, door.Unaudited, door.Limited:
		return true
	}
	return false
}

// outcomeOf returns the outcome of a request with an HTTP status.
func outcomeOf(status int) audit.Outcome {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return audit.Refused
	case status >= http.StatusInternalServerError:
		return audit.Failed
	case status >= http.StatusBadRequest:
		return audit.Rejected
	}
	return audit.Made
}
