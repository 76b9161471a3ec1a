package acp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	ckpebble "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
	"github.com/ostiary/ostiary/storage/pebble"
)

func doc(policy, id string) acp.Object {
	return acp.Object{Policy: policy, Resource: "note", ID: id}
}

// TestBatch: all of it in one entry, or nothing; each operation sees those
// before it.
func TestBatch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var events []acp.Event
	e := open(t, acp.Options{Event: func(ev acp.Event) { events = append(events, ev) }})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	revision := func() uint64 {
		s := must(e.Store())(t)
		return uint64(must(s.Stats(ctx))(t).Revision)
	}
	events = nil
	before := revision()
	b := e.Batch()
	b.Register(alice, doc(id, "1"))
	b.Register(bob, doc(id, "2"))
	b.Relate(alice, acp.Relationship{Object: doc(id, "1"), Relation: "admin", Subject: acp.ActorSubject(bob)})
	b.Relate(bob, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(carol)}) // by the authority just given
	b.Relate(bob, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(carol)})
	must(0, b.Commit(ctx))(t)
	if n := revision() - before; n != 1 || len(events) != 4 || events[0].Token != events[3].Token {
		t.Errorf("%d entries, events %v", n, events)
	}
	if !must(e.Check(ctx, carol, "read", doc(id, "1")))(t) {
		t.Error("carol may not read")
	}
	for _, c := range []struct {
		name string
		kind error
		fill func(b *acp.Batch)
	}{
		{"registered before", acp.ErrRegistered, func(b *acp.Batch) { b.Register(alice, doc(id, "3")); b.Register(bob, doc(id, "1")) }},
		{"the first is to blame", acp.ErrRegistered, func(b *acp.Batch) {
			b.Register(bob, doc(id, "1"))
			b.Transfer(alice, doc(id, "1"), carol)
		}},
		{"registered twice", acp.ErrRegistered, func(b *acp.Batch) { b.Register(alice, doc(id, "3")); b.Register(bob, doc(id, "3")) }},
		{"a stranger", acp.ErrUnauthorized, func(b *acp.Batch) {
			b.Register(alice, doc(id, "3"))
			b.Relate(carol, acp.Relationship{Object: doc(id, "3"), Relation: "reader", Subject: acp.ActorSubject(carol)})
		}},
		{"nobody", acp.ErrUnauthenticated, func(b *acp.Batch) { b.Register(alice, doc(id, "3")); b.Register("", doc(id, "4")) }},
		{"the first that is malformed", acp.ErrUnauthenticated, func(b *acp.Batch) {
			b.Unrelate("", acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(carol)})
			b.Unrelate(alice, acp.Relationship{Object: doc(id, "1")})
			b.Relate(alice, acp.Relationship{Object: doc(id, "1")})
		}},
		{"malformed", acp.ErrInput, func(b *acp.Batch) {
			b.Relate(alice, acp.Relationship{Object: doc(id, "1")})
			b.Relate("", acp.Relationship{Object: doc(id, "1")})
		}},
		{"turned round", acp.ErrBatch, func(b *acp.Batch) {
			x := acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(carol)}
			b.Unrelate(alice, x)
			b.Relate(alice, x)
		}},
		{"authority after a removal", acp.ErrBatch, func(b *acp.Batch) {
			b.Unrelate(alice, acp.Relationship{Object: doc(id, "1"), Relation: "admin", Subject: acp.ActorSubject(bob)})
			b.Relate(bob, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(bob)})
		}},
		{"archived", acp.ErrArchived, func(b *acp.Batch) {
			b.Archive(alice, doc(id, "1"))
			b.Relate(alice, acp.Relationship{Object: doc(id, "1"), Relation: "reader", Subject: acp.ActorSubject(bob)})
		}},
	} {
		b := e.Batch()
		c.fill(b)
		before := revision()
		if err := b.Commit(ctx); !errors.Is(err, c.kind) || revision() != before {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if ok, _ := e.IsRegistered(ctx, doc(id, "3")); ok {
		t.Error("half a batch is there")
	}
	b = e.Batch()
	b.Transfer(alice, doc(id, "1"), carol)
	b.Archive(bob, doc(id, "2"))
	must(0, b.Commit(ctx))(t)
	if r := must(e.Registration(ctx, doc(id, "2")))(t); !r.Archived {
		t.Error(r)
	}
}

func TestBatchBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{BatchMax: 3})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	for n, want := range map[int]error{3: nil, 4: acp.ErrBound} {
		b := e.Batch()
		ids := make([]string, n)
		for i := range n {
			ids[i] = fmt.Sprintf("%d-%d", n, i)
			b.Register(alice, doc(id, ids[i]))
		}
		if err := b.Commit(ctx); !errors.Is(err, want) {
			t.Errorf("%d: %v", n, err)
		}
		if _, err := e.CheckMany(ctx, alice, "read", id, "note", ids); !errors.Is(err, want) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestJoinedTransaction: the database's rows and what is registered commit
// together, on a store of the embedder's own and on its own Pebble.
func TestJoinedTransaction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ram := memory.NewStore()
	db := must(ckpebble.Open("data", &ckpebble.Options{FS: vfs.NewMem()}))(t)
	t.Cleanup(func() { db.Close() })
	ramDriver := must(kv.New(ram, kv.Options{Prefix: []byte("acp/")}))(t)
	pebbleDriver := must(pebble.New(db, []byte("acp/")))(t)
	for _, c := range []struct {
		name   string
		open   acp.Options
		begin  func() any
		set    func(tx any, key string)
		commit func(tx any) error
		has    func(key string) bool
	}{
		{"kv", acp.Options{Driver: ramDriver}, func() any { return ram.Batch() },
			func(tx any, key string) { tx.(kv.Batch).Set([]byte(key), []byte("row")) },
			func(tx any) error { return tx.(kv.Batch).Commit() },
			func(key string) bool { _, ok, _ := ram.Get([]byte(key), nil); return ok }},
		{"pebble", acp.Options{Driver: pebbleDriver}, func() any { return db.NewBatch() },
			func(tx any, key string) { tx.(*ckpebble.Batch).Set([]byte(key), []byte("row"), nil) },
			func(tx any) error { return tx.(*ckpebble.Batch).Commit(ckpebble.Sync) },
			func(key string) bool {
				_, closer, err := db.Get([]byte(key))
				if err == nil {
					closer.Close()
				}
				return err == nil
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			events := 0
			c.open.Event = func(acp.Event) { events++ }
			e := open(t, c.open)
			id := must(e.AddPolicy(ctx, alice, notes))(t)
			events = 0
			create := func(key string) (*acp.Pending, any) {
				b := e.Batch()
				b.Register(alice, doc(id, key))
				b.Relate(alice, acp.Relationship{Object: doc(id, key), Relation: "reader", Subject: acp.ActorSubject(bob)})
				p := must(b.Prepare(ctx))(t)
				tx := c.begin()
				c.set(tx, key)
				must(0, p.AppendTo(ctx, tx))(t)
				return p, tx
			}
			p, tx := create("1")
			if ok, _ := e.IsRegistered(ctx, doc(id, "1")); ok {
				t.Error("visible before the commit")
			}
			must(0, c.commit(tx))(t)
			must(0, p.Publish(ctx))(t)
			if !must(e.Check(ctx, bob, "read", doc(id, "1")))(t) || !c.has("1") || events != 2 {
				t.Error("expected the registration and 2 events, got events:", events)
			}

			p, _ = create("2")
			p.Abort()
			p, _ = create("3")
			if err := p.Publish(ctx); !errors.Is(err, authz.ErrPending) {
				t.Error(err)
			}
			for _, key := range []string{"2", "3"} {
				if ok, _ := e.IsRegistered(ctx, doc(id, key)); ok || c.has(key) {
					t.Error(key, "is there")
				}
			}
			b := e.Batch()
			b.Register(bob, doc(id, "1"))
			_, err := b.Prepare(ctx)
			wantKind(t, err, acp.ErrRegistered)
			must(0, e.Register(ctx, bob, doc(id, "4")))(t) // the turn is free
		})
	}
}

// TestRaces: of many who register one object, one wins; who may no longer
// share, does not.
func TestRaces(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	var wg sync.WaitGroup
	won := make(chan string, 64)
	for i := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			who := []string{alice, bob, carol}[i%3]
			if err := e.Register(ctx, who, doc(id, "1")); err == nil {
				won <- who
			} else if !errors.Is(err, acp.ErrRegistered) {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatal(len(won), "won")
	}
	if owner, _, _ := e.Owner(ctx, doc(id, "1")); owner != <-won {
		t.Error(owner)
	}
	for i := range 50 {
		o := doc(id, fmt.Sprintf("race%d", i))
		must(0, e.Register(ctx, alice, o))(t)
		wg.Add(2)
		var related, archived error
		go func() { defer wg.Done(); _, related = e.Relate(ctx, alice, o, "reader", bob) }()
		go func() { defer wg.Done(); _, archived = e.Archive(ctx, alice, o) }()
		wg.Wait()
		if archived != nil || related != nil && !errors.Is(related, acp.ErrArchived) {
			t.Fatal(archived, related)
		}
		// Whichever came first, nothing is shared in the end.
		if ok, _ := e.Check(ctx, bob, "read", o); ok {
			t.Fatal("an archived object is shared")
		}
	}
}

// TestOtherDoors: what is registered here is plain tuples and schemas there.
func TestOtherDoors(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine := must(ostiary.Open(ctx, ostiary.Options{}))(t)
	t.Cleanup(func() { engine.Close() })
	e := open(t, acp.Options{Engine: engine, Name: "docs"})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	s := must(engine.StoreByAlias(ctx, acp.Door, "docs"))(t)
	token := must(s.Head(ctx))(t)
	must(0, e.Register(ctx, alice, doc(id, "1")))(t)
	must(e.Relate(ctx, alice, doc(id, "1"), "reader", bob))(t)
	question := authz.CheckRequest{Object: relObject(id+"/note", "1"), Relation: "read", Subject: relObject(id+"/actor", bob).AsSubject()}
	if r := must(s.Check(ctx, question))(t); !r.Allowed() {
		t.Error(r)
	}
	x := must(s.Explain(ctx, authz.ExplainRequest{CheckRequest: question}))(t)
	if x.Answer.Decision != expr.True {
		t.Error(x)
	}
	seen := 0
	for entry, err := range s.Watch(ctx, authz.WatchRequest{After: token}) {
		must(entry, err)(t)
		if seen++; seen == 2 {
			break
		}
	}
	list := must(s.ListObjects(ctx, authz.ListObjectsRequest{Type: id + "/note", Relation: "read", Subject: question.Subject}))(t)
	if len(list.IDs) != 1 {
		t.Error(list)
	}
}

// TestLifecycle: started once, closed as often as one likes, nothing in
// between; a clock and a name of one's own.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	driver := memory.New()
	e := acp.New(acp.Options{Driver: driver, Name: "a", Clock: func() time.Time { return at }})
	_, err := e.AddPolicy(ctx, alice, notes)
	wantKind(t, err, acp.ErrClosed)
	wantKind(t, e.ResetState(ctx), acp.ErrClosed)
	must(0, e.Start(ctx))(t)
	wantKind(t, e.Start(ctx), acp.ErrStarted)
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	if rec := must(e.Policy(ctx, id))(t); !rec.Created.Equal(at) {
		t.Error(rec.Created)
	}
	must(0, e.Close())(t)
	must(0, e.Close())(t)
	_, err = e.Check(ctx, alice, "read", doc(id, "1"))
	wantKind(t, err, acp.ErrClosed)
	_, err = e.Batch().Prepare(ctx)
	wantKind(t, err, acp.ErrClosed)
	must(0, e.Start(ctx))(t)
	must(e.Policy(ctx, id))(t)

	engine := must(ostiary.Open(ctx, ostiary.Options{}))(t)
	must(0, open(t, acp.Options{Engine: engine}).Close())(t)
	if _, err := engine.CreateStore(ctx, ostiary.CreateStoreRequest{Name: "another"}); err != nil {
		t.Errorf("closing a collection closed the engine of the embedder: %v", err)
	}
	must(0, engine.Close())(t)

	other := open(t, acp.Options{Driver: driver, Name: "b"})
	_, err = other.Policy(ctx, id)
	wantKind(t, err, acp.ErrPolicyNotFound)
	must(0, other.ResetState(ctx))(t)
	must(e.Policy(ctx, id))(t)
	must(0, e.Close())(t)
}

// TestDeleteLargePolicy: more resources than one entry can empty; and an event
// hook may call the engine.
func TestDeleteLargePolicy(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var e *acp.Engine
	created := 0
	e = open(t, acp.Options{Event: func(ev acp.Event) {
		if created++; ev.Kind == acp.PolicyCreated && created == 1 {
			must(e.AddPolicy(ctx, alice, "name: another"))(t)
		}
	}})
	text := "name: large\nresources:\n"
	for i := range 250 {
		text += fmt.Sprintf("- name: r%d\n", i)
	}
	id := must(e.AddPolicy(ctx, alice, text))(t)
	for i := range 250 {
		must(0, e.Register(ctx, alice, acp.Object{Policy: id, Resource: fmt.Sprintf("r%d", i), ID: "1"}))(t)
	}
	must(0, e.DeletePolicy(ctx, alice, id))(t)
	if st := must(must(e.Store())(t).Stats(ctx))(t); st.Graph.Tuples != 0 {
		t.Error(st.Graph.Tuples, "are left")
	}
}

// TestOwnTimeOfLongID transfers an object with the longest id that can have a
// registration time of its own, one with a shorter id, and one with a longer id,
// which cannot have such a time. The new owner does not inherit the time.
func TestOwnTimeOfLongID(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := open(t, acp.Options{})
	id := must(e.AddPolicy(ctx, alice, notes))(t)
	at := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	longest := authz.DocumentKeyBytesMax - len(id) - len("note") - 1
	for n, kind := range map[int]error{longest - 1: nil, longest: nil, longest + 1: acp.ErrInvalidID} {
		o := doc(id, strings.Repeat("x", n))
		err := e.Root().RevealRegistration(ctx, alice, o, at)
		if wantKind(t, err, kind); kind != nil {
			must(0, e.Register(ctx, alice, o))(t)
		}
		if r := must(e.Registration(ctx, o))(t); r.Since.Equal(at) != (kind == nil) {
			t.Errorf("an id of %d bytes: registered since %v", n, r.Since)
		}
		for _, to := range []string{bob, alice} {
			must(0, e.Transfer(ctx, must(e.Registration(ctx, o))(t).Owner, o, to))(t)
			if r := must(e.Registration(ctx, o))(t); r.Owner != to || r.Since.Equal(at) {
				t.Errorf("an id of %d bytes after the transfer: %v", n, r)
			}
		}
	}
}
