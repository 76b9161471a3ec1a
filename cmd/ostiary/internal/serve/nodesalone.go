package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// alone reports whether the server is the only node of its log: it has no settings for
// other nodes, and is not reached by any.
func (f *nodesFlags) alone() bool {
	return !f.quorum.on() && f.listen == listenDefault && f.address == "" && f.certificate == "" && f.key == "" && f.ca == ""
}

// errNoLink means that a node cannot reach others.
var errNoLink = errors.New("this node was started without --nodes-certificate, so it does not reach other nodes")

// checkOthers fails, and takes this node out of the registry, if another node runs on the
// log and the two do not reach each other, because one of them was started as the only one.
func checkOthers(ctx context.Context, log sharedlog.Log, self cluster.Peer) error {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		if n.ID == self.ID || !n.Runs(now) || self.Address != "" && n.Address != "" {
			continue
		}
		alone := "this node"
		if n.Address == "" {
			alone = "node " + n.ID.String()
		}
		err := fmt.Errorf("node %s reported to the log %s ago, but %s was started without --nodes-address, --nodes-certificate, --nodes-key and --nodes-ca, expected to be the only node: "+
			"start all nodes with these settings, or remove a node that no longer runs with \"ostiary node remove --force\"", n.ID, now.Sub(n.Seen).Round(time.Millisecond), alone)
		return errors.Join(err, log.Forget(context.WithoutCancel(ctx), self.ID))
	}
	return nil
}

// reload reads the certificates again.
func (m *member) reload() error {
	if m.Link == nil {
		return nil
	}
	return m.Link.Reload()
}

// attach lets the server serve what other nodes pass on.
func (m *member) attach(receiver link.Receiver) {
	if m.Link != nil {
		m.Link.Attach(m.Rules, receiver)
	}
}
