package openfga

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// logPosition is a position in the log of changes.
type logPosition struct {
	after authz.Token // the last entry that was read whole
	skip  uint64      // changes that were read of the entry after it
	typ   string      // the object type that the list is limited to, or ""
}

// token returns the continuation token of a position.
func (p logPosition) token(store string) string {
	b := binary.AppendUvarint(nil, p.skip)
	b = binary.AppendUvarint(b, uint64(len(p.typ)))
	b = append(append(b, p.typ...), p.after...)
	return sealToken(changesToken, b, store)
}

// parseLogPosition parses a token that [logPosition.token] returned for the same store.
func parseLogPosition(token, store string) (p logPosition, err error) {
	b, err := openToken(changesToken, token, store)
	if err != nil {
		return p, err
	}
	skip, n := binary.Uvarint(b)
	if n <= 0 {
		return p, badContinuation()
	}
	size, m := binary.Uvarint(b[n:])
	if m <= 0 || size > uint64(len(b)-n-m) {
		return p, badContinuation()
	}
	b = b[n+m:]
	return logPosition{authz.Token(b[size:]), skip, string(b[:size])}, nil
}

// readChanges handles ReadChanges. It returns a page of the changes of tuples in the
// log.
func (s *service) readChanges(ctx context.Context, c *headers, in *openfgav1.ReadChangesRequest) (*openfgav1.ReadChangesResponse, error) {
	if err := validateMessage(in); err != nil {
		return nil, err
	}
	if size := in.GetPageSize(); size != nil && (size.GetValue() < 1 || int(size.GetValue()) > s.o.ChangesPage) {
		return nil, failf(codes.InvalidArgument, "invalid ReadChangesRequest.PageSize: value must be inside range [1, %d]", s.o.ChangesPage)
	}
	st, err := s.storeAt(ctx, c, in.GetStoreId())
	if err != nil {
		return nil, err
	}
	w := changesWalk{store: st, typ: in.GetType(), limit: min(pageSize(in.GetPageSize().GetValue()), s.o.ChangesPage)}
	if s.o.ChangesHorizon > 0 {
		w.horizon = time.Now().Add(-s.o.ChangesHorizon)
	}
	if token := in.GetContinuationToken(); token != "" {
		if w.position, err = parseLogPosition(token, in.GetStoreId()); err != nil {
			return nil, err
		}
		if w.position.typ != in.GetType() {
			return nil, failf(codeTypeMismatch, "The type in the querystring and the continuation token don't match")
		}
	} else if start := in.GetStartTime(); start != nil {
		w.since = start.AsTime()
	}
	w.position.typ = in.GetType()
	if err := w.run(ctx); err != nil {
		if in.GetContinuationToken() != "" && errors.Is(err, authz.ErrToken) {
			return nil, badContinuation()
		}
		return nil, translateError(err)
	}
	out := &openfgav1.ReadChangesResponse{Changes: w.out, ContinuationToken: in.GetContinuationToken()}
	if len(w.out) > 0 {
		out.ContinuationToken = w.position.token(in.GetStoreId())
	}
	return out, nil
}

// changesWalk collects changes from a position in the log on.
type changesWalk struct {
	store   *ostiary.Store
	typ     string    // the object type to limit the changes to, or ""
	limit   int       // changes in the page
	since   time.Time // the start, if the request has no position
	horizon time.Time // if set, changes younger than this are hidden

	position logPosition
	out      []*openfgav1.TupleChange
}

// run collects changes until the page is full or the log ends.
func (w *changesWalk) run(ctx context.Context) error {
	for {
		r := authz.ChangesRequest{After: w.position.after, Limit: w.limit, ChangesEnough: w.limit - len(w.out)}
		if r.After == "" {
			r.Since = w.since
		}
		if w.typ != "" {
			r.Types = []string{w.typ}
		}
		page, err := w.store.Changes(ctx, r)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			if more, err := w.entry(ctx, &page.Entries[i], page.Entries[:i]); err != nil || !more {
				return err
			}
		}
		if w.position.skip == 0 && page.Next != "" {
			w.position.after = page.Next // skips entries without a change of the type, too
		}
		if !page.More {
			return nil
		}
	}
}

// entry adds the changes of an entry to the page. It returns false if the page is
// full or the horizon is reached.
func (w *changesWalk) entry(ctx context.Context, e *authz.ChangeEntry, before []authz.ChangeEntry) (more bool, err error) {
	if !w.horizon.IsZero() && e.Time.After(w.horizon) {
		return false, nil
	}
	if w.position.after == "" && len(before) == 0 && w.position.skip == 0 {
		// The list starts at this entry: set the position right before it.
		w.position.after, err = w.store.TokenAt(ctx, e.Revision-1)
		if err != nil {
			return false, err
		}
	}
	n := uint64(0)
	at := timestamppb.New(e.Time)
	for change, err := range w.changes(ctx, e) {
		if err != nil {
			return false, err
		}
		if n++; n <= w.position.skip {
			continue
		}
		if len(w.out) == w.limit {
			w.position.skip = n - 1
			return false, nil
		}
		key, err := tupleMessage(&change.tuple)
		if err != nil {
			return false, err
		}
		w.out = append(w.out, &openfgav1.TupleChange{TupleKey: key, Operation: change.operation, Timestamp: at})
	}
	w.position.after, w.position.skip = e.Token, 0
	return len(w.out) < w.limit, nil
}

// tupleChange is a tuple that was added or removed.
type tupleChange struct {
	tuple     rel.Tuple
	operation openfgav1.TupleOperation
}

// changes yields the tuples that an entry added or removed, including tuples
// that it removed by a filter.
func (w *changesWalk) changes(ctx context.Context, e *authz.ChangeEntry) func(func(tupleChange, error) bool) {
	return func(yield func(tupleChange, error) bool) {
		const added, removed = openfgav1.TupleOperation_TUPLE_OPERATION_WRITE, openfgav1.TupleOperation_TUPLE_OPERATION_DELETE
		for i := range e.Changes {
			change := &e.Changes[i]
			switch {
			case change.Kind == storage.TupleAdd:
				if !yield(tupleChange{change.Tuple, added}, nil) {
					return
				}
			case change.Kind == storage.TupleRemove:
				if !yield(tupleChange{withoutCondition(&change.Tuple), removed}, nil) {
					return
				}
			case change.Kind == storage.RemoveByFilter && change.Filter.Target == storage.FilterTuples:
				for t, err := range w.filtered(ctx, e.Revision, change.Filter.Tuple) {
					if !yield(tupleChange{t, removed}, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// withoutCondition returns the object, relation and subject of a tuple.
func withoutCondition(t *rel.Tuple) rel.Tuple {
	return rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: t.Subject}
}

// filteredPage is the number of tuples that are read at once.
const filteredPage = 1000

// filtered yields the tuples that a filter removed at a revision. To find them,
// it applies the filter to the previous revision, and fails if that revision is
// no longer kept.
func (w *changesWalk) filtered(ctx context.Context, r storage.Revision, f rel.Filter) func(func(rel.Tuple, error) bool) {
	return func(yield func(rel.Tuple, error) bool) {
		if w.typ != "" {
			f.ObjectType = w.typ
		}
		req := authz.ReadRequest{Filter: f, Limit: filteredPage, Consistency: authz.AtRevision(r - 1)}
		for {
			page, err := w.store.Read(ctx, req)
			if errors.Is(err, authz.ErrTooOld) {
				err = failf(codePrecondition, "the changes of revision %d cannot be listed: it removed tuples by a filter, and the earlier revision with these tuples is no longer kept; use start_time to start after it", r)
			}
			if err != nil {
				yield(rel.Tuple{}, err)
				return
			}
			for i := range page.Tuples {
				if !yield(withoutCondition(&page.Tuples[i].Tuple), nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			req.Cursor = page.Next
		}
	}
}
