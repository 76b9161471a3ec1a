package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ostiary/ostiary/internal/engine/graph/graphtest"
)

// Questions is the number of different requests of a cell. They are sent in turn.
const Questions = 4096

// OpenFGAOptions are the settings of the workload "openfga".
type OpenFGAOptions struct {
	// Size is the number of tuples of folders, groups and documents in fixed
	// proportions, at least 4,000. Some cells need more tuples. Record.Size includes
	// them: it is 79,369 for the default, which is 67,000.
	Size int
	// Cells are the names of the cells to run, see [CellsOpenFGA]. Default all.
	Cells []string
	// Load is the load of each cell. Batches, lists and writes ignore its Rate:
	// they get a closed loop with Load.Clients.
	Load Load
}

// CellsOpenFGA returns the names of the cells of the workload "openfga", in order.
func CellsOpenFGA() []string {
	return []string{"direct", "3-hop", "batch 50", "list 100", "list 1000", "deep 20", "fan-out", "condition", "write 100", "mixed 99:1"}
}

// SizeMinOpenFGA is the smallest store of the workload "openfga", in tuples.
const SizeMinOpenFGA = graphtest.TuplesMin

// OpenFGA runs the requests of OpenFGA's own benchmarks, on folders, groups and
// documents in fixed proportions. Every answer is checked. For each cell all
// sides are measured one after the other, so that a disturbance of the machine
// affects all of them.
func (r *Runner) OpenFGA(ctx context.Context, o OpenFGAOptions) error {
	if o.Size == 0 {
		o.Size = 67_000
	}
	if o.Size < SizeMinOpenFGA {
		return fmt.Errorf("bench: invalid size %d: expected at least %d tuples", o.Size, SizeMinOpenFGA)
	}
	if len(o.Cells) == 0 {
		o.Cells = CellsOpenFGA()
	}
	for _, c := range o.Cells {
		if !slices.Contains(CellsOpenFGA(), c) {
			return fmt.Errorf("bench: unknown cell %q: expected one of %s", c, strings.Join(CellsOpenFGA(), ", "))
		}
	}
	d := newData(o.Size)
	err := r.setup(ctx, deepModel, d.tuples, d.count())
	if err == nil {
		err = r.cells(ctx, d, &o)
	}
	if down := r.teardown(ctx); err == nil {
		err = down
	}
	return err
}

func (r *Runner) cells(ctx context.Context, d *data, o *OpenFGAOptions) error {
	r.expect(len(o.Cells) * len(r.Sides))
	size := d.count()
	for _, cell := range o.Cells {
		for i := range r.Sides {
			s := &r.Sides[i]
			load := o.Load
			if s.Target.Door() == "embedded" {
				// With more clients, the time would include waiting for a processor.
				load.Timeout = -1
				if load.Rate <= 0 {
					load.Clients = 1
				}
			}
			send, err := d.cell(s.Target, cell, &load)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.Peer, cell, err)
			}
			if err := r.measure(ctx, s, Record{Workload: "openfga", Cell: cell, Size: size}, load, send); err != nil {
				return err
			}
		}
	}
	return nil
}

// cell prepares the requests of a cell for a target.
func (d *data) cell(t Target, cell string, load *Load) (Send, error) {
	slow := func() { load.Rate, load.RateEnd = 0, 0 }
	switch cell {
	case "direct":
		return inTurn(t, checks(d.shape.Direct(Questions)))
	case "3-hop":
		return inTurn(t, checks(d.shape.ThreeHop(Questions)))
	case "batch 50":
		slow()
		return inTurn(t, batches(d.shape.ThreeHop(Questions)))
	case "list 100":
		slow()
		return inTurn(t, d.lists(100))
	case "list 1000":
		slow()
		return inTurn(t, d.lists(1000))
	case "deep 20":
		return inTurn(t, d.deep())
	case "fan-out":
		return inTurn(t, d.fan())
	case "condition":
		return inTurn(t, d.conditions())
	case "write 100":
		slow()
		return d.writes(t, writeMax, nil, 0)
	default: // "mixed 99:1"
		reads, err := inTurn(t, checks(d.shape.ThreeHop(Questions)))
		if err != nil {
			return nil, err
		}
		return d.writes(t, 1, reads, 99)
	}
}

// inTurn sends the requests one after the other, again and again.
func inTurn(t Target, requests []Request) (Send, error) {
	prepared := make([]Prepared, len(requests))
	for i, q := range requests {
		p, err := t.Prepare(q)
		if err != nil {
			return nil, err
		}
		prepared[i] = p
	}
	return func(ctx context.Context, client, i int) error { return prepared[i%len(prepared)].Send(ctx, client) }, nil
}

// writes makes each client add n tuples, remove them, add them again, and so on.
// Before each write it sends the given number of reads.
func (d *data) writes(t Target, n int, read Send, reads int) (Send, error) {
	type pair struct {
		requests [2]Prepared
		next     int
	}
	var mu sync.Mutex
	clients := map[int]*pair{}
	of := func(client int) (*pair, error) {
		mu.Lock()
		defer mu.Unlock()
		p := clients[client]
		if p != nil {
			return p, nil
		}
		p = &pair{}
		for i, q := range d.toggle(client, n) {
			prepared, err := t.Prepare(q)
			if err != nil {
				return nil, err
			}
			p.requests[i] = prepared
		}
		clients[client] = p
		return p, nil
	}
	return func(ctx context.Context, client, i int) error {
		if reads > 0 && i%(reads+1) != reads {
			return read(ctx, client, i)
		}
		p, err := of(client)
		if err != nil {
			return err
		}
		// If a write fails, it is unknown whether it was applied. The client's next
		// write may then fail as well; both count as failures.
		err = p.requests[p.next%2].Send(ctx, client)
		p.next++
		return err
	}, nil
}

// WorldOpenFGA returns the model and the tuples of the workload "openfga", for
// [Fill].
func WorldOpenFGA(size int) (model string, tuples Tuples) { return deepModel, newData(size).tuples }

// WorldLXD returns the model and the tuples of the workload "lxd", for [Fill].
func WorldLXD() (model string, tuples Tuples) { return LXDModel(), lxdTuples }
