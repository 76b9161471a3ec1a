package enginetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// moment is the expected state of a store at one revision.
type moment struct {
	token  authz.Token
	time   time.Time
	tuples map[rel.Key]rel.Tuple
	values map[rel.Attribute]string
}

// readAll reads every tuple and attribute at a revision, page by page.
func readAll(t testing.TB, s *ostiary.Store, at authz.Consistency) (map[rel.Key]rel.Tuple, map[rel.Attribute]string) {
	t.Helper()
	ctx := context.Background()
	tuples, values := map[rel.Key]rel.Tuple{}, map[rel.Attribute]string{}
	r := authz.ReadRequest{Consistency: at, Limit: 7}
	var last *rel.Tuple
	for {
		page := must(s.Read(ctx, r))(t)
		for i := range page.Tuples {
			x := &page.Tuples[i].Tuple
			if _, ok := tuples[x.Key()]; ok || last != nil && !before(last, x) {
				t.Fatalf("read %s after %s, which is out of order", x, last)
			}
			tuples[x.Key()], last = *x, x
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			break
		}
	}
	a := authz.ReadAttributesRequest{Consistency: at, Limit: 3}
	for {
		page := must(s.ReadAttributes(ctx, a))(t)
		for _, x := range page.Attributes {
			values[rel.Attribute{Object: x.Object, Name: x.Name}] = x.Value
		}
		if a.Cursor = page.Next; a.Cursor == "" {
			return tuples, values
		}
	}
}

func before(a, b *rel.Tuple) bool {
	k := func(t *rel.Tuple) []string {
		return []string{t.Object.Type, t.Relation, t.Object.ID, t.Subject.Type, t.Subject.ID, t.Subject.Relation}
	}
	return slices.Compare(k(a), k(b)) < 0
}

// TestHistory makes random writes and reads the store back at every revision:
// between the writes, after restarts, and after compactions of the graph.
func TestHistory(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		seed := uint64(20260101)
		rng := rand.New(rand.NewPCG(seed, 1))
		t.Logf("seed %d", seed)
		ctx, time := context.Background(), newClock()
		m := documents()
		m.Types[3].Attributes = []schema.AttributeDef{{Name: "a", Type: intType}, {Name: "b", Type: intType}}
		x := start(t, d, ostiary.Options{Clock: time.Now, Bounds: authz.Bounds{PastViews: 3}})
		s := newStore(t, x.engine, m)
		now := moment{token: must(s.Head(ctx))(t), time: time.Now(), tuples: map[rel.Key]rel.Tuple{}, values: map[rel.Attribute]string{}}
		history := []moment{now}
		for range 60 {
			time.Advance(1e9)
			now = now.next(t, rng, s)
			now.time = time.Now()
			history = append(history, now)
			if rng.IntN(10) == 0 {
				history[rng.IntN(len(history))].check(t, s)
			}
		}
		for range 3 {
			for _, i := range rng.Perm(len(history)) {
				history[i].check(t, s)
			}
			if rng.IntN(2) == 0 {
				must(struct{}{}, s.Compact(ctx))(t)
				history[rng.IntN(len(history))].check(t, s)
			}
			s = x.again(s)
		}
	})
}

var intType = expr.Type{Kind: expr.Int}

// next makes a random write and returns the expected state after it.
func (m moment) next(t testing.TB, rng *rand.Rand, s *ostiary.Store) moment {
	n := moment{tuples: maps.Clone(m.tuples), values: maps.Clone(m.values)}
	w := authz.WriteRequest{OnDuplicate: authz.Replace, OnMissing: authz.Ignore}
	if rng.IntN(5) == 0 {
		f := rel.Filter{SubjectType: "user", SubjectID: fmt.Sprint("u", rng.IntN(6))}
		w.RemoveMatching = append(w.RemoveMatching, storage.Filter{Target: storage.FilterTuples, Tuple: f})
		maps.DeleteFunc(n.tuples, func(k rel.Key, _ rel.Tuple) bool { return f.Match(k) })
	}
	touched := map[rel.Key]bool{}
	for range 1 + rng.IntN(5) {
		x := tup(t, fmt.Sprintf("document:%d#owner@user:u%d", rng.IntN(6), rng.IntN(6)))
		if touched[x.Key()] {
			continue
		}
		touched[x.Key()] = true
		if rng.IntN(3) == 0 {
			w.Remove = append(w.Remove, x.Key())
			delete(n.tuples, x.Key())
			continue
		}
		if rng.IntN(4) == 0 {
			x.Expires = rel.TimeOf(time.Date(2030+rng.IntN(5), 1, 1, 0, 0, 0, 0, time.UTC))
		}
		w.Add = append(w.Add, x)
		n.tuples[x.Key()] = x
	}
	a := rel.Attribute{Object: rel.Object{Type: "document", ID: fmt.Sprint(rng.IntN(3))}, Name: string(rune('a' + rng.IntN(2)))}
	if rng.IntN(2) == 0 {
		w.RemoveAttributes = append(w.RemoveAttributes, a)
		delete(n.values, a)
	} else {
		set := a
		set.Value = fmt.Sprint(rng.IntN(100))
		w.SetAttributes = append(w.SetAttributes, set)
		n.values[a] = set.Value
	}
	n.token = must(s.Write(context.Background(), w))(t)
	return n
}

// check reads the store at the moment's revision and at its time.
func (m *moment) check(t testing.TB, s *ostiary.Store) {
	t.Helper()
	for _, at := range []authz.Consistency{authz.AtExactly(m.token), authz.AtTime(m.time.Add(time.Millisecond))} {
		tuples, values := readAll(t, s, at)
		if !maps.Equal(tuples, m.tuples) || !maps.Equal(values, m.values) {
			t.Fatalf("revision %d: got\n%v %v, want\n%v %v", must(m.token.Revision())(t), tuples, values, m.tuples, m.values)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx, clock := context.Background(), newClock()
		x := start(t, d, ostiary.Options{Clock: clock.Now, Window: time.Hour, LogWindow: time.Hour})
		s := newStore(t, x.engine, documents())
		var tokens []authz.Token
		for i := range 10 {
			clock.Advance(20 * time.Minute)
			tokens = append(tokens, must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:a", i)),
				RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "document"}}}}))(t))
		}
		ask := func(token authz.Token) error {
			_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.AtExactly(token)})
			return err
		}
		for range 2 {
			// The writes are 20 minutes apart and the window is one hour. The revision of
			// 60 minutes ago was the newest until 40 minutes ago. The revision of 80
			// minutes ago was the newest until exactly the start of the window.
			for i, token := range tokens {
				err := ask(token)
				if ago := len(tokens) - 1 - i; ago > 4 {
					wantKind(t, err, authz.ErrTooOld)
				} else if err != nil && ago < 4 {
					t.Errorf("the revision %d writes ago: %v", ago, err)
				}
			}
			must(s.Collect(ctx))(t)
		}
		_, err := s.Changes(ctx, authz.ChangesRequest{})
		wantKind(t, err, authz.ErrTooOld)
		if page := must(s.Changes(ctx, authz.ChangesRequest{After: tokens[7]}))(t); len(page.Entries) != 2 {
			t.Errorf("changes: %v", page)
		}
		// A token whose entry was trimmed still works for AtLeast.
		must(s.Read(ctx, authz.ReadRequest{Consistency: authz.AtLeast(tokens[0])}))(t)
		s = x.again(s)
		wantKind(t, ask(tokens[0]), authz.ErrTooOld)
		must(struct{}{}, ask(tokens[8]))(t)
	})
}

func TestExpiredAreCollected(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx, clock := context.Background(), newClock()
		x := start(t, d, ostiary.Options{Clock: clock.Now})
		s := newStore(t, x.engine, documents())
		var w authz.WriteRequest
		for i := range 2500 {
			tuple := tup(t, fmt.Sprintf("document:%d#owner@user:a", i))
			if i%5 != 0 {
				tuple.Expires = rel.TimeOf(clock.Now().Add(time.Hour))
			}
			w.Add = append(w.Add, tuple)
		}
		token := must(s.Write(ctx, w))(t)
		s = x.again(s)
		if c := must(s.Collect(ctx))(t); c.Expired != 0 {
			t.Errorf("%d tuples were collected before they expired", c.Expired)
		}
		clock.Advance(time.Hour)
		want(t, s, "document:1#owner@user:a", "false")
		if c := must(s.Collect(ctx))(t); c.Expired != 2000 {
			t.Errorf("%d expired tuples were collected", c.Expired)
		}
		if st := must(s.Stats(ctx))(t); st.Graph.Tuples != 500 {
			t.Errorf("%d tuples are left", st.Graph.Tuples)
		}
		if got := ask(t, s, "document:1#owner@user:a", authz.QueryOptions{Consistency: authz.AtExactly(token)}); got != "true" {
			t.Errorf("at the past revision: got %s, want true", got)
		}
	})
}

// TestAskedAtTime checks that a question about a time is answered as of that time, and
// not as of the last write before it: a tuple that has expired in between is absent.
func TestAskedAtTime(t *testing.T) {
	t.Parallel()
	ctx, clock := context.Background(), newClock()
	s := newStore(t, start(t, disks()[0], ostiary.Options{Clock: clock.Now, Window: -1}).engine, documents())
	written := clock.Now()
	var tuples []rel.Tuple
	for i := range 6 { // the even documents end after 10 seconds, the odd ones after 20
		x := tups(t, fmt.Sprintf("document:%d#owner@user:a", i))[0]
		x.Expires = rel.TimeOf(written.Add(time.Duration(10+i%2*10) * time.Second))
		tuples = append(tuples, x)
	}
	token := must(s.Write(ctx, authz.WriteRequest{Add: tuples}))(t)
	clock.Advance(time.Minute)
	count := func(at authz.Consistency, limit int) (n int) {
		r := authz.ListObjectsRequest{Subject: must(rel.ParseSubject("user:a"))(t), Relation: "owner", Type: "document", Limit: limit, QueryOptions: authz.QueryOptions{Consistency: at}}
		for {
			page := must(s.ListObjects(ctx, r))(t)
			if n += len(page.IDs); page.Next == "" {
				return n
			}
			r.Cursor = page.Next
		}
	}
	gained := func(from, to authz.Consistency) (changes []string) {
		r := authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "document", Relation: "owner", SubjectType: "user"}, From: from, To: to, Limit: 1}
		for {
			page := must(s.Difference(ctx, r))(t)
			for _, c := range page.Changes {
				changes = append(changes, fmt.Sprint(c.Object.ID, c.Gained(), c.Lost()))
			}
			if r.Cursor = page.Next; r.Cursor == "" {
				slices.Sort(changes)
				return changes
			}
		}
	}
	even := []string{"0false true", "2false true", "4false true"}
	odd := []string{"1false true", "3false true", "5false true"}
	all := slices.Sorted(slices.Values(slices.Concat(even, odd)))
	second := func(n int) authz.Consistency { return authz.AtTime(written.Add(time.Duration(n) * time.Second)) }
	for _, limit := range []int{1, 100} {
		for name, c := range map[string]struct {
			at   authz.Consistency
			want int
		}{
			"newest": {authz.MinimizeLatency(), 0}, "the token": {authz.AtExactly(token), 6}, "before the first end": {second(9), 6}, "after the first end": {second(10), 3}, "after the last end": {second(20), 0},
			"in the future": {second(3600), 0}, "the token, now": {authz.AtExactly(token).AtCurrentTime(), 0}, "a time, now": {second(9).AtCurrentTime(), 0},
		} {
			if n := count(c.at, limit); n != c.want {
				t.Errorf("%s, pages of %d: %d objects, want %d", name, limit, n, c.want)
			}
		}
	}
	for name, c := range map[string]struct {
		from, to authz.Consistency
		want     []string
	}{
		"to the newest": {authz.AtRevision(0), authz.MinimizeLatency(), nil}, "since the token": {authz.AtExactly(token), authz.MinimizeLatency(), all},
		"one revision, two times": {second(9), second(10), even}, "since the first end": {second(10), authz.MinimizeLatency(), odd},
	} {
		if got := gained(c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	r := authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "document", Relation: "owner", SubjectType: "user"}, From: second(10), To: second(9)}
	_, err := s.Difference(ctx, r)
	wantKind(t, err, authz.ErrInvalidRequest)
}
