// Package raftlog is a shared log without a database: the nodes keep it themselves, and
// a majority of the voters decides what it has. Its main types are [Server], which
// takes part in the consensus, and [Log], a connection to the log on that node.
//
// The consensus is the library hashicorp/raft. Its log, what it must not forget and
// the shared log are in one Pebble database in the folder of the node. Nodes reach
// each other over gRPC connections that the caller makes, see [Options.Dial] and
// [Server.Register]: this package opens no port and checks no certificate.
//
// A change is proposed by the leader, and decided when it is applied: an append after
// a position that is no longer the last one is then a conflict, on every node alike.
// A read asks the leader how far the log is, and then reads on this node.
package raftlog
