// Package authz has the words of the library: what a caller asks of a store, what the
// store answers, and the errors and bounds of both. Package ostiary has the calls.
//
// [CheckRequest] and [CheckResult] are the most used ones. Every question has
// [QueryOptions]: its revision ([Consistency]), context, contextual tuples and bounds.
// An answer that is neither allowed nor denied has [Reasons]. [WriteRequest] is a
// change, [Token] names the revision that it led to, and [ChangesRequest] asks for the
// log. Every error of a call is an [Error], whose Kind is one of the Err variables.
//
// The package evaluates nothing and stores nothing. Its types are values: a caller may
// copy them, but must not change one while a call uses it.
package authz
