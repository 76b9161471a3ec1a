// Package lease decides, for the nodes that share a log, which of them writes, when
// a write is acknowledged, and when a read may be answered from the local copy.
//
// One node at a time is the holder: it has the lease that the log keeps, and appends.
// It gives read leases to the other nodes, the followers, on a stream that each of them
// opens. A write is acknowledged when every node with a read lease shows it, or when
// the lease of that node has run out; so a read on a node with a read lease sees every
// write that was acknowledged before the read arrived. The main type is [Keeper], the
// storage driver of a node.
//
// The package contains no network and no TLS: it reaches other nodes through a [Link].
// It never uses the wall clock, see [Clock].
package lease
