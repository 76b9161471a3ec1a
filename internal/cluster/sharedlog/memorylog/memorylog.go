// Package memorylog is a shared log in RAM, for tests and simulations of several
// nodes. Its main types are [Tables], which has the data, and [Log], a connection to it.
// Other processes use the data through a [Server], with [Remote]. The package never touches
// a disk, and without a server no network.
package memorylog

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Tables is the data of a shared log. The zero value is not usable; [New] returns an
// empty one. All methods are safe for concurrent use.
type Tables struct {
	mu      sync.Mutex
	cluster sharedlog.Cluster
	secrets map[sharedlog.SecretKey]secret
	nodes   map[storage.NodeID]sharedlog.NodeRecord

	oldest   uint64 // sequence of records[0]
	records  []row
	grown    chan struct{} // closed when a record is added
	lease    sharedlog.Lease
	snapshot snapshot
}

// row is a segment in parts.
type row struct {
	sharedlog.Position
	parts [][]byte
	// restored is true for the place at which the log was restored, which has no bytes.
	restored bool
}

type secret struct {
	digest storage.Hash
	body   []byte
}

type snapshot struct {
	at    sharedlog.Position
	parts [][]byte
}

// New returns empty tables.
func New() *Tables {
	return &Tables{
		secrets: map[sharedlog.SecretKey]secret{},
		nodes:   map[storage.NodeID]sharedlog.NodeRecord{},
		oldest:  1,
		grown:   make(chan struct{}),
	}
}

// Open returns a connection to the data.
func (t *Tables) Open() *Log { return &Log{tables: t, closed: make(chan struct{})} }

// Corrupt replaces the stored bytes of a segment by what change makes of them. Tests
// use it to damage a log.
func (t *Tables) Corrupt(sequence uint64, change func([]byte) []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.records[sequence-t.oldest]
	r.parts = sharedlog.Parts(change(bytes.Clone(slices.Concat(r.parts...))))
}

// Rewind removes the segments above a sequence, like a restored backup or a database
// that lost its newest commits.
func (t *Tables) Rewind(sequence uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records = t.records[:sequence+1-t.oldest]
}

// Backup returns a function that restores the data as of the call, as an operator
// does with a backup of a database. Connections stay open.
func (t *Tables) Backup() (restore func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.clone()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(t.grown) // readers that wait read again
		again := kept.clone()
		t.cluster, t.secrets, t.nodes = again.cluster, again.secrets, again.nodes
		t.oldest, t.records, t.grown, t.lease, t.snapshot = again.oldest, again.records, again.grown, again.lease, again.snapshot
	}
}

// clone copies the data. The caller holds t.mu, or is the only one that has t.
func (t *Tables) clone() *Tables {
	return &Tables{cluster: t.cluster, secrets: maps.Clone(t.secrets), nodes: maps.Clone(t.nodes),
		oldest: t.oldest, records: slices.Clone(t.records), grown: make(chan struct{}), lease: t.lease, snapshot: t.snapshot}
}

// head returns the last position. The caller holds t.mu.
func (t *Tables) head() sharedlog.Position {
	if n := len(t.records); n > 0 {
		return t.records[n-1].Position
	}
	return sharedlog.Position{}
}

// Log is a connection to [Tables]. It implements [sharedlog.Log].
type Log struct {
	tables    *Tables
	closing   sync.Once
	closed    chan struct{}
	hasClosed atomic.Bool
}

var _ sharedlog.Log = (*Log)(nil)

// begin locks the tables for a call, unless the connection is closed or ctx ended.
func (l *Log) begin(ctx context.Context) error {
	if err := l.err(ctx); err != nil {
		return err
	}
	l.tables.mu.Lock()
	return nil
}

func (l *Log) err(ctx context.Context) error {
	if l.hasClosed.Load() {
		return storage.ErrClosed
	}
	return ctx.Err()
}

// Cluster implements [sharedlog.Log].
func (l *Log) Cluster(ctx context.Context) (sharedlog.Cluster, error) {
	if err := l.begin(ctx); err != nil {
		return sharedlog.Cluster{}, err
	}
	defer l.tables.mu.Unlock()
	return l.tables.cluster, nil
}

// SwapCluster implements [sharedlog.Log].
func (l *Log) SwapCluster(ctx context.Context, old, new sharedlog.Cluster) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	if l.tables.cluster != old {
		return fmt.Errorf("description of the cluster: %w", sharedlog.ErrSwap)
	}
	l.tables.cluster = new
	return nil
}

// Head implements [sharedlog.Log].
func (l *Log) Head(ctx context.Context) (sharedlog.Position, error) {
	if err := l.begin(ctx); err != nil {
		return sharedlog.Position{}, err
	}
	defer l.tables.mu.Unlock()
	return l.tables.head(), nil
}

// Append implements [sharedlog.Log].
func (l *Log) Append(ctx context.Context, after sharedlog.Position, record sharedlog.Record, secrets []sharedlog.SecretChange) error {
	if err := sharedlog.CheckSegment(&record); err != nil {
		return err
	}
	parts := sharedlog.Parts(bytes.Clone(record.Bytes))
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	s := l.tables
	if head := s.head(); head != after || record.Sequence != after.Sequence+1 {
		return &sharedlog.ConflictError{Head: head}
	}
	s.records = append(s.records, row{Position: record.Position, parts: parts})
	for i := range secrets {
		l.tables.change(&secrets[i])
	}
	close(s.grown)
	s.grown = make(chan struct{})
	return nil
}

// change makes a change of a secret. The caller holds t.mu.
func (t *Tables) change(c *sharedlog.SecretChange) {
	switch {
	case !c.Removed:
		t.secrets[c.SecretKey] = secret{c.Digest, bytes.Clone(c.Body)}
	case c.Kind != "":
		delete(t.secrets, c.SecretKey)
	default:
		maps.DeleteFunc(t.secrets, func(k sharedlog.SecretKey, _ secret) bool {
			return k.Store == c.Store && k.Incarnation == c.Incarnation
		})
	}
}

// Read implements [sharedlog.Log].
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[sharedlog.Record, error] {
	return func(yield func(sharedlog.Record, error) bool) {
		rows, err := l.rows(ctx, max(from, 1))
		for _, r := range rows {
			if err = l.err(ctx); err != nil {
				break
			}
			var b []byte
			if b, err = sharedlog.JoinParts(r.parts); err != nil {
				break
			}
			if !yield(sharedlog.Record{Position: r.Position, Bytes: b}, nil) {
				return
			}
		}
		if err != nil {
			yield(sharedlog.Record{}, err)
		}
	}
}

// rows returns the segments from a sequence on.
func (l *Log) rows(ctx context.Context, from uint64) ([]row, error) {
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	defer l.tables.mu.Unlock()
	s := l.tables
	restored := len(s.records) > 0 && s.records[0].restored
	if from < s.oldest || from == s.oldest && restored {
		return nil, fmt.Errorf("%w: segment %d of shard 0; the oldest is %d", sharedlog.ErrTrimmed, from, s.oldest)
	}
	return slices.Clone(s.records[min(from-s.oldest, uint64(len(s.records))):]), nil
}

// Wait implements [sharedlog.Log].
func (l *Log) Wait(ctx context.Context, after uint64) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	s := l.tables
	head, grown := s.head(), s.grown
	l.tables.mu.Unlock()
	if head.Sequence > after {
		return nil
	}
	select {
	case <-grown:
		return nil
	case <-l.closed:
		return storage.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Trim implements [sharedlog.Log].
func (l *Log) Trim(ctx context.Context, below uint64) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	s := l.tables
	if below = min(below, s.head().Sequence); below > s.oldest {
		s.records = slices.Clone(s.records[below-s.oldest:])
		s.oldest = below
	}
	return nil
}

// Secret implements [sharedlog.Log].
func (l *Log) Secret(ctx context.Context, key sharedlog.SecretKey, digest storage.Hash) ([]byte, error) {
	if err := l.begin(ctx); err != nil {
		return nil, err
	}
	defer l.tables.mu.Unlock()
	found, ok := l.tables.secrets[key]
	if err := sharedlog.CheckSecret(&key, digest, ok, found.digest, found.body); err != nil {
		return nil, err
	}
	return found.body, nil
}

// Lease implements [sharedlog.Log].
func (l *Log) Lease(ctx context.Context) (sharedlog.Lease, error) {
	if err := l.begin(ctx); err != nil {
		return sharedlog.Lease{}, err
	}
	defer l.tables.mu.Unlock()
	return l.tables.lease, nil
}

// SwapLease implements [sharedlog.Log].
func (l *Log) SwapLease(ctx context.Context, old, new sharedlog.Lease) error {
	if err := sharedlog.CheckLease(old, new); err != nil {
		return err
	}
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	s := l.tables
	if s.lease != old {
		return fmt.Errorf("lease of shard 0: %w", sharedlog.ErrSwap)
	}
	s.lease = new
	return nil
}

// Register implements [sharedlog.Log].
func (l *Log) Register(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.put(ctx, n, func(have sharedlog.NodeRecord, ok bool) bool { return !ok || have.Start < n.Start })
}

// Report implements [sharedlog.Log].
func (l *Log) Report(ctx context.Context, n sharedlog.NodeRecord) error {
	return l.put(ctx, n, func(have sharedlog.NodeRecord, ok bool) bool { return ok && have.Start == n.Start })
}

// put sets the record of a node if may allows it.
func (l *Log) put(ctx context.Context, n sharedlog.NodeRecord, may func(have sharedlog.NodeRecord, ok bool) bool) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	have, ok := l.tables.nodes[n.ID]
	if !may(have, ok) {
		return sharedlog.NodeTaken(have.Start, &n)
	}
	n.Seen = time.Now()
	l.tables.nodes[n.ID] = n
	return nil
}

// Forget implements [sharedlog.Log].
func (l *Log) Forget(ctx context.Context, id storage.NodeID) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	if n := l.tables.nodes[id]; !n.Removed() {
		delete(l.tables.nodes, id)
	}
	return nil
}

// Nodes implements [sharedlog.Log].
func (l *Log) Nodes(ctx context.Context) ([]sharedlog.NodeRecord, time.Time, error) {
	if err := l.begin(ctx); err != nil {
		return nil, time.Time{}, err
	}
	defer l.tables.mu.Unlock()
	return sharedlog.Registered(slices.Collect(maps.Values(l.tables.nodes))), time.Now(), nil
}

// Restore implements [sharedlog.Restorer].
func (l *Log) Restore(ctx context.Context, old, at sharedlog.Position, secrets []sharedlog.SecretChange) error {
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	s := l.tables
	if head := s.head(); head != old {
		return fmt.Errorf("the last segment is %s, expected %s: %w", head, old, sharedlog.ErrSwap)
	}
	s.records, s.oldest = []row{{Position: at, restored: true}}, at.Sequence
	clear(l.tables.secrets)
	for i := range secrets {
		l.tables.change(&secrets[i])
	}
	return nil
}

// PutSnapshot implements [sharedlog.Log].
func (l *Log) PutSnapshot(ctx context.Context, at sharedlog.Position, parts iter.Seq2[[]byte, error]) error {
	var kept [][]byte
	for part, err := range parts {
		if err == nil {
			err = l.err(ctx)
		}
		if err != nil {
			return err
		}
		if err := sharedlog.CheckPart(part); err != nil {
			return err
		}
		kept = append(kept, bytes.Clone(part))
	}
	if err := l.begin(ctx); err != nil {
		return err
	}
	defer l.tables.mu.Unlock()
	if s := l.tables; s.snapshot.at.Sequence < at.Sequence {
		s.snapshot = snapshot{at, kept}
	}
	return nil
}

// Snapshot implements [sharedlog.Log].
func (l *Log) Snapshot(ctx context.Context) (sharedlog.Position, iter.Seq2[[]byte, error], error) {
	if err := l.begin(ctx); err != nil {
		return sharedlog.Position{}, nil, err
	}
	defer l.tables.mu.Unlock()
	found := l.tables.snapshot
	if found.at.Sequence == 0 {
		return sharedlog.Position{}, nil, fmt.Errorf("shard 0: %w", sharedlog.ErrNoSnapshot)
	}
	return found.at, func(yield func([]byte, error) bool) {
		for _, part := range found.parts {
			if err := l.err(ctx); err != nil {
				yield(nil, err)
				return
			}
			if !yield(part, nil) {
				return
			}
		}
	}, nil
}

// Close implements [sharedlog.Log].
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.hasClosed.Store(true)
		close(l.closed)
	})
	return nil
}
