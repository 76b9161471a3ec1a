package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// A fault of one node, with its weight. Each ends before the next one of the node
// begins.
var faults = []struct {
	weight int
	make   func(m *machine, p *process)
}{
	{4, (*machine).partition},
	{3, (*machine).flap},
	{4, (*machine).lose},
	{2, (*machine).slow},
	{4, (*machine).pause},
	{5, (*machine).crash},
	{2, (*machine).restart},
	{4, (*machine).fill},
	{4, (*machine).lower},
	{1, (*machine).replace},
	{2, (*machine).jump},
	{6, (*machine).maintain},
}

// disturb makes faults at a node until the clients have ended, and then repairs it.
func (m *machine) disturb() {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for !m.wait(500*time.Millisecond) && !m.lost {
		p := m.process.Load()
		if failed := p.driver.Failed(); failed != nil {
			m.recover(p, failed)
			continue
		}
		n := m.world.random(total)
		for _, f := range faults {
			if n -= f.weight; n < 0 {
				f.make(m, p)
				break
			}
		}
	}
	m.low.Store(false)
	if p := m.process.Load(); !m.lost {
		p.disk.fill(false)
		if failed := p.driver.Failed(); failed != nil {
			m.recover(p, failed)
		}
	}
}

// wait waits for a random time, at most limit, and reports whether the clients have
// ended.
func (m *machine) wait(limit time.Duration) (over bool) {
	select {
	case <-m.world.over:
		return true
	case <-time.After(time.Duration(m.world.random(int(limit)))):
		return false
	}
}

// recover starts a node again that has stopped serving, as an operator does. After a
// restore of the log it stays down if it says that its history is another one.
func (m *machine) recover(p *process, why error) {
	restored := m.world.restored.Load()
	if restored && isOtherHistory(why) {
		m.lost = true
		return
	}
	if !errors.Is(why, errFull) && !m.world.isLeftBehind(why) {
		m.world.fail("a node has stopped: node %d: %w", m.number, why)
		m.lost = true
		return
	}
	p.disk.fill(false)
	m.kill(false)
	m.start()
}

func (m *machine) partition(p *process) {
	how := m.world.random(3)
	p.link.down.Store(how != 0)
	if how != 1 {
		p.peers.apart(true)
	} else if m.world.random(2) == 0 { // another node at the same place
		other := m.world.machines[m.world.random(nodesTotal)].process.Load()
		other.link.down.Store(true)
		defer other.link.down.Store(false)
	}
	m.wait(4 * time.Second)
	p.link.down.Store(false)
	p.peers.apart(false)
}

// flap ends and restores the connections to the other nodes several times, while the log
// cannot be reached.
func (m *machine) flap(p *process) {
	p.link.down.Store(true)
	for range 4 {
		p.peers.apart(true)
		m.wait(1200 * time.Millisecond)
		p.peers.apart(false)
		m.wait(100 * time.Millisecond)
	}
	p.link.down.Store(false)
}

func (m *machine) lose(p *process) {
	p.link.lossy.Store(true)
	m.wait(2 * time.Second)
	p.link.lossy.Store(false)
}

func (m *machine) slow(p *process) {
	p.link.slow.Store(true)
	if m.world.random(2) == 0 { // so that it asks the log before each read
		p.peers.apart(true)
		defer p.peers.apart(false)
	}
	m.wait(2 * time.Second)
	p.link.slow.Store(false)
}

func (m *machine) pause(p *process) {
	p.pause()
	m.wait(4 * time.Second)
	p.resume()
}

// crash kills the process, sometimes together with the machine, and sometimes for a
// while.
func (m *machine) crash(p *process) {
	if m.world.random(4) == 0 {
		p.link.lossy.Store(true) // requests of the process arrive after its end
		m.wait(300 * time.Millisecond)
	}
	m.kill(m.world.random(3) > 0)
	if m.world.random(3) == 0 {
		m.wait(4 * time.Second)
	}
	m.start()
}

func (m *machine) restart(*process) {
	m.stop()
	m.start()
}

// fill fills the disk, or that of the node that writes. Unless the node notices that, the
// disk is free again later.
func (m *machine) fill(p *process) {
	if m.world.random(2) == 0 {
		p = m.world.holder(p)
	}
	p.disk.fill(true)
	m.wait(2 * time.Second)
	if m.world.random(2) == 0 {
		p.disk.fill(false)
	}
}

// lower lets the disk of the node, or that of the node that writes, have less than its
// reserve. Sometimes it stays so through the faults that follow.
func (m *machine) lower(p *process) {
	if m.world.random(2) == 0 {
		m = m.world.holder(p).machine
	}
	m.low.Store(true)
	if over := m.wait(4 * time.Second); over || m.world.random(3) > 0 {
		m.low.Store(false)
	}
}

// replace gives the node an empty disk. The operator removes the old one from the
// registry.
func (m *machine) replace(*process) {
	m.kill(true)
	m.disk = m.world.newMedium()
	for _, log := range m.world.logs() {
		if err := log.Forget(context.Background(), m.id); err != nil {
			m.world.fail("forget a node: %w", err)
		}
	}
	m.start()
}

func (m *machine) jump(*process) {
	m.skew.Store(int64(m.world.random(int(4*time.Second))) - int64(2*time.Second))
}

// maintain does what one node does regularly: snapshots, and trims of the log and of
// the store.
func (m *machine) maintain(p *process) {
	ctx, cancel := context.WithTimeout(m.world.ctx, 3*time.Second)
	defer cancel()
	// An error leaves all as it was, or the change was made nevertheless.
	_ = p.driver.Snapshot(ctx)
	_ = p.driver.TrimLog(ctx)
	if s, err := p.engine.Store(ctx, m.world.id); err == nil {
		_, _ = s.Collect(ctx)
	}
}

// Numbers of stall.
const (
	stallMin    = 1600 * time.Millisecond
	stallMax    = 3 * time.Second
	readersEach = 3 // of a node
)

// stall lets the log stall for longer than the leases, while readers ask all the time for
// what was acknowledged. The node that writes may reach the log later than the others do.
func (w *world) stall() {
	holder := w.holder(w.machines[0].process.Load())
	reading, stop := context.WithCancel(w.ctx)
	var readers sync.WaitGroup
	w.stalls.close()
	for _, m := range w.machines {
		for range readersEach {
			readers.Go(func() {
				for reading.Err() == nil {
					_, _, _ = w.check(reading, m.process.Load(), rel.Object{Type: "doc", ID: "0"}, "viewer", "anne", authz.Consistency{})
					time.Sleep(time.Duration(w.random(int(time.Millisecond))))
				}
			})
		}
	}
	time.Sleep(stallMin + time.Duration(w.random(int(stallMax-stallMin))))
	holder.link.down.Store(true)
	w.stalls.open()
	time.Sleep(time.Duration(w.random(int(time.Second))))
	holder.link.down.Store(false)
	time.Sleep(time.Duration(w.random(int(time.Second))))
	stop()
	readers.Wait()
}

// restore restores the log from a backup, once, while the clients call.
func (w *world) restore() {
	sleep := func() bool { return w.machines[0].wait(1500 * time.Millisecond) }
	if sleep() {
		return
	}
	restore, kept := w.log.tables.Backup(), w.log.head()
	if sleep() {
		return
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	ended, cancel := context.WithCancel(w.ctx)
	cancel() // so that Status asks nobody
	for _, m := range w.machines {
		if p := m.process.Load(); !p.killed.Load() {
			if s, _ := p.driver.Status(ended); s.Applied > kept {
				p.knew.Store(s.Applied)
			}
		}
	}
	w.record.cut(w.log.segments)
	w.restored.Store(true)
	restore()
	w.log.segments = w.log.segments[:kept:kept]
}
