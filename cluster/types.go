package cluster

import (
	"errors"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Errors of nodes, for use with errors.Is.
var (
	// ErrToken means that a token is wrong, was used, or has expired.
	ErrToken = errors.New("token refused")
	// ErrRefused means that the other nodes refuse this one: it was removed, belongs to
	// another cluster, or has a version that they do not speak.
	ErrRefused = errors.New("node refused")
	// ErrSettings means that the leases or Acknowledge of a node differ from those of its
	// cluster.
	ErrSettings = errors.New("other settings than the cluster")
)

// failure is an error of the nodes that is also one of this package's errors.
type failure struct {
	error
	is error
}

func (f failure) Is(target error) bool { return target == f.is }
func (f failure) Unwrap() error        { return f.error }

// named returns an error of the nodes as one of this package's errors, with its text.
func named(err error) error {
	for inner, is := range map[error]error{raftlog.ErrToken: ErrToken, raftlog.ErrRefused: ErrRefused, sharedlog.ErrSettings: ErrSettings} {
		if errors.Is(err, inner) {
			return failure{err, is}
		}
	}
	return err
}

// Acknowledge is when a write returns.
type Acknowledge uint8

const (
	// AcknowledgeLeased is when every node that may answer reads shows the write.
	AcknowledgeLeased = Acknowledge(sharedlog.AcknowledgeLeased)
	// AcknowledgeLocal is when the write is in the log. Other nodes show it a little later.
	AcknowledgeLocal = Acknowledge(sharedlog.AcknowledgeLocal)
)

// Settings are the settings of a cluster, which all its nodes share. [Options] describes
// them.
type Settings struct {
	HolderLease, ReadLease time.Duration
	Acknowledge            Acknowledge
}

// Record is what a cluster knows of one of its nodes.
type Record struct {
	// ID is the random id of the node, which its folder keeps.
	ID storage.NodeID
	// Address is where other nodes reach the node.
	Address string
	// Zone is the name of the place of the node, or "".
	Zone string
	// Applied is the last sequence of the log that the node has applied, and Synced the
	// last one that is on its disk. Head was the last one of the log at that time.
	Applied, Synced, Head uint64
	// Stopped is true once the node has ended in good order, until it starts again.
	Stopped bool
	// Seen is the time of the record, by the clock of the log.
	Seen time.Time
}
