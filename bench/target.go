package bench

import (
	"context"

	"github.com/ostiary/ostiary/rel"
)

// Target answers OpenFGA's calls for one store: the library in this process, or
// a server over HTTP or gRPC, ours or a peer's. A client (a number from 0) has
// one request under way; different clients ask concurrently.
type Target interface {
	// Door is the way in, as records name it.
	Door() string
	// Setup makes a new store with the model, in OpenFGA's language, and the
	// tuples, and directs the questions there. progress is told how many tuples
	// are in.
	Setup(ctx context.Context, model string, tuples Tuples, progress func(int)) error
	// Prepare encodes a request, so that asking it costs the generator little.
	// The request may be asked by any client, any number of times.
	Prepare(Request) (Prepared, error)
	// Teardown removes the store that Setup made.
	Teardown(ctx context.Context) error
	Close() error
}

// Prepared is a request that is ready to be sent. A wrong answer and whatever
// else went wrong is a *Failure.
type Prepared interface {
	Ask(ctx context.Context, client int) error
}

// Tuples yields tuples, each once, in an order of its own, as often as asked.
type Tuples func(yield func(rel.Tuple) bool)

// Request is one call with the answer that is expected. One of its fields is
// set, but for Write and Remove, which may go together.
type Request struct {
	Check *Check
	Batch []Check
	List  *List
	// Write adds tuples that are not there, Remove takes away tuples that are.
	Write, Remove []rel.Tuple
}

// Check asks one question.
type Check struct {
	Object   rel.Object
	Relation string
	Subject  rel.Subject
	// Tuples are contextual; Context is the conditions', as a JSON object.
	Tuples  []rel.Tuple
	Context map[string]any
	// Allowed is the right answer.
	Allowed bool
}

// List asks for a subject's objects.
type List struct {
	Type, Relation string
	Subject        rel.Subject
	Tuples         []rel.Tuple
	// Count is the right number of objects; negative is any.
	Count int
}

// storeName is the name of the stores that are made.
const storeName = "bench"

// wrong is an answer other than the right one.
var wrong = &Failure{What: "wrong answer"}

func right(ok bool) error {
	if ok {
		return nil
	}
	return wrong
}
