package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// originCall is a call that makes one entry.
type originCall struct {
	// call makes the entry. own is the origin that it names, if names is true.
	call  func(ctx context.Context, own ostiary.Origin) error
	names bool
	// fixed is the caller of an entry that has no other one; always if alone is true.
	fixed string
	alone bool
}

// originCalls returns every call of a store that makes an entry.
func originCalls(t *testing.T, m embedder, x *session, s *ostiary.Store, now *clock) map[string]originCall {
	n := 0
	next := func() []rel.Tuple { n++; return tups(t, fmt.Sprintf("document:%d#owner@user:anne", n)) }
	return map[string]originCall{
		"Write": {names: true, fixed: "library", call: func(ctx context.Context, own ostiary.Origin) error {
			_, err := s.Write(ctx, ostiary.WriteRequest{Add: next(), Origin: own})
			return err
		}},
		"Update": {names: true, fixed: "library", call: func(ctx context.Context, own ostiary.Origin) error {
			_, err := s.Update(ctx, ostiary.Update{Build: func(ostiary.Token) (ostiary.WriteRequest, error) {
				return ostiary.WriteRequest{Add: next(), Origin: own}, nil
			}})
			return err
		}},
		"Import": {names: true, fixed: "import", call: func(ctx context.Context, own ostiary.Origin) error {
			_, err := s.Import(ctx, func(yield func(rel.Tuple, error) bool) { yield(next()[0], nil) }, ostiary.ImportOptions{Origin: own})
			return err
		}},
		"Prepare": {names: true, fixed: "library", call: func(ctx context.Context, own ostiary.Origin) error {
			p, err := s.Prepare(ctx, ostiary.WriteRequest{Add: next(), Origin: own})
			if err != nil {
				return err
			}
			tx := m.begin(x)
			if err := p.AppendTo(ctx, tx); err != nil {
				return err
			}
			if err := m.commit(tx); err != nil {
				return err
			}
			_, err = p.Publish(ctx)
			return err
		}},
		"WriteSchema": {fixed: "library", call: func(ctx context.Context, _ ostiary.Origin) error {
			_, _, err := s.WriteSchema(ctx, ostiary.SchemaSource{Model: documents()})
			return err
		}},
		"RemoveSchema": {fixed: "library", call: func(ctx context.Context, _ ostiary.Origin) error {
			info, _, err := s.WriteSchema(ctx, ostiary.SchemaSource{Model: documents()})
			if err == nil {
				_, err = s.RemoveSchema(ctx, info.ID)
			}
			return err
		}},
		"Collect": {fixed: "collector", alone: true, call: func(ctx context.Context, _ ostiary.Origin) error {
			expiring := next()
			expiring[0].Expires = rel.TimeOf(now.Now()) + 1
			if _, err := s.Write(ctx, ostiary.WriteRequest{Add: expiring}); err != nil {
				return err
			}
			now.Advance(1e9)
			_, err := s.Collect(ctx)
			return err
		}},
	}
}

// Every call that makes an entry stores an origin: what the call itself names, then
// what its context has, and otherwise a fixed caller. Pages of the log and watches
// show it.
func TestEveryWritingCallHasAnOrigin(t *testing.T) {
	t.Parallel()
	for _, m := range embedders() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			now := newClock()
			x := start(t, m.disk, ostiary.Options{Clock: now.Now})
			s := newStore(t, x.engine, documents())
			request := ostiary.RequestID{Node: storage.NodeID{1}, Number: 2}
			for name, c := range originCalls(t, m, x, s, now) {
				check := func(ctx context.Context, own, want ostiary.Origin) {
					t.Helper()
					before := must(s.Head(ctx))(t)
					must(struct{}{}, c.call(ctx, own))(t)
					var last ostiary.ChangeEntry
					watching, stop := context.WithTimeout(ctx, time.Minute)
					defer stop()
					head := must(s.Head(ctx))(t)
					for e, err := range s.Watch(watching, ostiary.WatchRequest{After: before}) {
						if last = must(e, err)(t); e.Token == head {
							break
						}
					}
					if last.Origin != want {
						t.Errorf("%s: a watch shows the origin %+v, want %+v", name, last.Origin, want)
					}
					page := must(s.Changes(ctx, ostiary.ChangesRequest{After: before}))(t)
					if got := page.Entries[len(page.Entries)-1].Origin; got != want {
						t.Errorf("%s: the log has the origin %+v, want %+v", name, got, want)
					}
				}
				fixed := ostiary.Origin{Caller: c.fixed}
				check(t.Context(), ostiary.Origin{}, fixed)
				author := &ostiary.Author{Origin: ostiary.Origin{Caller: "anne", Reason: "ticket 7"}}
				ctx, want := ostiary.WithAuthor(t.Context(), author), author.Origin
				if c.alone {
					want = fixed
				}
				check(ctx, ostiary.Origin{}, want)
				if got, head := author.Revision(), must(must(s.Head(ctx))(t).Revision())(t); got != head {
					t.Errorf("%s: the author notes revision %d, want %d", name, got, head)
				}
				if c.names {
					check(ctx, ostiary.Origin{Caller: "bob", Request: request}, ostiary.Origin{Caller: "bob", Reason: "ticket 7", Request: request})
					check(ctx, ostiary.Origin{Reason: "ticket 8"}, ostiary.Origin{Caller: "anne", Reason: "ticket 8"})
				}
			}
		})
	}
}

// An origin that the log cannot have rejects every write, by name, and changes
// nothing.
func TestOriginIsChecked(t *testing.T) {
	t.Parallel()
	for _, m := range embedders()[:1] {
		now := newClock()
		x := start(t, m.disk, ostiary.Options{Clock: now.Now})
		s := newStore(t, x.engine, documents())
		head := must(s.Head(t.Context()))(t)
		for name, c := range originCalls(t, m, x, s, now) {
			if c.alone {
				continue
			}
			for _, bad := range []struct {
				origin ostiary.Origin
				kind   error
				text   string
			}{
				{ostiary.Origin{Reason: "a\nb"}, ostiary.ErrInvalidRequest, "reason has a control character at byte 1"},
				{ostiary.Origin{Caller: "a\xff"}, ostiary.ErrInvalidRequest, "caller is not valid UTF-8"},
				{ostiary.Origin{Reason: strings.Repeat("x", ostiary.ReasonBytesMax+1)}, ostiary.ErrBound, "ReasonBytesMax"},
				{ostiary.Origin{Caller: strings.Repeat("x", ostiary.CallerBytesMax+1)}, ostiary.ErrBound, "CallerBytesMax"},
			} {
				err := c.call(ostiary.WithAuthor(t.Context(), &ostiary.Author{Origin: bad.origin}), ostiary.Origin{})
				wantKind(t, err, bad.kind)
				if err == nil || !strings.Contains(err.Error(), bad.text) {
					t.Errorf("%s: error %v, want one with %q", name, err, bad.text)
				}
			}
		}
		if after := must(s.Head(t.Context()))(t); after != head {
			t.Error("a rejected write made an entry")
		}
	}
}

// A write that changes nothing makes no entry, and its author notes no revision.
func TestAuthorOfNothing(t *testing.T) {
	t.Parallel()
	x := start(t, disks()[0], ostiary.Options{})
	s := newStore(t, x.engine, documents())
	write := func() ostiary.Revision {
		author := &ostiary.Author{}
		ctx := ostiary.WithAuthor(t.Context(), author)
		must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:anne"), OnDuplicate: ostiary.Ignore}))(t)
		return author.Revision()
	}
	if first, second := write(), write(); first == 0 || second != 0 {
		t.Errorf("the author of the first write notes revision %d, and that of the second %d, want 0 for the second", first, second)
	}
}

// TestRepeatedWithoutStore requires that a request that was sent to a node before, and
// whose store is gone, is not refused: it may have deleted the store itself.
func TestRepeatedWithoutStore(t *testing.T) {
	t.Parallel()
	e := must(ostiary.Open(t.Context(), ostiary.Options{}))(t)
	t.Cleanup(func() { e.Close() })
	id := storage.StoreID{1}
	for repeated, want := range map[bool]error{false: ostiary.ErrNoStore, true: ostiary.ErrUncertain} {
		ctx := ostiary.WithAuthor(t.Context(), &ostiary.Author{Repeated: repeated})
		_, found := e.Store(ctx, id)
		_, aliased := e.StoreByAlias(ctx, "native", "gone")
		for what, err := range map[string]error{"delete": e.DeleteStore(ctx, id), "find": found, "find by alias": aliased} {
			if !errors.Is(err, want) {
				t.Errorf("%s, repeated %t: error %v, want %v", what, repeated, err, want)
			}
		}
	}
}

// follower is a driver of a node that does not write.
type follower struct{ *memory.Driver }

func (follower) BeforeRead(context.Context) error                                { return nil }
func (follower) BeforeWrite(context.Context) error                               { return storage.ErrNotHolder }
func (follower) OnApplied(func(context.Context, []storage.StoreID) error) func() { return func() {} }

// TestRefusedChangeIsForwardable requires that a change that this node may not make is
// noted, so that the server sends the request to the node that writes.
func TestRefusedChangeIsForwardable(t *testing.T) {
	t.Parallel()
	e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: follower{memory.New()}}))(t)
	t.Cleanup(func() { e.Close() })
	for name, change := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "name"})
			return err
		},
		"update": func(ctx context.Context) error {
			return e.UpdateStore(ctx, storage.StoreID{1}, func(*string, map[string]string) error { return nil })
		},
		"delete": func(ctx context.Context) error { return e.DeleteStore(ctx, storage.StoreID{1}) },
	} {
		author := &ostiary.Author{}
		if err := change(ostiary.WithAuthor(t.Context(), author)); !errors.Is(err, ostiary.ErrNoHolder) || !author.Forwardable() {
			t.Errorf("%s: error %v, forwardable %t", name, err, author.Forwardable())
		}
	}
}
