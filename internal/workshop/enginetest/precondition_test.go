package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// TestPreconditionsInGroups runs many writers, whose writes are committed in
// groups. Each write requires that an object has no owner and adds one, or
// requires that it has an owner and removes it. No object may ever have two
// owners, and a write whose precondition fails must return ErrPrecondition.
func TestPreconditionsInGroups(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, many := range []int{0, 30, 700} {
		s := newStore(t, newEngine(t, ostiary.Options{}), documents())
		owner := func(id string) rel.Filter {
			return rel.Filter{ObjectType: "document", ObjectID: id, Relation: "owner"}
		}
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				rnd := rand.New(rand.NewPCG(uint64(w), uint64(many)))
				for i := range 40 {
					id := fmt.Sprint(rnd.IntN(6))
					write := authz.WriteRequest{}
					for n := range many {
						write.Add = append(write.Add, tups(t, fmt.Sprintf("document:x%d-%d-%d#owner@user:anne", w, i, n))...)
					}
					if rnd.IntN(2) == 0 {
						write.Preconditions = []authz.Precondition{{Filter: owner(id), Absent: true}}
						write.Add = append(write.Add, tups(t, fmt.Sprintf("document:%s#owner@user:u%d", id, w))...)
					} else {
						write.Preconditions = []authz.Precondition{{Filter: owner(id)}}
						write.RemoveMatching = []storage.Filter{{Target: storage.FilterTuples, Tuple: owner(id)}}
					}
					if many == 700 && i > 3 {
						return
					}
					if _, err := s.Write(ctx, write); err != nil && !errors.Is(err, authz.ErrPrecondition) {
						t.Error(err)
						return
					}
				}
			}()
		}
		wg.Wait()
		// The log shows whether the preconditions held at each entry.
		owners := map[string]int{}
		var after authz.Token
		for more := true; more; {
			page := must(s.Changes(ctx, authz.ChangesRequest{After: after, Limit: 1000}))(t)
			for _, e := range page.Entries {
				for _, c := range e.Changes {
					switch id := c.Tuple.Object.ID; {
					case c.Kind == storage.TupleAdd && len(id) == 1:
						if owners[id]++; owners[id] > 1 {
							t.Fatalf("document %s has two owners at revision %d", id, e.Revision)
						}
					case c.Kind == storage.RemoveByFilter:
						if owners[c.Filter.Tuple.ObjectID]--; owners[c.Filter.Tuple.ObjectID] < 0 {
							t.Fatalf("the owner of document %s was removed at revision %d, but it had none", c.Filter.Tuple.ObjectID, e.Revision)
						}
					}
				}
			}
			after, more = page.Next, page.More
		}
	}
}
