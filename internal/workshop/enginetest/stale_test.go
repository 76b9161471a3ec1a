package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/rel"
)

// deafLog is a connection to a shared log over which nothing is followed, so that a
// node knows only what it asks for.
type deafLog struct {
	sharedlog.Log
	down atomic.Bool // Head fails
}

var errDown = errors.New("the log cannot be reached")

func (l *deafLog) Wait(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (l *deafLog) Head(ctx context.Context) (sharedlog.Position, error) {
	if l.down.Load() {
		return sharedlog.Position{}, errDown
	}
	return l.Log.Head(ctx)
}

// TestStaleViewDoesNotRefuse writes on a node that has not seen what another node wrote.
// What the view alone would decide, a refusal or that there is nothing to do, is decided
// by the log. If that cannot be reached, the write fails with that error.
func TestStaleViewDoesNotRefuse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	const tuple, other = "document:1#owner@user:anne", "document:2#owner@user:anne"
	absent := []authz.Precondition{{Filter: rel.Filter{ObjectType: "document", ObjectID: "1", Relation: "owner"}, Absent: true}}
	for name, c := range map[string]struct {
		request authz.WriteRequest
		before  bool // whether the other node adds the tuple, or else removes it
	}{
		"add":          {authz.WriteRequest{Add: tups(t, tuple)}, false},
		"ignored add":  {authz.WriteRequest{Add: tups(t, tuple), OnDuplicate: authz.Ignore}, false},
		"remove":       {authz.WriteRequest{Remove: keys(t, tuple)}, true},
		"ignored":      {authz.WriteRequest{Remove: keys(t, tuple), OnMissing: authz.Ignore}, true},
		"precondition": {authz.WriteRequest{Add: tups(t, other), Preconditions: absent}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tables := memorylog.New()
			one := newStore(t, openReplica(t, tables.Open(), authz.Bounds{}), documents())
			if !c.before {
				must(one.Write(ctx, authz.WriteRequest{Add: tups(t, tuple)}))(t)
			}
			log := &deafLog{Log: tables.Open()}
			two := must(openReplica(t, log, authz.Bounds{}).Store(ctx, one.ID()))(t)
			change := authz.WriteRequest{Remove: keys(t, tuple)}
			if c.before {
				change = authz.WriteRequest{Add: tups(t, tuple)}
			}
			if got := ask(t, two, tuple, authz.QueryOptions{}); (got == "true") == c.before {
				t.Fatalf("before the change the tuple is %s", got)
			}
			token := must(one.Write(ctx, change))(t)
			log.down.Store(true)
			if _, err := two.Write(ctx, c.request); !errors.Is(err, errDown) {
				t.Errorf("without the log, the write fails with %v, want %v", err, errDown)
			}
			_, err := two.Update(ctx, authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) { return authz.WriteRequest{}, errors.New("no") }})
			if !errors.Is(err, errDown) {
				t.Errorf("without the log, the update fails with %v, want %v", err, errDown)
			}
			log.down.Store(false)
			made, err := two.Write(ctx, c.request)
			if err != nil {
				t.Fatal(err)
			}
			if before, after := must(token.Revision())(t), must(made.Revision())(t); after != before+1 {
				t.Errorf("the write has revision %d, want %d", after, before+1)
			}
			// The same write again is decided by the view, which is new.
			_, err = two.Write(ctx, c.request)
			if refuses := c.request.OnDuplicate == authz.Fail && c.request.OnMissing == authz.Fail; refuses != (err != nil) {
				t.Errorf("the write again fails with %v", err)
			}
		})
	}
}
