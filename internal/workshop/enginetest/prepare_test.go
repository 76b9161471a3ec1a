package enginetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	ckpebble "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

// embedder is a program that commits its own rows and its tuples in one
// transaction.
type embedder struct {
	disk
	begin  func(x *session) any
	set    func(tx any, key string)
	commit func(tx any) error
}

func embedders() []embedder {
	ram, fs := memory.NewStore(), vfs.NewMem()
	d := disks()
	d[0].open = func(t testing.TB) storage.Driver { return must(kv.New(ram, kv.Options{Prefix: []byte("ostiary/")}))(t) }
	d[1].open = func(t testing.TB) storage.Driver { return must(pebble.Open("data", pebble.Options{FS: fs}))(t) }
	return []embedder{
		{d[0], func(*session) any { return ram.Batch() },
			func(tx any, key string) { tx.(kv.Batch).Set([]byte(key), []byte("mine")) },
			func(tx any) error { return tx.(kv.Batch).Commit() }},
		{d[1], func(x *session) any { return x.driver.(*pebble.Driver).Batch() },
			func(tx any, key string) {},
			func(tx any) error { return tx.(*ckpebble.Batch).Commit(ckpebble.Sync) }},
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	for _, m := range embedders() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // no step but the waits takes time
				ctx := context.Background()
				x := start(t, m.disk, ostiary.Options{Bounds: authz.Bounds{HoldTime: 50 * time.Millisecond}})
				s := newStore(t, x.engine, documents())
				prepare := func(owner string) (*ostiary.Pending, any) {
					p := must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:"+owner)}))(t)
					tx := m.begin(x)
					m.set(tx, owner)
					must(struct{}{}, p.AppendTo(ctx, tx))(t)
					return p, tx
				}

				p, tx := prepare("published")
				want(t, s, "document:1#owner@user:published", "false")
				must(struct{}{}, m.commit(tx))(t)
				token := must(p.Publish(ctx))(t)
				want(t, s, "document:1#owner@user:published", "true")
				if token != must(s.Head(ctx))(t) {
					t.Error("Publish returned a token that is not the head's")
				}
				_, err := p.Publish(ctx)
				wantKind(t, err, authz.ErrPending)

				// A write that was aborted, or published without a commit, has no effect.
				p, _ = prepare("aborted")
				p.Abort()
				p, _ = prepare("forgotten")
				_, err = p.Publish(ctx)
				wantKind(t, err, authz.ErrPending)
				must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:next")}))(t)
				want(t, s, "document:1#owner@user:aborted", "false")
				want(t, s, "document:1#owner@user:forgotten", "false")

				// A write that changes nothing adds nothing to the transaction. Publish returns
				// the token of the head and releases the lock, also if another process has
				// written in the meantime.
				p = must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:next"), OnDuplicate: authz.Ignore}))(t)
				head := must(s.Head(ctx))(t)
				elsewhere := newEngine(t, ostiary.Options{Driver: x.driver})
				must(must(elsewhere.Store(ctx, s.ID()))(t).Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:elsewhere")}))(t)
				tx = m.begin(x)
				must(struct{}{}, p.AppendTo(ctx, tx))(t)
				must(struct{}{}, m.commit(tx))(t)
				if token, err := p.Publish(ctx); err != nil || token != head {
					t.Errorf("Publish of a write that changes nothing: %v, %v; expected the head %v", token, err, head)
				}
				must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:unlocked")}))(t)
				if after, before := must(must(s.Head(ctx))(t).Revision())(t), must(head.Revision())(t); after != before+2 {
					t.Errorf("revision %d after two writes, expected %d", after, before+2)
				}

				// A write that was committed but not published is visible after the next
				// write, which first waits HoldTime.
				_, tx = prepare("unpublished")
				must(struct{}{}, m.commit(tx))(t)
				must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:healer")}))(t)
				want(t, s, "document:1#owner@user:unpublished", "true")

				// While a prepared write is appended, but neither committed nor aborted, other
				// writes fail.
				p, _ = prepare("slow")
				_, err = s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:waiting")})
				wantKind(t, err, authz.ErrBusy)
				p.Abort()

				// A prepared write that is not appended within HoldTime expires.
				p = must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:late")}))(t)
				must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:after")}))(t)
				wantKind(t, p.AppendTo(ctx, m.begin(x)), authz.ErrPending)

				// After a crash between commit and publish, the log restores the write.
				_, tx = prepare("crashed")
				must(struct{}{}, m.commit(tx))(t)
				s = x.again(s)
				want(t, s, "document:1#owner@user:crashed", "true")
				for _, absent := range []string{"aborted", "forgotten", "slow", "waiting", "late"} {
					want(t, s, "document:1#owner@user:"+absent, "false")
				}
				wantKind(t, must(s.Prepare(ctx, authz.WriteRequest{Add: tups(t, "document:2#owner@user:a")}))(t).AppendTo(ctx, "no transaction"), authz.ErrTransaction)
			})
		})
	}
}
