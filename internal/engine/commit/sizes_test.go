package commit

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// recorder is a driver that records how many entries each append has, and how many
// changes each entry has.
type recorder struct {
	*failing.Driver
	appends [][]int
	// block, if not nil, makes each append wait.
	block chan struct{}
}

func (d *recorder) Append(ctx context.Context, id storage.StoreID, after storage.Head, entries []storage.Entry, sealed []storage.Sealed) (storage.Head, error) {
	var sizes []int
	for i := range entries {
		sizes = append(sizes, len(entries[i].Changes))
	}
	d.appends = append(d.appends, sizes)
	if d.block != nil {
		<-d.block
	}
	return d.Driver.Append(ctx, id, after, entries, sealed)
}

// record makes the world use a recorder.
func (w *world) record() *recorder {
	d := &recorder{Driver: w.driver}
	w.runtime.Driver = d
	return d
}

// many returns n tuples of an object.
func many(object string, n int) (all []rel.Tuple) {
	for i := range n {
		all = append(all, viewer(object, fmt.Sprint(i)))
	}
	return all
}

// elements returns tuples as a sequence, which ends with err if it is not nil.
func elements(tuples []rel.Tuple, err error) iter.Seq2[rel.Tuple, error] {
	return func(yield func(rel.Tuple, error) bool) {
		for _, t := range tuples {
			if !yield(t, nil) {
				return
			}
		}
		if err != nil {
			yield(rel.Tuple{}, err)
		}
	}
}

// TestGroupSizes lets writers wait, and checks which of them share an append: at most 4096
// writers, and at most 10,000 changes unless a writer alone has more.
func TestGroupSizes(t *testing.T) {
	t.Parallel()
	write := func(object string, n int) operation {
		return operation{call: func(q *Queue) error {
			_, err := q.Write(context.Background(), &authz.WriteRequest{Add: many(object, n)})
			return err
		}}
	}
	remove := func(object string, n int) operation {
		return operation{call: func(q *Queue) error {
			r := authz.WriteRequest{OnMissing: authz.Ignore}
			for _, t := range many(object, n) {
				r.Remove = append(r.Remove, t.Key())
			}
			_, err := q.Write(context.Background(), &r)
			return err
		}}
	}
	imports := func(object string, n int) operation {
		return operation{call: func(q *Queue) error {
			_, err := q.Import(context.Background(), elements(many(object, n), nil), authz.ImportOptions{})
			return err
		}}
	}
	for name, c := range map[string]struct {
		operations []operation
		want       string
	}{
		"small ones":               {[]operation{write("a", 1), write("b", 2), write("c", 3)}, "[[1 2 3]]"},
		"two that fit":             {[]operation{write("a", 4000), write("b", 6000)}, "[[4000 6000]]"},
		"two that do not fit":      {[]operation{write("a", 4000), write("b", 6001), write("c", 1)}, "[[4000] [6001 1]]"},
		"the second is large":      {[]operation{write("a", 1), write("b", 10_000), write("c", 1)}, "[[1] [10000] [1]]"},
		"removals count":           {[]operation{write("a", 6000), remove("a", 4001), write("b", 1)}, "[[6000] [4001 1]]"},
		"imports count":            {[]operation{imports("a", 6000), write("b", 4001)}, "[[6000] [4001]]"},
		"one that alone is larger": {[]operation{imports("a", 12_000), write("b", 1)}, "[[12000] [1]]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.record()
			for i, err := range w.together(c.operations) {
				if err != nil {
					t.Errorf("operation %d: %v", i, err)
				}
			}
			if got := fmt.Sprint(d.appends); got != c.want {
				t.Errorf("appends of %s changes, expected %s", got, c.want)
			}
		})
	}
	t.Run("4097 writers", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		d := w.record()
		var operations []operation
		for i := range 4097 {
			operations = append(operations, write(fmt.Sprint(i), 1))
		}
		for i, err := range w.together(operations) {
			if err != nil {
				t.Errorf("operation %d: %v", i, err)
			}
		}
		if len(d.appends) != 2 || len(d.appends[0]) != 4096 || len(d.appends[1]) != 1 {
			t.Errorf("%d appends, expected one of 4096 entries and one of 1", len(d.appends))
		}
	})
}

// TestImportEntries imports sequences of many lengths, and checks the entries and what the
// import reports.
func TestImportEntries(t *testing.T) {
	t.Parallel()
	// As many tuples as fit in an entry, and one more.
	const idBytes = 1000
	fitting := importEntryBytes / (32 + len("docvieweruser") + 2*idBytes)
	long := many("x", fitting+1)
	for i := range long {
		long[i].Object.ID = strings.Repeat("o", idBytes)
		long[i].Subject.ID = fmt.Sprintf("%0*d", idBytes, i)
	}
	for name, c := range map[string]struct {
		tuples  []rel.Tuple
		size    int
		entries []int
	}{
		"nothing":                    {nil, 0, nil},
		"one":                        {many("1", 1), 0, []int{1}},
		"the default size":           {many("1", 20_000), 0, []int{20_000}},
		"one above the default size": {many("1", 20_001), -1, []int{20_000, 1}},
		"entries of one":             {many("1", 4), 1, []int{1, 1, 1, 1}},
		"entries of three":           {many("1", 8), 3, []int{3, 3, 2}},
		"as many as an entry":        {many("1", 6), 3, []int{3, 3}},
		"the largest size":           {many("1", 3), storage.ChangesMax, []int{3}},
		"long tuples":                {long, 0, []int{fitting, 1}},
		"one long tuple less":        {long[:fitting], 0, []int{fitting}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.record()
			var progress []int
			got, err := w.queue.Import(context.Background(), elements(c.tuples, nil), authz.ImportOptions{EntryTuples: c.size, Progress: func(n int) { progress = append(progress, n) }})
			if err != nil || got.Read != len(c.tuples) || got.Written != len(c.tuples) {
				t.Fatalf("got %+v, error %v, expected %d tuples", got, err, len(c.tuples))
			}
			var entries, sums []int
			sum := 0
			for _, group := range d.appends {
				for _, n := range group {
					entries, sum = append(entries, n), sum+n
					sums = append(sums, sum)
				}
			}
			if !slices.Equal(progress, sums) {
				t.Errorf("the progress was %v, expected %v", progress, sums)
			}
			if !slices.Equal(entries, c.entries) {
				t.Errorf("entries of %v tuples, expected %v", entries, c.entries)
			}
			want := authz.Token("")
			if len(entries) > 0 {
				want = w.timeline.Token(w.timeline.Loaded().Head)
			}
			if got.Token != want {
				t.Errorf("the token is %q, expected that of the last entry, %q", got.Token, want)
			}
		})
	}
	w := newWorld(t)
	for name, c := range map[string]struct {
		options authz.ImportOptions
		want    string
	}{
		"entries that are too large": {authz.ImportOptions{EntryTuples: storage.ChangesMax + 1}, "bound ChangesMax exceeded: got 100001, expected at most 100000"},
		"an unknown action":          {authz.ImportOptions{OnDuplicate: authz.Replace + 1}, "invalid request: OnDuplicate is 3, expected at most 2"},
	} {
		if got, err := w.queue.Import(context.Background(), elements(many("1", 1), nil), c.options); err == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.Contains(err.Error(), "import in store") || got != (authz.ImportResult{}) {
			t.Errorf("%s: got %+v, error %v, expected %s", name, got, err, c.want)
		}
	}
}

// TestImportEndsAt puts a tuple that ends an import at each position, with entries of each
// size. The error must have the number of the tuple. The entries before it stay.
func TestImportEndsAt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	broken := errors.New("the file ends")
	for name, c := range map[string]struct {
		spoil func(all []rel.Tuple, i int) []rel.Tuple
		end   error
		kind  error
		// reading means that the import ends while it reads, before it has queued the entry
		// of the tuple before.
		reading bool
	}{
		"a malformed tuple":          {func(all []rel.Tuple, i int) []rel.Tuple { all[i].Object.ID = ""; return all }, nil, authz.ErrInvalidName, true},
		"a relation the model lacks": {func(all []rel.Tuple, i int) []rel.Tuple { all[i].Relation = "editor"; return all }, nil, authz.ErrInvalidTuple, false},
		"a stored tuple":             {func(all []rel.Tuple, i int) []rel.Tuple { all[i] = viewer("stored", "a"); return all }, nil, authz.ErrTupleExists, false},
		"an error of the sequence":   {func(all []rel.Tuple, i int) []rel.Tuple { return all[:i] }, broken, authz.ErrInvalidRequest, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= 4; size++ {
				for at := range 9 {
					w := newWorld(t)
					if _, err := w.queue.Write(ctx, &authz.WriteRequest{Add: []rel.Tuple{viewer("stored", "a")}}); err != nil {
						t.Fatal(err)
					}
					got, err := w.queue.Import(ctx, elements(c.spoil(many("1", 9), at), c.end), authz.ImportOptions{EntryTuples: size})
					var where *authz.ImportError
					if !errors.As(err, &where) || where.Tuple != at+1 || !errors.Is(err, c.kind) || c.end != nil && !errors.Is(err, c.end) {
						t.Fatalf("entries of %d, tuple %d: error %v", size, at+1, err)
					}
					stored := at / size * size
					if c.reading {
						stored = max(at-1, 0) / size * size
					}
					if got.Read != stored || got.Written != stored || w.timeline.Loaded().Graph.Stats().Tuples != stored+1 || (got.Token == "") != (stored == 0) {
						t.Errorf("entries of %d, tuple %d: got %+v, the store has %d tuples, expected %d", size, at+1, got, w.timeline.Loaded().Graph.Stats().Tuples, stored+1)
					}
				}
			}
		})
	}
}

// TestImportDuplicates imports tuples of which some are stored, and some are there twice,
// with each action. Written counts those that change the store.
func TestImportDuplicates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	other := func(x rel.Tuple) rel.Tuple { x.Expires = 1 << 62; return x }
	all := many("1", 8)
	sequence := []rel.Tuple{all[0], all[1], all[2], all[2], all[3], all[4], all[4], all[5]} // 2 and 3 are stored
	for size := 1; size <= 8; size++ {
		for name, c := range map[string]struct {
			tuples        []rel.Tuple
			on            authz.ConflictAction
			read, written int
			fails         bool
		}{
			"ignored":                  {sequence, authz.Ignore, 8, 4, false},
			"replaced by the same":     {sequence, authz.Replace, 8, 4, false},
			"replaced by another":      {[]rel.Tuple{all[0], other(all[2]), all[1], other(all[3]), other(all[1])}, authz.Replace, 5, 5, false},
			"another one is no ignore": {[]rel.Tuple{all[2], other(all[3])}, authz.Ignore, 1 / size, 0, true},
		} {
			w := newWorld(t)
			if _, err := w.queue.Write(ctx, &authz.WriteRequest{Add: all[2:4]}); err != nil {
				t.Fatal(err)
			}
			got, err := w.queue.Import(ctx, elements(c.tuples, nil), authz.ImportOptions{EntryTuples: size, OnDuplicate: c.on})
			if got.Read != c.read || got.Written != c.written || errors.Is(err, authz.ErrTupleExists) != c.fails || (err == nil) == c.fails {
				t.Errorf("%s, entries of %d: got %+v, error %v, expected %d read and %d written", name, size, got, err, c.read, c.written)
			}
		}
	}
}

// TestImportCanceled ends the context of an import between two tuples. What is durable by
// then is counted.
func TestImportCanceled(t *testing.T) {
	t.Parallel()
	for after := range 8 {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(context.Background())
		got, err := w.queue.Import(ctx, func(yield func(rel.Tuple, error) bool) {
			for i, x := range many("1", 8) {
				if i == after {
					cancel()
				}
				if !yield(x, nil) {
					return
				}
			}
		}, authz.ImportOptions{EntryTuples: 1})
		cancel()
		if stored := w.timeline.Loaded().Graph.Stats().Tuples; !errors.Is(err, authz.ErrCanceled) || got.Read != got.Written || got.Written != stored || stored > after {
			t.Errorf("canceled after %d tuples: got %+v, error %v, the store has %d", after, got, err, stored)
		}
	}
}

// TestRemoveExpired removes expired tuples: all of them, in entries of 1000, and none that
// has not expired.
func TestRemoveExpired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		expired int
		want    string
	}{{0, "[]"}, {1, "[[1]]"}, {999, "[[999]]"}, {1000, "[[1000]]"}, {1001, "[[1000] [1]]"}, {2500, "[[1000] [1000] [500]]"}} {
		w := newWorld(t)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		w.runtime.Clock = func() time.Time { return now }
		all := append(many("1", c.expired), many("2", 10)...)
		for i := range all {
			if all[i].Expires = rel.TimeOf(now.Add(time.Second)); i >= c.expired {
				all[i].Expires = rel.TimeOf(now.Add(time.Second + time.Nanosecond))
			}
		}
		if _, err := w.queue.Import(ctx, elements(append(all, many("3", 5)...), nil), authz.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
		if n, err := w.queue.RemoveExpired(ctx); n != 0 || err != nil {
			t.Errorf("before anything expires, %d were removed, error %v", n, err)
		}
		now = now.Add(time.Second)
		d := w.record()
		if n, err := w.queue.RemoveExpired(ctx); n != c.expired || err != nil {
			t.Errorf("%d were removed, error %v, expected %d", n, err, c.expired)
		}
		if got := fmt.Sprint(d.appends); got != c.want || w.timeline.Loaded().Graph.Stats().Tuples != 15 {
			t.Errorf("entries of %s tuples, %d are left; expected %s and 15", got, w.timeline.Loaded().Graph.Stats().Tuples, c.want)
		}
		if n, err := w.queue.RemoveExpired(ctx); n != 0 || err != nil {
			t.Errorf("the second time %d were removed, error %v", n, err)
		}
	}
}

// TestRemoveExpiredFails removes expired tuples while the storage fails or the context has
// ended. What was removed before is counted.
func TestRemoveExpiredFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.runtime.Clock = func() time.Time { return now }
	all := many("1", 2500)
	for i := range all {
		all[i].Expires = rel.TimeOf(now.Add(time.Second))
	}
	if _, err := w.queue.Import(t.Context(), elements(append(all, many("2", 5000)...), nil), authz.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	removed := 0
	for _, c := range []struct{ number, want int }{{1, 0}, {2, 1000}, {1, 0}} {
		w.driver.Break(failing.Fault{Number: c.number, Only: []failing.Operation{failing.Append}})
		n, err := w.queue.RemoveExpired(t.Context())
		w.driver.Mend()
		if removed += n; n != c.want || !errors.Is(err, failing.ErrInjected) {
			t.Errorf("append %d fails: %d were removed, error %v; expected %d", c.number, n, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := w.queue.RemoveExpired(ended); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %d were removed, error %v", n, err)
	}
	if n, err := w.queue.RemoveExpired(t.Context()); removed+n != 2500 || err != nil {
		t.Errorf("%d were removed, error %v; expected 2500", removed+n, err)
	}
	// Only live tuples are left. The context is looked at while they are read.
	if n, err := w.queue.RemoveExpired(ended); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %d were removed, error %v", n, err)
	}
}

// TestBudgetWhilePublishing writes up to the memory budget while the entry before is
// published. That entry must not count twice.
func TestBudgetWhilePublishing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.record()
		d.block = make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			if _, err := w.queue.Write(t.Context(), &authz.WriteRequest{Add: many("1", 10)}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the first entry is being appended
		built := 0
		running.Go(func() {
			_, err := w.queue.Update(t.Context(), &authz.Update{Build: func(authz.Token) (authz.WriteRequest, error) {
				if built++; built == 1 {
					d.block <- struct{}{} // the first entry is published while the second is validated
					d.block = nil
					synctest.Wait()
					w.runtime.MemoryMax = w.runtime.Bytes() + 5*int64(tupleBytes+len("2")+len("0"))
				}
				return authz.WriteRequest{Add: many("2", 5)}, nil
			}})
			if err != nil {
				t.Errorf("an update that fits the budget: %v", err)
			}
		})
		running.Wait()
		if built != 2 {
			t.Errorf("the update was built %d times, expected 2", built)
		}
	})
}
