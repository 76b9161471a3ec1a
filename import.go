package ostiary

import (
	"context"
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
	OnDuplicate Policy
	// EntryTuples is how many tuples go into one entry of the log. Default
	// 20,000; most storage.ChangesMax.
	EntryTuples int
	// Progress, if set, is called after each entry with the number of tuples that
	// were read so far and are durable.
	Progress func(tuples int)
}

// Imported says what an Import did, also where it returns an error.
type Imported struct {
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
func (s *Store) Import(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], o ImportOptions) (Imported, error) {
	const op = "import"
	if o.EntryTuples <= 0 {
		o.EntryTuples = importEntryTuples
	}
	if err := over("ChangesMax", o.EntryTuples, storage.ChangesMax); err != nil {
		return Imported{}, failed(op, s.id, err)
	}
	if o.OnDuplicate > Replace {
		return Imported{}, failed(op, s.id, fmt.Errorf("%w: unknown policy", ErrInvalidRequest))
	}
	im := importing{s: s, o: &o}
	err := im.run(ctx, tuples)
	return im.done, failed(op, s.id, err)
}

// importing is one Import. While a chunk is written, the next one is read and
// checked.
type importing struct {
	s     *Store
	o     *ImportOptions
	chunk []rel.Tuple
	bytes int
	taken int // tuples of the chunks before

	writing chan error // holds the outcome of the chunk that is being written
	spare   []rel.Tuple
	done    Imported // belongs to the writing goroutine until it has ended
	write   Write
	last    admittedKind
	changes []storage.Change // of the entry before, used again if nobody keeps it
}

// importEntryBytes keeps an entry below the format's bound, whatever the names'
// lengths.
const importEntryBytes = storage.EntryBytesMax / 2

func (im *importing) run(ctx context.Context, tuples iter.Seq2[rel.Tuple, error]) (err error) {
	im.write = Write{OnDuplicate: im.o.OnDuplicate, SchemaID: im.o.SchemaID}
	defer func() {
		if waited := im.wait(); err == nil {
			err = waited
		}
	}()
	for t, err := range tuples {
		if err == nil {
			err = t.Validate()
		}
		if err != nil {
			return fmt.Errorf("tuple %d: %w", im.taken+len(im.chunk)+1, err)
		}
		size := tupleSize(&t)
		if len(im.chunk) >= im.o.EntryTuples || len(im.chunk) > 0 && im.bytes+size > importEntryBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
		im.chunk = append(im.chunk, t)
		im.bytes += size
	}
	return im.flush(ctx)
}

func tupleSize(t *rel.Tuple) int {
	return len(t.Object.Type) + len(t.Object.ID) + len(t.Relation) + len(t.Subject.Type) + len(t.Subject.ID) +
		len(t.Subject.Relation) + len(t.Condition) + len(t.Context) + 32
}

// wait returns the outcome of the chunk that is being written, if one is.
func (im *importing) wait() error {
	if im.writing == nil {
		return nil
	}
	err := <-im.writing
	im.writing = nil
	return err
}

// flush starts to write the chunk, once the one before is written.
func (im *importing) flush(ctx context.Context) error {
	if err := im.wait(); err != nil || len(im.chunk) == 0 {
		return err
	}
	chunk, first := im.chunk, im.taken
	im.taken += len(chunk)
	im.chunk, im.spare, im.bytes = im.spare[:0], chunk, 0
	writing := make(chan error, 1)
	im.writing = writing
	go func() { writing <- im.writeChunk(ctx, chunk, first) }()
	return nil
}

func (im *importing) writeChunk(ctx context.Context, chunk []rel.Tuple, first int) error {
	var in *group
	head, err := im.s.submit(ctx, func(g *group) ([]storage.Change, error) {
		in = g
		return im.build(ctx, g, chunk, first)
	})
	if err != nil {
		return err
	}
	if in.kept {
		im.changes = nil
	}
	im.done.Read += len(chunk)
	im.done.Token = im.s.tokenAt(head)
	if im.o.Progress != nil {
		im.o.Progress(im.done.Read)
	}
	return nil
}

// build is group.changes for a chunk. What is added shows in the batch at once,
// so that a key that comes twice in the chunk is a duplicate like any other.
func (im *importing) build(ctx context.Context, g *group, chunk []rel.Tuple, first int) ([]storage.Change, error) {
	out := slices.Grow(im.changes[:0], len(chunk))
	g.applied, im.last = true, admittedKind{}
	good, refused := im.admitted(ctx, g, chunk)
	done, at := 0, len(chunk) // at is how many are tried at once
	for done < good {
		run := chunk[done:min(done+at, good)]
		n, err := g.batch.AddAbsent(run)
		for i := range run[:n] {
			out = append(out, storage.Change{Kind: storage.TupleAdd, Tuple: run[i], Fresh: true})
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
	im.changes = out
	return out, nil
}

// admitted says how many of the tuples the schema admits, up to the first that
// it refuses, and why it does.
func (im *importing) admitted(ctx context.Context, g *group, tuples []rel.Tuple) (int, error) {
	for i := range tuples {
		t := &tuples[i]
		if !im.last.covers(t) {
			if err := g.admit(ctx, t, im.write.SchemaID); err != nil {
				return i, err
			}
			im.last = admittedKindOf(t)
		}
		if t.Expires != 0 {
			im.s.expiring.Store(true)
		}
	}
	return len(tuples), nil
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
// tuples of an import are like the one before.
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
