package commit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

const (
	importEntryTuples = 20_000
	// importEntryBytes keeps entries below the bound of the format.
	importEntryBytes = storage.EntryBytesMax / 2
)

// Import writes many tuples in large entries, each of them atomic and durable
// before the next one. Every tuple is validated as by Write. An error of the
// sequence, a rejected tuple or the end of ctx ends the import; the entries
// before stay, and the result counts them.
func (q *Queue) Import(ctx context.Context, tuples iter.Seq2[rel.Tuple, error], o authz.ImportOptions) (authz.ImportResult, error) {
	const op = "import"
	if o.EntryTuples <= 0 {
		o.EntryTuples = importEntryTuples
	}
	if err := errs.CheckBound("ChangesMax", o.EntryTuples, storage.ChangesMax); err != nil {
		return authz.ImportResult{}, errs.Wrap(op, q.timeline.ID, err)
	}
	if o.OnDuplicate > authz.Replace {
		return authz.ImportResult{}, errs.Wrap(op, q.timeline.ID,
			fmt.Errorf("%w: OnDuplicate is %d, expected at most %d", authz.ErrInvalidRequest, o.OnDuplicate, authz.Replace))
	}
	if err := q.shared.runtime.BeforeWrite(ctx); err != nil {
		return authz.ImportResult{}, errs.Wrap(op, q.timeline.ID, err)
	}
	im := importer{queue: q, options: &o, request: authz.WriteRequest{OnDuplicate: o.OnDuplicate, SchemaID: o.SchemaID}, chunk: new(chunk)}
	err := errs.Wrap(op, q.timeline.ID, im.run(ctx, tuples))
	var e *authz.Error
	if im.sequenceFailed && errors.As(err, &e) && e.Kind == authz.ErrStorage {
		e.Kind = authz.ErrInvalidRequest // the caller's sequence failed, not the driver
	}
	return im.result, err
}

// importer is an import in progress. It works on three chunks at a time: it
// appends one, validates the next one on the view that includes the first, and
// reads a third.
type importer struct {
	queue   *Queue
	options *authz.ImportOptions
	request authz.WriteRequest // has the settings that the validation of a tuple needs
	chunk   *chunk             // being read
	taken   int                // tuples of the chunks before
	result  authz.ImportResult
	// sequenceFailed is true after an error of the caller's sequence.
	sequenceFailed bool

	older, newer *chunk   // in the queue; nil if the queue has none
	recycled     []*chunk // their memory is reused
}

// chunk is the tuples of one entry.
type chunk struct {
	tuples []rel.Tuple
	bytes  int // approximate size of the tuples in an entry
	first  int // number of tuples before the chunk

	writer  writer
	before  *chunk // the previous chunk, while it is in the queue
	group   *group // the group that validated it last
	shape   tupleShape
	changes []storage.Change
	added   int        // tuples that changes adds
	written chan error // receives the outcome
}

func (im *importer) run(ctx context.Context, tuples iter.Seq2[rel.Tuple, error]) (err error) {
	defer func() {
		for range 2 {
			if waited := im.wait(); err == nil {
				err = waited
			}
		}
	}()
	for t, err := range tuples {
		c := im.chunk
		if im.sequenceFailed = err != nil; err == nil {
			err = t.Validate()
		}
		if err != nil {
			return &authz.ImportError{Tuple: im.taken + len(c.tuples) + 1, Err: err}
		}
		size := tupleSize(&t)
		if len(c.tuples) >= im.options.EntryTuples || len(c.tuples) > 0 && c.bytes+size > importEntryBytes {
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

// tupleSize returns the approximate size of a tuple in an entry.
func tupleSize(t *rel.Tuple) int {
	return len(t.Object.Type) + len(t.Object.ID) + len(t.Relation) + len(t.Subject.Type) + len(t.Subject.ID) +
		len(t.Subject.Relation) + len(t.Condition) + len(t.Context) + 32
}

// wait waits until the older chunk in the queue is written, if there is one.
func (im *importer) wait() error {
	c := im.older
	im.older, im.newer = im.newer, nil
	if c == nil {
		return nil
	}
	if err := <-c.written; err != nil {
		return err
	}
	im.result.Read += len(c.tuples)
	im.result.Written += c.added
	im.result.Token = im.queue.timeline.Token(c.writer.head)
	if im.options.Progress != nil {
		im.options.Progress(im.result.Read)
	}
	again := &chunk{tuples: c.tuples[:0]}
	if !c.group.kept {
		again.changes = c.changes[:0]
	}
	im.recycled = append(im.recycled, again)
	return nil
}

// flush queues the chunk that was read. It waits until at most one other chunk
// is in the queue.
func (im *importer) flush(ctx context.Context) error {
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
	if err := c.writer.setOrigin(ctx, &im.options.Origin, storage.CallerImport); err != nil {
		return err
	}
	c.writer.weight = len(c.tuples)
	c.writer.build = func(g *group) ([]storage.Change, error) {
		c.group = g
		return im.build(ctx, g, c)
	}
	c.written = make(chan error, 1)
	if c.before = im.older; im.older == nil {
		im.older = c
	} else {
		im.newer = c
	}
	im.chunk = new(chunk)
	if n := len(im.recycled); n > 0 {
		im.chunk, im.recycled = im.recycled[n-1], im.recycled[:n-1]
	}
	// enqueue runs here and not in the goroutine, to keep the order of the chunks.
	if err := im.queue.enqueue(&c.writer); err != nil {
		c.written <- err
		return nil
	}
	go func() {
		_, err := im.queue.wait(ctx, &c.writer)
		c.before = nil // otherwise each chunk would keep all earlier chunks in memory
		c.written <- err
	}()
	return nil
}

// errChunkBefore means that a chunk was not written because the chunk before it
// failed.
var errChunkBefore = errors.New("the previous entry of the import was not written")

// build validates a chunk and returns its changes. It adds each tuple to the
// draft immediately, so a second tuple with the same key in the chunk counts
// as a duplicate.
func (im *importer) build(ctx context.Context, g *group, c *chunk) ([]storage.Change, error) {
	if c.before != nil && g.hasFailed(&c.before.writer) {
		return nil, errChunkBefore
	}
	out := slices.Grow(c.changes[:0], len(c.tuples))
	g.applied, c.shape, c.added = true, tupleShape{}, 0
	good, rejected := im.admitted(ctx, g, c)
	done, size := 0, len(c.tuples) // size is how many tuples are added at once
	for done < good {
		run := c.tuples[done:min(done+size, good)]
		n, err := g.draft.Batch.AddAbsent(run)
		for i := range run[:n] {
			// Only the fields that are not zero are set, because a Change is large.
			out = slices.Grow(out, 1)[:len(out)+1]
			c := &out[len(out)-1]
			c.Kind, c.Fresh, c.Tuple = storage.TupleAdd, true, run[i]
		}
		done, size, c.added = done+n, 2*size, c.added+n
		if err == nil && n < len(run) { // the next tuple is a duplicate
			before := len(out)
			if out, err = im.addDuplicate(g, &run[n], out); err == nil {
				done++
				c.added += min(len(out)-before, 1)
			}
			size = 1 // duplicates are often neighbors
		}
		if err != nil {
			return nil, &authz.ImportError{Tuple: c.first + done + 1, Err: err}
		}
	}
	if rejected != nil {
		return nil, &authz.ImportError{Tuple: c.first + good + 1, Err: rejected}
	}
	c.changes = out
	return out, nil
}

// admitted returns how many tuples of a chunk precede the first one that the
// schema rejects, and the reason of that rejection.
func (im *importer) admitted(ctx context.Context, g *group, c *chunk) (int, error) {
	for i := range c.tuples {
		t := &c.tuples[i]
		if !c.shape.admits(t) {
			if err := g.admit(ctx, t, im.request.SchemaID); err != nil {
				return i, err
			}
			c.shape = shapeOf(t)
		}
		im.queue.timeline.NoteExpiry(t)
	}
	return len(c.tuples), nil
}

// addDuplicate adds a tuple whose key exists, according to OnDuplicate.
func (im *importer) addDuplicate(g *group, t *rel.Tuple, out []storage.Change) ([]storage.Change, error) {
	n := len(out)
	out, err := g.addition(&im.request, t, out)
	if err == nil && len(out) > n {
		err = g.draft.Apply(out[n:], storage.Head{})
	}
	return out, err
}
