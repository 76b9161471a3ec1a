package serve

import (
	"context"
	"fmt"

	"github.com/ostiary/ostiary/internal/identity/keyring"
)

var _ keyring.Nodes = (*member)(nil)

// Applied implements [keyring.Nodes].
func (m *member) Applied() uint64 { return m.Rules.AppliedSequence() }

// Behind implements [keyring.Nodes].
func (m *member) Behind(ctx context.Context, sequence uint64) (out []keyring.Lagging, err error) {
	nodes, now, err := m.Log.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which nodes are registered: %w", err)
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Applied >= sequence || n.ID == m.Self.ID && m.Applied() >= sequence || !n.Counts(now) {
			continue
		}
		name := n.ID.String()
		if n.Address != "" {
			name += " at " + n.Address
		}
		out = append(out, keyring.Lagging{Name: name, Applied: n.Applied, Seen: now.Sub(n.Seen), Runs: n.Runs(now)})
	}
	return out, nil
}
