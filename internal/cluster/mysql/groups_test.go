package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/mysql"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// writersOfNode is how many writers each node has in groups.
const writersOfNode = 12

// groupNode is an engine over a server of Galera. Its groups are acknowledged some time after
// they are durable, so several are on their way.
type groupNode struct {
	*ostiary.Engine
	now, most atomic.Int64 // groups that are not acknowledged
}

func openGroupNode(t *testing.T, url string) *groupNode {
	t.Helper()
	l, err := mysql.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	local, err := kv.New(memory.NewStore(), kv.Options{Copy: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := clustertest.OpenReplica(t.Context(), l, local, replica.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := &groupNode{}
	d.Acknowledged = func(context.Context, sharedlog.Position) error {
		for now, most := n.now.Add(1), n.most.Load(); now > most && !n.most.CompareAndSwap(most, now); most = n.most.Load() {
		}
		time.Sleep(200 * time.Millisecond)
		n.now.Add(-1)
		return nil
	}
	if n.Engine, err = ostiary.Open(t.Context(), ostiary.Options{Driver: d}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// groups lets three nodes write groups that overlap, to one store, until the database has undone
// enough of their transactions. A write that was answered as made is there, one that failed is not.
func groups(t *testing.T, all []*databases.Server) {
	ctx := t.Context()
	var nodes []*groupNode
	urls := galeraURLs(all)
	for _, url := range urls {
		nodes = append(nodes, openGroupNode(t, url))
	}
	s, err := nodes[0].CreateStore(ctx, ostiary.CreateStoreRequest{})
	if err != nil {
		t.Fatal(err)
	}
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	model := schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}
	if _, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: &model}); err != nil {
		t.Fatal(err)
	}
	before := make([]int, len(all))
	for i, server := range all {
		before[i] = conflicts(server)
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	outcomes, stop := map[string]error{}, make(chan struct{})
	for i, n := range nodes {
		var at *ostiary.Store
		wait.Until(t, "the node has the store and its schema", func() bool {
			at, err = n.Store(ctx, s.ID())
			if err == nil {
				_, err = at.CurrentSchema(ctx, "")
			}
			return err == nil
		})
		for w := range writersOfNode {
			running.Go(func() {
				for round := 0; ; round++ {
					select {
					case <-stop:
						return
					default:
					}
					id := fmt.Sprintf("%d-%d-%d", i, w, round)
					tuple := rel.Tuple{Object: rel.Object{Type: "doc", ID: id}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "anne"}}
					_, err := at.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{tuple}})
					mu.Lock()
					outcomes[id] = err
					mu.Unlock()
					time.Sleep(rand.N(150 * time.Millisecond)) // not all at once, in one group
				}
			})
		}
	}
	wait.Until(t, "three groups of each node are on their way, and Galera has undone transactions", func() bool {
		undone, three := 0, true
		for i, server := range all {
			undone += conflicts(server) - before[i]
			three = three && nodes[i].most.Load() >= 3
		}
		return undone >= 10 && three
	})
	close(stop)
	running.Wait()
	last, err := openGroupNode(t, urls[0]).Store(ctx, s.ID())
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for tuple, err := range last.Tuples(ctx, rel.Filter{}, authz.FullyConsistent()) {
		if err != nil {
			t.Fatal(err)
		}
		there[tuple.Object.ID] = true
	}
	made := 0
	for id, err := range outcomes {
		if err == nil {
			made++
		}
		if err == nil && !there[id] || err != nil && there[id] && !errors.Is(err, storage.ErrUncertain) {
			t.Errorf("the tuple %s is there: %t, and its write was answered with error %v", id, there[id], err)
		}
	}
	t.Logf("%d of %d writes made", made, len(outcomes))
	if made == 0 {
		t.Error("no write was made")
	}
}
