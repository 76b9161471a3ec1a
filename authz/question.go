package authz

import (
	"strings"
	"time"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Question asks whether Subject is a member of Object#Relation.
type Question struct {
	// Object is the object of the question.
	Object rel.Object
	// Relation is a relation of Object's type.
	Relation string
	// Subject is a plain object, a userset or a wildcard. A subject whose type
	// the schema does not have is a member of nothing.
	Subject rel.Subject
}

// Answer is a decision with its reasons and its cost.
type Answer struct {
	// Decision is True for an allow, False for a denial, and Unknown where
	// neither is certain.
	Decision expr.Tristate
	// Reasons explain an Unknown decision; nil otherwise.
	Reasons *Reasons
	// Stats count the work that the answer took.
	Stats Stats
}

// Allowed reports whether the decision is True. A denial and an unknown
// decision are both not allowed.
func (a Answer) Allowed() bool { return a.Decision == expr.True }

// Stats count work. The same question on the same data gives the same counts.
type Stats struct {
	// Probes counts searches for one node in one list. Nodes counts visited
	// nodes. Conditions counts evaluated conditions and rules.
	Probes, Nodes, Conditions int
	// Depth is the length of the path that a check has found, in hops; 0 if it has found none,
	// or by other means than a search.
	Depth int
	// ConditionCost is the cost of those evaluations; see
	// [QuestionBounds.ConditionCost].
	ConditionCost int
}

// Reasons explain why an answer is unknown. They do not depend on the order of
// evaluation.
type Reasons struct {
	// Missing names the absent context parameters and attributes, sorted.
	Missing []string
	// Errors are the condition errors, sorted by text, each once.
	Errors []ConditionError
	// Cycle is true if the answer depends on its own negation. It is set only
	// where there is no other reason.
	Cycle bool
	// Bound names the bound that was reached, for example [BoundDepth]; "" if
	// none was. A condition that reached a bound of its own, such as
	// [expr.BoundCost], is also in Errors. Of several bounds it is the first by
	// name.
	Bound string
}

// ConditionError is an error in the evaluation of a condition, a rule or an
// attribute.
type ConditionError struct {
	// Condition is the name of the condition, rule or attribute.
	Condition string
	// Tuple is the tuple that has the condition. For a rule or an attribute
	// only its Object is set.
	Tuple rel.Key
	// Err is what failed.
	Err error
}

func (e ConditionError) Error() string {
	return "condition " + e.Condition + " on " + e.Tuple.String() + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e ConditionError) Unwrap() error { return e.Err }

// String returns the reasons in one line, separated by commas.
func (r *Reasons) String() string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.Bound != "" {
		parts = append(parts, "bound reached: "+r.Bound)
	}
	for _, e := range r.Errors {
		parts = append(parts, e.Error())
	}
	if len(r.Missing) > 0 {
		parts = append(parts, "missing context: "+strings.Join(r.Missing, ", "))
	}
	if r.Cycle {
		parts = append(parts, "cycle through exclusion")
	}
	return strings.Join(parts, ", ")
}

func (r *Reasons) json() *reasonsJSON {
	if r == nil {
		return nil
	}
	out := &reasonsJSON{Missing: r.Missing, Cycle: r.Cycle, Bound: r.Bound}
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, e.Error())
	}
	return out
}

// QueryOptions is what all questions have in common. The zero QueryOptions reads the
// newest view under the current schema.
type QueryOptions struct {
	// Consistency chooses the revision. The default is the newest view in memory.
	Consistency Consistency
	// SchemaID names the schema; "" means the current one of the type's namespace.
	SchemaID string
	// SchemaImplied is true if the caller named no schema, and SchemaID is the current
	// one, which a door looked up so that all steps of a call use the same. A recorded
	// decision then has no SchemaID. Nothing else depends on it.
	SchemaImplied bool
	// Context holds the request parameters of conditions. It is not changed.
	Context expr.Values
	// Tuples are contextual: they count for this question only. The schema must
	// admit them.
	Tuples []rel.Tuple
	// Attributes are contextual as well.
	Attributes []rel.Attribute
	// Bounds may be less than the bounds of the engine; larger values are cut. The
	// default is the bounds of the engine.
	Bounds QuestionBounds
}

// Consistency chooses the revision that a request reads. The zero Consistency
// is [Acknowledged].
type Consistency struct{ choice Choice }

// Choice is the content of a [Consistency], for the engine.
type Choice struct {
	// Mode is how the revision is chosen.
	Mode Mode
	// Current is true for questions at the current time; see
	// [Consistency.AtCurrentTime].
	Current bool
	// Token is the token of ModeLeast and ModeExactly.
	Token Token
	// Revision is the revision of ModeRevision.
	Revision storage.Revision
	// Time is the time of ModeTime.
	Time rel.Time
	// Held is what the engine gave to [HoldView].
	Held any
}

// Mode is how a [Consistency] chooses a revision.
type Mode uint8

// The modes of a [Choice].
const (
	// ModeNewest is that of [Acknowledged].
	ModeNewest Mode = iota
	// ModeLeast is that of [AtLeast].
	ModeLeast
	// ModeExactly is that of [AtExactly].
	ModeExactly
	// ModeRevision is that of [AtRevision].
	ModeRevision
	// ModeTime is that of [AtTime].
	ModeTime
	// ModeHead is that of [FullyConsistent].
	ModeHead
	// ModeHeld is that of [HoldView].
	ModeHeld
	// ModeLocal is that of [MinimizeLatency].
	ModeLocal
)

// Acknowledged reads a view that has every write that was acknowledged before the
// question arrived, on whichever node. It is the default. On one node, and on a node
// that has a read lease, it is the newest view in memory, and the question does not
// wait. It fails with [ErrNoLease] if the node can neither get a lease nor reach the log.
func Acknowledged() Consistency { return Consistency{} }

// MinimizeLatency reads the newest view in memory, without waiting. On one node it
// contains every acknowledged write. Another node may answer from an older state.
func MinimizeLatency() Consistency { return Consistency{Choice{Mode: ModeLocal}} }

// AtLeast reads a view that is not older than the token. It waits for such a
// view until the deadline of the context, or for Bounds.FutureWait without one;
// then the request fails with [ErrFuture].
func AtLeast(t Token) Consistency { return Consistency{Choice{Mode: ModeLeast, Token: t}} }

// AtExactly reads the view at the token, at its commit time.
func AtExactly(t Token) Consistency { return Consistency{Choice{Mode: ModeExactly, Token: t}} }

// AtRevision reads the view at a revision, at its commit time.
func AtRevision(r storage.Revision) Consistency {
	return Consistency{Choice{Mode: ModeRevision, Revision: r}}
}

// AtTime reads the view that was the newest at a time, at that time: a tuple that had
// expired by then is absent. For a time in the future it is the newest view, at the
// current time.
func AtTime(t time.Time) Consistency { return Consistency{Choice{Mode: ModeTime, Time: rel.TimeOf(t)}} }

// FullyConsistent asks the driver for the newest revision and waits for it.
func FullyConsistent() Consistency { return Consistency{Choice{Mode: ModeHead}} }

// HoldView reads a view that the engine holds. Callers use Store.Hold.
func HoldView(held any) Consistency { return Consistency{Choice{Mode: ModeHeld, Held: held}} }

// AtCurrentTime returns c for questions that are asked at the current time,
// whatever revision they read. It changes only what c chooses for questions
// that would be asked at a commit time.
func (c Consistency) AtCurrentTime() Consistency {
	c.choice.Current = true
	return c
}

// Choice returns the content of c.
func (c Consistency) Choice() Choice { return c.choice }
