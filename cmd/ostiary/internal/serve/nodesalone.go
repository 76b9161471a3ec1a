package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// alone reports whether the server is the only node of its log: it has no settings for
// other nodes, and is not reached by any.
func (f *nodesFlags) alone() bool {
	return !f.quorum.on() && f.listen == listenDefault && f.address == "" && f.certificate == "" && f.key == "" && f.ca == ""
}

// errNoLink means that a node cannot reach others.
var errNoLink = errors.New("this node was started without --nodes-certificate, so it does not reach other nodes")

// checkOthers fails, and takes this node out of the registry, if another node runs on the
// log and the two do not reach each other, because one of them was started as the only one,
// or because another process than this one answers at the address that both have.
func (m *member) checkOthers(ctx context.Context, log sharedlog.Log, self lease.Peer) error {
	nodes, now, err := log.Nodes(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		n := &nodes[i]
		if n.ID == self.ID || !n.Runs(now) {
			continue
		}
		ago := now.Sub(n.Seen).Round(time.Millisecond)
		switch {
		case self.Address == "" || n.Address == "":
			alone := "this node"
			if n.Address == "" {
				alone = "node " + n.ID.String()
			}
			err = fmt.Errorf("node %s reported to the log %s ago, but %s was started without --nodes-address, --nodes-certificate, --nodes-key and --nodes-ca, expected to be the only node: "+
				"start all nodes with these settings, or remove a node that no longer runs with \"ostiary node remove --force\"", n.ID, ago, alone)
		case self.Address == n.Address && m.answers(ctx, n.Address):
			err = fmt.Errorf("node %s reported to the log %s ago, and answers at %s, which is --nodes-address of this node too: expected an address of its own for each node", n.ID, ago, n.Address)
		default:
			continue
		}
		return errors.Join(err, log.Forget(context.WithoutCancel(ctx), self.ID))
	}
	return nil
}

// answersTime is how long another process has to answer at the address of this node.
const answersTime = 2 * time.Second

// answers reports whether another process answers at the address of this node. This one
// does not yet, although its port is open.
func (m *member) answers(ctx context.Context, address string) bool {
	if m.flags.quorum.on() {
		return false // the others have compared the addresses when this node has joined
	}
	ctx, cancel := context.WithTimeout(ctx, answersTime)
	defer cancel()
	host, _, _ := net.SplitHostPort(address) // it was checked
	conn, err := (&tls.Dialer{Config: m.files.Dial(host)}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
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
