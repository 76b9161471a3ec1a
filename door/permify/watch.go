package permify

import (
	"context"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// changesMax bounds the changes of one message of a watch; an entry that has
// more comes in several messages with one snap token.
const changesMax = 1000

// Watch is the call of that name: every entry after a snap token, or from now
// on, as it is written. It ends when send fails or the caller leaves.
func (s *service) Watch(ctx context.Context, r *basev1.WatchRequest, send func(*basev1.WatchResponse) error) error {
	if err := checkTenant("WatchRequest", r.TenantId); err != nil {
		return err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return err
	}
	after := ostiary.Token(r.SnapToken)
	if r.SnapToken == noopToken {
		after = ""
	}
	for entry, err := range store.Watch(ctx, ostiary.WatchRequest{After: after}) {
		if err != nil {
			return translated(err)
		}
		if err := sendEntry(ctx, store, &entry, send); err != nil {
			return err
		}
	}
	return translated(ctx.Err())
}

// sendEntry sends an entry's changes of data; those of schemas and bundles are
// not this call's.
func sendEntry(ctx context.Context, store *ostiary.Store, e *ostiary.ChangeEntry, send func(*basev1.WatchResponse) error) error {
	m := &basev1.DataChanges{SnapToken: string(e.Token)}
	put := func(c *basev1.DataChange) error {
		m.DataChanges = append(m.DataChanges, c)
		if len(m.DataChanges) < changesMax {
			return nil
		}
		err := send(&basev1.WatchResponse{Changes: m})
		m = &basev1.DataChanges{SnapToken: string(e.Token)}
		return err
	}
	for i := range e.Changes {
		if err := eachChange(ctx, store, e.Revision, &e.Changes[i], put); err != nil {
			return err
		}
	}
	if len(m.DataChanges) == 0 {
		return nil
	}
	return send(&basev1.WatchResponse{Changes: m})
}

func eachChange(ctx context.Context, store *ostiary.Store, r storage.Revision, c *storage.Change, put func(*basev1.DataChange) error) error {
	switch c.Kind {
	case storage.TupleAdd:
		return put(tupleChange(basev1.DataChange_OPERATION_CREATE, c.Tuple.Key()))
	case storage.TupleRemove:
		return put(tupleChange(basev1.DataChange_OPERATION_DELETE, c.Tuple.Key()))
	case storage.AttributeSet:
		return putAttributes(ctx, store, basev1.DataChange_OPERATION_CREATE, []rel.Attribute{c.Attribute}, put)
	case storage.AttributeRemove:
		return putAttributes(ctx, store, basev1.DataChange_OPERATION_DELETE, []rel.Attribute{c.Attribute}, put)
	case storage.RemoveByFilter:
		return filtered(ctx, store, r-1, &c.Filter, put)
	}
	return nil
}

// filtered tells what a filter removed: what it selects at the revision before.
func filtered(ctx context.Context, store *ostiary.Store, before storage.Revision, f *storage.Filter, put func(*basev1.DataChange) error) error {
	at, cursor := ostiary.AtRevision(before), ""
	for {
		var next string
		switch f.Target {
		case storage.FilterTuples:
			p, err := store.Read(ctx, ostiary.ReadRequest{Filter: f.Tuple, Limit: changesMax, Cursor: cursor, Consistency: at})
			if err != nil {
				return translated(err)
			}
			for i := range p.Tuples {
				if err := put(tupleChange(basev1.DataChange_OPERATION_DELETE, p.Tuples[i].Key())); err != nil {
					return err
				}
			}
			next = p.Next
		case storage.FilterAttributes:
			p, err := store.ReadAttributes(ctx, ostiary.ReadAttributesRequest{ObjectType: f.ObjectType, ObjectID: f.ObjectID,
				Name: f.Name, Limit: changesMax, Cursor: cursor, Consistency: at})
			if err != nil {
				return translated(err)
			}
			if err := putAttributes(ctx, store, basev1.DataChange_OPERATION_DELETE, p.Attributes, put); err != nil {
				return err
			}
			next = p.Next
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func tupleChange(op basev1.DataChange_Operation, k rel.Key) *basev1.DataChange {
	return &basev1.DataChange{Operation: op, Type: &basev1.DataChange_Tuple{Tuple: tupleMessage(k)}}
}

func putAttributes(ctx context.Context, store *ostiary.Store, op basev1.DataChange_Operation, rows []rel.Attribute, put func(*basev1.DataChange) error) error {
	for _, a := range rows {
		m := &basev1.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name}
		if a.Value != "" {
			full, err := attributeMessages(ctx, store, []rel.Attribute{a})
			if err != nil {
				return err
			}
			m = full[0]
		}
		if err := put(&basev1.DataChange{Operation: op, Type: &basev1.DataChange_Attribute{Attribute: m}}); err != nil {
			return err
		}
	}
	return nil
}
