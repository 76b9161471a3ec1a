package ostiary_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
)

// TestChurn writes and removes tuples of fresh names around a few that stay:
// memory must not remember the names for ever. OSTIARY_CHURN sets the number of
// pairs; by default there are 150,000.
func TestChurn(t *testing.T) {
	t.Parallel()
	ctx, clock := context.Background(), newClock()
	pairs, err := strconv.Atoi(os.Getenv("OSTIARY_CHURN"))
	if err != nil {
		pairs = 150_000
	}
	e := newEngine(t, ostiary.Options{Clock: clock.Now, Window: time.Minute, LogWindow: time.Minute})
	s := newStore(t, e, documents())
	const each = 2_000
	batch := func(round int) (w ostiary.Write) {
		for i := range each {
			w.Add = append(w.Add, rel.Tuple{Object: rel.Object{Type: "document", ID: fmt.Sprintf("d%d-%d", round, i)}, Relation: "owner",
				Subject: rel.Subject{Type: "user", ID: fmt.Sprintf("u%d-%d", round, i)}})
		}
		return w
	}
	last := batch(0)
	must(s.Write(ctx, last))(t)
	peak := 0
	for round := 1; round*each <= pairs; round++ {
		clock.Advance(time.Second)
		w := batch(round)
		for i := range last.Add {
			w.Remove = append(w.Remove, last.Add[i].Key())
		}
		last.Add = w.Add
		must(s.Write(ctx, w))(t)
		st := must(s.Stats(ctx))(t)
		peak = max(peak, st.Graph.Names)
		if round%20 == 0 {
			must(s.Collect(ctx))(t)
		}
		runtime.Gosched()
	}
	must(struct{}{}, s.Compact(ctx))(t)
	st := must(s.Stats(ctx))(t)
	if st.Graph.Tuples != each || st.Graph.Names > 4*each {
		t.Errorf("in the end: %+v", st.Graph)
	}
	if most := 2 * pairs; pairs >= 150_000 && peak >= most {
		t.Errorf("%d names at the most, of %d given", peak, most)
	}
	for i := range last.Add {
		want(t, s, last.Add[i].Key().String(), "true")
		if i == 10 {
			break
		}
	}
	c := must(s.Collect(ctx))(t)
	if c.Rows == 0 || c.Log < 2 {
		t.Errorf("nothing was trimmed: %+v", c)
	}
}
