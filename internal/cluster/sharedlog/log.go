// Package sharedlog defines the log that several nodes share. The log is one
// ordered sequence of segments; each node keeps a copy of the state
// that follows from it (package replica). The main types are [Log], which every
// implementation has, and [Segment], one step of it. docs/format.md describes
// the bytes; the package sharedlogtest tests an implementation.
//
// The package contains no network and no database, and it never applies a segment.
package sharedlog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ostiary/ostiary/storage"
)

// Position is a place in a log: the sequence and the hash of a segment. Sequences
// start at 1 and have no gaps. The zero Position is before the first segment.
type Position struct {
	Sequence uint64       // number of the segment
	Hash     storage.Hash // SHA-256 of its bytes
}

// String returns the sequence and the beginning of the hash.
func (p Position) String() string {
	return fmt.Sprintf("%d (%s)", p.Sequence, hex.EncodeToString(p.Hash[:4]))
}

// Record is a segment as a [Log] stores it.
type Record struct {
	Position
	// Bytes are the canonical bytes of the segment. They never change.
	Bytes []byte
}

// Passed is a segment as the node that has appended it passes it on to others.
type Passed struct {
	Record
	// Secrets are ciphertexts of secrets that the segment puts, in any order. Those that
	// are missing are read from the log.
	Secrets [][]byte
}

// Size returns the number of bytes of the segment and its secrets.
func (p *Passed) Size() int {
	size := len(p.Bytes)
	for _, body := range p.Secrets {
		size += len(body)
	}
	return size
}

// SecretKey identifies a secret of a store.
type SecretKey struct {
	Store       storage.StoreID     // the store
	Incarnation storage.Incarnation // incarnation of the store
	Kind, Key   string              // kind and key of the secret
}

// SecretChange is what a segment does to a secret. Segments have only the digests of
// ciphertexts, so that a ciphertext is gone once it is replaced or removed.
type SecretChange struct {
	SecretKey
	// Removed is true if the secret is removed. Digest and Body are then unused. With
	// an empty Kind all secrets of the store are removed, because it was deleted.
	Removed bool
	// Digest is the SHA-256 of Body.
	Digest storage.Hash
	// Body is the ciphertext.
	Body []byte
}

// ClusterID is the random id of the nodes that share a log.
type ClusterID [16]byte

// String returns the id in hexadecimal.
func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// Cluster describes the nodes that share a log.
type Cluster struct {
	// ID is chosen by the first node. It never changes.
	ID ClusterID
	// Epoch is raised by an operator who has restored the log from a backup.
	Epoch uint64
	// Format is the version of segments that is in use. It only rises.
	Format uint32
	// KeyFingerprint identifies the key of the secrets. It is zero if the first node
	// has no key.
	KeyFingerprint storage.Hash
	// Settings are what all nodes have alike.
	Settings Settings
}

// Lease names the node that writes. A record has no times: the
// holder counts from before it sent a renewal, and another node counts from when it
// has seen one, each with its own clock.
type Lease struct {
	// Holder is the node that holds the lease; zero before the first one.
	Holder storage.NodeID
	// Epoch rises with each new holder. A holder may raise it too.
	Epoch uint64
	// Renewals rises with each renewal in the epoch, sometimes by more than one. It is 0 if
	// nobody holds the lease.
	Renewals uint64
}

// NodeRecord is the record of a node in the registry of a log.
type NodeRecord struct {
	// ID is random. The data folder of the node keeps it.
	ID storage.NodeID
	// Start is the number of the node's start. It fences an earlier start of the same
	// node, and a copy of its data folder.
	Start uint64
	// Address is where other nodes reach the node; "" if they do not.
	Address string
	// Reads is the newest version of segments that the node can read.
	Reads uint32
	// Applied is the last sequence that the node has applied, and Synced the last one
	// that is on its disk for certain.
	Applied, Synced uint64
	// Head was the last sequence of the log when the node reported Applied.
	Head uint64
	// Zone is where the node is, as its operator names it; "" if nothing is known.
	Zone string
	// Preferred is true if the node should be the one that writes.
	Preferred bool
	// HolderLease and ReadLease are the leases that the node uses: no longer one ends
	// unnoticed while it runs. A log in a database does not keep them, because its settings
	// change only while no node runs; they are zero then.
	HolderLease, ReadLease time.Duration
	// Stopped is true once the node has ended in good order. It then does nothing until
	// it starts again.
	Stopped bool
	// Seen is the time of the record by the clock of the log. The log sets it.
	Seen time.Time
}

// RunsTime is how long after its last report a node counts as running, unless it has ended
// in good order.
const RunsTime = 30 * time.Second

// UnseenMax is the time after which a node that does not report no longer holds back the
// trimming of the log and the rotation of keys.
const UnseenMax = 24 * time.Hour

// Counts reports whether the trimming of the log and the rotation of keys wait for a node
// at a time of the log.
func (n *NodeRecord) Counts(now time.Time) bool { return now.Sub(n.Seen) < UnseenMax }

// Runs reports whether a node may run at a time of the log.
func (n *NodeRecord) Runs(now time.Time) bool { return !n.Stopped && now.Sub(n.Seen) < RunsTime }

// Log is a connection to a shared log.
//
// Concurrency: all methods are safe for concurrent use, also of several connections
// in several processes. Every method that changes something is atomic and durable
// when it returns nil, and every read sees each change that returned before the read
// began (it is linearizable).
//
// Errors: if a method that changes something fails with an error that is none of
// this package's or of storage's, or if its context ends, its outcome is open: the
// change may have been made, or may still be made after the method has returned.
// [Commit] settles that for segments; the other changes are compared with a record
// that each of them replaces, so that they can be repeated. After Close, every
// method except Close fails with [storage.ErrClosed].
//
// Sequences report their first error as their last element.
type Log interface {
	// Cluster returns the description of the cluster; the zero Cluster before the
	// first SwapCluster.
	Cluster(ctx context.Context) (Cluster, error)
	// SwapCluster replaces the description. It fails with ErrSwap if the description
	// is not old.
	SwapCluster(ctx context.Context, old, new Cluster) error

	// Head returns the position of the last segment.
	Head(ctx context.Context) (Position, error)
	// Append adds a segment and makes the changes of secrets, if the last
	// segment is after. Otherwise it changes nothing and fails with a *ConflictError.
	// The record must have the sequence that follows after. It fails with
	// storage.ErrTooLarge if the segment exceeds SegmentBytesMax. The log keeps no
	// reference to the arguments.
	Append(ctx context.Context, after Position, record Record, secrets []SecretChange) error
	// Read yields the segments from a sequence on (0 means 1), up to the
	// head at the time of the call. It fails with ErrTrimmed if the log no longer has
	// the first of them, and with storage.ErrDamaged if parts are missing. It does not
	// check the content: Segments does.
	Read(ctx context.Context, from uint64) iter.Seq2[Record, error]
	// Wait returns when the log has a segment with a sequence above after. It may
	// return earlier, and fails only if ctx ends or the log cannot be read.
	Wait(ctx context.Context, after uint64) error
	// Trim drops the segments with a sequence below below. The last segment
	// always stays.
	Trim(ctx context.Context, below uint64) error

	// Secret returns the ciphertext of a secret, if it still has the digest. It fails
	// with ErrNoSecret if the secret was replaced or removed.
	Secret(ctx context.Context, key SecretKey, digest storage.Hash) ([]byte, error)
	// Lease returns the lease; the zero Lease before the first SwapLease.
	Lease(ctx context.Context) (Lease, error)
	// SwapLease replaces the lease. It fails with ErrSwap if the lease is
	// not old, and with ErrLease if new may not follow old, see CheckLease.
	SwapLease(ctx context.Context, old, new Lease) error

	// Register adds the record of a node that starts, or replaces the record of its
	// earlier start. It fails with ErrNodeTaken if the registry has the node with the
	// same Start or a higher one, or if the node was removed, see Remove.
	Register(ctx context.Context, n NodeRecord) error
	// Report replaces the record of a node. It fails with ErrNodeTaken if the registry
	// has no record with the same Start.
	Report(ctx context.Context, n NodeRecord) error
	// Forget removes the record of a node, which may register again. It does nothing if
	// there is none, or if the node was removed, see Remove.
	Forget(ctx context.Context, id storage.NodeID) error
	// Nodes returns the registry in ascending order of the ids, without the nodes that
	// were removed, and the time of the clock that sets Seen.
	Nodes(ctx context.Context) ([]NodeRecord, time.Time, error)

	// PutSnapshot stores the state after a segment, and drops older snapshots.
	// No reader gets the snapshot before it is complete; if parts yields an error,
	// PutSnapshot fails with it. Each part has at most PartBytesMax bytes. A snapshot
	// that is not newer than the stored one is dropped.
	PutSnapshot(ctx context.Context, at Position, parts iter.Seq2[[]byte, error]) error
	// Snapshot returns the position and the parts of the newest snapshot.
	// It fails with ErrNoSnapshot if there is none. While the parts are read, the
	// snapshot may be replaced; the parts then end with ErrNoSnapshot.
	Snapshot(ctx context.Context) (Position, iter.Seq2[[]byte, error], error)

	// Close frees the connection. A second call does nothing.
	Close() error
}

// Newester is an optional interface of a [Log] that answers [Newest] with one question.
type Newester interface {
	// Newest is [Newest] for this log.
	Newest(ctx context.Context) (Position, error)
}

// Newest returns the last segment of a log, with everything that any node of the cluster
// had written at the time of the call. It fails with [ErrMoved] if the log was moved: nodes
// may have written more to the next one. [Log.Head] does not look at that.
func Newest(ctx context.Context, log Log) (head Position, err error) {
	if l, is := log.(Newester); is {
		return l.Newest(ctx)
	}
	// If the log was not moved after the call, it had everything at the time of the call. So
	// the order of the two questions does not matter.
	read := make(chan error, 1)
	go func() {
		lease, err := log.Lease(ctx)
		if err == nil && lease.Moved() {
			err = ErrMoved
		}
		read <- err
	}()
	head, err = log.Head(ctx)
	if moved := <-read; err == nil {
		err = moved
	}
	return head, err
}

// Kept is an optional interface of a [Log] that keeps the segments on this node.
type Kept interface {
	// Kept returns a connection whose Head, Read and Secret return what this node has, without
	// a question to another node: a beginning of the log, which grows. It has the same end
	// as this one.
	Kept() Log
}

// Pipeline is an optional interface of a [Log] that decides appends in the order in which
// they were begun.
type Pipeline interface {
	// BeginAppend begins an Append, and does not wait for the log. outcome waits for the
	// result of the Append; it is called once, until ctx ends. If ordered is true, the log
	// decides this append before those that are begun later, which may follow it.
	BeginAppend(ctx context.Context, after Position, record Record, secrets []SecretChange) (outcome func() error, ordered bool)
}

// BeginAppend begins an Append, see [Pipeline]. Without that, the Append runs in outcome.
func BeginAppend(ctx context.Context, log Log, after Position, record Record, secrets []SecretChange) (outcome func() error, ordered bool) {
	if p, is := log.(Pipeline); is {
		return p.BeginAppend(ctx, after, record, secrets)
	}
	return func() error { return log.Append(ctx, after, record, secrets) }, false
}

// Replicated is an optional interface of a [Log] in a database that can read segments and
// snapshots from a replica of the database.
type Replicated interface {
	// Replica returns what was read from the replica; has is false if there is none.
	Replica() (status ReplicaStatus, has bool)
}

// ReplicaStatus is what a [Log] has read from a replica of its database.
type ReplicaStatus struct {
	// Used is the number of reads that the replica has answered, Late of those for which
	// it did not have the rows in time, and Failed of those that it did not answer or for
	// which it had other rows than the primary.
	Used, Late, Failed uint64
	// Failure is why the last read failed; nil if it did not fail.
	Failure error
}

// Restorer is an optional interface of a [Log], for one that has lost its end.
type Restorer interface {
	// Restore makes at the last position, if the last one is old, and replaces
	// all secrets of the log. Earlier segments and that of at are then no longer kept;
	// segments can follow at. It fails with ErrSwap if the last position is not old.
	Restore(ctx context.Context, old, at Position, secrets []SecretChange) error
}

// ConflictError is the error of an Append after a position that is no longer the
// last one.
type ConflictError struct {
	// Head is the last position.
	Head Position
}

// Error returns the text of the error with the position.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("append conflict: the last segment is %s", e.Head)
}

// Errors of logs, for use with errors.Is.
var (
	// ErrSwap means that a record is not the one that the caller has read.
	ErrSwap = errors.New("record was changed meanwhile")
	// ErrTrimmed means that the log no longer has a segment.
	ErrTrimmed = errors.New("segment is no longer kept")
	// ErrNoSecret means that a secret was replaced or removed.
	ErrNoSecret = errors.New("secret was replaced or removed")
	// ErrLease means that a lease may not follow another one.
	ErrLease = errors.New("lease does not follow")
	// ErrNodeTaken means that a node was started again, or that its data folder was
	// copied.
	ErrNodeTaken = errors.New("node was started elsewhere")
	// ErrMoved means that the log was moved to another place.
	ErrMoved = errors.New("the log was moved to another place by \"ostiary migrate\": start the node where it was moved to; a migration in the other direction makes this one usable again")
	// ErrNoSnapshot means that the log has no snapshot.
	ErrNoSnapshot = errors.New("no snapshot")
)

// CheckLease returns ErrLease unless new may replace old: it has a holder; and it
// either has a higher epoch, or the same holder, the same epoch and more renewals.
func CheckLease(old, new Lease) error {
	switch {
	case new.Holder == (storage.NodeID{}):
		return fmt.Errorf("%w: it has no holder", ErrLease)
	case new.Epoch > old.Epoch:
		return nil
	case new.Epoch < old.Epoch:
		return fmt.Errorf("%w: epoch %d after epoch %d, expected a higher one", ErrLease, new.Epoch, old.Epoch)
	case new.Holder != old.Holder:
		return fmt.Errorf("%w: another holder in epoch %d, expected a higher epoch", ErrLease, new.Epoch)
	case new.Renewals <= old.Renewals:
		return fmt.Errorf("%w: renewal %d after renewal %d of epoch %d, expected a higher one", ErrLease, new.Renewals, old.Renewals, new.Epoch)
	}
	return nil
}
