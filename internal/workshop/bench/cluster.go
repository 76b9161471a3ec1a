package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary/rel"
)

// ClusterOptions are the settings of the workload "cluster".
type ClusterOptions struct {
	// Writers are the numbers of clients that write, one cell each. Default 1 and 64.
	Writers []int
	// Load is the load of each cell, without its clients. Default 3 s after a warm-up of
	// half a second.
	Load Load
	// Size is the number of tuples that the stores have before.
	Size int
	// Folder is on the disk of the servers. "" skips fdatasync.
	Folder string
	// Kill kills the node that writes. It returns another node, and a function that starts
	// the killed one again and waits until it serves. nil skips the cell.
	Kill func(ctx context.Context) (survivor *Side, again func(context.Context) error, err error)
	// Kills is how often Kill is called. Default 5.
	Kills int
	// Join starts a new node, and returns when it answers from the store. nil skips the cell.
	Join func(ctx context.Context) error
}

// clusterWorkload is the name of the workload of [Runner.Cluster].
const clusterWorkload = "cluster"

// nextCommit is the cell of the next commit after the node that writes was killed.
const nextCommit = "next commit after a kill"

// Cluster measures what the nodes of a cluster cost and how they go on when one of them
// is killed: durable writes of one tuple, by one client and by many, in terms of
// fdatasync of the same disk; the memory of a node; the time until the next commit after
// the node that writes was killed; and the time until a new node serves. The sides have
// their tuples already.
func (r *Runner) Cluster(ctx context.Context, o ClusterOptions) error {
	if len(o.Writers) == 0 {
		o.Writers = []int{1, 64}
	}
	if o.Load.Duration == 0 {
		o.Load.Duration, o.Load.WarmUp = 3*time.Second, 500*time.Millisecond
	}
	if o.Kills <= 0 {
		o.Kills = 5
	}
	for i := range r.Sides {
		if s := &r.Sides[i]; s.PID != 0 {
			if err := r.emitResident(s, "memory, before the load", o.Size); err != nil {
				return err
			}
		}
	}
	if err := r.ClusterWrites(ctx, o); err != nil {
		return err
	}
	if o.Kill != nil {
		if err := r.clusterKills(ctx, &o); err != nil {
			return err
		}
	}
	if o.Join != nil {
		return r.clusterJoin(ctx, &o)
	}
	return nil
}

// ClusterWrites measures only the writes of [Runner.Cluster]. Writers and Load have no
// default.
func (r *Runner) ClusterWrites(ctx context.Context, o ClusterOptions) error {
	r.expect(len(o.Writers) * len(r.Sides))
	defer r.expect(0)
	for _, writers := range o.Writers {
		if err := r.clusterWrites(ctx, &o, writers); err != nil {
			return err
		}
	}
	return nil
}

// emitResident emits the memory of a side.
func (r *Runner) emitResident(s *Side, cell string, size int) error {
	record := s.record(Record{Workload: clusterWorkload, Cell: cell, Size: size, Notes: s.Notes})
	var err error
	if record.Resident, err = Resident(s.PID); err != nil {
		return err
	}
	return r.Emit(record)
}

// clusterWrites measures the writes of some clients at each side, and fdatasync before
// them.
func (r *Runner) clusterWrites(ctx context.Context, o *ClusterOptions, writers int) error {
	cell := fmt.Sprintf("%d writers", writers)
	if writers == 1 {
		cell = "1 writer"
	}
	if o.Folder != "" {
		synced, err := fdatasync(o.Folder)
		if err != nil {
			return err
		}
		disk := Side{Peer: "fdatasync", Target: Nothing{}}
		record := disk.record(Record{Workload: clusterWorkload, Cell: cell, Size: o.Size, Load: "closed, 1 client",
			Notes: fmt.Sprintf("%d bytes are appended to a file and synced", syncedBytes)})
		record.Door = ""
		synced.Fill(&record)
		if err := r.Emit(record); err != nil {
			return err
		}
	}
	for i := range r.Sides {
		s := &r.Sides[i]
		load := o.Load
		load.Clients = writers
		if err := r.syncedWrites(ctx, s, Record{Workload: clusterWorkload, Cell: cell, Size: o.Size}, load); err != nil {
			return err
		}
	}
	return nil
}

// syncedMetric counts how often a node of a cluster without a database has waited for its
// disk to keep entries of the log.
const syncedMetric = "ostiary_node_log_syncs_total"

// syncedWrites measures writes to a side, and how many fsyncs its node needs for them.
func (r *Runner) syncedWrites(ctx context.Context, s *Side, record Record, load Load) error {
	write := r.clusterWriter(s)
	if err := load.warm(ctx, write); err != nil {
		return err
	}
	load.WarmUp = 0
	counted := func() float64 {
		if s.Metrics == "" {
			return 0
		}
		n, err := metricOf(ctx, s.Metrics, syncedMetric)
		if err != nil {
			return 0 // not a node of such a cluster
		}
		return n
	}
	before := counted()
	record, err := r.take(ctx, s, record, load, write)
	if err != nil {
		return err
	}
	if synced := counted() - before; synced > 0 && record.N > 0 {
		record.Syncs = synced / float64(record.N) * record.Throughput
	}
	return r.Emit(record)
}

// clusterWriter returns writes of one tuple to a side, each of which adds another one.
func (r *Runner) clusterWriter(s *Side) Send {
	return func(ctx context.Context, client, _ int) error {
		object := rel.Object{Type: "document", ID: fmt.Sprintf("added-%d", r.added.Add(1))}
		p, err := s.Target.Prepare(Request{Write: []rel.Tuple{{Object: object, Relation: "owner", Subject: user(client)}}})
		if err != nil {
			return err
		}
		return p.Send(ctx, client)
	}
}

// The cost of the disk is the median of so many appends of so many bytes.
const (
	syncedTimes = 200
	syncedBytes = 300
)

// SyncTime returns the median time of an append of 300 bytes to a file in a folder that
// waits for the disk.
func SyncTime(folder string) (time.Duration, error) {
	result, err := fdatasync(folder)
	if err != nil {
		return 0, err
	}
	return time.Duration(result.median()), nil
}

// fdatasync measures appends to a file in a folder, each of which waits for the disk.
func fdatasync(folder string) (*Result, error) {
	name := filepath.Join(folder, "fdatasync")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer os.Remove(name)
	defer f.Close()
	result, bytes := newResult(), make([]byte, syncedBytes)
	began := time.Now()
	for range syncedTimes {
		begin := time.Now()
		if _, err := f.Write(bytes); err != nil {
			return nil, err
		}
		if err := datasync(f); err != nil {
			return nil, err
		}
		result.add(time.Since(begin), nil)
	}
	result.Elapsed = time.Since(began)
	return result, nil
}

// clusterJoin measures how long a new node takes until it serves, and what one writer
// sees meanwhile.
func (r *Runner) clusterJoin(ctx context.Context, o *ClusterOptions) error {
	s := &r.Sides[len(r.Sides)-1]
	joining, joined := context.WithCancel(ctx)
	defer joined()
	took, done := newResult(), make(chan error, 1)
	go func() {
		defer joined()
		begin := time.Now()
		err := o.Join(ctx)
		took.Elapsed = time.Since(begin)
		took.add(took.Elapsed, nil)
		done <- err
	}()
	load := Load{Duration: -1, Requests: 1 << 40}
	result, err := load.Run(joining, r.clusterWriter(s))
	if err := errors.Join(<-done, ctx.Err()); err != nil {
		return fmt.Errorf("join a node: %w", err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	record := s.record(Record{Workload: clusterWorkload, Cell: "a new node joins", Size: o.Size, Notes: "from its start until it answers from the store"})
	took.Fill(&record)
	record.Throughput = 0
	if err := r.Emit(record); err != nil {
		return err
	}
	record = s.record(Record{Workload: clusterWorkload, Cell: "1 writer, while a new node joins", Size: o.Size, Load: "closed, 1 client", Notes: s.Notes})
	result.Fill(&record)
	return r.Emit(record)
}

// clusterKills measures the time from each kill of the node that writes to the next
// acknowledged write.
func (r *Runner) clusterKills(ctx context.Context, o *ClusterOptions) error {
	took, progress := newResult(), r.progress(nextCommit, o.Kills)
	began := time.Now()
	var side *Side
	for i := range o.Kills {
		progress(i)
		survivor, again, err := o.Kill(ctx)
		if err != nil {
			return fmt.Errorf("kill the node that writes: %w", err)
		}
		begin := time.Now()
		side = survivor
		if err := r.untilWritten(ctx, side); err != nil {
			return err
		}
		took.add(time.Since(begin), nil)
		if err := again(ctx); err != nil {
			return fmt.Errorf("start a killed node again: %w", err)
		}
	}
	took.Elapsed = time.Since(began)
	record := side.record(Record{Workload: clusterWorkload, Cell: nextCommit, Size: o.Size, Load: "closed, 1 client", Notes: "from the kill of the node that writes to the next acknowledged write through another node"})
	took.Fill(&record)
	record.Throughput = 0
	return r.Emit(record)
}

// commitMax is how long the next commit after a kill may take.
const commitMax = time.Minute

// untilWritten writes to a side until a write is acknowledged.
func (r *Runner) untilWritten(ctx context.Context, s *Side) error {
	ctx, cancel := context.WithTimeout(ctx, commitMax)
	defer cancel()
	write := r.clusterWriter(s)
	for {
		err := write(ctx, 0, 0)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no write is acknowledged after a kill: %w: %w", ctx.Err(), err)
		}
	}
}
