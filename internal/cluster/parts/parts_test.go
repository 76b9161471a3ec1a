package parts

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage/pebble"
)

// watchedLog counts the questions for a snapshot.
type watchedLog struct {
	sharedlog.Log
	snapshots *atomic.Int64
}

func (l watchedLog) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	l.snapshots.Add(1)
	return l.Log.Snapshot(ctx)
}

// openNode starts a node in a new folder, and its engine.
func openNode(t *testing.T, join string) (*Parts, *ostiary.Engine) {
	t.Helper()
	o := Options{Quorum: QuorumOptions{Folder: t.TempDir(), Join: join}}
	local, err := pebble.Open(o.Quorum.Folder, pebble.Options{Copy: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if o.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	o.Local, o.Address = local, o.Listener.Addr().String()
	o.Next = func(_ context.Context, log sharedlog.Log) (sharedlog.Log, error) {
		return watchedLog{log, &atomic.Int64{}}, nil
	}
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := n.Engine(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(errors.Join(err, n.Close()))
	}
	return n, e
}

// TestNode starts two nodes: the one that does not write neither removes expired tuples nor
// looks after the log, which stores a snapshot in it and trims it, and Close closes the engine and what Open got.
func TestNode(t *testing.T) {
	t.Parallel()
	first, writer := openNode(t, "")
	wait.Until(t, "the first node writes", first.Rules.Leads)
	token, err := first.Quorum.Token(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	second, other := openNode(t, token.String())
	asked := second.Log.(watchedLog).snapshots
	before := asked.Load()
	if err := second.Rules.Maintain(t.Context()); err != nil || asked.Load() != before {
		t.Errorf("a node that does not write looks after the log, error %v", err)
	}
	store, err := writer.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := other.Store(t.Context(), store.ID())
	if err != nil {
		t.Fatal(err)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, _, err = store.WriteSchema(t.Context(), authz.SchemaSource{Model: &model}); err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Millisecond)
	tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: "plan"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}, Expires: rel.TimeOf(expires)}
	if _, err := store.Write(t.Context(), authz.WriteRequest{Add: []rel.Tuple{tuple}}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the tuple has expired", func() bool { return time.Now().After(expires) })
	if c, err := copied.Collect(t.Context()); err != nil || c.Expired != 0 {
		t.Errorf("the engine of a node that does not write removes %d expired tuples, error %v", c.Expired, err)
	}
	if c, err := store.Collect(t.Context()); err != nil || c.Expired != 1 {
		t.Errorf("that of the node that writes removes %d expired tuples, error %v", c.Expired, err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := writer.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "acme"}); !errors.Is(err, authz.ErrClosed) {
		t.Errorf("the engine after Close: %v", err)
	}
	if l, err := net.Listen("tcp", first.Self.Address); err != nil {
		t.Errorf("the port after Close: %v", err)
	} else {
		l.Close()
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefused fails in each step of Open: what it got is closed.
func TestRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	refused := errors.New("refused")
	for _, step := range []string{"token", "registered"} {
		local, err := pebble.Open(folder, pebble.Options{Copy: true, NoSync: true}) // fails while the copy is open
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Local: local, Quorum: QuorumOptions{Folder: folder}, Listener: listener, Address: listener.Addr().String()}
		want := refused
		if step == "token" {
			o.Quorum.Join, want = "wrong", raftlog.ErrToken
		} else {
			o.Registered = func(context.Context, sharedlog.Log, lease.Peer) error { return refused }
		}
		if _, err := Open(t.Context(), o); !errors.Is(err, want) {
			t.Errorf("%s: %v", step, err)
		}
		if l, err := net.Listen("tcp", o.Address); err != nil {
			t.Errorf("%s: the port is taken: %v", step, err)
		} else {
			l.Close()
		}
	}
	local, err := pebble.Open(folder, pebble.Options{Copy: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	local.Close()
}
