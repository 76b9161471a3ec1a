package password

import (
	"runtime"
	"syscall"
	"testing"
)

// TestPoolPriority compares the priority of a thread of a pool with that of other
// threads, before and after. The system call returns 20 minus the niceness.
func TestPoolPriority(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	during := 0
	p := NewPool(PoolOptions{})
	if err := p.run(t.Context(), work{}, func() { during, _ = syscall.Getpriority(syscall.PRIO_PROCESS, 0) }).err; err != nil {
		t.Fatal(err)
	}
	after, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if during != 10 || after != before {
		t.Errorf("priority %d before, %d in the pool, %d after; want 10 in the pool and no change outside", before, during, after)
	}
}
