package commit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// group is the writers of one append. The goroutine of its leader owns it.
type group struct {
	queue    *Queue
	writers  []*writer // all that the group has to finish
	accepted []*writer // writers that passed the validation
	draft    snapshot.Draft
	now      rel.Time // the time of the validation
	// compiled are schemas that the current writer puts, by id.
	compiled map[string]*schema.Schema

	// applied is true if the current writer's build has applied its changes to the
	// draft.
	applied bool
	// kept is true, once the group is published, if subscribers keep its entries.
	kept bool
	// reusable is true, once the group is finished, if its memory can be reused.
	reusable bool

	slabs   []*slab // memory of the writers' changes
	bytes   *[]byte // memory of the encoded entries; nil before the first entry
	entries []storage.Entry
	sealed  []storage.Sealed
	heads   []storage.Head // after each entry
	memory  int64          // estimated bytes that the entries add to memory
	// ahead is the memory of the groups before that are not published.
	ahead int64

	// before is the group on whose view this one is validated, until it is finished.
	before *group
	// followed is true if another group was validated on the view of this one. The holder
	// of the write lock owns it.
	followed bool
	// placed is true once the driver has placed the entries, and failed once it has not made
	// them, or does not know it.
	placed bool
	failed atomic.Bool
	// settled opens when the next group may be appended: the entries are placed, or the group
	// is finished.
	settled  snapshot.Latch
	viewMade snapshot.Latch // opens when view is set
	view     *snapshot.View // the view after the entries
	finished snapshot.Latch // opens when all writers are done and the memory is released

	one oneWriter
}

// oneWriter is memory for a group of one writer, which most groups are.
type oneWriter struct {
	writers, accepted [1]*writer
	slabs             [1]*slab
	entries           [1]storage.Entry
	sealed            [1]storage.Sealed
	heads             [1]storage.Head
}

// newGroup returns a group on the newest view, or on one that will be.
func (q *Queue) newGroup(base *snapshot.View) *group {
	g := &group{}
	g.begin(q, base)
	return g
}

// begin starts a group that is new or recycled.
func (g *group) begin(q *Queue, base *snapshot.View) {
	g.queue, g.draft, g.now = q, q.timeline.Draft(base), q.shared.runtime.Now()
	g.compiled, g.applied, g.kept, g.reusable, g.memory, g.view = nil, false, false, false, 0, nil
	g.before, g.followed, g.placed, g.ahead = nil, false, false, 0
	g.failed.Store(false)
	g.viewMade.Reset()
	g.settled.Reset()
	g.finished.Reset()
	one := &g.one
	g.writers, g.accepted, g.slabs, g.entries = one.writers[:0], one.accepted[:0], one.slabs[:0], one.entries[:0]
	g.sealed, g.heads = one.sealed[:0], one.heads[:0]
}

// head returns the place in the log that the next entry follows.
func (g *group) head() storage.Head {
	if n := len(g.heads); n > 0 {
		return g.heads[n-1]
	}
	return g.draft.Base().Head
}

// add adds writers to the group and validates them.
func (g *group) add(writers []*writer) {
	g.writers = append(g.writers, writers...)
	g.validateAll(writers)
}

// takeMore adds waiting writers until the group is full.
func (g *group) takeMore() {
	n := len(g.writers)
	g.writers = g.queue.take(g.writers)
	g.validateAll(g.writers[n:])
}

func (g *group) validateAll(writers []*writer) {
	n := len(writers)
	g.accepted = slices.Grow(g.accepted, n)
	g.entries, g.sealed, g.heads = slices.Grow(g.entries, n), slices.Grow(g.sealed, n), slices.Grow(g.heads, n)
	for _, w := range writers {
		g.validate(w)
	}
}

// validate accepts or rejects a writer on the draft, which has the changes of
// the writers before.
func (g *group) validate(w *writer) {
	w.on = g.head()
	w.err = g.enter(w)
	w.decided = w.err != nil || !w.wrote
	if w.err == nil {
		w.entries = len(g.entries)
		g.accepted = append(g.accepted, w)
		if w.accepted != nil {
			w.accepted(g)
		}
	}
}

// retryRejected validates the rejected writers again.
func (g *group) retryRejected() {
	for _, w := range g.writers {
		if w.err != nil {
			g.validate(w)
		}
	}
}

// hasFailed reports whether an earlier writer is known to have failed. If its
// outcome depends on a group that is being appended, so does the outcome of g.
func (g *group) hasFailed(w *writer) bool {
	if slices.Contains(g.writers, w) {
		return w.err != nil
	}
	return w.done.Load() && w.err != nil
}

// enter builds a writer's changes and adds their entry. After an error the draft
// is as before.
func (g *group) enter(w *writer) error {
	g.applied, g.compiled = false, nil
	changes, err := w.build(g)
	w.wrote = len(changes) > 0
	if err == nil && w.wrote {
		err = g.addEntry(changes, w)
	}
	if err != nil && g.applied {
		g.rebuild()
	}
	return err
}

// addEntry makes an entry of a writer's valid changes and applies it to the draft.
func (g *group) addEntry(changes []storage.Change, w *writer) error {
	if len(changes) > storage.ChangesMax {
		return &authz.BoundError{Name: "ChangesMax", Max: storage.ChangesMax, Got: int64(len(changes))}
	}
	grows, err := g.reserve(changes)
	if err != nil {
		return err
	}
	q, after := g.queue, g.head()
	e := storage.Entry{Incarnation: q.timeline.Incarnation, Revision: after.Revision + 1, Previous: after.Hash,
		Writer: q.shared.id, Sequence: q.sequence.Add(1), Time: max(g.now, after.Time), Origin: w.origin, Changes: changes}
	sealed := g.seal(&e)
	size := sealed.size(changes)
	if size > storage.EntryBytesMax {
		return &authz.BoundError{Name: "EntryBytesMax", Max: storage.EntryBytesMax, Got: int64(size)}
	}
	if err := q.shared.runtime.Room(size, w.frees || !slices.ContainsFunc(changes, adds)); err != nil {
		return err
	}
	head := storage.Head{Revision: e.Revision, Hash: sealed.Hash, Time: e.Time}
	if !g.applied {
		g.applied = true
		if err = g.draft.Apply(changes, head); err != nil {
			return err
		}
	}
	g.entries, g.sealed, g.heads = append(g.entries, e), append(g.sealed, storage.Sealed(sealed)), append(g.heads, head)
	g.memory += grows
	for id, compiled := range g.compiled {
		g.draft.BindCompiled(id, compiled)
	}
	return nil
}

// adds reports whether a change adds or replaces data.
func adds(c storage.Change) bool {
	switch c.Kind {
	case storage.TupleAdd, storage.AttributeSet, storage.DocumentPut, storage.SecretPut:
		return true
	}
	return false
}

// sealedEntry is an encoded entry and its hash.
type sealedEntry storage.Sealed

// size returns the size of the entry on disk: the encoding omits the bodies of
// secrets.
func (s *sealedEntry) size(changes []storage.Change) int {
	size := len(s.Bytes)
	for i := range changes {
		if changes[i].Kind == storage.SecretPut {
			size += len(changes[i].Document.Body)
		}
	}
	return size
}

// seal encodes an entry. Large entries get memory of their own; others share the
// group's buffer.
func (g *group) seal(e *storage.Entry) sealedEntry {
	if len(e.Changes) > slabChanges {
		b := storage.AppendEntry(nil, e)
		return sealedEntry{Bytes: b, Hash: sha256.Sum256(b)}
	}
	if g.bytes == nil {
		g.bytes = g.queue.shared.buffers.Get().(*[]byte)
	}
	const extra = 8 // the driver appends a checksum
	from := len(*g.bytes)
	b := storage.AppendEntry(*g.bytes, e)
	to := len(b)
	*g.bytes = slices.Grow(b, extra)[:to+extra]
	b = (*g.bytes)[from : to : to+extra]
	return sealedEntry{Bytes: b, Hash: sha256.Sum256(b)}
}

// rebuild makes a new draft from the accepted entries. It is called after a
// rejected entry changed the draft, possibly in part.
func (g *group) rebuild() {
	g.draft.Reset()
	for i := range g.entries {
		// An entry that was applied once can be applied again.
		_ = g.draft.Apply(g.entries[i].Changes, g.heads[i])
	}
}

// tupleBytes is the approximate memory of a tuple with new names.
const tupleBytes = 128

// reserve returns the estimated size of what the changes add. It fails with
// ErrMemory if that exceeds the memory budget.
func (g *group) reserve(changes []storage.Change) (grows int64, err error) {
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case storage.TupleAdd:
			grows += tupleBytes + int64(len(c.Tuple.Object.ID)+len(c.Tuple.Subject.ID)) + 6*int64(len(c.Tuple.Context))
		case storage.AttributeSet:
			grows += tupleBytes + int64(len(c.Attribute.Object.ID)+len(c.Attribute.Value))
		case storage.DocumentPut:
			if c.Document.Kind == snapshot.SchemaKind {
				grows += int64(len(c.Document.Body)) * snapshot.CompilationFactor
			}
		}
	}
	r := g.queue.shared.runtime
	limit := r.MemoryMax
	if limit <= 0 || grows == 0 || r.Bytes()+g.ahead+g.memory+grows <= limit {
		return grows, nil
	}
	r.DropIdle()
	if now := r.Bytes() + g.ahead + g.memory + grows; now > limit {
		return 0, fmt.Errorf("%w: loaded stores use about %d bytes, expected less than %d", authz.ErrMemory, now, limit)
	}
	return grows, nil
}

// finish completes the writers of a group whose append returned err. It returns
// those that have to be validated again, because another process wrote first.
func (g *group) finish(ctx context.Context, err error) (again []*writer) {
	if isConflict(err) {
		g.queue.stale.Store(true)
		return g.writers // also those that were refused because of others of the group
	}
	for _, w := range g.writers {
		if w.err != nil {
			w.finish(w.err)
		}
	}
	if err == nil {
		g.setHeads()
		finishAll(g.accepted, nil)
		return nil
	}
	switch {
	case len(g.accepted) > 1 && isEntryError(err):
		// One entry caused the error. Append each writer's entry separately, so that
		// the other writers do not fail.
		for i := range g.accepted {
			g.queue.retry(ctx, g.accepted[i:i+1])
		}
	default:
		if errors.Is(err, authz.ErrUncertain) {
			g.setHeads()
		}
		finishAll(g.accepted, err)
	}
	return nil
}

// setHeads gives each accepted writer the head after its entry.
func (g *group) setHeads() {
	for _, w := range g.accepted {
		w.head = g.draft.Base().Head
		if w.entries > 0 {
			w.head = g.heads[w.entries-1]
		}
	}
}

// isConflict reports whether an append failed because another process wrote first.
func isConflict(err error) bool {
	_, ok := errors.AsType[*storage.ConflictError](err)
	return ok
}

// isEntryError reports whether a driver rejected an entry for its content.
func isEntryError(err error) bool {
	return errors.Is(err, storage.ErrEntry) || errors.Is(err, storage.ErrTooLarge) || errors.Is(err, storage.ErrFormat)
}

// release frees the memory of a group whose writers are done, and opens
// finished.
func (g *group) release() {
	for _, x := range g.slabs {
		if !g.kept {
			clear(x.changes[:x.used])
			x.used = 0
			g.queue.shared.giveSlab(x)
		}
	}
	if g.bytes != nil {
		*g.bytes = (*g.bytes)[:0]
		g.queue.shared.buffers.Put(g.bytes)
	}
	reusable := len(g.writers) == 1 && g.writers[0].transient
	g.slabs, g.bytes = nil, nil
	g.writers, g.accepted, g.entries, g.sealed, g.heads = nil, nil, nil, nil, nil
	g.draft, g.one, g.reusable = snapshot.Draft{}, oneWriter{}, reusable
	if !g.settled.Opened() {
		g.settled.Open()
	}
	g.finished.Open()
}

// slab is memory for the changes of one or several writers.
type slab struct {
	changes []storage.Change
	used    int
}

const (
	// slabChanges is the length of a slab for several writers, because most writers have one
	// change.
	slabChanges = 64
	// slabChangesMax is the length of the longest slab that is reused; it takes about 5 MiB.
	slabChangesMax = groupChangesMax
)

// takeSlab returns a slab with the length n or more.
func (s *Shared) takeSlab(n int) *slab {
	pool := &s.slabs
	if n > slabChanges {
		pool = &s.largeSlabs
	}
	x, _ := pool.Get().(*slab)
	if x == nil || len(x.changes) < n {
		x = &slab{changes: make([]storage.Change, max(n, slabChanges))}
	}
	return x
}

// giveSlab keeps a slab, whose changes are zero, for the next group.
func (s *Shared) giveSlab(x *slab) {
	switch n := len(x.changes); {
	case n == slabChanges:
		s.slabs.Put(x)
	case n <= slabChangesMax:
		s.largeSlabs.Put(x)
	}
}

// space returns an empty slice with the capacity for n changes. Its memory is
// reused after the group is finished, unless subscribers keep the entries.
func (g *group) space(n int) []storage.Change {
	if k := len(g.slabs); k == 0 || g.slabs[k-1].used+n > len(g.slabs[k-1].changes) {
		g.slabs = append(g.slabs, g.queue.shared.takeSlab(n))
	}
	last := g.slabs[len(g.slabs)-1]
	at := last.used
	last.used += n
	return last.changes[at:at:last.used]
}
