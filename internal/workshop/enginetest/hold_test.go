package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
)

// TestHold checks that a held Consistency reads one revision at one time,
// whatever is written later and however late the question is.
func TestHold(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := newClock()
	e := newEngine(t, ostiary.Options{Clock: clock.Now})
	s := newStore(t, e, documents())
	soon := tup(t, "document:1#owner@user:anne")
	soon.Expires = rel.TimeOf(clock.Now().Add(time.Hour))
	must(s.Write(ctx, authz.WriteRequest{Add: []rel.Tuple{soon}}))(t)
	held := must(s.Hold(ctx, authz.MinimizeLatency()))(t)
	head := must(s.Head(ctx))(t)
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:bob")}))(t)
	clock.Advance(2 * time.Hour)
	for _, c := range []struct {
		question string
		at       authz.Consistency
		want     string
	}{
		{"document:1#owner@user:anne", held, "true"},
		{"document:1#owner@user:bob", held, "false"},
		{"document:1#owner@user:anne", authz.MinimizeLatency(), "false"},
		{"document:1#owner@user:bob", authz.MinimizeLatency(), "true"},
		// What is held now is asked now, although its revision is older.
		{"document:1#owner@user:anne", must(s.Hold(ctx, authz.MinimizeLatency()))(t), "false"},
		{"document:1#owner@user:anne", must(s.Hold(ctx, authz.AtExactly(head)))(t), "true"},
		{"document:1#owner@user:bob", must(s.Hold(ctx, authz.AtExactly(head)))(t), "false"},
		{"document:1#owner@user:anne", authz.AtExactly(head).AtCurrentTime(), "false"},
		{"document:1#owner@user:anne", must(s.Hold(ctx, authz.AtExactly(head).AtCurrentTime()))(t), "false"},
	} {
		if got := ask(t, s, c.question, authz.QueryOptions{Consistency: c.at}); got != c.want {
			t.Errorf("%s: %s, want %s", c.question, got, c.want)
		}
	}
	if again := must(s.Resolve(ctx, held))(t); again != head {
		t.Errorf("held revision %s, want %s", again, head)
	}
	other := newStore(t, e, documents())
	_, err := other.Check(ctx, authz.CheckRequest{Object: soon.Object, Relation: "owner", Subject: soon.Subject, QueryOptions: authz.QueryOptions{Consistency: held}})
	wantKind(t, err, authz.ErrInvalidRequest)
}

// TestWriteAfter checks that of many concurrent writes that follow the same
// revision exactly one is accepted.
func TestWriteAfter(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	for round := range 20 {
		head := must(s.Head(ctx))(t)
		var accepted, rejected int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := s.Write(ctx, authz.WriteRequest{After: head, Add: tups(t, fmt.Sprintf("document:%d-%d#owner@user:anne", round, w))})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					accepted++
					return
				}
				wantKind(t, err, authz.ErrPrecondition)
				rejected++
			}()
		}
		wg.Wait()
		if accepted != 1 || rejected != 7 {
			t.Fatalf("round %d: %d accepted, %d rejected", round, accepted, rejected)
		}
	}
	_, err := s.Write(ctx, authz.WriteRequest{After: "x", Add: tups(t, "document:1#owner@user:anne")})
	wantKind(t, err, authz.ErrToken)
}
