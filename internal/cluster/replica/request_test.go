package replica_test

import (
	"reflect"
	"testing"

	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/storagetest"
)

// TestFindRequest lets requests of two nodes write and change the catalog, and looks for
// one of them on each node: on the one that wrote, on one that follows, and on one that was
// opened later. Only the last one does not know the deleted store as it was.
func TestFindRequest(t *testing.T) {
	t.Parallel()
	tables := memorylog.New()
	d, follower := mustOpen(t, tables, inMemory()), mustOpen(t, tables, inMemory())
	request := storage.RequestID{Node: storage.NodeID{1}, Number: 4 * storage.RequestWrites}
	foreign := storage.RequestID{Node: storage.NodeID{2}, Number: 4 * storage.RequestWrites}
	ctx, do := t.Context(), func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(l *storagetest.Log, by storage.RequestID, name string) storage.StoreInfo {
		info := storage.StoreInfo{ID: l.ID, Incarnation: by.Incarnation(), Name: name, Created: 7, Aliases: map[string]string{"native": name}}
		l.Incarnation = info.Incarnation
		do(d.CreateStore(ctx, info))
		return info
	}
	a, b, c := storagetest.NewLog(1), storagetest.NewLog(2), storagetest.NewLog(3)
	before := create(a, request, "before")
	do(follower.Confirm(ctx))
	after := follower.AppliedSequence()
	ours, theirs := create(b, request.Write(1), "ours"), create(c, foreign, "theirs")
	renamed := theirs
	renamed.Name = "renamed"
	do(d.UpdateStore(ctx, theirs, renamed))
	mustAppend(t, b, d, add("1"))
	e := b.Entry(b.Head, add("2"))
	e.Origin.Request = request.Write(1)
	head, err := d.Append(ctx, b.ID, b.Head, []storage.Entry{e}, nil)
	do(err)
	do(d.DeleteStore(ctx, renamed.ID))
	want := storage.RequestTrace{
		Entries: []storage.RequestEntry{{Store: b.ID, Request: request.Write(1), Head: head}},
		Created: []storage.RequestStore{{Request: request.Write(1), Info: ours}},
		Updated: []storage.StoreID{c.ID},
		Deleted: []storage.DeletedStore{{Info: renamed, Known: true}},
	}
	for what, n := range map[string]*clustertest.Replica{"the writer": d, "a follower": follower} {
		have, err := n.FindRequest(ctx, request, after)
		if err != nil || !reflect.DeepEqual(have, want) {
			t.Errorf("%s: %+v, error %v\nwant %+v", what, have, err, want)
		}
	}
	have, err := d.FindRequest(ctx, foreign, 0)
	if err != nil || len(have.Entries) != 0 || len(have.Created) != 1 || !reflect.DeepEqual(have.Created[0].Info, theirs) {
		t.Errorf("the other request: %+v, error %v", have, err)
	}
	if have, err := d.FindRequest(ctx, request, after-1); err != nil || len(have.Created) != 2 || !reflect.DeepEqual(have.Created[0].Info, before) {
		t.Errorf("with the store before: %+v, error %v", have, err)
	}
	later := mustOpen(t, tables, inMemory())
	if have, err = later.FindRequest(ctx, request, d.AppliedSequence()); err != nil || have.Made() || len(have.Deleted) != 0 {
		t.Errorf("after the last segment: %+v, error %v", have, err)
	}
}
