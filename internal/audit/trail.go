package audit

import (
	"errors"
	"time"

	"github.com/ostiary/ostiary/internal/logins"
)

const (
	// strangersMax bounds the addresses without a key whose refusals are counted apart in
	// a minute. So clients without a key can make at most twice as many lines a minute.
	strangersMax = 100
	// refusedMax bounds the refusals of callers, in the same way.
	refusedMax = 1000
)

// Trail sends records to the logs of a node. Its methods may be called concurrently, and
// do nothing if the trail is nil.
type Trail struct {
	logs     []*Log
	required bool
	// strangers counts refusals of clients without a key, and refused those of callers, so
	// that no stranger can hide what a caller tries.
	strangers, refused logins.Counter[refusal]
}

// refusal is what is the same in refusals that are counted together.
type refusal struct{ door, operation, caller, from, status, why string }

// NewTrail returns a trail that sends each record to all logs. required means that a
// request that changes something must not be answered without its record.
func NewTrail(required bool, logs ...*Log) *Trail {
	t := &Trail{logs: logs, required: required}
	t.strangers.Max, t.strangers.Rest = strangersMax, refusal{from: "further addresses"}
	t.refused.Max, t.refused.Rest = refusedMax, refusal{caller: "further callers"}
	counted := func(o refusal, times int, first, last time.Time) {
		_ = t.append(&Record{Time: first, Until: last, Count: times, Kind: KindRefusal, Door: o.door, Operation: o.operation,
			Caller: Caller{ID: o.caller}, From: o.from, Outcome: Refused, Status: o.status, Why: o.why})
	}
	t.strangers.Counted, t.refused.Counted = counted, counted
	return t
}

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

func (t *Trail) append(r *Record) error {
	errs := make([]error, 0, 4)
	for _, l := range t.logs {
		if err := l.Append(r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Refused adds a record of a refusal. The first of a caller, or of an address without a
// key, has a record of its own. Those that follow within a minute are counted, and have
// one record together.
func (t *Trail) Refused(r *Record) error {
	if t == nil {
		return nil
	}
	o, counter := refusal{door: r.Door, status: r.Status, why: r.Why, caller: r.Caller.ID, operation: r.Operation}, &t.refused
	if o.caller == "" {
		o.from, o.operation, counter = logins.HostOf(r.From), "", &t.strangers
	}
	if _, first := counter.First(o); !first {
		return nil
	}
	return t.Record(r)
}

// Lost returns how many records the logs have lost.
func (t *Trail) Lost() (n uint64) {
	if t == nil {
		return 0
	}
	for _, l := range t.logs {
		n += l.Lost()
	}
	return n
}

// Failing reports whether a log cannot be written now.
func (t *Trail) Failing() bool {
	if t == nil {
		return false
	}
	for _, l := range t.logs {
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
	for _, l := range t.logs {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
