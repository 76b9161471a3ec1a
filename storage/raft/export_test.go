package raft

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/sharedlog"
)

// DropEntries makes a snapshot of the consensus, and drops the entries before it.
func DropEntries(n *Node) error {
	c := n.raft.ReloadableConfig()
	c.TrailingLogs = 1
	if err := n.raft.ReloadConfig(c); err != nil {
		return err
	}
	return n.raft.Snapshot().Error()
}

// Corrupt replaces the stored bytes of a segment on one node. It returns false if the
// node does not have it.
func Corrupt(n *Node, shard sharedlog.Shard, sequence uint64, change func([]byte) []byte) bool {
	key := segmentKey(shard, sequence)
	value, closer, err := n.db.Get(key)
	if err != nil {
		return false
	}
	value = append([]byte(nil), value...)
	_ = closer.Close()
	head := len(storage.Hash{})
	return n.db.Set(key, append(value[:head:head], change(value[head:])...), pebble.NoSync) == nil
}
