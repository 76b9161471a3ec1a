package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Questions is how many different requests a cell asks in turn.
const Questions = 4096

// OpenFGAOptions are the settings of the workload "openfga".
type OpenFGAOptions struct {
	// Size is the number of tuples, at least 4,000. Default 67,000.
	Size int
	// Cells are the cells to run, of CellsOpenFGA. Default all.
	Cells []string
	// Load is put on each cell. A rate is for the cheap cells; batch, lists and
	// writes then get a closed loop of Load.Clients.
	Load Load
}

// CellsOpenFGA are the cells of the workload "openfga", in order.
func CellsOpenFGA() []string {
	return []string{"direct", "3-hop", "batch 50", "list 100", "list 1000", "deep 20", "fan-out", "condition", "write 100", "mixed 99:1"}
}

// OpenFGA runs the questions that OpenFGA's own measurements ask: folders,
// groups and documents in fixed proportions, each answer checked. The sides are
// measured cell by cell, one after the other, so that what disturbs the machine
// meets all of them.
func (r *Runner) OpenFGA(ctx context.Context, o OpenFGAOptions) error {
	if o.Size == 0 {
		o.Size = 67_000
	}
	if o.Size < 4_000 {
		return fmt.Errorf("bench: size %d is less than 4,000 tuples", o.Size)
	}
	if len(o.Cells) == 0 {
		o.Cells = CellsOpenFGA()
	}
	for _, c := range o.Cells {
		if !slices.Contains(CellsOpenFGA(), c) {
			return fmt.Errorf("bench: no cell %q; there are %s", c, strings.Join(CellsOpenFGA(), ", "))
		}
	}
	d := newData(o.Size)
	if err := r.setup(ctx, deepModel, d.tuples, o.Size); err != nil {
		return err
	}
	err := r.cells(ctx, d, &o)
	if down := r.teardown(ctx); err == nil {
		err = down
	}
	return err
}

func (r *Runner) cells(ctx context.Context, d *data, o *OpenFGAOptions) error {
	for _, cell := range o.Cells {
		for i := range r.Sides {
			s := &r.Sides[i]
			load := o.Load
			if s.Target.Door() == "embedded" {
				// More clients than one would wait for processors, not for the library.
				load.Timeout = -1
				if load.Rate <= 0 {
					load.Clients = 1
				}
			}
			ask, err := d.cell(s.Target, cell, &load)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.Peer, cell, err)
			}
			if err := r.measure(ctx, s, Record{Workload: "openfga", Cell: cell, Size: o.Size}, load, ask); err != nil {
				return err
			}
		}
	}
	return nil
}

// cell prepares a cell's requests on a target.
func (d *data) cell(t Target, cell string, load *Load) (Ask, error) {
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

// inTurn asks the requests one after the other, over and over.
func inTurn(t Target, requests []Request) (Ask, error) {
	prepared := make([]Prepared, len(requests))
	for i, q := range requests {
		p, err := t.Prepare(q)
		if err != nil {
			return nil, err
		}
		prepared[i] = p
	}
	return func(ctx context.Context, client, i int) error { return prepared[i%len(prepared)].Ask(ctx, client) }, nil
}

// writes lets each client add n tuples, remove them, add them again; before each
// write come so many reads.
func (d *data) writes(t Target, n int, read Ask, reads int) (Ask, error) {
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
		// A write that failed is not known to have happened, and the next of its
		// client may fail for that; both are counted.
		err = p.requests[p.next%2].Ask(ctx, client)
		p.next++
		return err
	}, nil
}

// WorldOpenFGA returns the model and the tuples of the workload "openfga", for
// Fill.
func WorldOpenFGA(size int) (model string, tuples Tuples) { return deepModel, newData(size).tuples }

// WorldLXD returns the model and the tuples of the workload "lxd".
func WorldLXD() (model string, tuples Tuples) { return LXDModel(), lxdTuples }
