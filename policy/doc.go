// Package policy is an XACML 3.0 policy decision point without storage and wire
// formats: [Compile] turns a tree of policies into an immutable [Plan], and
// [Plan.Decide] answers a [Request]. Package language reads and prints policies,
// package message reads requests and prints results, and package domain keeps
// policies in a store and joins them with the relation graph.
//
// Values, functions and XML content are in the packages value, function and
// content. This package never reads a file, a clock or a store.
package policy
