package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// Side is one of the programs that are compared.
type Side struct {
	// Peer is the program's name, as in Record.Peer.
	Peer string
	// Version is its version, as in Record.PeerVersion.
	Version string
	// Store is its storage, as in Record.Store.
	Store string
	// Target sends requests to it.
	Target Target
	// PID is its process on this machine, to measure processor time and memory. 0
	// means unknown, or this process. The processor time includes that of the
	// process's children.
	PID int
	// Others are the processes of the other nodes of its cluster on this machine. Their
	// processor time counts as well.
	Others []int
	// Metrics is the URL of its metrics in Prometheus' format; "" if there are none.
	Metrics string
	// Notes are added to each of its records.
	Notes string
}

// Runner runs workloads. Each of its methods is one workload.
type Runner struct {
	// Sides are compared with each other.
	Sides []Side
	// Emit receives each record at the end of its run. An error ends the workload.
	Emit func(Record) error
	// Progress, if not nil, receives the progress of the current step: its title,
	// the finished part, and the total, which is 0 if it is unknown.
	Progress func(title string, done, total int)

	// cellCount is the number of cells that the workload measures, 0 if it is unknown,
	// and cell the number of the current one. They began at began.
	cellCount, cell int
	began           time.Time
	added           atomic.Int64 // tuples of the workload "cluster"
}

// expect sets the number of cells that the workload measures.
func (r *Runner) expect(cells int) { r.cellCount, r.cell, r.began = cells, 0, time.Now() }

// nextCell returns the title of the next cell, with its number and the remaining
// time if they are known.
func (r *Runner) nextCell(title string) string {
	r.cell++
	if r.cellCount == 0 {
		return title
	}
	head := fmt.Sprintf("cell %d of %d", r.cell, r.cellCount)
	if finished := r.cell - 1; finished > 0 {
		remaining := time.Since(r.began) / time.Duration(finished) * time.Duration(r.cellCount-finished)
		head += fmt.Sprintf(", about %d s left", int(remaining.Seconds()+0.5))
	}
	return head + ": " + title
}

func (r *Runner) progress(title string, total int) func(int) {
	if r.Progress == nil {
		return func(int) {}
	}
	r.Progress(title, 0, total)
	return func(done int) { r.Progress(title, done, total) }
}

// setup creates the same store on every side.
func (r *Runner) setup(ctx context.Context, model string, tuples Tuples, total int) error {
	for i := range r.Sides {
		s := &r.Sides[i]
		if err := s.Target.Setup(ctx, model, tuples, r.progress("loading "+s.Peer, total)); err != nil {
			return fmt.Errorf("loading %s: %w", s.Peer, err)
		}
	}
	return nil
}

// teardown removes the stores, also if ctx has ended.
func (r *Runner) teardown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var first error
	for i := range r.Sides {
		if err := r.Sides[i].Target.Teardown(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// measure runs a load on a side and emits the record.
func (r *Runner) measure(ctx context.Context, s *Side, record Record, load Load, send Send) error {
	record, err := r.take(ctx, s, record, load, send)
	if err != nil {
		return err
	}
	return r.Emit(record)
}

// take runs a load on a side and returns the record.
func (r *Runner) take(ctx context.Context, s *Side, record Record, load Load, send Send) (Record, error) {
	title := r.nextCell(fmt.Sprintf("%s: %s, %s", s.Peer, record.Cell, s.Target.Door()))
	load.Progress = r.progress(title, load.Requests)
	// The warm-up must not count for the processor times.
	if err := load.warm(ctx, send); err != nil {
		return record, err
	}
	load.WarmUp = 0
	server, own := s.used(), OwnTime()
	result, err := load.Run(ctx, send)
	if err != nil {
		return record, err
	}
	record = s.record(record)
	record.Load = load.String()
	result.Fill(&record)
	if sent := float64(result.N + record.Failed()); sent > 0 {
		record.GeneratorCPU = float64(OwnTime()-own) / sent
		if s.PID != 0 {
			record.ServerCPU = float64(s.used()-server) / sent
		}
	}
	if s.PID != 0 {
		if record.Resident, err = Resident(s.PID); err != nil {
			return record, err
		}
	}
	if result.FirstFailure != nil {
		record.Notes = join(record.Notes, "first failure: "+clip(result.FirstFailure.Error()))
	}
	record.Notes = join(record.Notes, s.Notes)
	return record, nil
}

// record returns r with the side's names, the machine and the time.
func (s *Side) record(r Record) Record {
	r.Kind, r.When = Measured, time.Now().UTC().Truncate(time.Second)
	r.Door, r.Peer, r.PeerVersion, r.Store = s.Target.Door(), s.Peer, s.Version, s.Store
	r.Machine, r.Commit = Machine(), Commit()
	return r
}

// join joins two notes, either of which may be empty.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// clip shortens a server's message, so that it fits into a table.
func clip(s string) string { return quote.Of(s, 200) }

// used returns the processor time that the side's process and its children have
// used, with that of the other nodes; 0 if unknown.
func (s *Side) used() time.Duration {
	if s.PID == 0 {
		return 0
	}
	sum := Used(s.PID)
	for _, other := range s.Others {
		sum += Used(other)
	}
	return sum
}
