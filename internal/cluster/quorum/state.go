package quorum

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/storage"
)

// state is what the folder of a node keeps besides its part of the log. It is the same
// from when the node has joined.
type state struct {
	// ID is the random id of the node.
	ID storage.NodeID `json:"-"`
	// Text is the text of ID.
	Text string `json:"id"`
	// Cluster is the name of the log; "" before the node has joined or made one.
	Cluster string `json:"cluster,omitempty"`
	// Peers are the addresses of other nodes at the time when this one joined.
	Peers []string `json:"peers,omitempty"`
	// HolderLease is the one of the cluster at the time when this node joined, or that of
	// the options; 0 means the default.
	HolderLease time.Duration `json:"holder_lease_ns,omitempty"`
	// Begun is true once the part of the log was made.
	Begun bool `json:"begun,omitempty"`
}

const stateName = "node.json"

// readState reads the state of a folder; one of a new node if there is none.
func readState(folder string) (s state, err error) {
	text, err := os.ReadFile(filepath.Join(folder, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		s.ID = storage.NodeID(storage.NewIncarnation())
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil {
		s.ID, err = storage.ParseNodeID(s.Text)
	}
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", storage.ErrDamaged, filepath.Join(folder, stateName), err)
	}
	return s, nil
}

// write replaces the state of a folder.
func (s *state) write(folder string) error {
	s.Text = s.ID.String()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return certificate.Replace(filepath.Join(folder, stateName), append(text, '\n'), 0o600)
}
