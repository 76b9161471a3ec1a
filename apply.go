package ostiary

import (
	"context"
	"errors"
	"fmt"

	"github.com/ostiary/ostiary/graph"
	"github.com/ostiary/ostiary/storage"
)

// applyEntry does an entry's changes to a batch, and returns the schemas after
// it. After an error the batch holds a part of the entry.
func applyEntry(b *graph.Batch, set *schemaSet, e *storage.Entry, s *Store) (*schemaSet, error) {
	return applyChanges(b, set, e.Changes, storage.Head{Revision: e.Revision, Time: e.Time}, s)
}

// applyChanges is applyEntry for the changes of the entry at a head.
func applyChanges(b *graph.Batch, set *schemaSet, changes []storage.Change, at storage.Head, s *Store) (*schemaSet, error) {
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case storage.TupleAdd:
			if c.Tuple.Expires != 0 {
				s.expiring.Store(true)
			}
			if err := b.Add(c.Tuple); err != nil {
				return nil, err
			}
		case storage.TupleRemove:
			b.Remove(c.Tuple.Key())
		case storage.AttributeSet:
			if err := b.SetAttribute(c.Attribute); err != nil {
				return nil, err
			}
		case storage.AttributeRemove:
			b.RemoveAttribute(c.Attribute.Object, c.Attribute.Name)
		case storage.DocumentPut:
			if c.Document.Kind == schemaKind {
				set = set.with(schemaRowOf(storage.DocumentRow{Key: c.Document.Key, Secondary: c.Document.Secondary,
					Created: at.Revision, CreatedAt: at.Time}))
			}
		case storage.DocumentRemove:
			if c.Document.Kind == schemaKind {
				set = set.without(c.Document.Key)
			}
		case storage.SecretPut, storage.SecretRemove:
			// A view holds no secret.
		case storage.RemoveByFilter:
			switch f := &c.Filter; f.Target {
			case storage.FilterTuples:
				b.RemoveMatching(f.Tuple)
			case storage.FilterAttributes:
				b.RemoveAttributes(f.ObjectType, f.ObjectID, f.Name)
			}
		default:
			return nil, fmt.Errorf("%w: kind of change %d", storage.ErrFormat, c.Kind)
		}
	}
	return set, nil
}

// followMax is how many entries are applied before a view of them is
// published.
const followMax = 1000

// follow brings the newest view to the driver's head; the turn is held. A head
// that went back, or a log that does not continue ours (a restored backup),
// makes the store load anew: what is stored is the truth.
func (s *Store) follow(ctx context.Context) (*view, error) {
	v, err := s.view(ctx)
	if err != nil {
		return nil, err
	}
	h, err := s.engine.driver.Head(ctx, s.id)
	if err != nil {
		return nil, err
	}
	if h.Revision == v.head.Revision && h.Hash == v.head.Hash {
		return v, nil
	}
	if h.Revision > v.head.Revision {
		err = s.replay(ctx, v)
		if err == nil || !errors.Is(err, errOtherHistory) && !errors.Is(err, storage.ErrTrimmed) {
			return s.newestOr(ctx, err)
		}
	}
	s.forget()
	return s.load(ctx)
}

func (s *Store) newestOr(ctx context.Context, err error) (*view, error) {
	if err != nil {
		return nil, err
	}
	return s.view(ctx)
}

// errOtherHistory says that the log does not continue what was loaded.
var errOtherHistory = errors.New("the log does not continue this history")

// replay applies the log after v and publishes views of it; the turn is held.
func (s *Store) replay(ctx context.Context, v *view) error {
	r := replaying{s: s, head: v.head, schemas: v.schemas, batch: v.schemas.lineage.Begin()}
	for e, err := range s.engine.driver.Entries(ctx, s.id, v.head.Revision+1) {
		if err != nil {
			return err
		}
		if e.Revision != r.head.Revision+1 || e.Previous != r.head.Hash {
			return errOtherHistory
		}
		if err := r.apply(&e); err != nil {
			return err
		}
	}
	return r.publish()
}

// replaying is one walk along the log.
type replaying struct {
	s       *Store
	batch   *graph.Batch
	schemas *schemaSet
	head    storage.Head
	entries []storage.Entry
	heads   []storage.Head
}

func (r *replaying) apply(e *storage.Entry) error {
	set, err := applyEntry(r.batch, r.schemas, e, r.s)
	if err != nil {
		return err
	}
	r.schemas, r.head = set, storage.Head{Revision: e.Revision, Hash: e.Hash(), Time: e.Time}
	r.entries, r.heads = append(r.entries, *e), append(r.heads, r.head)
	if len(r.entries) >= followMax {
		return r.publish()
	}
	return nil
}

func (r *replaying) publish() error {
	if len(r.entries) == 0 {
		return nil
	}
	g, err := r.batch.Publish()
	if err != nil {
		return err
	}
	r.s.publish(&view{head: r.head, graph: g, schemas: r.schemas}, r.entries, r.heads)
	r.entries, r.heads = nil, nil
	return nil
}
