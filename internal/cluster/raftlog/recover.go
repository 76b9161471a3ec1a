package raftlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	consensus "github.com/hashicorp/raft"

	"github.com/ostiary/ostiary/storage"
)

// Standing is how far the folder of a node is. The folder with the highest Term, and
// among those the highest Index, has most.
type Standing struct {
	// ID is the id of the node.
	ID string
	// Cluster is the name of the log.
	Cluster string
	// Term and Index are those of the last entry of the consensus.
	Term, Index uint64
	// At is when the leader of the time got that entry, by its clock; zero if the folder
	// has only a snapshot.
	At time.Time
	// Members are the servers, as the folder knows them.
	Members []Member
}

// Inspect returns how far the folder of a node is. The node must not run.
func Inspect(folder string) (s Standing, err error) {
	n, err := openFolder(folder)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return n.standing()
}

// Recover makes the folder of a node the whole of a new log with another name, whose
// only member is this node, at an address. It is for a majority of the voters that is
// lost. What only other nodes have is lost: writes that the lost majority has
// acknowledged may be among it. Entries that were not decided yet count as decided. The
// other nodes of the old log cannot take part in the new one. The node must not run. If
// Recover fails, or its process ends meanwhile, [Open] refuses the folder until a later
// Recover succeeds.
func Recover(folder, address string) (s Standing, err error) {
	n, err := openFolder(folder)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if s, err = n.standing(); err != nil {
		return s, err
	}
	snapshots, config, err := n.configure()
	if err != nil {
		return s, err
	}
	if err := n.entries.Set(keyRecovering, []byte{1}); err != nil {
		return s, err
	}
	alone := consensus.Configuration{Servers: []consensus.Server{{ID: n.id, Address: consensus.ServerAddress(address)}}}
	if err := consensus.RecoverCluster(config, recovered{n.machine}, n.entries, n.entries, snapshots, n.trans, alone); err != nil {
		return s, err
	}
	s.Cluster = randomID()
	if err := n.entries.Set(keyCluster, []byte(s.Cluster)); err != nil {
		return s, err
	}
	return s, n.entries.Set(keyRecovering, nil)
}

// keyRecovering is the key of what a folder has while it is being recovered. Its machine may
// have entries then that were never decided, and a new epoch, while it still has the name of
// the old log, whose nodes must not meet it.
var keyRecovering = []byte("ostiary-recovering")

// checkRecovered fails if a recovery of the folder did not end.
func (n *Server) checkRecovered() error {
	b, err := n.entries.Get(keyRecovering)
	if err == nil && len(b) > 0 {
		err = fmt.Errorf("%w: a recovery of the folder did not end: run \"ostiary node recover\" again", storage.ErrDamaged)
	}
	return err
}

// openFolder returns a node of a folder that takes no part in the consensus.
func openFolder(folder string) (*Server, error) {
	n := newNode(Options{Folder: folder})
	err := n.openDatabase(true)
	if err == nil && n.cluster == "" {
		err = fmt.Errorf("%w: the folder has no log", storage.ErrDamaged)
	}
	if err != nil {
		n.Close()
		return nil, fmt.Errorf("node's log in %s: %w", filepath.Clean(folder), err)
	}
	return n, nil
}

func (n *Server) standing() (Standing, error) {
	s := Standing{ID: n.ID(), Cluster: n.cluster}
	snapshots, _, err := n.configure()
	if err != nil {
		return s, err
	}
	list, err := snapshots.List()
	if err != nil {
		return s, err
	}
	servers := []consensus.Server{}
	if len(list) > 0 {
		s.Term, s.Index, servers = list[0].Term, list[0].Index, list[0].Configuration.Servers
	}
	for index := max(n.entries.first, 1); index <= n.entries.last; index++ {
		var entry consensus.Log
		if err := n.entries.GetLog(index, &entry); err != nil {
			return s, err
		}
		s.Term, s.Index, s.At = entry.Term, entry.Index, entry.AppendedAt
		if entry.Type == consensus.LogConfiguration {
			servers = consensus.DecodeConfiguration(entry.Data).Servers
		}
	}
	for _, server := range servers {
		s.Members = append(s.Members, Member{ID: string(server.ID), Address: string(server.Address), Voter: server.Suffrage == consensus.Voter})
	}
	return s, nil
}

// recovered is a machine whose snapshot begins a new log.
type recovered struct{ *machine }

// Snapshot implements [consensus.FSM]. It raises the epoch of the cluster and forgets
// the other nodes.
func (r recovered) Snapshot() (consensus.FSMSnapshot, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	s, err := r.machine.Snapshot()
	if err != nil {
		return nil, err
	}
	return persistedOnce{s}, nil
}

// persistedOnce is a snapshot that the library persists once and never releases, so
// Persist releases it.
type persistedOnce struct{ consensus.FSMSnapshot }

// Persist implements [consensus.FSMSnapshot].
func (s persistedOnce) Persist(sink consensus.SnapshotSink) error {
	defer s.Release()
	return s.FSMSnapshot.Persist(sink)
}

func (r recovered) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := machineWriter{machine: r.machine, batch: r.db.NewBatch()}
	defer func() { _ = w.batch.Close() }()
	w.meta.Cluster.Epoch++
	for id := range w.nodes {
		delete(w.nodes, id)
		if err := w.batch.Delete(nodeKey(id), nil); err != nil {
			return err
		}
	}
	w.tokens, w.servers = map[storage.Hash]tokenRecord{}, map[string]serverState{}
	if err := w.batch.DeleteRange([]byte{keyMachine, machineToken}, []byte{keyMachine + 1}, nil); err != nil {
		return err
	}
	if w.state.written {
		w.change().Snapshots = nil // those of other nodes are gone
	}
	return w.commit()
}
