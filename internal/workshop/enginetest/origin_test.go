package enginetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// originCall is a call that makes one entry.
type originCall struct {
	// call makes the entry. own is the origin that it names, if names is true.
	call  func(ctx context.Context, own storage.Origin) error
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
		"Write": {names: true, fixed: "library", call: func(ctx context.Context, own storage.Origin) error {
			_, err := s.Write(ctx, authz.WriteRequest{Add: next(), Origin: own})
			return err
		}},
		"Update": {names: true, fixed: "library", call: func(ctx context.Context, own storage.Origin) error {
			_, err := s.Update(ctx, authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) {
				return authz.WriteRequest{Add: next(), Origin: own}, nil
			}})
			return err
		}},
		"Import": {names: true, fixed: "import", call: func(ctx context.Context, own storage.Origin) error {
			_, err := s.Import(ctx, func(yield func(rel.Tuple, error) bool) { yield(next()[0], nil) }, authz.ImportOptions{Origin: own})
			return err
		}},
		"Prepare": {names: true, fixed: "library", call: func(ctx context.Context, own storage.Origin) error {
			p, err := s.Prepare(ctx, authz.WriteRequest{Add: next(), Origin: own})
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
		"WriteSchema": {fixed: "library", call: func(ctx context.Context, _ storage.Origin) error {
			_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents()})
			return err
		}},
		"RemoveSchema": {fixed: "library", call: func(ctx context.Context, _ storage.Origin) error {
			info, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents()})
			if err == nil {
				_, err = s.RemoveSchema(ctx, info.ID)
			}
			return err
		}},
		"Collect": {fixed: "collector", alone: true, call: func(ctx context.Context, _ storage.Origin) error {
			expiring := next()
			expiring[0].Expires = rel.TimeOf(now.Now()) + 1
			if _, err := s.Write(ctx, authz.WriteRequest{Add: expiring}); err != nil {
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
			request := storage.RequestID{Node: storage.NodeID{1}, Number: 2}
			for name, c := range originCalls(t, m, x, s, now) {
				check := func(ctx context.Context, own, want storage.Origin) {
					t.Helper()
					before := must(s.Head(ctx))(t)
					must(struct{}{}, c.call(ctx, own))(t)
					var last authz.ChangeEntry
					watching, stop := context.WithTimeout(ctx, time.Minute)
					defer stop()
					head := must(s.Head(ctx))(t)
					for e, err := range s.Watch(watching, authz.WatchRequest{After: before}) {
						if last = must(e, err)(t); e.Token == head {
							break
						}
					}
					if last.Origin != want {
						t.Errorf("%s: a watch shows the origin %+v, want %+v", name, last.Origin, want)
					}
					page := must(s.Changes(ctx, authz.ChangesRequest{After: before}))(t)
					if got := page.Entries[len(page.Entries)-1].Origin; got != want {
						t.Errorf("%s: the log has the origin %+v, want %+v", name, got, want)
					}
				}
				fixed := storage.Origin{Caller: c.fixed}
				check(t.Context(), storage.Origin{}, fixed)
				author := &authz.Author{Name: "anne", Reason: "ticket 7"}
				ctx, want := authz.WithAuthor(t.Context(), author), storage.Origin{Caller: author.Name, Reason: author.Reason}
				if c.alone {
					want = fixed
				}
				check(ctx, storage.Origin{}, want)
				if got, head := author.Revision(), must(must(s.Head(ctx))(t).Revision())(t); got != head {
					t.Errorf("%s: the author notes revision %d, want %d", name, got, head)
				}
				if c.names {
					check(ctx, storage.Origin{Caller: "bob", Request: request}, storage.Origin{Caller: "bob", Reason: "ticket 7", Request: request})
					check(ctx, storage.Origin{Reason: "ticket 8"}, storage.Origin{Caller: "anne", Reason: "ticket 8"})
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
				origin storage.Origin
				kind   error
				text   string
			}{
				{storage.Origin{Reason: "a\nb"}, authz.ErrInvalidRequest, "reason has a control character at byte 1"},
				{storage.Origin{Caller: "a\xff"}, authz.ErrInvalidRequest, "caller is not valid UTF-8"},
				{storage.Origin{Reason: strings.Repeat("x", storage.ReasonBytesMax+1)}, authz.ErrBound, "ReasonBytesMax"},
				{storage.Origin{Caller: strings.Repeat("x", storage.CallerBytesMax+1)}, authz.ErrBound, "CallerBytesMax"},
			} {
				err := c.call(authz.WithAuthor(t.Context(), &authz.Author{Name: bad.origin.Caller, Reason: bad.origin.Reason}), storage.Origin{})
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
	write := func() storage.Revision {
		author := &authz.Author{}
		ctx := authz.WithAuthor(t.Context(), author)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne"), OnDuplicate: authz.Ignore}))(t)
		return author.Revision()
	}
	if first, second := write(), write(); first == 0 || second != 0 {
		t.Errorf("the author of the first write notes revision %d, and that of the second %d, want 0 for the second", first, second)
	}
}

// TestRepeatedWithoutStore lets a request that was sent to a node before ask for a store
// that is gone. If a store with the id or the alias was deleted since, the request may have
// done that: its deletion succeeds, for a caller who may delete a store of that name.
// Otherwise there was no store.
func TestRepeatedWithoutStore(t *testing.T) {
	t.Parallel()
	e := must(ostiary.Open(t.Context(), ostiary.Options{}))(t)
	t.Cleanup(func() { e.Close() })
	id, other := storage.StoreID{1}, storage.StoreID{2}
	gone := storage.StoreInfo{ID: id, Name: "mine", Aliases: map[string]string{"native": "gone"}}
	deleted := func(known bool, info storage.StoreInfo) *journal.Journal {
		return &journal.Journal{Repeated: true, Made: storage.RequestTrace{Deleted: []storage.DeletedStore{{Info: info, Known: known}}}}
	}
	for _, c := range []struct {
		what                    string
		journal                 *journal.Journal
		access                  authz.Access
		remove, find, findAlias error
	}{
		{"not repeated", &journal.Journal{}, nil, authz.ErrNoStore, authz.ErrNoStore, authz.ErrNoStore},
		{"nothing was deleted", &journal.Journal{Repeated: true}, nil, authz.ErrNoStore, authz.ErrNoStore, authz.ErrNoStore},
		{"another store was deleted", deleted(true, storage.StoreInfo{ID: other}), nil, authz.ErrNoStore, authz.ErrNoStore, authz.ErrNoStore},
		{"deleted", deleted(true, gone), nil, nil, nil, nil},
		{"deleted, only the id is known", deleted(false, storage.StoreInfo{ID: id}), nil, nil, nil, authz.ErrUncertain},
		{"deleted by a caller who may", deleted(true, gone), ownerOf("mine"), nil, nil, nil},
		{"deleted by another caller", deleted(true, gone), ownerOf("yours"), authz.ErrForbidden, authz.ErrForbidden, authz.ErrForbidden},
	} {
		ctx := journal.With(authz.WithAccess(t.Context(), c.access), c.journal)
		_, found := e.Store(ctx, id)
		_, aliased := e.StoreByAlias(ctx, "native", "gone")
		for what, have := range map[string][2]error{"delete": {e.DeleteStore(ctx, id), c.remove}, "find": {found, c.find}, "find by alias": {aliased, c.findAlias}} {
			if !errors.Is(have[0], have[1]) {
				t.Errorf("%s, %s: error %v, want %v", c.what, what, have[0], have[1])
			}
		}
	}
}

// ownerOf is a caller who may do everything with the stores of one name.
type ownerOf string

func (n ownerOf) Allow(_ context.Context, _ authz.Right, store storage.StoreInfo) error {
	if store.Name != string(n) {
		return authz.ErrForbidden
	}
	return nil
}

// TestRepeatedCreation sends requests that create several stores a second time. Each store
// is recognized, with the name, the aliases and the id that were asked for.
func TestRepeatedCreation(t *testing.T) {
	t.Parallel()
	d := memory.New()
	e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: d}))(t)
	t.Cleanup(func() { e.Close() })
	request := storage.RequestID{Node: storage.NodeID{1}, Number: 7 * storage.RequestWrites}
	author := func(made ...storage.RequestStore) context.Context {
		return journal.With(t.Context(), &journal.Journal{Request: request, Repeated: made != nil, Made: storage.RequestTrace{Created: made}})
	}
	ctx := author()
	var made []storage.RequestStore
	wanted := []ostiary.CreateStoreRequest{{Name: "a"}, {Name: "a"}, {Name: "b", Aliases: map[string]string{"native": "b"}}, {Name: "c", ID: storage.StoreID{3}}}
	for _, r := range wanted {
		s := must(e.CreateStore(ctx, r))(t)
		id, ok := request.Created(s.Info().Incarnation)
		if !ok {
			t.Fatalf("the request has not created %+v", s.Info())
		}
		made = append(made, storage.RequestStore{Request: id, Info: s.Info()})
	}
	ctx = author(made...)
	for i, r := range wanted {
		if s := must(e.CreateStore(ctx, r))(t); !reflect.DeepEqual(s.Info(), made[i].Info) {
			t.Errorf("the second time: %+v, want %+v", s.Info(), made[i].Info)
		}
	}
	if s := must(e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "d"}))(t); s.Info().Name != "d" {
		t.Errorf("a store that was not made: %+v", s.Info())
	}
	for what, r := range map[string]ostiary.CreateStoreRequest{
		"name": {Name: "x"}, "alias": {Name: "a", Aliases: map[string]string{"native": "x"}}, "id": {Name: "a", ID: storage.StoreID{9}},
	} {
		if _, err := e.CreateStore(author(made...), r); !errors.Is(err, authz.ErrUncertain) {
			t.Errorf("another %s: error %v, want ErrUncertain", what, err)
		}
	}
	if have := must(d.CountStores(t.Context()))(t); have != len(wanted)+1 {
		t.Errorf("%d stores, want %d", have, len(wanted)+1)
	}
	ctx = author()
	for range storage.RequestWrites + 1 {
		must(e.CreateStore(ctx, ostiary.CreateStoreRequest{}))(t)
	}
	ctx = author(made...)
	for range storage.RequestWrites - 1 {
		_, _ = e.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "a"})
	}
	if _, err := e.CreateStore(ctx, ostiary.CreateStoreRequest{}); !errors.Is(err, authz.ErrUncertain) {
		t.Errorf("store %d of the request: error %v, want ErrUncertain", storage.RequestWrites, err)
	}
}

// TestRetryNumbersFromTheStart requires that a request that begins again gives its writes
// and its stores the numbers of the first time, by which they are found in the log.
func TestRetryNumbersFromTheStart(t *testing.T) {
	t.Parallel()
	j := &journal.Journal{Request: storage.RequestID{Node: storage.NodeID{1}, Number: storage.RequestWrites}}
	write, store := j.NextWrite(), j.NextStore()
	if again := j.NextWrite(); again == write {
		t.Errorf("two writes have the number %d", again.Number)
	}
	j.Retry()
	if w, s := j.NextWrite(), j.NextStore(); w != write || s != store {
		t.Errorf("after Retry write %d and store %d, want %d and %d", w.Number, s.Number, write.Number, store.Number)
	}
}

// follower is a driver of a node that does not write.
type follower struct {
	*memory.Driver
	storage.Copy // nil: nothing but the methods below is called
}

func (follower) BeforeRead(context.Context) error                                { return nil }
func (follower) BeforeWrite(context.Context) error                               { return storage.ErrNotHolder }
func (follower) OnApplied(func(context.Context, []storage.StoreID) error) func() { return func() {} }

// TestRefusedChangeIsForwardable requires that a change that this node may not make is
// noted, so that the server sends the request to the node that writes.
func TestRefusedChangeIsForwardable(t *testing.T) {
	t.Parallel()
	e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: follower{Driver: memory.New()}}))(t)
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
		j := &journal.Journal{}
		if err := change(journal.With(t.Context(), j)); !errors.Is(err, authz.ErrNoHolder) || !j.Forwardable() {
			t.Errorf("%s: error %v, forwardable %t", name, err, j.Forwardable())
		}
	}
}
