package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/turns"
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
type History struct {
	catalog *Catalog

	mu   sync.RWMutex
	rows map[string]*Operation
	// ended are the ends of the counted operations, sorted.
	ended map[operationKey][]time.Time
	// latest are the ids of the latest operations by name of the control loop.
	latest map[string]string
}

// operationKey selects the operations that a frequency limit counts.
type operationKey struct{ actor, operation, target string }

// read reads the history of a store.
func (h *History) read(ctx context.Context, s *ostiary.Store) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows = map[string]*Operation{}
	err := documents(ctx, s, kindOperation, func(doc ostiary.Document) error {
		o := &Operation{}
		h.rows[doc.Key] = o
		return json.Unmarshal(doc.Body, o)
	})
	h.index()
	return err
}

// index makes the indexes from the rows. The caller holds the mutex.
func (h *History) index() {
	h.ended, h.latest = map[operationKey][]time.Time{}, map[string]string{}
	for _, o := range h.rows {
		h.indexRow(o)
	}
	for _, ends := range h.ended {
		slices.SortFunc(ends, time.Time.Compare)
	}
}

// indexRow adds a row to the indexes, at the end of its list.
func (h *History) indexRow(o *Operation) {
	if o.counts() {
		k := operationKey{o.Actor, o.Operation, o.Target}
		h.ended[k] = append(h.ended[k], *o.End)
	}
	h.indexLatest(o)
}

// indexLatest makes a row the latest one of its loop if it is.
func (h *History) indexLatest(o *Operation) {
	if newest := h.rows[h.latest[o.Loop]]; o.Start != nil && (newest == nil || o.Start.After(*newest.Start)) {
		h.latest[o.Loop] = o.ID
	}
}

// counts reports whether a frequency limit counts an operation: it ended, and no
// guard denied it.
func (o *Operation) counts() bool { return o.End != nil && o.Outcome != OutcomeGuard }

// Count returns the number of operations of an actor on a target that ended from
// one time to another, both inclusive. Operations that a guard denied do not
// count. It fails if the history cannot be read.
func (h *History) Count(ctx context.Context, actor, operation, target string, from, to time.Time) (int, error) {
	if _, err := h.catalog.World(ctx); err != nil {
		return 0, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	ends := h.ended[operationKey{actor, operation, target}]
	low, _ := slices.BinarySearchFunc(ends, from, time.Time.Compare)
	high, _ := slices.BinarySearchFunc(ends, to.Add(1), time.Time.Compare)
	return max(high-low, 0), nil
}

// Outcome returns the outcome of the latest operation of a control loop by its
// begin, or "" if there is none. It fails if the history cannot be read.
func (h *History) Outcome(ctx context.Context, loop string) (string, error) {
	if _, err := h.catalog.World(ctx); err != nil {
		return "", err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if o := h.rows[h.latest[loop]]; o != nil {
		return o.Outcome, nil
	}
	return "", nil
}

// Latest returns at most n operations, the one with the latest begin first.
func (h *History) Latest(ctx context.Context, n int) ([]*Operation, error) {
	if _, err := h.catalog.World(ctx); err != nil {
		return nil, err
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := make([]*Operation, 0, len(h.rows))
	for _, o := range h.rows {
		list = append(list, o)
	}
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
	c := h.catalog
	turns.Pause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.load(ctx); err != nil {
		return err
	}
	docs, seen := make([]ostiary.Document, len(list)), map[string]bool{}
	for i, o := range list {
		if seen[o.ID] {
			return failf(Invalid, "the operation %.80q comes twice", o.ID)
		}
		seen[o.ID] = true
		if err := o.check(); err != nil {
			return err
		}
		docs[i] = ostiary.Document{Kind: kindOperation, Key: o.ID, Secondary: []string{shard(o.ID)}, Body: marshal(o)}
	}
	old := h.outdated(c.Now().Add(-OperationsKept), seen)
	if h.length(seen)-len(old) > OperationsMax {
		return failf(Full, "too many operations: the bound OperationsMax is %d", OperationsMax)
	}
	if err := c.write(ctx, docs, old); err != nil {
		return err
	}
	h.replace(list, old)
	return nil
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

// outdated returns the keys of at most [OperationsWriteMax] operations that ended
// before a time and are not replaced.
func (h *History) outdated(before time.Time, replaced map[string]bool) (keys []ostiary.DocumentKey) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for id, o := range h.rows {
		if len(keys) == OperationsWriteMax {
			break
		}
		if o.End != nil && o.End.Before(before) && !replaced[id] {
			keys = append(keys, ostiary.DocumentKey{Kind: kindOperation, Key: id})
		}
	}
	return keys
}

// length returns the number of rows with the added ones.
func (h *History) length(added map[string]bool) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := len(h.rows)
	for id := range added {
		if h.rows[id] == nil {
			n++
		}
	}
	return n
}

// replace changes the rows and the indexes.
func (h *History) replace(list []*Operation, removed []ostiary.DocumentKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rows == nil {
		h.rows = map[string]*Operation{}
		h.index()
	}
	loops := map[string]bool{} // loops whose latest operation is removed
	for _, k := range removed {
		h.removeRow(k.Key, loops)
	}
	for _, o := range list {
		h.removeRow(o.ID, loops)
		h.rows[o.ID] = o
		h.indexRow(o)
		slices.SortFunc(h.ended[operationKey{o.Actor, o.Operation, o.Target}], time.Time.Compare)
	}
	if len(loops) == 0 {
		return
	}
	for _, o := range h.rows {
		if loops[o.Loop] {
			h.indexLatest(o)
		}
	}
}

// removeRow removes a row, if it exists, from the rows and the indexes. It adds
// the loop whose latest operation the row was to loops.
func (h *History) removeRow(id string, loops map[string]bool) {
	o := h.rows[id]
	if o == nil {
		return
	}
	delete(h.rows, id)
	if o.counts() {
		k := operationKey{o.Actor, o.Operation, o.Target}
		if i, found := slices.BinarySearchFunc(h.ended[k], *o.End, time.Time.Compare); found {
			h.ended[k] = slices.Delete(h.ended[k], i, i+1)
		}
		if len(h.ended[k]) == 0 {
			delete(h.ended, k)
		}
	}
	if h.latest[o.Loop] == id {
		delete(h.latest, o.Loop)
		loops[o.Loop] = true
	}
}
