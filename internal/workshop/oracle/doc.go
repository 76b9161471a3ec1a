// Package oracle tests the engine against a second implementation that is as
// simple as possible. Only tests use it.
//
// An [Oracle] answers checks by docs/semantics.md, line by line: over the model
// as its author wrote it and plain slices of tuples, without indexes, caches or
// shortcuts. It never uses the compiled schema, the graph or the evaluator.
//
// A [World] is everything that an answer depends on: a model, stored tuples and
// attributes, and what a request brings (a time, a context, contextual tuples
// and attributes, a bound on depth). [Random] generates the world of a seed. The
// same seed gives the same world as long as this package does not change. About
// one world in 500 is wide: it has a list of hundreds of tuples.
//
// A [Law] is a statement that must be true in every world, for example that the
// evaluator's check equals the oracle's, that a list contains exactly the
// objects for which a check is true, or that a store gives the same answers
// after a restart. A [Bench] holds a world ready for laws: the oracle and the
// engine with the same data, and questions, drawn from the seed, of which about
// equally many are true, false and unknown. [Laws] test the evaluator and the
// graph; [StoreLaws] test whole stores. [Run] tries laws on many seeds. Cheap
// laws are tried on every world and expensive ones on a part of them; see
// [Law.Every].
//
// When a law fails, [Shrink] makes the world smaller: it drops tuples, values,
// relations and operators one after another as long as the law still fails.
// What is left is printed as a [Script], which a person can read and which
// [ParseScript] reads back.
//
// # Repeating a failure
//
// A failure prints its seed, the shrunk world and a command:
//
//	OSTIARY_SEED=4711 OSTIARY_WORLDS=1 go test ./oracle -run TestWorlds
//
// With OSTIARY_KEEP=1 the test also writes the shrunk world to
// testdata/worlds. TestKept tries every law on the scripts there, so a world
// that once broke a law is tested forever.
//
// [Coverage] counts which features of models and tuples the questions have met,
// and the tests fail if a combination was never met. Package oracle/faults
// shows that the laws find mistakes: it compiles the engine with one deliberate
// mistake at a time and expects a law to fail.
//
// # Files
//
//	oracle.go, table.go, reach.go        the oracle
//	worlds.go, tuples.go, condition.go   random worlds
//	history.go, permissive.go            random writes that lead to a world
//	bench.go, run.go, shrink.go          running laws and shrinking failures
//	laws.go, lists.go, readerlaws.go, reasonlaws.go   laws of the evaluator
//	storelaw.go, comparelaw.go, schemalaw.go          laws of stores
//	script.go, modeltext.go              the text form of worlds
//	coverage.go                          what the worlds have shown
package oracle
