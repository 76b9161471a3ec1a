// Package policies tests package policy against a second implementation of XACML
// that is as simple as possible. Only tests use it.
//
// [Decide] answers a request straight from the tree of policies, by the tables of
// the standard: without compiling, without an index, and without any code of the
// evaluator. It shares with it only the tree, the values, and the functions whose
// arguments are values; it has its own logical and higher-order functions.
//
// A [World] is a tree of policies with a library, and requests. [Random] makes the
// world of a seed. The same seed gives the same world as long as this package does
// not change. A [Law] is a statement that must be true in every world: the compiled
// plan decides like [Decide], also after policies were changed one by one, and
// after it was narrowed. [Run] tries the laws on many seeds, and makes a world that
// breaks one smaller before it reports it.
//
// A failure prints its seed, the small world and a command that repeats it:
//
//	OSTIARY_SEED=4711 OSTIARY_WORLDS=1 go test ./oracle/policies -run TestWorlds
//
// # Files
//
//	decide.go, tree.go, target.go, combine.go   decisions
//	expression.go, higher.go, reference.go   expressions and references
//	world.go, random.go, words.go, expressions.go, request.go   random worlds
//	laws.go, run.go, shrink.go, print.go        laws and failures
//	coverage.go                                 what the worlds have shown
package policies
