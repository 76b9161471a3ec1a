package delay

import (
	"testing"
	"time"
)

// TestQueueBound fills a queue to its bound, and by one byte more.
func TestQueueBound(t *testing.T) {
	var count lateness
	q := newQueue(100, &count, func([]byte) { t.Error("a packet left before it was due") })
	q.add(make([]byte, 60), time.Hour, false)
	q.add(make([]byte, 40), time.Hour, false)
	if n := count.dropped.Load(); n != 0 {
		t.Errorf("%d packets were dropped at the bound", n)
	}
	q.add(make([]byte, 1), time.Hour, false)
	if n := count.dropped.Load(); n != 1 {
		t.Errorf("%d packets were dropped above the bound, expected 1", n)
	}
	q.end()
}

// TestQueueOrder makes the delay shorter: what came first leaves first.
func TestQueueOrder(t *testing.T) {
	var count lateness
	left := make(chan byte, 2)
	q := newQueue(100, &count, func(b []byte) { left <- b[0] })
	q.add([]byte{1}, 30*time.Millisecond, false)
	q.add([]byte{2}, 0, false)
	if first, second := <-left, <-left; first != 1 || second != 2 {
		t.Errorf("left in the order %d, %d", first, second)
	}
	q.end()
	if c := count.counters(); c.Packets != 2 || c.Bytes != 2 {
		t.Errorf("counted %+v", c)
	}
}
