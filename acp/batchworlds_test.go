package acp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// change is a change of a collection that can be made alone or in a batch.
type change struct {
	name  string
	alone func(e *acp.Engine) error
	join  func(b *acp.Batch) // nil if a batch cannot make the change
}

// randomChange returns a change of the policy with that id, which is notes. owners
// are the owners of its objects before the change. Most changes are the owner's.
func randomChange(rnd *rand.Rand, id string, owners map[string]string) change {
	ctx := context.Background()
	everybody := []string{alice, bob, carol}
	o, actor, other := doc(id, strconv.Itoa(rnd.IntN(3))), everybody[rnd.IntN(3)], everybody[rnd.IntN(3)]
	n := rnd.IntN(20)
	switch owner := owners[o.ID]; {
	case rnd.IntN(8) == 0:
	case owner == "":
		n = 0
	default:
		actor, n = owner, 4+rnd.IntN(16)
	}
	x := acp.Relationship{Object: o, Relation: []string{"reader", "admin"}[rnd.IntN(2)], Subject: acp.ActorSubject(other)}
	names := map[string]string{alice: "alice", bob: "bob", carol: "carol"}
	about := fmt.Sprintf(" by %s of %s: ", names[actor], o.ID)
	switch {
	case n < 4:
		owners[o.ID] = actor
		return change{"register" + about, func(e *acp.Engine) error { return e.Register(ctx, actor, o) }, func(b *acp.Batch) { b.Register(actor, o) }}
	case n < 11:
		return change{"relate" + about + x.Relation + " " + names[other],
			func(e *acp.Engine) error { _, err := e.SetRelationship(ctx, actor, x); return err }, func(b *acp.Batch) { b.Relate(actor, x) }}
	case n < 14:
		return change{"unrelate" + about + x.Relation + " " + names[other],
			func(e *acp.Engine) error { _, err := e.DeleteRelationship(ctx, actor, x); return err }, func(b *acp.Batch) { b.Unrelate(actor, x) }}
	case n < 16:
		owners[o.ID] = other
		return change{"transfer" + about + names[other], func(e *acp.Engine) error { return e.Transfer(ctx, actor, o, other) }, func(b *acp.Batch) { b.Transfer(actor, o, other) }}
	case n < 17:
		return change{"archive" + about, func(e *acp.Engine) error { _, err := e.Archive(ctx, actor, o); return err }, func(b *acp.Batch) { b.Archive(actor, o) }}
	case n < 19:
		return change{"unarchive" + about, func(e *acp.Engine) error { _, err := e.Unarchive(ctx, actor, o); return err }, func(b *acp.Batch) { b.Unarchive(actor, o) }}
	}
	return change{"amend" + about + names[other], func(e *acp.Engine) error {
		return e.Root().AmendRegistration(ctx, o, other, time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))
	}, nil}
}

// collectionState describes what can be read of the policy's notes.
func collectionState(t *testing.T, e *acp.Engine, id string) string {
	ctx := context.Background()
	var b strings.Builder
	for i := range 3 {
		o := doc(id, strconv.Itoa(i))
		switch r, err := e.Registration(ctx, o); {
		case err == nil:
			fmt.Fprintf(&b, "%s: %s archived %t, own time %t\n", o.ID, r.Owner, r.Archived, r.Since.Year() == 2001)
		case !errors.Is(err, acp.ErrObjectNotFound):
			t.Error(err)
		}
		for _, actor := range []string{alice, bob, carol} {
			fmt.Fprintf(&b, "  %s reads %v, writes %v\n", actor, must(e.Access(ctx, actor, "read", o))(t), must(e.Access(ctx, actor, "write", o))(t))
		}
	}
	for x, err := range e.FilterRelationships(ctx, id, acp.RelationshipFilter{}) {
		fmt.Fprintln(&b, must(x, err)(t))
	}
	return b.String()
}

// prepared makes a batch by Prepare, with a transaction of the embedder's store.
func prepared(ctx context.Context, ram *memory.Store, b *acp.Batch) error {
	p, err := b.Prepare(ctx)
	if err != nil {
		return err
	}
	tx := ram.Batch()
	if err := p.AppendTo(ctx, tx); err != nil {
		return err
	}
	if err := kv.Batch(tx).Commit(); err != nil {
		return err
	}
	return p.Publish(ctx)
}

// TestBatchWorlds makes random changes in batches, by Commit or Prepare, and the
// same changes one after the other in a second collection. Both have the same
// result: the data, the events, and the error of the first change that is refused.
// A batch that is refused changes nothing. A batch may refuse with ErrBatch
// what changes one after the other can do.
func TestBatchWorlds(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	for seed := range uint64(60) {
		playBatches(t, seed, outcomes)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, kind := range []string{"made", "refused", "ErrBatch"} {
		if outcomes[kind] < 50 {
			t.Errorf("%d batches are %s, want at least 50", outcomes[kind], kind)
		}
	}
}

func playBatches(t *testing.T, seed uint64, outcomes map[string]int) {
	ctx, rnd := context.Background(), rand.New(rand.NewPCG(seed, 5))
	ram := memory.NewStore()
	collection := func(o acp.Options) (e *acp.Engine, id string, events *[]string) {
		events = new([]string)
		o.Event = func(ev acp.Event) {
			*events = append(*events, fmt.Sprintf("%s by %q: %s %s %s", ev.Kind, ev.Actor, ev.Object, ev.Relation, ev.Subject))
		}
		e = open(t, o)
		return e, must(e.AddPolicy(ctx, alice, notes))(t), events
	}
	e, id, events := collection(acp.Options{Driver: must(kv.New(ram, kv.Options{}))(t)})
	var made []change
	for range 15 {
		owners := map[string]string{}
		for i := range 3 {
			owners[strconv.Itoa(i)], _, _ = e.Owner(ctx, doc(id, strconv.Itoa(i)))
		}
		var changes []change
		b := e.Batch()
		for range 1 + rnd.IntN(5) {
			c := randomChange(rnd, id, owners)
			if c.join == nil {
				changes = []change{c}
				break
			}
			changes = append(changes, c)
			c.join(b)
		}
		var err error
		way := "alone"
		switch {
		case changes[0].join == nil:
			err = changes[0].alone(e)
		case rnd.IntN(2) == 0:
			way, err = "commit", b.Commit(ctx)
		default:
			way, err = "prepare", prepared(ctx, ram, b)
		}
		if errors.Is(err, acp.ErrBatch) {
			outcomes["ErrBatch"]++
			continue
		}
		twin, twinID, twinEvents := collection(acp.Options{})
		for _, c := range made {
			must(0, c.alone(twin))(t)
		}
		before := collectionState(t, twin, twinID)
		var refused error
		at := slices.IndexFunc(changes, func(c change) bool {
			refused = c.alone(twin)
			return refused != nil
		})
		description := fmt.Sprintf("%s of:", way)
		for _, c := range changes {
			description += "\n  " + c.name
		}
		want := before
		if refused == nil {
			outcomes["made"]++
			made = append(made, changes...)
			want = collectionState(t, twin, twinID)
			if got := *events; !slices.Equal(got, *twinEvents) {
				t.Errorf("%s\nevents\n%s\nwant\n%s", description, strings.Join(got, "\n"), strings.Join(*twinEvents, "\n"))
			}
		} else {
			outcomes["refused"]++
		}
		if got := collectionState(t, e, id); got != want {
			t.Errorf("%s\nstate\n%s\nwant\n%s", description, got, want)
		}
		if (err == nil) != (refused == nil) || refused != nil && !sameKinds(err, refused) {
			t.Errorf("%s\nerror %v, want %v", description, err, refused)
		}
		if err != nil && len(changes) > 1 && !strings.Contains(err.Error(), fmt.Sprintf("operation %d: ", at)) {
			t.Errorf("%s\nerror %v, want that of operation %d", description, err, at)
		}
	}
}

// sameKinds reports whether two errors are of the same kinds.
func sameKinds(a, b error) bool {
	for _, kind := range []error{acp.ErrInput, acp.ErrUnauthenticated, acp.ErrUnauthorized, acp.ErrForbidden, acp.ErrNotFound,
		acp.ErrInternal, acp.ErrRegistered, acp.ErrArchived, acp.ErrObjectNotFound} {
		if errors.Is(a, kind) != errors.Is(b, kind) {
			return false
		}
	}
	return true
}
