// Package commit is the write path of a store. [Queue] is its main type: it
// validates writes against the newest view, appends them to the log in groups,
// and publishes the resulting view. [authz.WriteRequest] is what a write changes,
// [Pending] is a write inside the caller's own transaction. The package
// evaluates no question.
//
// A write passes these states. Each line names the function that moves it on:
//
//	queued     waits in Queue.waiting                       Queue.enqueue
//	leading    the first waiting writer leads the group     Queue.enqueue, Queue.passLead
//	grouped    the leader has taken it out of the queue     Queue.take
//	accepted   its changes are valid and in the draft       group.validate
//	rejected   its changes are invalid; it has an error     group.validate
//	appending  the driver writes the group's entries        group.append
//	durable    the driver has them, or the log shows them   group.append, group.verifyLog
//	published  the group's view is the newest               group.publish
//	done       it has its head or its error                 group.finish
//	canceled   its context ended while it was queued        Queue.withdraw
//
// Validation, appending and publishing overlap: while one group is appending,
// the next leader validates its own group on the view that the first one leads
// to. If that view is not published in the end, the group is validated again.
// No writer is done before everything that its changes build on is durable. If
// another process has written first (a conflict), the queue follows the log and
// the group goes back to validation.
//
// Only the holder of the write lock (snapshot.WriteLock) takes writers out of
// the queue and validates them. It releases the lock before it appends.
package commit
