package raftlog_test

import (
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/sharedlogtest"
)

// TestDriver runs the suite of drivers on replicas of the log of one node.
func TestDriver(t *testing.T) {
	t.Parallel()
	sharedlogtest.RunDriver(t, func(t *testing.T) func() (sharedlog.Log, error) {
		f := newFleet(t, 1)
		return func() (sharedlog.Log, error) { return f.nodes[0].Log(), nil }
	})
}

// TestKept reads what a node has without a question to another one: also when no other
// node answers, while the log itself cannot be read.
func TestKept(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	head := f.append(0, 5)
	f.check(1, head)
	f.stop(0)
	f.stop(1)
	l := f.nodes[2].Log()
	defer l.Close()
	kept := l.Kept()
	if have, err := kept.Head(f.ctx()); err != nil || have != head {
		t.Fatalf("the head is %s, error %v; want %s", have, err, head)
	}
	n := 0
	for _, err := range kept.Read(f.ctx(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5 {
		t.Fatalf("%d segments, want 5", n)
	}
	f.nodes = f.nodes[2:]
}
