package ostiary

import (
	"context"
	"fmt"
	"iter"

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

// importing is one Import.
type importing struct {
	s     *Store
	o     *ImportOptions
	chunk []rel.Tuple
	bytes int
	done  Imported
}

// importEntryBytes keeps an entry below the format's bound, whatever the names'
// lengths.
const importEntryBytes = storage.EntryBytesMax / 2

func (im *importing) run(ctx context.Context, tuples iter.Seq2[rel.Tuple, error]) error {
	for t, err := range tuples {
		if err == nil {
			err = t.Validate()
		}
		if err != nil {
			return fmt.Errorf("tuple %d: %w", im.done.Read+len(im.chunk)+1, err)
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

func (im *importing) flush(ctx context.Context) error {
	if len(im.chunk) == 0 {
		return nil
	}
	w := Write{OnDuplicate: im.o.OnDuplicate, SchemaID: im.o.SchemaID}
	head, err := im.s.submit(ctx, func(g *group) ([]storage.Change, error) {
		out := make([]storage.Change, 0, len(im.chunk))
		// What is added shows at once, so that a key that comes twice in the chunk
		// is a duplicate like any other.
		g.applied = true
		for i := range im.chunk {
			n := len(out)
			var err error
			if out, err = g.addition(ctx, &w, &im.chunk[i], out); err == nil && len(out) > n {
				_, err = applyChanges(g.batch, g.schemas, out[n:], storage.Head{}, g.s)
			}
			if err != nil {
				return nil, fmt.Errorf("tuple %d: %w", im.done.Read+i+1, err)
			}
		}
		return out, nil
	})
	if err != nil {
		return err
	}
	im.done.Read += len(im.chunk)
	im.done.Token = im.s.tokenAt(head)
	im.chunk, im.bytes = im.chunk[:0], 0
	if im.o.Progress != nil {
		im.o.Progress(im.done.Read)
	}
	return nil
}
