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
//	shown      the other nodes that answer reads show them  group.append, in a cluster
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
// In a cluster, a group that is durable waits until other nodes show it. The next group is
// appended meanwhile, up to Bounds.GroupsAhead of them: what a group is validated on is in the
// log by then and stays there, so nothing is validated again. What follows from being shown
// waits for its turn: a group is published, and its writers are answered, when it is shown and
// the group below is finished. So a token is never newer than what other nodes show, a refusal
// is never older than the group that it was decided on, and a group whose acknowledgment fails
// is uncertain for its own writers alone. If an append fails, all groups below are finished
// before the log is looked at, as if there were one group after the other.
//
// Only the holder of the write lock (snapshot.WriteLock) takes writers out of
// the queue and validates them. It releases the lock before it appends.
package commit
