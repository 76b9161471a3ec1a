package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/tool/btree"
)

// Bounds on the history of operations.
const (
	// OperationsMax is the number of operations. One more is refused.
	OperationsMax = 200_000
	// OperationsWriteMax is the number of operations in one request.
	OperationsWriteMax = 500
	// OperationTextMax is the length of each text of an operation, in bytes.
	OperationTextMax = 1024
	// OperationsKept is how long an operation is kept after its end. It covers a
	// frequency limit of one year.
	OperationsKept = 400 * 24 * time.Hour
)

// OutcomeGuard is the outcome of an operation that a guard denied. It is not
// counted.
const OutcomeGuard = "Failure_Guard"

// Operation is an operation that an actor performed, a row of ONAP's table
// operationshistory.
type Operation struct {
	ID         string     `json:"id"`                     // id; an operation with the same id replaces it
	Loop       string     `json:"closedLoopName"`         // name of the control loop
	Request    string     `json:"requestId,omitempty"`    // id of the request
	Subrequest string     `json:"subrequestId,omitempty"` // id of a part of the request
	Actor      string     `json:"actor"`                  // actor, for example "SO"
	Operation  string     `json:"operation"`              // operation, for example "scaleOut"
	Target     string     `json:"target"`                 // target of the operation
	Start      *time.Time `json:"starttime,omitempty"`    // begin; nil if it is not known
	Outcome    string     `json:"outcome"`                // outcome, for example "Started" or "Success"
	Message    string     `json:"message,omitempty"`      // for people
	End        *time.Time `json:"endtime,omitempty"`      // end; nil while the operation runs
}

// History is the history of operations of a catalog. It may be used
// concurrently.
type History struct{ catalog *Catalog }

// operations are the operations of a world. They never change.
type operations struct {
	rows btree.Map[string, *Operation] // by id
	// ended are the ends of the counted operations, sorted, by operationKey.
	ended btree.Map[string, []time.Time]
	// latest are the latest operations by name of the control loop.
	latest btree.Map[string, *Operation]
}

// operationKey returns the key of the operations that a frequency limit counts
// together.
func operationKey(actor, operation, target string) string {
	return fmt.Sprintf("%q %q %q", actor, operation, target)
}

// counts reports whether a frequency limit counts an operation: it ended, and no
// guard denied it.
func (o *Operation) counts() bool { return o.End != nil && o.Outcome != OutcomeGuard }

// Count returns the number of operations of an actor on a target that ended from
// one time to another, both inclusive. Operations that a guard denied do not
// count. It fails if the history cannot be read.
func (h *History) Count(ctx context.Context, actor, operation, target string, from, to time.Time) (int, error) {
	w, err := h.catalog.World(ctx)
	if err != nil {
		return 0, err
	}
	ends, _ := w.operations.ended.Get(operationKey(actor, operation, target))
	low, _ := slices.BinarySearchFunc(ends, from, time.Time.Compare)
	high, _ := slices.BinarySearchFunc(ends, to.Add(1), time.Time.Compare)
	return max(high-low, 0), nil
}

// Outcome returns the outcome of the latest operation of a control loop by its
// begin, or "" if there is none. It fails if the history cannot be read.
func (h *History) Outcome(ctx context.Context, loop string) (string, error) {
	w, err := h.catalog.World(ctx)
	if err != nil {
		return "", err
	}
	if o, found := w.operations.latest.Get(loop); found {
		return o.Outcome, nil
	}
	return "", nil
}

// Latest returns at most n operations, the one with the latest begin first.
func (h *History) Latest(ctx context.Context, n int) ([]*Operation, error) {
	w, err := h.catalog.World(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]*Operation, 0, w.operations.rows.Len())
	w.operations.rows.Ascend("", func(_ string, o *Operation) bool { list = append(list, o); return true })
	slices.SortFunc(list, func(a, b *Operation) int {
		if c := beginOf(b).Compare(beginOf(a)); c != 0 {
			return c
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return list[:min(n, len(list))], nil
}

// beginOf returns the begin of an operation, or its end if no begin is known.
func beginOf(o *Operation) time.Time {
	switch {
	case o.Start != nil:
		return *o.Start
	case o.End != nil:
		return *o.End
	}
	return time.Time{}
}

// Append adds operations, or replaces those with the same ids, in one durable
// write. Operations that ended more than [OperationsKept] ago are removed.
func (h *History) Append(ctx context.Context, list []*Operation) error {
	added := map[string]bool{}
	for _, o := range list {
		if added[o.ID] {
			return failf(Invalid, "the operation %.80q comes twice", o.ID)
		}
		added[o.ID] = true
		if err := o.check(); err != nil {
			return err
		}
	}
	return h.catalog.change(ctx, func(d *draft) error {
		d.onlyOperations = true
		e := d.operations.edit()
		for _, id := range e.outdated(d.now.Add(-OperationsKept), added) {
			e.drop(id)
			d.removed = append(d.removed, authz.DocumentKey{Kind: kindOperation, Key: id})
		}
		for _, o := range list {
			e.put(o)
			d.documents = append(d.documents, authz.Document{Kind: kindOperation, Key: o.ID, Body: marshal(o)})
		}
		if e.rows.Len() > OperationsMax {
			return failf(Full, "too many operations: the bound OperationsMax is %d", OperationsMax)
		}
		d.operations = e.done()
		return nil
	})
}

// check fails if an operation is malformed.
func (o *Operation) check() error {
	for _, f := range []struct{ name, text string }{{"id", o.ID}, {"closedLoopName", o.Loop}, {"requestId", o.Request}, {"subrequestId", o.Subrequest},
		{"actor", o.Actor}, {"operation", o.Operation}, {"target", o.Target}, {"outcome", o.Outcome}, {"message", o.Message}} {
		if len(f.text) > OperationTextMax {
			return failf(Invalid, "%s has %d bytes: the bound OperationTextMax is %d", f.name, len(f.text), OperationTextMax)
		}
	}
	if o.ID == "" || o.Actor == "" || o.Operation == "" || o.Target == "" || o.Outcome == "" {
		return failf(Invalid, "invalid operation %.80q: expected an actor, an operation, a target and an outcome", o.ID)
	}
	if o.Start == nil && o.End == nil {
		return failf(Invalid, "invalid operation %.80q: expected a starttime or an endtime", o.ID)
	}
	return nil
}

// historyEdit is the next history while changes make it.
type historyEdit struct {
	operations
	// added and removed are ends to add to or to remove from a list of ended.
	added, removed map[string][]time.Time
	loops          map[string]bool // loops whose latest operation was removed
}

// edit returns a copy that can be changed.
func (h *operations) edit() historyEdit {
	return historyEdit{operations{h.rows.Edit(), h.ended.Edit(), h.latest.Edit()}, map[string][]time.Time{}, map[string][]time.Time{}, map[string]bool{}}
}

// outdated returns the ids of at most [OperationsWriteMax] operations that ended
// before a time and are not replaced.
func (h *operations) outdated(before time.Time, replaced map[string]bool) (ids []string) {
	h.rows.Ascend("", func(id string, o *Operation) bool {
		if o.End != nil && o.End.Before(before) && !replaced[id] {
			ids = append(ids, id)
		}
		return len(ids) < OperationsWriteMax
	})
	return ids
}

// put adds an operation, or replaces the one with its id.
func (e *historyEdit) put(o *Operation) {
	e.drop(o.ID)
	e.rows.Set(o.ID, o)
	if o.counts() {
		k := operationKey(o.Actor, o.Operation, o.Target)
		e.added[k] = append(e.added[k], *o.End)
	}
	e.indexLatest(o)
}

// indexLatest makes an operation the latest one of its loop if it is.
func (e *historyEdit) indexLatest(o *Operation) {
	if newest, found := e.latest.Get(o.Loop); o.Start != nil && (!found || o.Start.After(*newest.Start)) {
		e.latest.Set(o.Loop, o)
	}
}

// drop removes an operation, if it exists.
func (e *historyEdit) drop(id string) {
	o, found := e.rows.Delete(id)
	if !found {
		return
	}
	if o.counts() {
		k := operationKey(o.Actor, o.Operation, o.Target)
		e.removed[k] = append(e.removed[k], *o.End)
	}
	if newest, _ := e.latest.Get(o.Loop); newest == o {
		e.latest.Delete(o.Loop)
		e.loops[o.Loop] = true
	}
}

// done returns the history after the changes.
func (e *historyEdit) done() operations {
	for k := range e.removed {
		if _, both := e.added[k]; !both {
			e.added[k] = nil
		}
	}
	for k, added := range e.added {
		old, _ := e.ended.Get(k)
		if ends := merge(old, added, e.removed[k]); len(ends) > 0 {
			e.ended.Set(k, ends)
		} else {
			e.ended.Delete(k)
		}
	}
	if len(e.loops) > 0 {
		e.rows.Ascend("", func(_ string, o *Operation) bool {
			if e.loops[o.Loop] {
				e.indexLatest(o)
			}
			return true
		})
	}
	return e.operations
}

// merge returns the times of a sorted list and of added, sorted, without those of
// removed. The list does not change.
func merge(list, added, removed []time.Time) []time.Time {
	slices.SortFunc(added, time.Time.Compare)
	slices.SortFunc(removed, time.Time.Compare)
	out := make([]time.Time, 0, len(list)+len(added))
	for len(list)+len(added) > 0 {
		from := &list
		if len(list) == 0 || len(added) > 0 && added[0].Before(list[0]) {
			from = &added
		}
		next := (*from)[0]
		*from = (*from)[1:]
		if len(removed) > 0 && removed[0].Equal(next) {
			removed = removed[1:]
			continue
		}
		out = append(out, next)
	}
	return out
}
