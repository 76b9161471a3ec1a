package commit

import "time"

// This file has when the next group begins in a cluster. A group costs each node the same
// messages, and the same wait for its disk, whether it has one writer or many. If it began as
// soon as the log takes it, the writers of a store would be two halves for ever: one half waits
// while the other one is appended. So the leader waits for the writers that the group before
// has answered, as long as that takes less than it saves them. Then a write takes one append and
// the way back, instead of two appends, and half as many groups are made.

const (
	// returnMax bounds how long after an answer a group waits for writers.
	returnMax = 10 * time.Millisecond
	// skippedMax is how many groups in a row do not wait, at most, after one has waited in
	// vain.
	skippedMax = 63
)

// returning is what a queue knows about the writers of the last group. The zero value is that
// of a queue without one. Queue.mu guards it.
type returning struct {
	writers int
	within  time.Duration // how long the log took to take the group
	at      time.Time     // when it did, or when a group was answered last
	// skip is how many groups will not wait. skipped is what it was after the last group that
	// has waited in vain; 0 if one has not since.
	skip, skipped int
	// needed is for how many waiting writers the leader waits; 0 if it does not. Its ready
	// gets an element when there are as many.
	needed int
	leader *writer
}

// placed notes that the log has taken a group of some writers, and how long that took.
func (q *Queue) placed(writers int, within time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &q.returning
	r.writers, r.within, r.at = writers, within, time.Now()
}

// answered notes that the writers of a group are about to be answered.
func (q *Queue) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.returning.at = time.Now()
}

// arrived wakes the leader that waits if there are enough writers. The caller holds q.mu.
func (q *Queue) arrived() {
	if r := &q.returning; r.needed > 0 && len(q.waiting) >= r.needed {
		r.needed = 0
		r.leader.ready <- struct{}{}
	}
}

// awaitReturning waits for the writers of the last group. have is how many writers the next one
// has that are not in the queue. answered is true if the last group is finished: those that
// wait may be its writers. The caller holds the write lock.
func (q *Queue) awaitReturning(leader *writer, have int, answered bool) {
	q.mu.Lock()
	all, wait := q.beginAwait(leader, have, answered)
	q.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-leader.ready:
	case <-timer.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.endAwait(have+len(q.waiting), all)
}

// beginAwait returns how many writers the next group has if all come, and how long it waits for
// them at most: 0 if it does not. Those that wait lose that time, and each of the others gains an
// append. The caller holds q.mu.
func (q *Queue) beginAwait(leader *writer, have int, answered bool) (all int, wait time.Duration) {
	r := &q.returning
	came := have + len(q.waiting)
	if all = r.writers; !answered {
		all += came
	}
	all = min(all, groupWritersMax)
	if came >= all {
		return all, 0
	}
	wait = time.Until(r.at.Add(min(r.within*time.Duration(all-came)/time.Duration(max(came, 1)), returnMax)))
	if wait <= 0 {
		return all, 0
	}
	if r.skip > 0 {
		r.skip--
		return all, 0
	}
	r.needed, r.leader = all-have, leader
	return all, wait
}

// endAwait ends a wait. If less than half of all writers are there, it was in vain, and the next
// groups do not wait. The caller holds q.mu.
func (q *Queue) endAwait(came, all int) {
	r := &q.returning
	select {
	case <-r.leader.ready: // meanwhile
	default:
	}
	r.needed, r.leader = 0, nil
	if 2*came >= all {
		r.skipped = 0
		return
	}
	r.skipped = min(2*r.skipped+1, skippedMax)
	r.skip = r.skipped
}
