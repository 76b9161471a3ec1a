package eval

import (
	"errors"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
)

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
	Bounds authz.QuestionBounds
	// Memory is the budget that this question shares with others; nil if it
	// shares none.
	Memory *MemoryBudget
	// Turns are the turns that this question takes with others once it takes
	// long, unless its context has turns.Work; nil if it takes none.
	Turns *turns.Turns
}

// merge adds the reasons of o, which may be nil.
func mergeReasons(r *authz.Reasons, o *authz.Reasons) {
	if o == nil {
		return
	}
	for _, m := range o.Missing {
		if i, ok := slices.BinarySearch(r.Missing, m); !ok {
			r.Missing = slices.Insert(r.Missing, i, m)
		}
	}
	for _, e := range o.Errors {
		i, ok := slices.BinarySearchFunc(r.Errors, e, func(a, b authz.ConditionError) int {
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
