// Package snapshot keeps the views of a store in memory. A [View] is what a
// store held at one revision; it never changes. A [Timeline] publishes the
// newest view of one store, rebuilds past ones on demand, follows the log of
// entries, and compacts the graph. A [Runtime] is what the stores of one engine
// share. [authz.Token], [authz.Consistency] and [Digest] name a revision, choose one, and
// tie a cursor to its request.
//
// A past view is the newest one with later changes undone (past.go,
// docs/decisions/0005-the-past.md).
//
// Reads take no lock: they load a pointer to the newest view. Whoever publishes
// a view holds the [WriteLock] of the timeline or is appending the group of
// writes that the lock names.
//
// The package never validates or appends a write (package commit does), and
// never evaluates a question.
package snapshot
