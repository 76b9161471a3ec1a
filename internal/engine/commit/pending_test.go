package commit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// pendingWorld is a world whose driver can join transactions.
type pendingWorld struct {
	*world
	rows interface{ Batch() kv.Batch }
}

func newPendingWorld(t *testing.T) pendingWorld {
	t.Helper()
	rows := memory.NewStore()
	driver, err := kv.New(rows, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return pendingWorld{newWorldOn(t, driver), rows}
}

// prepare prepares a write of viewer id.
func (w pendingWorld) prepare(id string) *Pending {
	w.t.Helper()
	p, err := w.queue.Prepare(w.t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer(id, "a")}})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// appendTo adds a prepared write to a transaction.
func (w pendingWorld) appendTo(p *Pending) kv.Batch {
	w.t.Helper()
	tx := w.rows.Batch()
	if err := p.AppendTo(w.t.Context(), tx); err != nil {
		w.t.Fatal(err)
	}
	return tx
}

// written records that viewer id must have been written.
func (w pendingWorld) written(id string) {
	w.tuples[viewer(id, "a").Key()] = viewer(id, "a")
	w.revision++
}

// write writes viewer id. It fails if the write lock is still held.
func (w pendingWorld) write(id string) {
	w.t.Helper()
	if _, err := w.queue.Write(w.t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer(id, "a")}}); err != nil {
		w.t.Error(err)
	}
	w.written(id)
}

// is fails unless an error is of a kind.
func (w pendingWorld) is(err, kind error) {
	w.t.Helper()
	if !errors.Is(err, kind) || (kind == nil) != (err == nil) {
		w.t.Errorf("error %v, expected %v", err, kind)
	}
}

// TestPrepareErrors makes Prepare fail in each way. The next write must find the lock free.
func TestPrepareErrors(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name    string
		ctx     context.Context
		r       authz.WriteRequest
		prepare func(w pendingWorld)
		kind    error
	}{
		{name: "no transactions", prepare: func(w pendingWorld) { w.runtime.Driver = struct{ storage.Driver }{w.driver} }, kind: authz.ErrTransaction},
		{name: "a malformed request", r: authz.WriteRequest{OnMissing: 9}, kind: authz.ErrInvalidRequest},
		{name: "a secret without a key", r: authz.WriteRequest{Secrets: []authz.Document{{Kind: "note", Key: "1"}}}, kind: authz.ErrNoSecretKey},
		{name: "a missing tuple", r: authz.WriteRequest{Remove: []rel.Key{viewer("1", "a").Key()}}, kind: authz.ErrTupleMissing},
		{name: "an unreadable head", prepare: func(w pendingWorld) {
			w.driver.Break(failing.Fault{Number: 1, Only: []failing.Operation{failing.Head}})
		}, kind: authz.ErrStorage},
		{name: "a closed store", prepare: func(w pendingWorld) { w.timeline.Close(authz.ErrNoStore) }, kind: authz.ErrNoStore},
		{name: "a context that ends while another holds the lock", ctx: ended, prepare: func(w pendingWorld) { w.timeline.Lock.TryLock() }, kind: authz.ErrCanceled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newPendingWorld(t)
				if c.prepare != nil {
					c.prepare(w)
				}
				ctx := t.Context()
				if c.ctx != nil {
					ctx = c.ctx
				}
				p, err := w.queue.Prepare(ctx, &c.r)
				w.is(err, c.kind)
				if p != nil || fmt.Sprint(errs.Wrap("prepare", w.info.ID, c.kind))[:40] != fmt.Sprint(err)[:40] {
					t.Errorf("got %v, %v", p, err)
				}
				w.driver.Mend()
				w.runtime.Driver = w.driver
				if c.ctx != nil {
					w.timeline.Lock.Unlock()
				}
				if errors.Is(c.kind, authz.ErrNoStore) {
					if !w.timeline.Lock.TryLock() {
						t.Error("the lock is held")
					}
					return
				}
				w.write("2")
				w.check(c.name)
			})
		})
	}
}

// TestPendingStates makes the calls of a prepared write in each order.
func TestPendingStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newPendingWorld(t)
		ctx := t.Context()
		publish := func(p *Pending) error { _, err := p.Publish(ctx); return err }

		p := w.prepare("published")
		w.is(publish(p), authz.ErrPending) // not appended yet
		w.is(p.AppendTo(ctx, "no transaction"), authz.ErrTransaction)
		tx := w.appendTo(p) // a failed AppendTo can be repeated
		w.is(p.AppendTo(ctx, w.rows.Batch()), authz.ErrPending)
		w.is(tx.Commit(), nil)
		w.driver.Break(failing.Fault{Number: 1, Only: []failing.Operation{failing.Head}})
		w.is(publish(p), authz.ErrStorage)
		w.driver.Mend()
		token, err := p.Publish(ctx) // a failed Publish can be repeated
		w.written("published")
		if w.is(err, nil); token != w.timeline.Token(w.timeline.Loaded().Head) {
			t.Errorf("token %s is not that of the newest view", token)
		}
		w.is(publish(p), authz.ErrPending)
		w.is(p.AppendTo(ctx, w.rows.Batch()), authz.ErrPending)
		p.Abort() // does nothing
		w.write("after-published")

		p = w.prepare("aborted")
		w.appendTo(p)
		p.Abort()
		p.Abort()
		w.is(publish(p), authz.ErrPending)
		w.write("after-aborted")

		p = w.prepare("not-committed")
		w.appendTo(p)
		if err := publish(p); !errors.Is(err, authz.ErrPending) || err.Error() == errs.Wrap("publish", w.info.ID, authz.ErrPending).Error() {
			t.Errorf("error %v does not say that the transaction was not committed", err)
		}
		w.write("after-not-committed")

		// A prepared write expires, unless it is in a transaction.
		hold := w.runtime.Bounds.HoldTime
		p = w.prepare("late")
		time.Sleep(hold + 1)
		w.is(p.AppendTo(ctx, w.rows.Batch()), authz.ErrPending)
		w.write("after-late")
		p = w.prepare("in-time")
		time.Sleep(hold - 1)
		tx = w.appendTo(p)
		time.Sleep(10 * hold)
		w.is(tx.Commit(), nil)
		w.is(publish(p), nil)
		w.written("in-time")

		// A writer that waits fails, or writes after what was committed without a Publish.
		p = w.prepare("slow")
		tx = w.appendTo(p)
		_, err = w.queue.Write(ctx, &authz.WriteRequest{Add: []rel.Tuple{viewer("busy", "a")}})
		w.is(err, authz.ErrBusy)
		w.driver.Break(failing.Fault{Number: 1, Only: []failing.Operation{failing.Head}})
		_, err = w.queue.Write(ctx, &authz.WriteRequest{Add: []rel.Tuple{viewer("busy", "a")}})
		w.is(err, authz.ErrBusy)
		w.driver.Mend()
		w.is(tx.Commit(), nil)
		w.written("slow")
		w.write("after-slow")
		w.is(publish(p), authz.ErrPending)

		// Another process may write after the transaction.
		p = w.prepare("first")
		tx = w.appendTo(p)
		w.is(tx.Commit(), nil)
		w.written("first")
		w.writeElsewhere("second")
		w.is(publish(p), nil)
		w.write("third")
		p = w.prepare("lost")
		w.appendTo(p)
		w.writeElsewhere("fourth")
		w.is(publish(p), authz.ErrPending)
		w.write("fifth")

		// A write that changes nothing.
		p, err = w.queue.Prepare(ctx, &authz.WriteRequest{})
		w.is(err, nil)
		w.is(p.AppendTo(ctx, "not used"), nil)
		head := w.timeline.Token(w.timeline.Loaded().Head)
		if token, err := p.Publish(ctx); token != head || err != nil {
			t.Errorf("published %s, %v, expected %s", token, err, head)
		}
		w.check("in the end")
	})
}

// writeElsewhere writes viewer id with another engine.
func (w pendingWorld) writeElsewhere(id string) {
	w.t.Helper()
	r, timeline := w.open()
	if _, err := NewQueue(NewShared(r, nil), timeline).Write(w.t.Context(), &authz.WriteRequest{Add: []rel.Tuple{viewer(id, "a")}}); err != nil {
		w.t.Error(err)
	}
	w.written(id)
}
