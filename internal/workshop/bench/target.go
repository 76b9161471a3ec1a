package bench

import (
	"context"

	"github.com/ostiary/ostiary/rel"
)

// Target sends the calls of OpenFGA's API to one store: of the library in this
// process, or of a server over HTTP or gRPC, ours or another one. Clients are
// numbered from 0. One client has one request in flight; different clients send
// concurrently.
type Target interface {
	// Door returns how requests arrive, as in Record.Door.
	Door() string
	// Setup creates a new store with a model, in OpenFGA's language, and tuples.
	// Later requests go to that store. progress gets the number of tuples written
	// so far.
	Setup(ctx context.Context, model string, tuples Tuples, progress func(int)) error
	// Prepare encodes a request, so that sending it costs the generator little.
	// Any client may send it, any number of times.
	Prepare(Request) (Prepared, error)
	// Teardown removes the store that Setup created.
	Teardown(ctx context.Context) error
	// Close closes connections. The target must not be used afterwards.
	Close() error
}

// Prepared is a request that is ready to be sent.
type Prepared interface {
	// Send sends the request and returns nil if the answer is correct, otherwise
	// a [*Failure].
	Send(ctx context.Context, client int) error
}

// Tuples yields each tuple once, in any order. It may be called several times.
type Tuples func(yield func(rel.Tuple) bool)

// Request is one call with its expected answer. Exactly one field is set, except
// that Write and Remove may both be set.
type Request struct {
	// Check is a single check.
	Check *Check
	// Batch is a batch of checks.
	Batch []Check
	// List is a list of objects.
	List *List
	// Write are tuples to add, which must not exist.
	Write []rel.Tuple
	// Remove are tuples to remove, which must exist.
	Remove []rel.Tuple
}

// Check is one question: has Subject the Relation to Object?
type Check struct {
	// Object is the object.
	Object rel.Object
	// Relation is a relation of the object's type.
	Relation string
	// Subject is the subject.
	Subject rel.Subject
	// Tuples are contextual tuples.
	Tuples []rel.Tuple
	// Context holds the parameters of conditions.
	Context map[string]any
	// Allowed is the correct answer.
	Allowed bool
}

// List asks for the objects of Type to which Subject has Relation.
type List struct {
	// Type is the type of the objects.
	Type string
	// Relation is a relation of that type.
	Relation string
	// Subject is the subject.
	Subject rel.Subject
	// Tuples are contextual tuples.
	Tuples []rel.Tuple
	// Count is the correct number of objects. Negative means that any is correct.
	Count int
}

// storeName is the name of all stores that this package creates.
const storeName = "bench"

// errWrong is returned for a wrong answer.
var errWrong = &Failure{What: "wrong answer"}

// correct returns nil if the answer was correct.
func correct(ok bool) error {
	if ok {
		return nil
	}
	return errWrong
}
