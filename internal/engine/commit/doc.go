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
//	placed     the driver has taken the group's entries     group.appendTo
//	durable    the driver has them, or the log shows them   group.appendTo, group.verifyLog
//	shown      the other nodes that answer reads show them  group.appendTo, in a cluster
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
// In a cluster, up to Bounds.GroupsAhead groups overlap. The driver orders them: AppendAhead
// returns when the next group may be appended, on a log that keeps the order of appends
// before the first one is durable. An append names the head that it follows, so a group is
// never in the log without those below it, and if one is refused, so are all above it. What
// follows from being durable and shown waits for its turn: a group is published, and its
// writers are answered, when it is shown and the group below is finished. So
//   - a token is never newer than what other nodes show;
//   - a refusal, or "nothing to do", is answered after the group that it was decided on, and
//     decided again if that was not made (Queue.submitted);
//   - a group that fails has no effect on the answers of those below. The groups above it fail
//     too, and are validated again in the order of the log, each when the one below is
//     finished: the queue follows the log first, as after any conflict;
//   - a group whose outcome is uncertain, or whose acknowledgment fails, is uncertain for its
//     own writers alone. The one above is in the log, and then so is this one, or it is refused.
//
// A group costs each node of a cluster the same, however many writers it has. So its leader
// waits for the writers that the group before has answered, for a time (returning.go).
//
// Only the holder of the write lock (snapshot.WriteLock) takes writers out of
// the queue and validates them. It releases the lock before it appends.
package commit
