package cluster_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/cluster"
	"github.com/ostiary/ostiary/storage"
)

// TestWriter writes through each node: only the one that writes takes it, and a
// hand-over, the end of a node and its removal change which one that is.
func TestWriter(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	var nodes []*cluster.Node
	var engines []*ostiary.Engine
	ends := map[*cluster.Node]func(){}
	for _, folder := range []string{"1", "2", "3"} {
		token := ""
		if len(nodes) > 0 {
			var err error
			if token, err = nodes[0].Token(ctx, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		// With a long lease, a node keeps the role on a machine that is busy for seconds.
		n, err := cluster.Open(ctx, cluster.Options{Folder: filepath.Join(dir, folder), Join: token, Settings: cluster.Settings{HolderLease: 5 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := n.Engine(ctx, ostiary.Options{})
		if err != nil {
			t.Fatal(err)
		}
		nodes, engines, ends[n] = append(nodes, n), append(engines, e), func() { n.Close() }
	}
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	writes := func(want *cluster.Node) {
		t.Helper()
		for i, n := range nodes {
			if ends[n] == nil {
				continue
			}
			id, _, own, err := n.Writer(ctx)
			for err == nil && id != want.ID() { // the others learn it a moment later
				time.Sleep(10 * time.Millisecond)
				if err = ctx.Err(); err == nil {
					id, _, own, err = n.Writer(ctx)
				}
			}
			if err != nil || own != (n == want) {
				t.Fatalf("node %d: node %s writes, own %v, error %v; want %s", i+1, id, own, err, want.ID())
			}
			_, err = engines[i].CreateStore(ctx, ostiary.CreateStoreRequest{Name: "acme"})
			if n == want && err != nil || n != want && !errors.Is(err, authz.ErrNoHolder) {
				t.Fatalf("node %d: a write: %v", i+1, err)
			}
		}
	}
	writes(nodes[0])
	if err := nodes[0].HandOver(ctx, nodes[2].ID()); err != nil {
		t.Fatal(err)
	}
	writes(nodes[2])
	if err := nodes[0].HandOver(ctx, storage.NodeID{}); !errors.Is(err, storage.ErrNotHolder) {
		t.Errorf("a node that does not write hands over: %v", err)
	}
	ends[nodes[2]]()
	delete(ends, nodes[2])
	if err := nodes[0].Remove(ctx, nodes[2].ID()); err != nil {
		t.Fatal(err)
	}
	if id, _, _, err := nodes[0].Writer(ctx); err != nil || id == nodes[2].ID() {
		t.Fatalf("node %s writes, error %v", id, err)
	}
	all, _, err := nodes[1].Nodes(ctx)
	if err != nil || len(all) != 2 {
		t.Fatalf("nodes %+v, error %v; want two", all, err)
	}
	if _, _, _, err := open(ctx, filepath.Join(dir, "3"), ""); !errors.Is(err, cluster.ErrRefused) || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a removed node starts: %v", err)
	}
	if _, _, _, err := open(ctx, filepath.Join(dir, "4"), "wrong"); !errors.Is(err, cluster.ErrToken) {
		t.Errorf("a wrong token: %v", err)
	}
}

// TestSettings makes a cluster of nodes far apart: the first node decides, a node that
// names nothing or the same joins, and one that names another value does not start.
func TestSettings(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	far := cluster.Settings{HolderLease: 3 * time.Second, ReadLease: 1200 * time.Millisecond, Acknowledge: cluster.AcknowledgeLocal}
	first, err := cluster.Open(ctx, cluster.Options{Folder: filepath.Join(dir, "1"), Settings: far})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	for folder, settings := range map[string]cluster.Settings{"same": far, "unset": {}, "other holder lease": {HolderLease: time.Second},
		"other read lease": {ReadLease: time.Second}, "other acknowledge": {Acknowledge: cluster.AcknowledgeLeased}} {
		o := cluster.Options{Folder: filepath.Join(dir, folder), Settings: settings}
		if o.Join, err = first.Token(ctx, time.Hour); err != nil {
			t.Fatal(err)
		}
		o.NoVote = true
		n, err := cluster.Open(ctx, o)
		if other := strings.TrimPrefix(folder, "other "); other != folder {
			if !errors.Is(err, cluster.ErrSettings) || !strings.Contains(err.Error(), other) {
				t.Errorf("%s: error %v", folder, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		if have := n.Settings(); have != far {
			t.Errorf("%s: the cluster has %+v, expected %+v", folder, have, far)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	for text, settings := range map[string]cluster.Settings{"invalid holder lease -1s": {HolderLease: -time.Second}, "invalid read lease 1h0m1s": {ReadLease: time.Hour + time.Second},
		"acknowledgement 3": {Acknowledge: 3}} {
		if _, err := cluster.Open(ctx, cluster.Options{Folder: filepath.Join(dir, "invalid"), Settings: settings}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, expected %q", err, text)
		}
	}
}
