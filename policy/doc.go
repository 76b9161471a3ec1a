// Package policy is an XACML 3.0 policy decision point without storage and wire
// formats: [Compile] turns a tree of policies into an immutable [Plan], and
// [Plan.Decide] answers a [Request]. Package language reads and prints policies,
// package message reads requests and prints results, and package domain keeps
// policies in a store and joins them with the relation graph.
//
// Values, functions and XML content are in the packages value, function and
// content. This package never reads a file, a clock or a store.
//
// # A plan
//
// [Compile] (compile.go) walks the tree. It resolves references (library.go), checks
// types and finds functions (expressions.go, targets.go), and makes the indexes
// (index.go). A plan never changes. A changed policy makes a new plan, which shares every
// other part with the one before. narrow.go leaves out of a plan what cannot apply with
// known attributes, so that a search over many resources tries only the rest.
//
// # A decision
//
//  1. decide.go makes one decision, or several (multiple.go).
//  2. run.go is the state of a request, which the next request uses again. It gives each
//     attribute of the request to its slot: the compiler numbers the attributes that
//     policies use, so each is found once.
//  3. evaluate.go evaluates rules, policies and sets, with an extended Indeterminate: what
//     the decision could have been.
//  4. index.go finds the children of a set whose targets can match. A target that demands
//     a value of an attribute is found by that value (table.go). An error finds
//     everything, so an index never hides one.
//  5. match.go and expression.go evaluate targets and conditions.
//  6. combine.go has the combining algorithms, as tables.
//  7. duty.go collects obligations and advice of the children that agree with the result.
package policy
