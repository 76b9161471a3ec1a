package enginetest

import (
	"context"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// restorable is a driver whose data a test replaces, as an operator does who restores
// a backup under a running program.
type restorable struct{ storage.Driver }

// dataOf returns a driver in memory with a store that has the writes of texts. Equal
// arguments make equal logs.
func dataOf(t *testing.T, info storage.StoreInfo, texts ...string) storage.Driver {
	t.Helper()
	d, err := kv.New(memory.NewStore(), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	must(struct{}{}, d.CreateStore(t.Context(), info))(t)
	head := storage.Head{}
	for i, text := range texts {
		e := storage.Entry{Incarnation: info.Incarnation, Revision: head.Revision + 1, Previous: head.Hash, Writer: storage.WriterID{1},
			Sequence: uint64(i + 1), Changes: []storage.Change{{Kind: storage.TupleAdd, Tuple: tup(t, text)}}}
		head = must(d.Append(t.Context(), info.ID, head, []storage.Entry{e}, nil))(t)
	}
	return d
}

// TestAnotherHistory replaces the data below an engine. The store is not served from
// then on: the log went back, or has other entries. What continues the served history
// is served, and so is a store that was deleted and created again.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	id := must(storage.ParseStoreID("01HVMMBCMGZNT3SED4Z17ECXCA"))(t)
	info := storage.StoreInfo{ID: id, Incarnation: storage.Incarnation{1}}
	recreated := storage.StoreInfo{ID: id, Incarnation: storage.Incarnation{2}}
	one, two, three, other := "document:1#owner@user:anne", "document:2#owner@user:anne", "document:3#owner@user:anne", "document:4#owner@user:anne"
	for name, c := range map[string]struct {
		after storage.Driver
		kind  error
	}{
		"went back":        {dataOf(t, info, one), authz.ErrHistory},
		"another entry":    {dataOf(t, info, one, other), authz.ErrHistory},
		"other and longer": {dataOf(t, info, one, other, three), authz.ErrHistory},
		"continues":        {dataOf(t, info, one, two, three), nil},
		"created again":    {dataOf(t, recreated, one), nil},
	} {
		for _, idle := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := &restorable{dataOf(t, info, one, two)}
				e := newEngine(t, ostiary.Options{Driver: d})
				s := must(e.Store(ctx, id))(t)
				must(s.Read(ctx, authz.ReadRequest{}))(t)
				if idle {
					e.DropIdle()
					e.DropIdle()
				}
				d.Driver = c.after
				read := func() error {
					s, err := e.Store(ctx, id)
					if err == nil {
						_, err = s.Read(ctx, authz.ReadRequest{Consistency: authz.FullyConsistent()})
					}
					return err
				}
				for range 2 {
					if err := read(); c.kind != nil {
						wantKind(t, err, c.kind)
					} else if err != nil {
						// The first call may still use the handle of the deleted store.
						must(struct{}{}, read())(t)
					}
				}
				if c.kind == nil {
					return
				}
				_, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, other)})
				wantKind(t, err, c.kind)
				// A restart serves what the data has.
				again := newEngine(t, ostiary.Options{Driver: c.after})
				must(must(again.Store(ctx, id))(t).Read(ctx, authz.ReadRequest{}))(t)
			})
		}
	}
}

// TestFullyConsistentConfirms writes on one node and asks another at once.
func TestFullyConsistentConfirms(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	tables := memorylog.New()
	one, two := openReplica(t, tables.Open(), authz.Bounds{}), openReplica(t, tables.Open(), authz.Bounds{})
	s := newStore(t, one, documents())
	var other *ostiary.Store
	wait.Until(t, "a node learns of a new store when it follows the log", func() (found bool) {
		var err error
		other, err = two.Store(ctx, s.ID())
		return err == nil
	})
	for _, object := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		question := "document:" + object + "#owner@user:anne"
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, question)}))(t)
		if got := ask(t, other, question, authz.QueryOptions{Consistency: authz.FullyConsistent()}); got != "true" {
			t.Fatalf("another node answers %s to a write that was acknowledged before", got)
		}
	}
}
