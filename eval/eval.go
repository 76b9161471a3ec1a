// Package eval is the one evaluator: it answers check, list objects, list
// subjects, expand and explain from a compiled schema and a Reader, as
// docs/semantics.md says, with three values. Its main type is Binding. It
// never writes, keeps nothing between questions, and starts no goroutine.
package eval

import (
	"errors"
	"slices"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
)

// Question asks whether Subject is a member of Object#Relation.
type Question struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
}

// Env is what questions are asked under. The zero Env asks at the epoch,
// without context, within the default bounds.
type Env struct {
	// Now is the question's time: tuples expired by then do not count.
	Now rel.Time
	// Context holds the conditions' request parameters; read only.
	Context expr.Values
	// Tuples and Attributes are contextual: valid for this question, admitted by
	// the schema's restrictions as stored ones are, never stored or interned.
	Tuples     []rel.Tuple
	Attributes []rel.Attribute
	Bounds     Bounds
}

// Bounds limit the work of a question; 0 means the default. Reaching one
// makes an answer unknown with that bound as its reason.
type Bounds struct {
	// Depth is the number of hops (through usersets and arrows) a proof may
	// have. Default DepthDefault.
	Depth int
	// Nodes is the number of nodes a question may visit. Default NodesDefault.
	Nodes int
}

const (
	DepthDefault = 25
	NodesDefault = 5_000_000
)

// Answer is a decision of three values and how it came about.
type Answer struct {
	Decision expr.Tristate
	// Reasons say why Truth is Unknown; nil otherwise.
	Reasons *Reasons
	Stats   Stats
}

// Allowed says whether the answer is a clear yes. Whatever else it is, is not.
func (a Answer) Allowed() bool { return a.Decision == expr.True }

// Stats count work: the same question on the same data gives the same counts.
type Stats struct {
	// Probes counts searches for one node in one list, Nodes the nodes visited,
	// Conditions the conditions evaluated.
	Probes, Nodes, Conditions int
}

// Reasons say why an answer is unknown. What is set does not depend on the
// order of evaluation.
type Reasons struct {
	// Missing names absent context parameters, sorted.
	Missing []string
	// Errors are condition errors, sorted by text, without repetition.
	Errors []ConditionError
	// Cycle says that the answer hangs on its own negation. Set only where no
	// other reason is.
	Cycle bool
	// Bound names the bound that was reached: BoundDepth, BoundNodes; or "".
	Bound string
}

const (
	BoundDepth = "depth"
	BoundNodes = "nodes"
)

// ConditionError is a condition that failed on a tuple.
type ConditionError struct {
	Condition string
	Tuple     rel.Key
	Err       error
}

func (e ConditionError) Error() string {
	return "condition " + e.Condition + " on " + e.Tuple.String() + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e ConditionError) Unwrap() error { return e.Err }

// String says the reasons in a line.
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

// merge adds o to r.
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
	if r.Bound == "" {
		r.Bound = o.Bound
	}
}

// Kinds of errors about a question itself.
var (
	ErrNoType     = errors.New("type not in the schema")
	ErrNoRelation = errors.New("relation not in the schema")
	ErrTuple      = errors.New("contextual tuple not admitted by the schema")
	ErrCursor     = errors.New("cursor is not one of this question")
	ErrReverse    = errors.New("the data cannot be read from the subject's side")
)
