package authz

import (
	"context"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// CheckRequest asks whether Subject has Relation on Object.
type CheckRequest struct {
	// Object is what the question is about.
	Object rel.Object
	// Relation is a relation of the object's type.
	Relation string
	// Subject is a plain subject, a userset or a wildcard.
	Subject rel.Subject
	QueryOptions
}

// CheckResult is a decision and the revision at which it was made.
type CheckResult struct {
	// Answer has the decision, the reasons of an unknown one, and the work done.
	Answer
	// Revision is that of the view that was read.
	Revision storage.Revision
	// Err is the error of a single request in a batch; nil elsewhere.
	Err error
}

// String returns the decision and its reasons in one line.
func (r CheckResult) String() string {
	if r.Reasons == nil {
		return r.Decision.String()
	}
	return fmt.Sprintf("%s (%s)", r.Decision, r.Reasons)
}

// RecordingOptions set how many decisions the engine records, so that a WhatIf
// can evaluate them again. The zero value turns recording off.
type RecordingOptions struct {
	// Decisions is how many of the newest decisions of all stores are remembered.
	// Default 0: none, which makes recording free.
	Decisions int
	// Bytes bounds the estimated memory of the decisions. Default 64 MiB.
	Bytes int64
	// Age is how long a decision is remembered. Default one hour.
	Age time.Duration
	// Decided is called with each decision of a check and of a batch, in the goroutine of
	// its caller, and must not keep d or what it refers to. ctx is that of the call. Nil is
	// not called.
	Decided func(ctx context.Context, d *Decided)
	// Counted is called with each decision of a check and of a batch, in the goroutine of its
	// caller, or with the error with which the question failed. It must be quick. Nil is not
	// called.
	Counted func(ctx context.Context, d expr.Tristate, err error)
	// Step is called when a question, a write or an append begins, with its name, for example
	// "check", in the goroutine of its caller. It returns the context of the step, which may be
	// ctx, and a function to call at its end, which may be nil. That gets the error and what
	// was counted, as pairs of a name and an int or a string. Nil is not called.
	Step func(ctx context.Context, name string) (context.Context, func(err error, figures ...any))
}

// Decided is a decision that was made just now.
type Decided struct {
	Store    storage.StoreID
	Question *CheckRequest
	// Answer has the decision, and the reasons if it is unknown.
	Answer *Answer
	// Revision is that of the view that was read.
	Revision storage.Revision
	// Took is how long the answer took; for a decision of a batch, its part of the time of
	// the batch.
	Took time.Duration
}

// RecordedDecision is a remembered decision.
type RecordedDecision struct {
	// Time is when the question was answered.
	Time time.Time
	// Question is the question, without its Consistency. It has a SchemaID only if the
	// caller named one.
	Question CheckRequest
	// Decision is the answer.
	Decision expr.Tristate
	// Revision is that of the view that was read.
	Revision storage.Revision
}
