package bench

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// Side is one of those that are measured beside each other.
type Side struct {
	// Peer, Version and Store are as in Record.
	Peer, Version, Store string
	Target               Target
	// PID is the server's process on this machine, whose processor time and
	// memory are then measured; 0 if it is not known, or is this one.
	PID int
	// Notes are added to each of its records.
	Notes string
}

// Runner measures cells on sides and hands out the records.
type Runner struct {
	Sides []Side
	// Emit takes each record when its run is over.
	Emit func(Record) error
	// Progress, if set, is told what is being done: a title, and how much of how
	// much; total is 0 if that is not known.
	Progress func(title string, done, total int)
}

func (r *Runner) progress(title string, total int) func(int) {
	if r.Progress == nil {
		return func(int) {}
	}
	r.Progress(title, 0, total)
	return func(done int) { r.Progress(title, done, total) }
}

// setup gives every side the same store.
func (r *Runner) setup(ctx context.Context, model string, tuples Tuples, total int) error {
	for i := range r.Sides {
		s := &r.Sides[i]
		if err := s.Target.Setup(ctx, model, tuples, r.progress("loading "+s.Peer, total)); err != nil {
			return fmt.Errorf("loading %s: %w", s.Peer, err)
		}
	}
	return nil
}

// teardown removes the stores, also after ctx has ended.
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

// measure runs a load on a side, and emits the record with what the run used.
func (r *Runner) measure(ctx context.Context, s *Side, record Record, load Load, ask Ask) error {
	title := fmt.Sprintf("%s: %s, %s", s.Peer, record.Cell, s.Target.Door())
	load.Progress = r.progress(title, load.Requests)
	// The processor times are the measured part's alone.
	if err := load.warm(ctx, ask); err != nil {
		return err
	}
	load.WarmUp = 0
	server, own := s.used(), ownTime()
	result, err := load.Run(ctx, ask)
	if err != nil {
		return err
	}
	record = s.record(record)
	record.Load = load.String()
	result.Fill(&record)
	if asked := float64(result.N + record.Failed()); asked > 0 {
		record.GeneratorCPU = float64(ownTime()-own) / asked
		if s.PID != 0 {
			record.ServerCPU = float64(s.used()-server) / asked
		}
	}
	if s.PID != 0 {
		if record.Resident, err = Resident(s.PID); err != nil {
			return err
		}
	}
	if result.FirstFailure != nil {
		record.Notes = join(record.Notes, "first failure: "+clip(result.FirstFailure.Error()))
	}
	record.Notes = join(record.Notes, s.Notes)
	return r.Emit(record)
}

// record says whose a record is, where and when.
func (s *Side) record(r Record) Record {
	r.Kind, r.When = Measured, time.Now().UTC().Truncate(time.Second)
	r.Door, r.Peer, r.PeerVersion, r.Store = s.Target.Door(), s.Peer, s.Version, s.Store
	r.Machine, r.Commit = Machine(), Commit()
	return r
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// clip keeps a server's message from filling a table.
func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

func (s *Side) used() time.Duration {
	if s.PID == 0 {
		return 0
	}
	d, err := ProcessorTime(s.PID)
	if err != nil {
		return 0
	}
	return d
}

// ownTime is this process's processor time.
func ownTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
