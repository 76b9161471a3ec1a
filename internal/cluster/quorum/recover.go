package quorum

import (
	"path/filepath"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
)

// Inspect returns how far the folder of a node is, see [raftlog.Inspect].
func Inspect(folder string) (raftlog.Standing, error) {
	return raftlog.Inspect(filepath.Join(folder, logName))
}

// Recover makes the folder of a node the whole of a cluster, see [raftlog.Recover].
func Recover(folder, address string) (raftlog.Standing, error) {
	s, err := readState(folder)
	if err != nil {
		return raftlog.Standing{}, err
	}
	after, err := raftlog.Recover(filepath.Join(folder, logName), address)
	if err != nil {
		return after, err
	}
	s.Cluster, s.Peers = after.Cluster, nil
	return after, s.write(folder)
}
