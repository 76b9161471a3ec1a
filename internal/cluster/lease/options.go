package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// Defaults of [Options], and how many holder leases a node without room waits.
const (
	DrainWaitDefault = 500 * time.Millisecond
	PushBytesDefault = 8 << 20
	LowWait          = 3
)

// Options are the options of a [Keeper].
type Options struct {
	// Copy are the options of the copy. Open sets its Preferred, Settings, Leads and Gate.
	Copy replica.Options
	// Clock measures leases. The default is [BootClock].
	Clock Clock
	// Settings are what all nodes of a cluster have alike. A field that is zero is that of
	// the cluster, see [sharedlog.Settings.Settle]. The
	// sum of the leases should be below the time limit of requests, so that writes wait
	// for the next holder instead of failing.
	Settings sharedlog.Settings
	// StaleReads lets reads be answered from the copy as it is while the node can get
	// neither a read lease nor the head of the log. They fail otherwise.
	StaleReads bool
	// ReadWait is how long a read waits at most for a lease or the head of the log. The
	// default is twice the holder lease, so that reads wait for the next holder instead of
	// failing.
	ReadWait time.Duration
	// Reluctance is how much longer than necessary the node waits before it takes over
	// the role of a holder that died, so that preferred nodes come first. The default is
	// 0. A negative value means that the node never takes the role over, unless it is
	// handed over to it.
	Reluctance time.Duration
	// Preferred is true if the node should be the holder: one that is not preferred hands
	// its role over to a preferred node that follows it and has caught up.
	Preferred bool
	// Low reports whether the disk of this node has so little room that other nodes should do
	// its work: it uses no read lease, as holder it hands its role over to a node with one, and
	// it waits LowWait holder leases longer before it takes the role over. It is called often
	// and concurrently. Nil means that there is room.
	Low func() bool
	// DrainWait is how long a holder that hands its role over waits at most for the
	// writes that have begun, see [Keeper.AwaitHolder]. The default is DrainWaitDefault.
	DrainWait time.Duration
	// PushBytes bounds the queue of segments to each follower, in bytes. When a segment
	// does not fit, the queue is dropped and the follower reads the log. The default is
	// PushBytesDefault.
	PushBytes int
}

// ErrPeer means that another node has broken the rules of the messages, or that a node
// may not connect: it belongs to another cluster, is not registered, or was started
// again. For use with errors.Is.
var ErrPeer = errors.New("node refused")

// ErrAlone means that no node follows the holder to which it could hand its role over.
var ErrAlone = fmt.Errorf("%w: no such node follows this one", ErrPeer)

// Role is what a node does.
type Role uint8

// The roles.
const (
	Looking  Role = iota // it knows no holder
	Follower             // it follows a holder
	Taking               // it has taken the lease, but does not write yet
	Holder               // it writes
	Resigned             // it was the holder and hands its role over
)

// Status is what a node knows about the cluster. Durations are by its own clock.
type Status struct {
	// Self is this node.
	Self Peer
	// Role is what this node does.
	Role Role
	// Holder is the holder; zero if none is known.
	Holder Peer
	// Lease is the lease of the log as the node has seen it last.
	Lease sharedlog.Lease
	// HolderRemaining is how long the own lease of the holder lasts; 0 if this node is
	// not the holder or the lease has run out.
	HolderRemaining time.Duration
	// ReadRemaining is how long this node may answer reads from its copy; 0 if it has no
	// read lease.
	ReadRemaining time.Duration
	// Head is the last sequence of the log that this node knows.
	Head uint64
	// Shown is the last sequence that the engines of this node show.
	Shown uint64
	// Acknowledges is false while the node is the holder but must not acknowledge yet,
	// because read leases of the holder before it may still last.
	Acknowledges bool
	// Followers are the nodes that follow this one, or did, each once, in ascending order
	// of their ids. A node that was started again has the status of its last start.
	Followers []FollowerStatus
	// Failure is why the node could not reach the holder or the log last; nil if it
	// can.
	Failure error
	// Failing is for how long the node does not reach one of them.
	Failing time.Duration
	// Joined is true once the node has followed a holder, or was the holder.
	Joined bool
}

// FollowerStatus is what a holder knows about a follower.
type FollowerStatus struct {
	// Node is the follower.
	Node Peer
	// Connected is true while it has a stream.
	Connected bool
	// Acknowledged is the last sequence that it has acknowledged.
	Acknowledged uint64
	// Remaining is for how long the holder waits for its acknowledgements at most, also
	// for those of an earlier start; 0 if it has no read lease.
	Remaining time.Duration
	// Delay is the median time from sending a segment to its acknowledgement.
	Delay time.Duration
	// Late is how many acknowledgements in a row were late.
	Late int
	// Suspended is true while it gets no read lease because it was late too often.
	Suspended bool
}
