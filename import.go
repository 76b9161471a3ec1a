package ostiary

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// ImportOptions are the settings of an Import. The zero value is useful.
type ImportOptions struct {
	// SchemaID is as in Write.
	SchemaID string
	// OnDuplicate is as in Write. Fail ends the import at the first entry that
	// holds one; the entries before it stay.
	OnDuplicate ConflictAction
	// EntryTuples is how many tuples go into one entry of the log. Default
	// 20,000; most storage.ChangesMax.
	EntryTuples int
	// Progress, if set, is called after each entry with the number of tuples that
	// were read so far and are durable.
	Progress func(tuples int)
}

// ImportResult says what an Import did, also where it returns an error.
type ImportResult struct {
	// Read counts the tuples that were taken from the sequence and are durable or
	// were ignored as duplicates.
	Read int
	// Token is that of the last entry, "" if there is none.
	Token Token
}

const importEntryTuples = 20_000

// Import writes many tuples in large entries, each of them atomic and durable
// before the next. Every tuple is validated as Write does. An error of the
// sequence, a tuple that is refused, or the context's end stops it; what was
// written before stays, and Imported counts it.
func (s *Store) Import(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], o ImportOptions) (ImportResult, error) {
	const op = "import"
	if o.EntryTuples <= 0 {
		o.EntryTuples = importEntryTuples
	}
	if err := over("ChangesMax", o.EntryTuples, storage.ChangesMax); err != nil {
		return ImportResult{}, failed(op, s.id, err)
	}
	if o.OnDuplicate > Replace {
		return ImportResult{}, failed(op, s.id, fmt.Errorf("%w: unknown policy", ErrInvalidRequest))
	}
	im := importing{s: s, o: &o}
	err := im.run(ctx, tuples)
	return im.done, failed(op, s.id, err)
}

// importing is one Import. While a chunk is appended, the next one is validated
// on what it will lead to, and the one after that is read.
type importing struct {
	s     *Store
	o     *ImportOptions
	write WriteRequest
	chunk *chunk // being read
	taken int    // tuples of the chunks before
	done  ImportResult

	older, newer *chunk   // under way, nil if there is none
	spare        []*chunk // whose memory is used again
}

// chunk is what goes into one entry.
type chunk struct {
	tuples []rel.Tuple
	bytes  int
	first  int // tuples before it

	sub     submission
	before  *chunk // the one before it, while that is not known to be written
	in      *group // that validated it last
	last    admittedKind
	changes []storage.Change
	written chan error
}

// importEntryBytes keeps an entry below the format's bound, whatever the names'
// lengths.
const importEntryBytes = storage.EntryBytesMax / 2

func (im *importing) run(ctx context.Context, tuples iter.Seq2[rel.Tuple, error]) (err error) {
	im.write = WriteRequest{OnDuplicate: im.o.OnDuplicate, SchemaID: im.o.SchemaID}
	im.chunk = new(chunk)
	defer func() {
		for range 2 {
			if waited := im.wait(); err == nil {
				err = waited
			}
		}
	}()
	for t, err := range tuples {
		c := im.chunk
		if err == nil {
			err = t.Validate()
		}
		if err != nil {
			return fmt.Errorf("tuple %d: %w", im.taken+len(c.tuples)+1, err)
		}
		size := tupleSize(&t)
		if len(c.tuples) >= im.o.EntryTuples || len(c.tuples) > 0 && c.bytes+size > importEntryBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
			c = im.chunk
		}
		c.tuples = append(c.tuples, t)
		c.bytes += size
	}
	return im.flush(ctx)
}

func tupleSize(t *rel.Tuple) int {
	return len(t.Object.Type) + len(t.Object.ID) + len(t.Relation) + len(t.Subject.Type) + len(t.Subject.ID) +
		len(t.Subject.Relation) + len(t.Condition) + len(t.Context) + 32
}

// wait waits for the older chunk under way, if there is one. What came after one
// that failed is not written.
func (im *importing) wait() error {
	c := im.older
	im.older, im.newer = im.newer, nil
	if c == nil {
		return nil
	}
	if err := <-c.written; err != nil {
		return err
	}
	im.done.Read += len(c.tuples)
	im.done.Token = im.s.tokenAt(c.sub.head)
	if im.o.Progress != nil {
		im.o.Progress(im.done.Read)
	}
	again := &chunk{tuples: c.tuples[:0]}
	if !c.in.kept {
		again.changes = c.changes[:0] // which hold tuples, and nothing else
	}
	im.spare = append(im.spare, again)
	return nil
}

// flush starts to write the chunk, once there is one under way at most.
func (im *importing) flush(ctx context.Context) error {
	if im.newer != nil || len(im.chunk.tuples) == 0 {
		if err := im.wait(); err != nil || len(im.chunk.tuples) == 0 {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := im.chunk
	c.first, im.taken = im.taken, im.taken+len(c.tuples)
	c.sub.weight = len(c.tuples)
	c.sub.build = func(g *group) ([]storage.Change, error) {
		c.in = g
		return im.build(ctx, g, c)
	}
	c.written = make(chan error, 1)
	if c.before = im.older; im.older == nil {
		im.older = c
	} else {
		im.newer = c
	}
	im.chunk = new(chunk)
	if n := len(im.spare); n > 0 {
		im.chunk, im.spare = im.spare[n-1], im.spare[:n-1]
	}
	if err := im.s.enqueue(&c.sub); err != nil { // in the order of the chunks
		c.written <- err
		return nil
	}
	go func() {
		_, err := im.s.outcome(ctx, &c.sub)
		c.before = nil // or each would keep the one before it
		c.written <- err
	}()
	return nil
}

// errChunkBefore says that a chunk was not written because the one before it
// was not.
var errChunkBefore = errors.New("the entry before it was not written")

// build is group.changes for a chunk. What is added shows in the batch at once,
// so that a key that comes twice in the chunk is a duplicate like any other.
func (im *importing) build(ctx context.Context, g *group, c *chunk) ([]storage.Change, error) {
	if c.before != nil && g.failed(&c.before.sub) {
		return nil, errChunkBefore
	}
	chunk, first := c.tuples, c.first
	out := slices.Grow(c.changes[:0], len(chunk))
	g.applied, c.last = true, admittedKind{}
	good, refused := im.admitted(ctx, g, c)
	done, at := 0, len(chunk) // at is how many are tried at once
	for done < good {
		run := chunk[done:min(done+at, good)]
		n, err := g.batch.AddAbsent(run)
		for i := range run[:n] {
			// In its place: a Change is large, and the rest of it is zero.
			out = slices.Grow(out, 1)[:len(out)+1]
			c := &out[len(out)-1]
			c.Kind, c.Fresh, c.Tuple = storage.TupleAdd, true, run[i]
		}
		done, at = done+n, 2*at
		if err == nil && n < len(run) { // the next one is there already
			if out, err = im.again(g, &run[n], out); err == nil {
				done++
			}
			at = 1 // where there is one, there are often many
		}
		if err != nil {
			return nil, fmt.Errorf("tuple %d: %w", first+done+1, err)
		}
	}
	if refused != nil {
		return nil, fmt.Errorf("tuple %d: %w", first+good+1, refused)
	}
	c.changes = out
	return out, nil
}

// admitted says how many of a chunk's tuples the schema admits, up to the first that
// it refuses, and why it does.
func (im *importing) admitted(ctx context.Context, g *group, c *chunk) (int, error) {
	for i := range c.tuples {
		t := &c.tuples[i]
		if !c.last.covers(t) {
			if err := g.admit(ctx, t, im.write.SchemaID); err != nil {
				return i, err
			}
			c.last = admittedKindOf(t)
		}
		if t.Expires != 0 {
			im.s.expiring.Store(true)
		}
	}
	return len(c.tuples), nil
}

// again adds a tuple whose key is there, as the policy says.
func (im *importing) again(g *group, t *rel.Tuple, out []storage.Change) ([]storage.Change, error) {
	n := len(out)
	out, err := g.addition(&im.write, t, out)
	if err == nil && len(out) > n {
		_, err = applyChanges(g.batch, g.schemas, out[n:], storage.Head{}, g.s)
	}
	return out, err
}

// admittedKind is what the schema's answer for a plain tuple hangs on: most
// tuples of an import, or of a large write, are like the one before.
type admittedKind struct{ objectType, relation, subjectType, subjectRelation string }

func admittedKindOf(t *rel.Tuple) admittedKind {
	if t.Condition != "" || t.Subject.ID == rel.Wildcard {
		return admittedKind{}
	}
	return admittedKind{t.Object.Type, t.Relation, t.Subject.Type, t.Subject.Relation}
}

// covers says that t is admitted if the tuple before was.
func (k *admittedKind) covers(t *rel.Tuple) bool {
	return k.relation == t.Relation && k.objectType == t.Object.Type && k.subjectType == t.Subject.Type &&
		k.subjectRelation == t.Subject.Relation && t.Condition == "" && t.Subject.ID != rel.Wildcard &&
		t.Object.ID != rel.Wildcard && t.Subject.ID != t.Object.ID
}
