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
//	OSTIARY_SEED=4711 OSTIARY_WORLDS=1 go test ./internal/workshop/oracle/policies -run TestWorlds
//
// # Where the standard leaves a choice
//
// The oracle chooses what the evaluator does, so the worlds do not check that these
// choices are right. They were checked against the texts of the standard and
// against AuthzForce 21:
//
//   - The list of policies (section 5.48) must have those that were fully
//     applicable and may have others, but must be empty if the decision is
//     NotApplicable. Here it has each evaluated policy that is not NotApplicable
//     and whose parents are not. AuthzForce leaves out the members of a set that
//     is Indeterminate, and Indeterminate members of permit-unless-deny.
//   - Children behind the one that decides are not evaluated: the overriding
//     algorithms may evaluate children in any order (C.2 to C.5), so neither their
//     ids nor their duties are required. AuthzForce stops there, too.
//   - No section names the status of an Indeterminate with several causes. If I{D}
//     and I{P} make deny-overrides Indeterminate, the status is that of the first
//     I{D}. AuthzForce has that of the first child.
//   - Results of repeated categories may come in any order (multiple decision
//     profile, section 2.3). Here the last repeated category changes first.
//   - on-permit-apply-second gives the result of the second or third child. The
//     duties of the first child are returned with it if its decision is the same,
//     as section 7.18 demands of children in general. AuthzForce does the same.
//
// # Files
//
//	decide.go, tree.go, target.go, combine.go   decisions
//	expression.go, higher.go, reference.go   expressions and references
//	world.go, random.go, words.go, expressions.go, request.go   random worlds
//	selector.go                                 Content, selectors and paths
//	laws.go, run.go, shrink.go, print.go        laws and failures
//	coverage.go                                 what the worlds have shown
package policies
