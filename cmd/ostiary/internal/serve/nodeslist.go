package serve

import (
	"context"
	"errors"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/node"
	"github.com/ostiary/ostiary/internal/cluster/lease"
)

// nodesTime bounds how long the nodes of a log are read.
const nodesTime = 5 * time.Second

// nodesAnswer is the answer of the native API about nodes: the schema Nodes of its openapi.json.
type nodesAnswer struct {
	Version string       `json:"version"`
	Log     string       `json:"log"`
	Self    *selfAnswer  `json:"self,omitempty"`
	Nodes   []nodeAnswer `json:"nodes"`
	Failure string       `json:"failure,omitempty"`
}

// selfAnswer is this node, as it sees itself.
type selfAnswer struct {
	ID                string `json:"id"`
	Role              string `json:"role"`
	Ready             bool   `json:"ready"`
	Holder            string `json:"holder,omitempty"`
	Epoch             uint64 `json:"epoch"`
	Shown             uint64 `json:"shown"`
	Lag               uint64 `json:"lag"`
	ReadLeaseMillis   int64  `json:"read_lease_ms"`
	HolderLeaseMillis int64  `json:"holder_lease_ms"`
	Acknowledges      bool   `json:"acknowledges"`
	LogVersion        uint32 `json:"log_version"`
	Failure           string `json:"failure,omitempty"`
}

// nodeAnswer is a registered node, as "ostiary node list" shows it.
type nodeAnswer struct {
	ID        string     `json:"id"`
	Address   string     `json:"address"`
	Zone      string     `json:"zone"`
	Preferred bool       `json:"preferred"`
	Start     uint64     `json:"start"`
	State     string     `json:"state"`
	Log       string     `json:"log,omitempty"`
	Applied   uint64     `json:"applied"`
	Lag       uint64     `json:"lag"`
	Synced    uint64     `json:"synced"`
	Reads     uint32     `json:"reads"`
	Seen      *time.Time `json:"seen,omitempty"`
	AgoMillis int64      `json:"ago_ms"`
}

// stateJoined is the state of a node that has joined, and never served.
const stateJoined = "joined"

// nodes returns what the native API answers about this server and the nodes that share its log.
func (s *prepared) nodes(ctx context.Context) any {
	out := nodesAnswer{Version: cli.Version()["version"], Log: "none", Nodes: []nodeAnswer{}}
	m := s.member
	if m == nil {
		return out
	}
	switch {
	case m.flags.quorum.on():
		out.Log = "nodes"
	case m.flags.own():
		out.Log = "folder"
	default:
		out.Log = "database"
	}
	out.Self = m.self()
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	list := func(ctx context.Context, o struct{}) ([]node.Listed, error) { return node.List(ctx, m.Log, o) }
	if m.Quorum != nil {
		list = onLog(m, m.listNodes)
	}
	all, err := list(ctx, struct{}{})
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("the log does not answer")
	}
	if err != nil {
		out.Failure = err.Error()
		return out
	}
	for _, n := range all {
		a := nodeAnswer{ID: n.ID, Address: n.Address, Zone: n.Zone, Preferred: n.Preferred, Start: n.Start, State: n.State, Log: n.Log,
			Applied: n.Applied, Lag: n.Lag, Synced: n.Synced, Reads: n.Reads, Seen: &n.Seen, AgoMillis: n.AgoMillis}
		if n.Start == 0 {
			a.State, a.Seen = stateJoined, nil
		}
		out.Nodes = append(out.Nodes, a)
	}
	return out
}

// self returns this node, as it sees itself.
func (m *member) self() *selfAnswer {
	s := m.Rules.Status()
	ready, _ := m.ready()
	out := &selfAnswer{ID: s.Self.ID.String(), Role: roleNames[s.Role], Ready: ready, Epoch: s.Lease.Epoch, Shown: s.Shown, Lag: max(s.Head, s.Shown) - s.Shown,
		ReadLeaseMillis: s.ReadRemaining.Milliseconds(), HolderLeaseMillis: s.HolderRemaining.Milliseconds(), Acknowledges: s.Acknowledges, LogVersion: m.Rules.Version()}
	if s.Holder != (lease.Peer{}) {
		out.Holder = s.Holder.ID.String()
	}
	if s.Failure != nil {
		out.Failure = s.Failure.Error()
	}
	return out
}
