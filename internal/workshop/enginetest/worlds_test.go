package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// disk holds data that outlives an engine. open opens a driver over it.
type disk struct {
	name string
	open func(t testing.TB) storage.Driver
}

// disks returns an empty disk for each kind of driver.
func disks() []disk {
	ram, fs := memory.NewStore(), vfs.NewMem()
	return []disk{
		{"memory", func(t testing.TB) storage.Driver { return must[storage.Driver](kv.New(ram, kv.Options{}))(t) }},
		{"pebble", func(t testing.TB) storage.Driver {
			return must(pebble.Open("data", pebble.Options{FS: fs, MemTableBytes: 1 << 20}))(t)
		}},
	}
}

// onEach runs a test with each kind of driver.
func onEach(t *testing.T, test func(t *testing.T, d disk)) {
	for _, d := range disks() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// session is an engine over a disk. It can be restarted.
type session struct {
	t      testing.TB
	disk   disk
	opts   ostiary.Options
	driver storage.Driver
	engine *ostiary.Engine
}

func start(t testing.TB, d disk, o ostiary.Options) *session {
	t.Helper()
	x := &session{t: t, disk: d, opts: o}
	x.begin()
	t.Cleanup(x.end)
	return x
}

func (x *session) begin() {
	x.t.Helper()
	x.driver = x.disk.open(x.t)
	x.opts.Driver = x.driver
	x.engine = must(ostiary.Open(context.Background(), x.opts))(x.t)
}

func (x *session) end() {
	if x.engine == nil {
		return
	}
	if err := errors.Join(x.engine.Close(), x.driver.Close()); err != nil {
		x.t.Error(err)
	}
	x.engine = nil
}

// again restarts the engine and the driver, and returns the new handle of s.
func (x *session) again(s *ostiary.Store) *ostiary.Store {
	x.t.Helper()
	x.end()
	x.begin()
	return must(x.engine.Store(context.Background(), s.ID()))(x.t)
}

// clock is a clock that a test sets.
type clock struct{ now atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time { return time.Unix(0, c.now.Load()).UTC() }

func (c *clock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// swapped is a driver whose data a test can replace under a running engine.
type swapped struct{ storage.Driver }

func newKV(s *memory.Store) (storage.Driver, error) { return kv.New(s, kv.Options{}) }

// copyStore returns a copy of a store's data.
func copyStore(t testing.TB, from *memory.Store) *memory.Store {
	t.Helper()
	to := memory.NewStore()
	b := to.Batch()
	it := must(from.Scan(nil, []byte{0xff, 0xff, 0xff, 0xff}))(t)
	for it.Next() {
		must(struct{}{}, b.Set(it.Key(), it.Value()))(t)
	}
	must(struct{}{}, errors.Join(it.Err(), it.Close(), b.Commit()))(t)
	return to
}
