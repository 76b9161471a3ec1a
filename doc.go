// Package ostiary is an authorization engine: it answers whether a subject may
// do something to an object. It stores tuples, attributes and schemas durably,
// and answers checks, lists, expansions and explanations from memory, at the
// newest revision or at any revision that is still kept.
//
// [Open] returns an [Engine], which holds stores over one storage driver. A
// [Store] is one isolated set of data; [Store.Check], [Store.Write] and
// [Store.ListObjects] are its most used methods. Each takes a request, for
// example an [authz.CheckRequest] with [authz.QueryOptions], and fails with an
// [authz.Error], whose Kind is one of the Err variables.
//
// A store is a log of entries. What a request reads is a view of the store at
// one revision: [authz.Consistency] chooses it, and an [authz.Token] names it. Readers
// take no lock. Writers are validated against the newest view, appended to the log in
// groups, and are durable when their call returns.
//
// The package speaks no protocol, reads no model language and opens no file:
// drivers, condition compilers and languages are passed in. Requests, results,
// errors and bounds are in package authz, objects and tuples in package rel. This
// package has a second name only for what a first program needs, such as
// [CheckRequest] and [Object].
package ostiary
