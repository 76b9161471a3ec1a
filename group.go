package ostiary

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// group is the writes that go into one append, on the view they are validated
// on. It belongs to who leads it.
type group struct {
	s       *Store
	taken   []*submission // all that it is to answer
	members []*submission // those that were not refused
	base    *view
	batch   *graph.Batch // base with the entries
	schemas *schemaSet
	now     rel.Time
	// compiled are schemas that a member has compiled, by id.
	compiled map[string]*schema.Schema

	// applied is set by a build that has done its changes to the batch.
	applied bool
	// kept says, once the group is published, that somebody keeps its entries.
	kept bool
	// single says, once it has landed, that its memory may be used again.
	single bool

	slabs   []*slab // memory of members' changes
	bytes   *[]byte // memory of what is sealed; nil while nothing is
	entries []storage.Entry
	sealed  []storage.Sealed
	heads   []storage.Head // after each entry
	memory  int64          // estimate of what the entries add

	made latch // opened when view is there
	view *view // what the entries lead to
	done latch // opened when all is settled; of a flight only

	one groupOfOne
}

// groupOfOne is memory for a group of one writer, which most groups are.
type groupOfOne struct {
	taken, members [1]*submission
	slabs          [1]*slab
	entries        [1]storage.Entry
	sealed         [1]storage.Sealed
	heads          [1]storage.Head
}

// newGroup starts a group on the newest view, or on one that will be.
func (s *Store) newGroup(base *view) *group {
	g := &group{}
	g.begin(s, base)
	return g
}

// begin starts a group that is new, or has landed and is nobody else's.
func (g *group) begin(s *Store, base *view) {
	g.s, g.base, g.schemas, g.now = s, base, base.schemas, s.engine.now()
	g.batch = base.schemas.lineage.BeginOn(base.graph)
	g.compiled, g.applied, g.kept, g.single, g.memory, g.view = nil, false, false, false, 0, nil
	g.made.shut()
	g.done.shut()
	one := &g.one
	g.taken, g.members, g.slabs, g.entries = one.taken[:0], one.members[:0], one.slabs[:0], one.entries[:0]
	g.sealed, g.heads = one.sealed[:0], one.heads[:0]
}

// head is the place that the group's next entry follows.
func (g *group) head() storage.Head {
	if n := len(g.heads); n > 0 {
		return g.heads[n-1]
	}
	return g.base.head
}

// ready finds the schema that admits tuples of a type.
func (g *group) ready(ctx context.Context, typ, id string) (*readySchema, error) {
	if b := g.schemas.find(typ); b != nil && id == "" {
		if r := b.ready.Load(); r != nil {
			return r, nil
		}
	}
	return g.s.ready(ctx, &view{head: g.base.head, graph: g.base.graph, schemas: g.schemas}, typ, id)
}

// collect validates each writer on the group's state so far, and adds the
// entries of those that pass. The others have their error.
func (g *group) collect(subs []*submission) {
	g.taken = append(g.taken, subs...)
	g.tryAll(subs)
}

// takeMore is collect for those that wait and fit in.
func (g *group) takeMore() {
	n := len(g.taken)
	g.taken = g.s.take(g.taken)
	g.tryAll(g.taken[n:])
}

func (g *group) tryAll(subs []*submission) {
	g.members = slices.Grow(g.members, len(subs))
	g.entries, g.sealed, g.heads = slices.Grow(g.entries, len(subs)), slices.Grow(g.sealed, len(subs)), slices.Grow(g.heads, len(subs))
	for _, sub := range subs {
		g.try(sub)
	}
}

func (g *group) try(sub *submission) {
	sub.err = g.enter(sub)
	if sub.err == nil {
		sub.at = len(g.entries)
		g.members = append(g.members, sub)
	}
}

// again tries those that were refused once more.
func (g *group) again() {
	for _, sub := range g.taken {
		if sub.err != nil {
			g.try(sub)
		}
	}
}

// failed says that a writer who came before has an error, as far as can be
// known: where his outcome hangs on a group that is being appended, g does too.
func (g *group) failed(sub *submission) bool {
	if slices.Contains(g.taken, sub) {
		return sub.err != nil
	}
	return sub.settled.Load() && sub.err != nil
}

func (g *group) enter(sub *submission) error {
	g.applied, g.compiled = false, nil
	changes, err := sub.build(g)
	if err == nil && len(changes) > 0 {
		err = g.add(changes)
	}
	if err != nil && g.applied {
		g.rebuild()
	}
	return err
}

// add makes an entry of changes that are validated, and applies it to the
// group's state.
func (g *group) add(changes []storage.Change) error {
	if len(changes) > storage.ChangesMax {
		return &BoundError{"ChangesMax", storage.ChangesMax, int64(len(changes))}
	}
	grows, err := g.room(changes)
	if err != nil {
		return err
	}
	after := g.head()
	e := storage.Entry{Incarnation: g.s.incarnation, Revision: after.Revision + 1, Previous: after.Hash,
		Writer: g.s.engine.writer, Sequence: g.s.sequence.Add(1), Time: max(g.now, after.Time), Changes: changes}
	sealed := g.seal(&e)
	size := len(sealed.Bytes)
	for i := range changes {
		if changes[i].Kind == storage.SecretPut {
			size += len(changes[i].Document.Body)
		}
	}
	if size > storage.EntryBytesMax {
		return &BoundError{"EntryBytesMax", storage.EntryBytesMax, int64(size)}
	}
	head := storage.Head{Revision: e.Revision, Hash: sealed.Hash, Time: e.Time}
	if !g.applied {
		g.applied = true
		if g.schemas, err = applyEntry(g.batch, g.schemas, &e, g.s); err != nil {
			return err
		}
	}
	g.entries, g.sealed, g.heads = append(g.entries, e), append(g.sealed, sealed), append(g.heads, head)
	g.memory += grows
	for id, compiled := range g.compiled {
		g.bindCompiled(id, compiled)
	}
	return nil
}

// seal makes an entry's canonical bytes, of which the driver gets the same.
func (g *group) seal(e *storage.Entry) storage.Sealed {
	if len(e.Changes) > slabChanges { // memory that fits is made for so many at once
		b := storage.AppendEntry(nil, e)
		return storage.Sealed{Bytes: b, Hash: sha256.Sum256(b)}
	}
	if g.bytes == nil {
		g.bytes = g.s.engine.buffers.Get().(*[]byte)
	}
	const spare = 8 // for the driver's checksum
	from := len(*g.bytes)
	b := storage.AppendEntry(*g.bytes, e)
	to := len(b)
	*g.bytes = slices.Grow(b, spare)[:to+spare]
	b = (*g.bytes)[from : to : to+spare]
	return storage.Sealed{Bytes: b, Hash: sha256.Sum256(b)}
}

// bindCompiled makes a schema ready that its writer has compiled already.
func (g *group) bindCompiled(id string, compiled *schema.Schema) {
	for _, b := range g.schemas.current {
		if b.row.id == id && b.ready.Load() == nil {
			if r, err := bindSchema(b.row, compiled, g.schemas.lineage); err == nil {
				b.ready.Store(r)
			}
		}
	}
	g.s.engine.cache.put(schemaKey{g.s.id, g.s.incarnation, id}, compiled)
}

// rebuild makes the batch anew of the entries so far, after one was applied
// that is not to be, or in part.
func (g *group) rebuild() {
	g.batch = g.base.schemas.lineage.BeginOn(g.base.graph)
	g.schemas = g.base.schemas
	for i := range g.entries {
		// What was applied once is applied again.
		if set, err := applyEntry(g.batch, g.schemas, &g.entries[i], g.s); err == nil {
			g.schemas = set
		}
	}
}

// room refuses what would pass the memory budget, and returns an estimate of
// what the changes add.
func (g *group) room(changes []storage.Change) (grows int64, err error) {
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case storage.TupleAdd:
			grows += tupleBytes + int64(len(c.Tuple.Object.ID)+len(c.Tuple.Subject.ID)) + 6*int64(len(c.Tuple.Context))
		case storage.AttributeSet:
			grows += tupleBytes + int64(len(c.Attribute.Object.ID)+len(c.Attribute.Value))
		}
	}
	e := g.s.engine
	limit := e.opts.MemoryMax
	if limit <= 0 || grows == 0 || e.bytes.Load()+g.memory+grows <= limit {
		return grows, nil
	}
	e.DropIdle()
	if now := e.bytes.Load() + g.memory + grows; now > limit {
		return 0, fmt.Errorf("%w: %d of %d bytes", ErrMemory, now, limit)
	}
	return grows, nil
}

// tupleBytes is what a tuple with new names takes, about.
const tupleBytes = 128

// append makes the group durable and publishes its view. An answer that was
// lost is looked for in the log.
func (g *group) append(ctx context.Context) error {
	// Nobody sees the new view before the entries are durable, but for the next
	// group, which is validated on it.
	if g.small() {
		g.makeView()
	} else {
		go g.makeView() // while the disk is waited for
	}
	head, err := g.appendTo(ctx, g.s.engine.driver)
	g.made.wait()
	if err == nil && head.Hash != g.heads[len(g.heads)-1].Hash {
		err = fmt.Errorf("%w: the driver's head is not the entry's", storage.ErrDamaged)
	}
	if err != nil {
		var conflict *storage.ConflictError
		if errors.As(err, &conflict) || errors.Is(err, storage.ErrEntry) || errors.Is(err, storage.ErrTooLarge) {
			return err
		}
		if err := g.lost(ctx, err); err != nil {
			return err
		}
	}
	return g.publish()
}

// small says that making the group's view takes less than to have it made.
func (g *group) small() bool {
	changes := 0
	for i := range g.entries {
		changes += len(g.entries[i].Changes)
	}
	return changes <= smallMax
}

const smallMax = 8 // changes

func (g *group) appendTo(ctx context.Context, d storage.Driver) (storage.Head, error) {
	if s, ok := d.(storage.SealedAppender); ok {
		return s.AppendSealed(ctx, g.s.id, g.base.head, g.entries, g.sealed)
	}
	return d.Append(ctx, g.s.id, g.base.head, g.entries)
}

// slab is memory for the changes of several writers, who mostly have one each.
type slab struct {
	changes [slabChanges]storage.Change
	used    int
}

const slabChanges = 64

// space returns room for n changes of a member. It is used again by another
// group once this one has landed, unless somebody keeps the entries.
func (g *group) space(n int) []storage.Change {
	if n > slabChanges/4 {
		return make([]storage.Change, 0, n)
	}
	if k := len(g.slabs); k == 0 || g.slabs[k-1].used+n > slabChanges {
		g.slabs = append(g.slabs, g.s.engine.slabs.Get().(*slab))
	}
	last := g.slabs[len(g.slabs)-1]
	at := last.used
	last.used += n
	return last.changes[at:at:last.used]
}

// landed says that all is settled, and keeps nothing for who looks later.
func (g *group) landed() {
	for _, x := range g.slabs {
		if !g.kept {
			clear(x.changes[:x.used])
			x.used = 0
			g.s.engine.slabs.Put(x)
		}
	}
	if g.bytes != nil {
		*g.bytes = (*g.bytes)[:0]
		g.s.engine.buffers.Put(g.bytes)
	}
	single := len(g.taken) == 1 && g.taken[0].forgets
	g.slabs, g.bytes = nil, nil
	g.taken, g.members, g.entries, g.sealed, g.heads = nil, nil, nil, nil, nil
	g.base, g.batch, g.one, g.single = nil, nil, groupOfOne{}, single
	g.done.open()
}

func (g *group) makeView() {
	g.view = &view{head: g.head(), graph: g.batch.View(), schemas: g.schemas}
	g.made.open()
}

// publish makes the group's view the newest.
func (g *group) publish() error {
	if _, err := g.batch.Publish(); err != nil {
		return err
	}
	g.kept = g.s.publish(g.view, g.entries, g.heads)
	return nil
}

// lost finds out whether an append that returned an error took place: nil if
// it did.
func (g *group) lost(ctx context.Context, cause error) error {
	g.s.stale = true
	ctx, cancel := g.s.withAppendTime(ctx)
	defer cancel()
	head, err := g.s.engine.driver.Head(ctx, g.s.id)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, cause)
	}
	if head.Revision <= g.base.head.Revision {
		return cause
	}
	first := &g.entries[0]
	for e, err := range g.s.engine.driver.Entries(ctx, g.s.id, first.Revision) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, cause)
		}
		if e.Writer == first.Writer && e.Sequence == first.Sequence {
			return nil // the first is there, so all are
		}
		break
	}
	return cause
}
