package cluster

// This file has the words of this package that the rooms of the nodes have too, and the only
// places where one becomes the other. A program that embeds the engine cannot import those
// rooms, and their types have more than it needs.

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

// Settings are what all nodes of a cluster have alike.
type Settings struct {
	// HolderLease is how long the node that writes may be silent before another one takes
	// over: seven and a half round trips between the nodes that vote, but not less than a
	// second, which is that of a new cluster. It is at most an hour.
	HolderLease time.Duration
	// ReadLease is how long a node may answer reads without news, and a write may wait for
	// a node that is gone: three round trips, but not less than 700 ms, which is that of a
	// new cluster. It is at most an hour.
	ReadLease time.Duration
	// Acknowledge is when a write returns. A new cluster has AcknowledgeLeased.
	Acknowledge Acknowledge
}

func settingsOf(s sharedlog.Settings) Settings {
	return Settings{s.HolderLease, s.ReadLease, Acknowledge(s.Acknowledge)}
}

func (s Settings) shared() sharedlog.Settings {
	return sharedlog.Settings{HolderLease: s.HolderLease, ReadLease: s.ReadLease, Acknowledge: sharedlog.Acknowledge(s.Acknowledge)}
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

func recordOf(r *sharedlog.NodeRecord) Record {
	return Record{r.ID, r.Address, r.Zone, r.Applied, r.Synced, r.Head, r.Stopped, r.Seen}
}
