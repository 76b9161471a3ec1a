package lease

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Version is the version of the messages between nodes that this package sends, and
// the newest one that it reads.
const Version = 1

// Clock measures durations.
type Clock interface {
	// Now returns the time since a moment that stays the same while the process runs.
	// It never goes back, and it goes on while the machine is suspended. It must not be
	// a value that something else updates regularly: a process that was paused would
	// read the time before the pause. Safe for concurrent use.
	Now() time.Duration
}

// Peer identifies one start of a node, and where it is reached.
type Peer struct {
	// ID is the random id of the node, which its data folder keeps.
	ID storage.NodeID
	// Start is the number of the node's start.
	Start uint64
	// Address is where other nodes reach the node; "" if they do not.
	Address string
}

// Link reaches other nodes. An implementation authenticates both sides. All methods
// are safe for concurrent use.
type Link interface {
	// Follow opens a stream to the holder. At the other node, the link calls
	// [Keeper.Serve] with the other end of the stream, the peer that was authenticated
	// and the same hello. Follow may return before that; if the other node refuses the
	// stream, Recv fails with the reason. The stream ends when ctx ends.
	Follow(ctx context.Context, to Peer, hello Hello) (Stream, error)
	// HandOver calls [Keeper.TakeOver] at the other node, and returns its error.
	HandOver(ctx context.Context, to Peer, h HandOver) error
}

// Stream is one end of a connection between a follower and the holder. It keeps the
// order of the messages. One goroutine may call Send while another one calls Recv;
// Close is safe for concurrent use with both.
type Stream interface {
	// Send sends a message. It may block until the other end reads. It keeps no
	// reference to the message after it returns.
	Send(m Message) error
	// Recv returns the next message. It fails when either end has closed the stream,
	// when the context of the stream has ended, or with the reason if the other node
	// has refused the stream. The caller may keep the message.
	Recv() (Message, error)
	// Close ends the stream in both directions. Calls of Send and Recv return. A second
	// call does nothing.
	Close() error
}

// Hello is what a follower sends to open a stream.
type Hello struct {
	// Version is the newest version of the messages that the follower reads.
	Version uint32
	// Cluster is the id of the cluster that the follower belongs to.
	Cluster sharedlog.ClusterID
	// Node is the follower.
	Node Peer
	// To is the node that the follower takes for the holder. Another node, or another
	// start of the same one, refuses the stream.
	To Peer
	// Epoch is the epoch in which To is the holder. A follower that sends it has given
	// up every read lease of an earlier epoch.
	Epoch uint64
	// Settings are those of the follower. A holder with others refuses the stream.
	Settings sharedlog.Settings
}

// Message is a message on a [Stream]: one of [Renew], [Applied], [Segment], [Grant] and
// [GiveUp].
type Message interface{ message() }

// Renew asks the holder for a read lease, and for the head of the log. Followers send
// it. The follower counts the lease from before it sent the message.
type Renew struct {
	// Number is the number of the question on this stream, from 1, without gaps.
	Number uint64
	// Applied is the last sequence of the log that the follower shows.
	Applied uint64
}

// Applied acknowledges all segments up to a position. Followers send it once their
// engine shows them.
type Applied struct {
	// Position is one that the holder has named on this stream, in a [Segment] or as
	// the head of a [Grant]. Positions on a stream ascend.
	Position sharedlog.Position
}

// Segment announces a segment that the log has. The holder sends it. Positions on a
// stream ascend; they have gaps where the holder's queue to the follower was full.
type Segment struct {
	// Passed is the segment. Without Bytes the follower has to read the log up to
	// Position.
	sharedlog.Passed
}

// Grant answers a [Renew]. The holder sends it only while it has its own lease.
type Grant struct {
	// Number is the number of the question.
	Number uint64
	// Epoch is the epoch of the holder.
	Epoch uint64
	// Renewals is the number of the renewal of the holder's own lease that the grant
	// rests on.
	Renewals uint64
	// Head is the last segment that the holder knows. Every write that was acknowledged
	// before the holder sent the grant is at or before it.
	Head sharedlog.Position
	// Duration is how long the read lease lasts from before the question was sent; 0 if
	// the follower gets none. The follower may use the lease only once it shows Head.
	Duration time.Duration
}

// GiveUp gives read leases up. The holder sends it when it has resigned: read leases of its
// epoch that end later are given up. A follower sends it before it is closed: it uses no
// read lease of the epoch any more. The holder then closes the stream.
type GiveUp struct {
	// Epoch is the epoch in which the holder is or was the holder.
	Epoch uint64
}

func (Renew) message()   {}
func (Applied) message() {}
func (Segment) message() {}
func (Grant) message()   {}
func (GiveUp) message()  {}

// HandOver is what a holder sends to the node that takes its role over. The holder
// acknowledges and grants nothing after it has sent it.
type HandOver struct {
	// Cluster is the id of the cluster.
	Cluster sharedlog.ClusterID
	// From is the holder, and To is the node that takes over.
	From, To Peer
	// Lease is the lease of the holder, which To replaces in the log.
	Lease sharedlog.Lease
	// Head is the last segment that the holder has appended.
	Head sharedlog.Position
	// Leased are the nodes that have read leases of the holder. To acknowledges no write
	// before each of them follows it, or its lease has run out.
	Leased []Leased
}

// Leased is a node that has a read lease.
type Leased struct {
	// Node is the node. Address may be "".
	Node Peer
	// Remaining is how long the lease lasts, by the clock of the holder when it sent
	// the [HandOver].
	Remaining time.Duration
}
