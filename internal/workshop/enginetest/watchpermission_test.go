package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
)

// permissionLines prints each change that a watch yields, until stop returns true.
func permissionLines(t testing.TB, s *ostiary.Store, r authz.WatchPermissionRequest, stop func(lines []string) bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out []string
	for u, err := range s.WatchPermission(ctx, r) {
		if err != nil {
			t.Error(err)
			return out
		}
		for _, c := range u.Changes {
			out = append(out, fmt.Sprintf("%s %s %v>%v", c.Object, c.Subject, c.Before, c.After))
		}
		if stop(out) {
			break
		}
	}
	return out
}

func TestWatchPermission(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), documents())
	from := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@group:g#member", "document:2#viewer@group:g#member")}))(t)
	r := authz.WatchPermissionRequest{PermissionSelector: viewers, After: from}
	r.Objects = []string{"1"}
	byObject := make(chan []string, 1)
	last := func(lines []string) bool { return slices.Contains(lines, "document:1 user:last false>true") }
	go func() { byObject <- permissionLines(t, s, r, last) }()
	bySubject := make(chan []string, 1)
	r2 := r
	r2.Objects, r2.Subjects = nil, []string{"anne"}
	go func() {
		bySubject <- permissionLines(t, s, r2, func(lines []string) bool { return slices.Contains(lines, "document:9 user:anne false>true") })
	}()
	for i := range 5 {
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:other%d#owner@user:x", i))}))(t)
	}
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "group:g#member@user:anne")}))(t)
	must(struct{}{}, s.Compact(ctx))(t)
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:9#owner@user:anne")}))(t)
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:last")}))(t)
	// How many entries one update covers depends on timing. All updates together do
	// not.
	if got := <-byObject; !slices.Contains(got, "document:1 user:anne false>true") || len(got) != 2 {
		t.Errorf("got changes %v", got)
	}
	if got := <-bySubject; !slices.Contains(got, "document:1 user:anne false>true") || !slices.Contains(got, "document:2 user:anne false>true") {
		t.Errorf("got changes %v", got)
	}
}

func TestWatchPermissionRefuses(t *testing.T) {
	t.Parallel()
	e := newEngine(t, ostiary.Options{})
	s, twin := newStore(t, e, documents()), newStore(t, e, documents())
	named := viewers
	named.Objects = []string{"1"}
	many := named
	many.Objects = repeat(authz.WatchNamesMax+1, "1")
	wrong := named
	wrong.Relation = "x"
	for name, c := range map[string]struct {
		r    authz.WatchPermissionRequest
		kind error
	}{
		"no names":       {authz.WatchPermissionRequest{PermissionSelector: viewers}, authz.ErrInvalidRequest},
		"too many":       {authz.WatchPermissionRequest{PermissionSelector: many}, authz.ErrBound},
		"wrong relation": {authz.WatchPermissionRequest{PermissionSelector: wrong}, authz.ErrNoRelation},
		"twin's token":   {authz.WatchPermissionRequest{PermissionSelector: named, After: must(twin.Head(context.Background()))(t)}, authz.ErrToken},
	} {
		var err error
		for _, err = range s.WatchPermission(context.Background(), c.r) {
			break
		}
		t.Run(name, func(t *testing.T) { wantKind(t, err, c.kind) })
	}
}

// TestWatchPermissionSlow uses a consumer that stops reading. Writers must not wait
// for it, and it must see all changes in the end.
func TestWatchPermissionSlow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{WatchBuffer: 4}}), documents())
	r := authz.WatchPermissionRequest{PermissionSelector: viewers, After: must(s.Head(ctx))(t)}
	r.Objects = []string{"1"}
	reading, written, done := make(chan struct{}), make(chan struct{}), make(chan []string)
	go func() {
		var once sync.Once
		done <- permissionLines(t, s, r, func(lines []string) bool {
			once.Do(func() { close(reading); <-written })
			return slices.Contains(lines, "document:1 user:last false>true")
		})
	}()
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:first")}))(t)
	<-reading
	for i := range 20 {
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:1#viewer@user:u%d", i))}))(t)
	}
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#viewer@user:last")}))(t)
	close(written)
	if got := <-done; len(got) != 22 {
		t.Errorf("got %d changes, want 22", len(got))
	}
}

// TestWatchPermissionEnds ends watches by their context, their store and their
// engine. New watches must work after the first ones ended.
func TestWatchPermissionEnds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{})
	s := newStore(t, e, documents())
	p := viewers
	p.Objects = []string{"1"}
	watch := func(ctx context.Context) <-chan error {
		out := make(chan error, 1)
		from := must(s.Head(context.Background()))(t)
		go func() {
			for u, err := range s.WatchPermission(ctx, authz.WatchPermissionRequest{PermissionSelector: p, After: from}) {
				if err != nil {
					out <- err
					return
				}
				out <- nil
				_ = u
			}
		}()
		return out
	}
	for i := range 3 {
		canceled, cancel := context.WithCancel(ctx)
		first, second := watch(canceled), watch(ctx)
		must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:1#owner@user:u%d", i))}))(t)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		cancel()
		wantKind(t, <-first, authz.ErrCanceled)
		if i == 2 {
			must(struct{}{}, e.DeleteStore(ctx, s.ID()))(t)
			wantKind(t, <-second, authz.ErrNoStore)
		}
	}
	s = newStore(t, e, documents())
	last := watch(ctx)
	must(struct{}{}, e.Close())(t)
	wantKind(t, <-last, authz.ErrClosed)
}

// BenchmarkWatchPermission measures how long a change takes to reach 1,000 watches
// of a permission (delivered-µs), and how long the write takes (write-µs).
func BenchmarkWatchPermission(b *testing.B) {
	for _, watchers := range []int{0, 1000} {
		b.Run(fmt.Sprint(watchers, " watchers"), func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s, _ := benchStore(b)
			from := must(s.Write(ctx, authz.WriteRequest{Add: tups(b, "document:watched#viewer@group:watched#member")}))(b)
			p := viewers
			p.Objects = []string{"watched"}
			var seen atomic.Int64
			var waiting sync.WaitGroup
			var ended sync.WaitGroup
			for range watchers {
				ended.Go(func() {
					for u, err := range s.WatchPermission(ctx, authz.WatchPermissionRequest{PermissionSelector: p, After: from}) {
						if err != nil {
							return
						}
						for range u.Changes {
							seen.Add(1)
							waiting.Done()
						}
					}
				})
			}
			var writing, delivering []time.Duration
			for i := 0; b.Loop(); i++ {
				waiting.Add(watchers)
				start := time.Now()
				must(s.Write(ctx, authz.WriteRequest{Add: tups(b, fmt.Sprintf("group:watched#member@user:new%d", i))}))(b)
				writing = append(writing, time.Since(start))
				waiting.Wait()
				delivering = append(delivering, time.Since(start))
			}
			b.ReportMetric(float64(median(writing).Microseconds()), "write-µs")
			b.ReportMetric(float64(median(delivering).Microseconds()), "delivered-µs")
			cancel()
			ended.Wait()
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
