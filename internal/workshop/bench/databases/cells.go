package databases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage/pebble"
)

// bareTable returns the statement that makes a table like that of the log.
func bareTable(store string) string {
	hash, bytes := "binary(32)", "longblob"
	if strings.HasPrefix(store, "PostgreSQL") {
		hash, bytes = "bytea", "bytea"
	}
	return "create table ostiary_bare (shard bigint not null, sequence bigint not null, hash " + hash + " not null, parts integer not null, bytes " + bytes + " not null, primary key (shard, sequence))"
}

// insert returns a function that inserts a segment into the bare table, as its own
// transaction and with one statement.
func (m *measurement) insert() func(ctx context.Context, r *sharedlog.Record) error {
	query := "insert into ostiary_bare (shard, sequence, hash, parts, bytes) values (0, ?, ?, 0, ?)"
	if strings.HasPrefix(m.store, "PostgreSQL") {
		query = "insert into ostiary_bare (shard, sequence, hash, parts, bytes) values (0, $1, $2, 0, $3)"
	}
	return func(ctx context.Context, r *sharedlog.Record) error {
		_, err := m.bare.ExecContext(ctx, query, int64(r.Sequence), r.Hash[:], r.Bytes)
		return err
	}
}

// tuple returns the n-th tuple of the store.
func tuple(n int) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("document-%08d", n)}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: fmt.Sprintf("user-%04d", n%users)}}
}

// users is the number of users that the tuples name.
const users = 1000

// next returns the tuples of the next write of a number of tuples.
func next(count *atomic.Int64, each int) authz.WriteRequest {
	end := int(count.Add(int64(each)))
	w := authz.WriteRequest{Add: make([]rel.Tuple, each)}
	for i := range w.Add {
		w.Add[i] = tuple(end - each + i)
	}
	return w
}

// title returns the name of a cell.
func (m *measurement) title(cell string) string {
	if m.away == 0 {
		return cell
	}
	return fmt.Sprintf("%s, %d ms away", cell, m.away.Milliseconds())
}

// record returns the record of a cell.
func (m *measurement) record(cell, peer, load string, result *bench.Result) bench.Record {
	r := bench.Record{Kind: bench.Measured, Workload: Workload, Cell: m.title(cell), Peer: peer, Store: m.store, Door: "embedded", Size: m.loaded, Load: load,
		Machine: bench.Machine(), Commit: bench.Commit(), When: time.Now().UTC().Truncate(time.Second)}
	if result != nil {
		result.Fill(&r)
		if result.FirstFailure != nil {
			r.Notes = "first failure: " + result.FirstFailure.Error()
		}
	}
	return r
}

// emit emits the records of both peers.
func (m *measurement) emit(own, bare bench.Record, note string) error {
	own.Notes = strings.TrimPrefix(own.Notes+"; "+note, "; ")
	return errors.Join(m.Emit(own), m.Emit(bare))
}

// one measures a write of one tuple, by one writer, and a bare commit of as many bytes.
func (m *measurement) one(ctx context.Context) error {
	m.Progress(m.title("append of one"), 0, 0)
	var count atomic.Int64
	count.Store(int64(m.loaded))
	write := func(ctx context.Context, _, _ int) error {
		_, err := m.node.store.Write(ctx, next(&count, 1))
		return err
	}
	if err := write(ctx, 0, 0); err != nil {
		return err
	}
	record, err := m.last(ctx)
	if err != nil {
		return err
	}
	insert := m.insert()
	commit := func(ctx context.Context, _, i int) error {
		record.Sequence = uint64(i) + 1
		return insert(ctx, &record)
	}
	const warm = 40
	if _, err := (bench.Load{Requests: warm, Duration: -1}).InTurns(ctx, write, commit); err != nil {
		return err
	}
	if err := m.empty(ctx); err != nil {
		return err
	}
	results, err := bench.Load{Duration: 2 * m.Duration}.InTurns(ctx, write, commit)
	m.loaded = int(count.Load())
	if err != nil {
		return err
	}
	own, bare := m.record("append of one", peerOwn, "closed, 1 client", results[0]), m.record("append of one", peerBare, "closed, 1 client", results[1])
	return m.emit(own, bare, fmt.Sprintf("median %.2f × the bare commit of %d bytes", own.Median/bare.Median, len(record.Bytes)))
}

// last returns the last segment of the log.
func (m *measurement) last(ctx context.Context) (sharedlog.Record, error) {
	head, err := m.log.Head(ctx)
	if err != nil {
		return sharedlog.Record{}, err
	}
	for r, err := range m.log.Read(ctx, head.Sequence) {
		return r, err
	}
	return sharedlog.Record{}, fmt.Errorf("segment %d is missing", head.Sequence)
}

// empty empties the bare table.
func (m *measurement) empty(ctx context.Context) error {
	_, err := m.bare.ExecContext(ctx, "truncate table ostiary_bare")
	return err
}

// The writers of the cells. With the database far away, groups grow only if there are
// enough of them.
const (
	writersNear  = 64
	writersFar   = 4096
	groupSize    = 1000
	groupWriters = 4
)

// writers measures many writers of one tuple each.
func (m *measurement) writers(ctx context.Context) error {
	n := writersNear
	if m.away > 0 {
		n = writersFar
	}
	return m.many(ctx, fmt.Sprintf("%d writers", n), n, 1)
}

// groups measures writes of many tuples each.
func (m *measurement) groups(ctx context.Context) error {
	return m.many(ctx, fmt.Sprintf("groups of %d", groupSize), groupWriters, groupSize)
}

// rounds is how many times the two sides of a cell take turns.
const rounds = 4

// many measures writers, then the bare insert of the same segments, one after the other, and
// then their floor, in several rounds. Throughput is that of tuples.
func (m *measurement) many(ctx context.Context, cell string, clients, each int) error {
	var count atomic.Int64
	var own, bare, least bench.Record
	var ownTime, bareTime, leastTime time.Duration
	var tuples, bytes, segments int
	for round := range rounds {
		m.Progress(m.title(cell), round, rounds)
		count.Store(int64(m.loaded))
		before, err := m.log.Head(ctx)
		if err != nil {
			return err
		}
		result, err := bench.Load{Clients: clients, Duration: m.Duration / 2}.Run(ctx, func(ctx context.Context, _, _ int) error {
			_, err := m.node.store.Write(ctx, next(&count, each))
			return err
		})
		if err != nil {
			return err
		}
		m.loaded = int(count.Load())
		tuples += result.N * each
		ownTime += result.Elapsed
		var all []sharedlog.Record
		for r, err := range m.log.Read(ctx, before.Sequence+1) {
			if err != nil {
				return err
			}
			all = append(all, r)
			bytes += len(r.Bytes)
		}
		if len(all) == 0 {
			return fmt.Errorf("no write of %q ended in %v: choose a longer time", cell, m.Duration/2)
		}
		segments += len(all)
		if err := m.empty(ctx); err != nil {
			return err
		}
		insert := m.insert()
		plain, err := bench.Load{Requests: len(all), Duration: -1}.Run(ctx, func(ctx context.Context, _, i int) error { return insert(ctx, &all[i]) })
		if err != nil {
			return err
		}
		bareTime += plain.Elapsed
		if err := errors.Join(m.empty(ctx), m.floor.follow(ctx, m.log, all[0].Sequence)); err != nil {
			return err
		}
		took, err := m.floor.run(ctx, all, insert)
		if err != nil {
			return err
		}
		leastTime += took
		least = m.record(cell, peerFloor, "closed, 1 client", plain)
		own, bare = m.record(cell, peerOwn, fmt.Sprintf("closed, %d clients", clients), result), m.record(cell, peerBare, "closed, 1 client", plain)
	}
	own.Throughput, bare.Throughput, least.Throughput = float64(tuples)/ownTime.Seconds(), float64(tuples)/bareTime.Seconds(), float64(tuples)/leastTime.Seconds()
	least.Notes = "the bare insert, and the same segments on a copy in a folder; only the throughput is its own"
	return errors.Join(m.emit(own, bare, fmt.Sprintf("tuples per s; %.2f × the floor, and %.2f × the bare insert of the same %d segments of %d tuples and %d bytes, which one client makes one after another; the times are those of the last of %d rounds",
		own.Throughput/least.Throughput, own.Throughput/bare.Throughput, segments, tuples/max(1, segments), bytes/max(1, segments), rounds)), m.Emit(least))
}

// start measures how a new node starts from a snapshot.
func (m *measurement) start(ctx context.Context) error {
	m.Progress(m.title("start from a snapshot"), 0, 0)
	var count atomic.Int64
	count.Store(int64(m.loaded))
	var wait sync.WaitGroup
	errs := make([]error, groupWriters)
	for w := range errs {
		wait.Go(func() {
			for errs[w] == nil && int(count.Load()) < m.Tuples {
				_, errs[w] = m.node.store.Write(ctx, next(&count, groupSize))
			}
		})
	}
	wait.Wait()
	m.loaded = int(count.Load())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := m.node.driver.Snapshot(ctx); err != nil {
		return err
	}
	var took []time.Duration
	send := func(ctx context.Context, _, i int) error {
		folder := filepath.Join(m.folder, fmt.Sprint("start", i))
		log, err := m.open(ctx)
		if err != nil {
			return err
		}
		copied, err := pebble.Open(folder, pebble.Options{Copy: true, NoSync: true})
		if err != nil {
			return errors.Join(err, log.Close())
		}
		begin := time.Now()
		d, err := replica.Open(ctx, log, copied, replica.Options{SnapshotBytes: -1})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
		return errors.Join(d.Close(), os.RemoveAll(folder))
	}
	starts := 3
	if m.away > 0 {
		starts = 1 // it takes long
	}
	result, err := bench.Load{Requests: starts, Duration: -1, Timeout: -1}.Run(ctx, send)
	if err != nil {
		return err
	}
	r := m.record("start from a snapshot", peerOwn, "closed, 1 client", result)
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	r.Throughput = float64(m.loaded*len(took)) / sum.Seconds()
	r.Notes = strings.TrimPrefix(r.Notes+"; tuples per s", "; ")
	return m.Emit(r)
}

// reads measures a check, and one on a store in a folder that has the same tuples.
func (m *measurement) reads(ctx context.Context) error {
	m.Progress(m.title("check"), 0, 0)
	all := func(yield func(rel.Tuple, error) bool) {
		for n := range m.loaded {
			if !yield(tuple(n), nil) {
				return
			}
		}
	}
	if _, err := m.alone.store.Import(ctx, all, authz.ImportOptions{}); err != nil {
		return err
	}
	// A call is too short for a clock, so a request is many of them.
	const calls = 1000
	check := func(s *ostiary.Store) bench.Send {
		return func(ctx context.Context, _, i int) error {
			for k := range calls {
				t := tuple((i*calls + k) * 7919 % m.loaded)
				r, err := s.Check(ctx, authz.CheckRequest{Object: t.Object, Relation: t.Relation, Subject: t.Subject})
				if err != nil {
					return err
				}
				if r.Decision != expr.True {
					return &bench.Failure{What: "wrong answer"}
				}
			}
			return nil
		}
	}
	results, err := bench.Load{Duration: m.Duration, Timeout: -1}.InTurns(ctx, check(m.node.store), check(m.alone.store))
	if err != nil {
		return err
	}
	own, bare := m.record("1,000 checks", peerOwn, "closed, 1 client", results[0]), m.record("1,000 checks", peerBare, "closed, 1 client", results[1])
	return m.emit(own, bare, fmt.Sprintf("median %.2f × that of a store in a folder", own.Median/bare.Median))
}
