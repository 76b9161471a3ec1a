package permify

import (
	"context"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// changesMax bounds the changes of one message. If a write has more, they are
// sent in several messages with the same snap token.
const changesMax = 1000

const (
	// bytesPerChange is about what a message keeps for each change, as structures
	// and encoded, in bytes.
	bytesPerChange = 1024
	// heldChanges is the number of changes from which a message counts as memory
	// that the stream keeps.
	heldChanges = 16
)

// Watch implements Watch.Watch: it sends every write after the request's snap
// token, or every write from now on, in order. It ends when send fails or ctx
// is done.
func (s *service) Watch(ctx context.Context, r *permifypb.WatchRequest, send func(*permifypb.WatchResponse) error) error {
	store, err := s.validTenant(ctx, "WatchRequest", r.TenantId)
	if err != nil {
		return err
	}
	after := authz.Token(r.SnapToken)
	if r.SnapToken == noopToken {
		after = ""
	}
	for entry, err := range store.Watch(ctx, authz.WatchRequest{After: after}) {
		if err != nil {
			return translateError(err)
		}
		if err := sendEntry(ctx, store, &entry, send); err != nil {
			return err
		}
	}
	return translateError(ctx.Err())
}

// sendEntry sends the changes of data of one write. Changes of schemas and
// bundles are not part of a watch.
func sendEntry(ctx context.Context, store *ostiary.Store, e *authz.ChangeEntry, send func(*permifypb.WatchResponse) error) error {
	m := &permifypb.DataChanges{SnapToken: string(e.Token)}
	add := func(c *permifypb.DataChange) error {
		m.DataChanges = append(m.DataChanges, c)
		if len(m.DataChanges) < changesMax {
			return nil
		}
		err := send(&permifypb.WatchResponse{Changes: m})
		m = &permifypb.DataChanges{SnapToken: string(e.Token)}
		return err
	}
	if n := min(len(e.Changes), changesMax); n >= heldChanges {
		if err := door.AwaitHold(ctx, n*bytesPerChange); err != nil {
			return translateError(err)
		}
		defer door.Hold(ctx, 0)
	}
	for i := range e.Changes {
		if err := addChange(ctx, store, e.Revision, &e.Changes[i], add); err != nil {
			return err
		}
	}
	if len(m.DataChanges) == 0 {
		return nil
	}
	return send(&permifypb.WatchResponse{Changes: m})
}

// addChange translates one change and passes the results to add. r is the
// revision of the write.
func addChange(ctx context.Context, store *ostiary.Store, r storage.Revision, c *storage.Change, add func(*permifypb.DataChange) error) error {
	switch c.Kind {
	case storage.TupleAdd:
		return add(tupleChange(permifypb.DataChange_OPERATION_CREATE, c.Tuple.Key()))
	case storage.TupleRemove:
		return add(tupleChange(permifypb.DataChange_OPERATION_DELETE, c.Tuple.Key()))
	case storage.AttributeSet:
		return addAttributes(ctx, store, permifypb.DataChange_OPERATION_CREATE, []rel.Attribute{c.Attribute}, add)
	case storage.AttributeRemove:
		return addAttributes(ctx, store, permifypb.DataChange_OPERATION_DELETE, []rel.Attribute{c.Attribute}, add)
	case storage.RemoveByFilter:
		return addRemoved(ctx, store, r-1, &c.Filter, add)
	}
	return nil
}

// addRemoved reports every tuple or attribute that a filter removed: what it
// selects at the revision before.
func addRemoved(ctx context.Context, store *ostiary.Store, before storage.Revision, f *storage.Filter, add func(*permifypb.DataChange) error) error {
	at, cursor := authz.AtRevision(before), ""
	for {
		var next string
		switch f.Target {
		case storage.FilterTuples:
			p, err := store.Read(ctx, authz.ReadRequest{Filter: f.Tuple, Limit: changesMax, Cursor: cursor, Consistency: at})
			if err != nil {
				return translateError(err)
			}
			for i := range p.Tuples {
				if err := add(tupleChange(permifypb.DataChange_OPERATION_DELETE, p.Tuples[i].Key())); err != nil {
					return err
				}
			}
			next = p.Next
		case storage.FilterAttributes:
			p, err := store.ReadAttributes(ctx, authz.ReadAttributesRequest{ObjectType: f.ObjectType, ObjectID: f.ObjectID,
				Name: f.Name, Limit: changesMax, Cursor: cursor, Consistency: at})
			if err != nil {
				return translateError(err)
			}
			if err := addAttributes(ctx, store, permifypb.DataChange_OPERATION_DELETE, p.Attributes, add); err != nil {
				return err
			}
			next = p.Next
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func tupleChange(op permifypb.DataChange_Operation, k rel.Key) *permifypb.DataChange {
	return &permifypb.DataChange{Operation: op, Type: &permifypb.DataChange_Tuple{Tuple: tupleMessage(k)}}
}

// addAttributes reports a change of attributes.
func addAttributes(ctx context.Context, store *ostiary.Store, op permifypb.DataChange_Operation, rows []rel.Attribute, add func(*permifypb.DataChange) error) error {
	for _, a := range rows {
		m := &permifypb.Attribute{Entity: entityMessage(a.Object), Attribute: a.Name}
		if a.Value != "" {
			full, err := attributeMessages(ctx, store, []rel.Attribute{a})
			if err != nil {
				return err
			}
			m = full[0]
		}
		if err := add(&permifypb.DataChange{Operation: op, Type: &permifypb.DataChange_Attribute{Attribute: m}}); err != nil {
			return err
		}
	}
	return nil
}
