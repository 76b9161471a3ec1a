package policy

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/policy/value"
)

// TestLongDecisionTakesTurns decides a request with 5,000 values while another
// request has the only turn. The decision waits, ends with its context, and uses the
// turn that its own request has. A decision on few values needs no turn.
func TestLongDecisionTakesTurns(t *testing.T) {
	t.Parallel()
	p := compiled(t, onePolicy(0))
	long := ask("anne", 0)
	for i := range long.Categories {
		for j := range long.Categories[i].Attributes {
			a := &long.Categories[i].Attributes[j]
			for n := range 5000 {
				a.Values = append(a.Values, value.NewString("other-"+itoa(n)))
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		all := turns.New(1)
		other, others := turns.With(t.Context(), all)
		if err := turns.Hold(other); err != nil {
			t.Fatal(err)
		}
		decide := func(ctx context.Context, r *Request) <-chan Result {
			ctx, work := turns.With(ctx, all)
			end := make(chan Result, 1)
			go func() {
				defer work.End()
				end <- p.Decide(ctx, r, Options{})[0]
			}()
			synctest.Wait()
			return end
		}
		if end := decide(t.Context(), ask("anne", 0)); len(end) == 0 || (<-end).Decision != Permitted {
			t.Error("a short decision waited for a turn")
		}
		ctx, cancel := context.WithCancel(t.Context())
		canceled, end := decide(ctx, long), decide(t.Context(), long)
		if len(canceled)+len(end) > 0 {
			t.Fatal("a long decision did not wait for a turn")
		}
		cancel()
		if r := <-canceled; r.Status == nil || r.Status.Bound != BoundTime {
			t.Errorf("canceled: %+v", r)
		}
		others.End()
		if r := <-end; r.Decision != Permitted {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		if all.Free() != 1 {
			t.Errorf("%d turns are free at the end", all.Free())
		}
		if err := turns.Hold(other); err != nil {
			t.Fatal(err)
		}
		taken := all.Taken()
		if r := p.Decide(other, long, Options{})[0]; r.Decision != Permitted || all.Taken() != taken {
			t.Errorf("with a turn: %+v, %d more turns", r, all.Taken()-taken)
		}
		others.End()
	})
}
