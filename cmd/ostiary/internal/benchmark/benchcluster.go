package benchmark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/node"
	"github.com/ostiary/ostiary/internal/bench"
)

// nodesMax bounds --nodes: more than five nodes do not vote.
const nodesMax = 5

// clustered is a node of a cluster that a benchmark has started.
type clustered struct {
	pid     int
	http    string // URL
	metrics string // HOST:PORT
	writes  bool
}

// cluster starts a cluster without a database on this machine, fills a store, and adds
// two sides: the node that writes, which the report of LXD names the leader, and
// another one.
func (s *sides) cluster(ctx context.Context, n int) error {
	if s.flags.driver != "pebble" {
		return fmt.Errorf("%w: --nodes with --driver %s: expected pebble", cli.ErrUsage, s.flags.driver)
	}
	dir, err := os.MkdirTemp("", "ostiary-bench-")
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	var nodes []clustered
	for i := range n {
		one, err := s.join(ctx, dir, i)
		if err != nil {
			return fmt.Errorf("node %d: %w", i+1, err)
		}
		nodes = append(nodes, one)
	}
	if err := s.fillCluster(ctx, &nodes[0]); err != nil {
		return err
	}
	if err := findWriter(ctx, nodes); err != nil {
		return err
	}
	added := map[bool]bool{}
	for i := range nodes {
		if one := &nodes[i]; !added[one.writes] {
			added[one.writes] = true
			if err := s.addNode(ctx, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// join starts node i of a cluster, whose folders are in dir. The first one begins it.
func (s *sides) join(ctx context.Context, dir string, i int) (one clustered, err error) {
	ports, err := freePorts(3)
	if err != nil {
		return one, err
	}
	folder := func(i int) string { return filepath.Join(dir, fmt.Sprint("node", i+1)) }
	args := []string{"serve", "--data", folder(i), "--http", ports[0], "--grpc", "off", "--metrics", ports[1], "--nodes-listen", ports[2], "--drain-time", "0", "--log-level", "error"}
	if i == 0 {
		args = append(args, "--cluster")
	} else {
		var token node.MadeToken
		if err := cli.Control(ctx, folder(0), node.TokenCommand, node.TokenOptions{Valid: time.Minute}, &token); err != nil {
			return one, err
		}
		args = append(args, "--join", token.Token)
	}
	one.http, one.metrics = "http://"+ports[0], ports[1]
	one.pid, err = s.start(ctx, one.http+"/readyz", args...)
	return one, err
}

// fillCluster fills the store through a node.
func (s *sides) fillCluster(ctx context.Context, through *clustered) error {
	t, err := bench.NewHTTP(through.http, "")
	if err != nil {
		return err
	}
	line := s.app.Progress()
	defer line.End()
	return errors.Join(t.Setup(ctx, s.model, s.tuples, func(n int) { line.Show("filling the cluster", n, s.size) }), t.Close())
}

// findWriter notes which of the nodes writes.
func findWriter(ctx context.Context, nodes []clustered) (err error) {
	for i := range nodes {
		if nodes[i].writes, err = bench.Writes(ctx, nodes[i].metrics); err != nil || nodes[i].writes {
			return err
		}
	}
	return errors.New("no node of the cluster writes")
}

// addNode adds a node as a side.
func (s *sides) addNode(ctx context.Context, one *clustered) error {
	t, err := bench.NewHTTP(one.http, "")
	if err != nil {
		return err
	}
	if err := t.Attach(ctx); err != nil {
		return err
	}
	side := s.own()
	side.PID, side.Metrics = one.pid, "http://"+one.metrics+"/metrics"
	side.Notes = "the node that writes, of a cluster on one machine"
	if !one.writes {
		side.Peer += bench.OtherNode
		side.Notes = "another node of a cluster on one machine"
	}
	return s.add(side, t)
}
