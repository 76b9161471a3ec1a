package eval

import (
	"errors"
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/turns"
	"github.com/ostiary/ostiary/rel"
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

// Env is the environment of a question: its time, context, contextual data and
// bounds. The zero Env asks at the Unix epoch, without context, within the
// default bounds.
type Env struct {
	// Now is the time of the question. A tuple that has expired by then does
	// not count.
	Now rel.Time
	// Context holds the request's parameters for conditions. The evaluator
	// only reads it.
	Context expr.Values
	// Tuples are contextual tuples: they count for this question only. The
	// schema's restrictions apply to them as to stored ones. They are never
	// stored or interned.
	Tuples []rel.Tuple
	// Attributes are contextual attributes, under the same rules as Tuples.
	Attributes []rel.Attribute
	// Bounds limit the work of the question.
	Bounds Bounds
	// Memory is the budget that this question shares with others; nil if it
	// shares none.
	Memory *MemoryBudget
	// Turns are the turns that this question takes with others once it takes
	// long, unless its context has turns.Work; nil if it takes none.
	Turns *turns.Turns
}

// Bounds limit the work of a question. Where a bound is reached, the answer is
// unknown with that bound as its reason.
type Bounds struct {
	// Depth is the greatest number of hops (through usersets and arrows) in a
	// proof. 0 or less means [DepthDefault].
	Depth int
	// Nodes is the greatest number of nodes that a question may visit. 0 or
	// less means [NodesDefault].
	Nodes int
	// ConditionCost is the greatest cost of all evaluations of conditions and
	// rules of a question, in units of about a microsecond or less. Each
	// evaluation costs [ConditionCostBase] and the Cost of its expr.Result. 0 or
	// less means [ConditionCostDefault].
	ConditionCost int
	// Memory is the greatest amount of memory in bytes that a question may use.
	// It is estimated from the number of states, gates and candidates. 0 or less
	// means [MemoryDefault].
	Memory int
	// ExpandEntries is the greatest number of nodes and tuples in a tree of
	// [Binding.Expand]. 0 or less means [ExpandEntriesDefault].
	ExpandEntries int
	// ExpandBytes is the greatest size in bytes of the objects, subjects,
	// contexts and rewrites in such a tree. 0 or less means
	// [ExpandBytesDefault].
	ExpandBytes int
}

const (
	// DepthDefault is the default of [Bounds.Depth], in hops.
	DepthDefault = 25
	// NodesDefault is the default of [Bounds.Nodes].
	NodesDefault = 5_000_000
	// ConditionCostDefault is the default of [Bounds.ConditionCost].
	ConditionCostDefault = 20_000_000
	// MemoryDefault is the default of [Bounds.Memory].
	MemoryDefault = 256 << 20
	// ExpandEntriesDefault is the default of [Bounds.ExpandEntries].
	ExpandEntriesDefault = 20_000
	// ExpandBytesDefault is the default of [Bounds.ExpandBytes].
	ExpandBytesDefault = 2 << 20
	// ConditionCostBase is the cost of an evaluation apart from its steps.
	ConditionCostBase = 10
)

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
	// ConditionCost is the cost of those evaluations; see
	// [Bounds.ConditionCost].
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

const (
	// BoundDepth names [Bounds.Depth].
	BoundDepth = "depth"
	// BoundNodes names [Bounds.Nodes].
	BoundNodes = "nodes"
	// BoundConditionCost names [Bounds.ConditionCost].
	BoundConditionCost = "condition cost"
	// BoundMemory names [Bounds.Memory].
	BoundMemory = "memory"
	// BoundMemoryTotal names the size of [Env.Memory].
	BoundMemoryTotal = "memory of all questions"
	// BoundExpandEntries names [Bounds.ExpandEntries].
	BoundExpandEntries = "expand entries"
	// BoundExpandBytes names [Bounds.ExpandBytes].
	BoundExpandBytes = "expand bytes"
)

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
		parts = append(parts, "missing context: "+join(r.Missing))
	}
	if r.Cycle {
		parts = append(parts, "cycle through exclusion")
	}
	return join(parts)
}

func join(s []string) string {
	out := ""
	for i, p := range s {
		if i > 0 {
			out += ", "
		}
		out += p
	}
	return out
}

// merge adds the reasons of o, which may be nil.
func (r *Reasons) merge(o *Reasons) {
	if o == nil {
		return
	}
	for _, m := range o.Missing {
		if i, ok := slices.BinarySearch(r.Missing, m); !ok {
			r.Missing = slices.Insert(r.Missing, i, m)
		}
	}
	for _, e := range o.Errors {
		i, ok := slices.BinarySearchFunc(r.Errors, e, func(a, b ConditionError) int {
			switch x, y := a.Error(), b.Error(); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		if !ok {
			r.Errors = slices.Insert(r.Errors, i, e)
		}
	}
	r.Cycle = r.Cycle || o.Cycle
	if r.Bound == "" || o.Bound != "" && o.Bound < r.Bound {
		r.Bound = o.Bound
	}
}

var (
	// ErrNoType means that a type in the question is not in the schema.
	ErrNoType = errors.New("type not in the schema")
	// ErrNoRelation means that a relation in the question is not in the
	// schema.
	ErrNoRelation = errors.New("relation not in the schema")
	// ErrTuple means that the schema does not admit a tuple or an attribute.
	ErrTuple = errors.New("not admitted by the schema")
	// ErrReverse means that the [Reader] cannot list the tuples of a subject.
	ErrReverse = errors.New("the data cannot list the tuples of a subject")
)
