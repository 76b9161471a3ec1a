package quorum

import (
	"path/filepath"

	"github.com/ostiary/ostiary/storage/raft"
)

// Inspect returns how far the folder of a node is, see [raft.Inspect].
func Inspect(folder string) (raft.Standing, error) {
	return raft.Inspect(filepath.Join(folder, logName))
}

// Recover makes the folder of a node the whole of a cluster, see [raft.Recover].
func Recover(folder, address string) (raft.Standing, error) {
	s, err := readState(folder)
	if err != nil {
		return raft.Standing{}, err
	}
	after, err := raft.Recover(filepath.Join(folder, logName), address)
	if err != nil {
		return after, err
	}
	s.Cluster, s.Peers = after.Cluster, nil
	return after, s.write(folder)
}
