package delay

import (
	"sync"
	"time"
)

// packet is a packet, or a piece of a stream, with the time when it is handed on.
type packet struct {
	due   time.Time
	bytes []byte
}

// queue holds packets of one direction until they are due. What comes first leaves
// first, also if the delay becomes shorter in between.
type queue struct {
	bound   int           // bytes that it may hold
	deliver func([]byte)  // hands a packet on; never called concurrently
	count   *lateness     // counts what leaves
	work    chan struct{} // has a value if the owner must look
	room    *sync.Cond    // is signaled when something leaves

	mu      sync.Mutex
	packets []packet
	bytes   int
	last    time.Time
	ended   bool
	stop    chan struct{} // closed by end
	done    chan struct{} // closed when the goroutine has ended
}

// queueBytes is the bound of a queue. It is more than the largest window of TCP needs.
const queueBytes = 8 << 20

func newQueue(bound int, count *lateness, deliver func([]byte)) *queue {
	q := &queue{bound: bound, deliver: deliver, count: count, work: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	q.room = sync.NewCond(&q.mu)
	go q.run()
	return q
}

// add puts bytes into the queue, which owns them from then on. If the queue is full, it
// waits if wait is true, and otherwise drops and counts them.
func (q *queue) add(b []byte, after time.Duration, wait bool) {
	due := time.Now().Add(after)
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes+len(b) > q.bound && q.bytes > 0 && !q.ended {
		if !wait {
			q.count.dropped.Add(1)
			return
		}
		q.room.Wait()
	}
	if q.ended {
		return
	}
	if due.Before(q.last) {
		due = q.last
	}
	q.last = due
	q.packets, q.bytes = append(q.packets, packet{due, b}), q.bytes+len(b)
	if len(q.packets) == 1 {
		select {
		case q.work <- struct{}{}:
		default:
		}
	}
}

// run hands on packets until the queue has ended.
func (q *queue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		if q.ended {
			q.mu.Unlock()
			return
		}
		if len(q.packets) == 0 {
			q.mu.Unlock()
			select {
			case <-q.work:
			case <-q.stop:
			}
			continue
		}
		p := q.packets[0]
		q.mu.Unlock()
		if wait := time.Until(p.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-q.stop:
				return
			}
		}
		q.deliver(p.bytes)
		q.count.carried(len(p.bytes), p.due)
		q.mu.Lock()
		q.packets[0].bytes = nil
		q.packets, q.bytes = q.packets[1:], q.bytes-len(p.bytes)
		q.room.Broadcast()
		q.mu.Unlock()
	}
}

// end ends the queue, without what it holds, and waits for its goroutine. It must be
// called once.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.room.Broadcast()
	q.mu.Unlock()
	close(q.stop)
	<-q.done
}

// drain waits until the queue is empty.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.packets) > 0 && !q.ended {
		q.room.Wait()
	}
}
