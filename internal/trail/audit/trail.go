package audit

import (
	"errors"
	"slices"
	"time"

	"github.com/ostiary/ostiary/internal/tool/quote"
	"github.com/ostiary/ostiary/internal/trail/logins"
)

const (
	// strangersMax bounds the addresses without a key whose refusals are counted apart in
	// a minute. So clients without a key can make at most twice as many lines a minute.
	strangersMax = 100
	// refusedMax bounds the refusals of callers, in the same way, and refusedOfCaller those
	// of one caller.
	refusedMax      = 1000
	refusedOfCaller = 100
)

// Trail sends records to the logs of a node. Its methods may be called concurrently, and
// do nothing if the trail is nil.
type Trail struct {
	logs     []*Log
	refusals *Log // nil if the logs have the refusals
	required bool
	// strangers counts refusals of clients without a key, and refused those of callers, so
	// that no stranger can hide what a caller tries.
	strangers, refused logins.Counter[refusal]
}

// refusal is what is the same in refusals that are counted together.
type refusal struct {
	kind                                       Kind
	outcome                                    Outcome
	door, operation, caller, from, status, why string
}

// further returns the refusal as which further ones of a caller, of an address or of all
// are counted.
func further(caller, from, why string) refusal {
	return refusal{kind: KindRefusal, outcome: Refused, caller: caller, from: from, why: why}
}

// NewTrail returns a trail that sends each record to all logs. required means that a
// request that changes something must not be answered without its record.
func NewTrail(required bool, logs ...*Log) *Trail {
	t := &Trail{logs: logs, required: required}
	t.strangers.Max, t.strangers.Rest = strangersMax, further("", "further addresses", "")
	t.refused.Max, t.refused.Rest = refusedMax, further("further callers", "", "")
	t.refused.OwnerMax, t.refused.Owner = refusedOfCaller, func(o refusal) (string, refusal) {
		return o.caller, further(o.caller, "", "further operations and reasons")
	}
	counted := func(o refusal, times int, first, last time.Time) {
		_ = t.refuse(&Record{Time: first, Until: last, Count: times, Kind: o.kind, Door: o.door, Operation: o.operation,
			Caller: Caller{ID: o.caller}, From: o.from, Outcome: o.outcome, Status: o.status, Why: o.why})
	}
	t.strangers.Counted, t.refused.Counted = counted, counted
	return t
}

// KeepRefusals makes the trail add refusals to the log l, which has a retention of its own,
// instead of to the first log of [NewTrail]. The trail closes l. KeepRefusals is called
// before the first record.
func (t *Trail) KeepRefusals(l *Log) { t.refusals = l }

// Required reports whether requests that change something need a record.
func (t *Trail) Required() bool { return t != nil && t.required }

// Ready returns why a request that changes something must be refused, or nil.
func (t *Trail) Ready() error {
	if !t.Required() {
		return nil
	}
	for _, l := range t.logs {
		if err := l.Failure(); err != nil {
			return err
		}
	}
	return nil
}

// Record adds a record. It returns an error only if records are required.
func (t *Trail) Record(r *Record) error {
	if t == nil {
		return nil
	}
	if err := t.append(r); t.required {
		return err
	}
	return nil
}

func (t *Trail) append(r *Record) error { return appendTo(t.logs, r) }

// refuse adds a record of a refusal.
func (t *Trail) refuse(r *Record) error {
	if t.refusals == nil {
		return t.append(r)
	}
	return errors.Join(t.refusals.Append(r), appendTo(t.logs[1:], r))
}

// all returns all logs of the trail.
func (t *Trail) all() []*Log {
	if t.refusals == nil {
		return t.logs
	}
	return append(slices.Clip(t.logs), t.refusals)
}

func appendTo(logs []*Log, r *Record) error {
	errs := make([]error, 0, 4)
	for _, l := range logs {
		if err := l.Append(r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Refused adds a record of a request that had no effect. The first of a caller, or of an
// address without a key, has a record of its own. Those that follow within a minute are
// counted by caller, operation and reason, and have one record together. The records are in
// the log of refusals if there is one, so that they cannot push out others.
func (t *Trail) Refused(r *Record) error {
	if t == nil {
		return nil
	}
	o, counter := refusal{kind: r.Kind, outcome: r.Outcome, door: r.Door, operation: r.Operation, caller: r.Caller.ID, status: r.Status,
		why: quote.Of(r.Why, TextMax)}, &t.refused
	if o.caller == "" {
		o.kind, o.outcome, o.from, o.operation, counter = KindRefusal, Refused, logins.HostOf(r.From), "", &t.strangers
	}
	if _, first := counter.First(o); !first {
		return nil
	}
	if err := t.refuse(r); t.required {
		return err
	}
	return nil
}

// Lost returns how many records the logs have lost.
func (t *Trail) Lost() (n uint64) {
	if t == nil {
		return 0
	}
	for _, l := range t.all() {
		n += l.Lost()
	}
	return n
}

// Failing reports whether a log cannot be written now.
func (t *Trail) Failing() bool {
	if t == nil {
		return false
	}
	for _, l := range t.all() {
		if l.Failure() != nil {
			return true
		}
	}
	return false
}

// Close adds the refusals that were counted, and closes the logs.
func (t *Trail) Close() error {
	if t == nil {
		return nil
	}
	t.strangers.Close()
	t.refused.Close()
	var errs []error
	for _, l := range t.all() {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
