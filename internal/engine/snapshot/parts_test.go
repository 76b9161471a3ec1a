package snapshot

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

// head returns the head of a revision whose hash depends on it.
func head(r storage.Revision) storage.Head {
	return storage.Head{Revision: r, Hash: storage.Hash{1, 2, byte(r >> 16), byte(r >> 8), byte(r)}}
}

// TestMarkRing puts marks in random order, with gaps and repetitions. The ring must
// return the marks that it was given, keep the newest successive ones, and stay within
// its bounds.
func TestMarkRing(t *testing.T) {
	t.Parallel()
	const newestKept, newestMax, olderMax = 4096, 8192, 4096
	const seed = 5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var ring markRing
	if _, ok := ring.get(0); ok {
		t.Error("an empty ring has a mark")
	}
	put := map[storage.Revision]bool{}
	newest, since := storage.Revision(0), storage.Revision(0) // since: the first after the last gap
	for i := range 60_000 {
		r := newest + 1
		switch choice := rng.IntN(10); {
		case i == 0:
			r = 7
		case choice == 0:
			r = 1 + storage.Revision(rng.Uint64N(uint64(newest))) // older or again
		case choice == 1 && i%9_999 == 0:
			r = newest + 2 + storage.Revision(rng.IntN(3))
		}
		if r > newest {
			if r != newest+1 || i == 0 {
				since = r
			}
			newest = r
		}
		ring.put(head(r))
		put[r] = true
		if len(ring.marks) > newestMax || len(ring.older) > olderMax {
			t.Fatalf("%d marks and %d older ones", len(ring.marks), len(ring.older))
		}
		if m, ok := ring.get(r); !ok || m != markOf(head(r).Hash) {
			t.Fatalf("the mark of revision %d that was put last: %x, %v", r, m, ok)
		}
		kept := max(since, newest-min(newest, newestKept-1))
		for _, r := range []storage.Revision{kept, newest, newest + 1, newest / 2, since - 1} {
			m, ok := ring.get(r)
			if ok && (!put[r] || m != markOf(head(r).Hash)) || !ok && r >= kept && r <= newest {
				t.Fatalf("after revision %d: the mark of %d is %x, %v", newest, r, m, ok)
			}
		}
	}
	ring.clear()
	if _, ok := ring.get(newest); ok || len(ring.older) > 0 {
		t.Error("a cleared ring has a mark")
	}
}

// TestSchemaCache compares the cache with a list: it keeps the schemas that were used last.
func TestSchemaCache(t *testing.T) {
	t.Parallel()
	const seed = 6
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, size := range []int{0, 1, 3} {
		c := schemaCache{max: size}
		compiled := map[schemaKey]*schema.Schema{}
		var used []schemaKey // the last used first
		for range 5000 {
			k := schemaKey{storage.StoreID{byte(rng.IntN(2))}, storage.Incarnation{byte(rng.IntN(2))}, fmt.Sprint(rng.IntN(2))}
			i := slices.Index(used, k)
			got := c.get(k)
			if (got != nil) != (i >= 0) || got != nil && got != compiled[k] {
				t.Fatalf("size %d: got %p for a key at place %d", size, got, i)
			}
			if i >= 0 {
				used = slices.Delete(used, i, i+1)
			}
			if i < 0 && rng.IntN(2) == 0 {
				continue
			}
			if i < 0 || rng.IntN(2) == 0 {
				fresh := &schema.Schema{}
				c.put(k, fresh)
				if i < 0 {
					compiled[k] = fresh
				}
			}
			used = slices.Insert(used, 0, k)
			used = used[:min(size, len(used))]
		}
	}
}

// TestDigester prints the bytes that each part of a request adds. They must not change,
// because cursors contain their hash.
func TestDigester(t *testing.T) {
	t.Parallel()
	object := rel.Object{Type: "doc", ID: "1"}
	subject := rel.Subject{Type: "group", ID: "eng", Relation: "member"}
	tuple := rel.Tuple{Object: object, Relation: "viewer", Subject: subject, Condition: "c", Context: `{"a":1}`, Expires: 3}
	var out strings.Builder
	for _, c := range []struct {
		name string
		add  func(d *Digester)
	}{
		{"nothing", func(d *Digester) {}},
		{"numbers", func(d *Digester) { d.Number(0); d.Number(1); d.Number(-1); d.Number(300) }},
		{"texts", func(d *Digester) { d.Text("a", "", "bc") }},
		{"flags", func(d *Digester) { d.Flag(true); d.Flag(false) }},
		{"object", func(d *Digester) { d.Object(object) }},
		{"subject", func(d *Digester) { d.Subject(subject) }},
		{"no tuples", func(d *Digester) { d.Tuples(nil) }},
		{"tuples", func(d *Digester) { d.Tuples([]rel.Tuple{tuple, {}}) }},
		{"attributes", func(d *Digester) { d.Attributes([]rel.Attribute{{Object: object, Name: "n", Value: "1"}, {}}) }},
		{"filter", func(d *Digester) {
			d.Filter(rel.Filter{ObjectType: "a", ObjectID: "b", Relation: "c", SubjectType: "d", SubjectID: "e", SubjectRelation: "f", SubjectPlain: true})
		}},
		{"bounds", func(d *Digester) {
			d.Bounds(authz.QuestionBounds{Depth: 1, Nodes: 2, ConditionCost: 3, Memory: 4, ExpandEntries: 5, ExpandBytes: 6})
		}},
		{"no values", func(d *Digester) { d.Values(nil) }},
		{"values", func(d *Digester) {
			d.Values(expr.Values{"b": "x", "a": []any{nil, true, 1.5}, "c": map[string]any{"e": json.Number("1"), "d": 2}})
		}},
	} {
		var d Digester
		c.add(&d)
		fmt.Fprintf(&out, "%s: %q %x\n", c.name, d.b, d.Sum())
	}
	golden.Equal(t, "testdata/digester.txt", out.String())
}

// TestCursors reads cursors that are whole, changed, cut and too long.
func TestCursors(t *testing.T) {
	t.Parallel()
	timeline := &Timeline{ID: storage.StoreID{1}, Incarnation: storage.Incarnation{2}}
	digest := Digest{3}
	for _, past := range []bool{false, true} {
		v := &View{Head: head(9), Past: past}
		for _, position := range []string{"", "x", strings.Repeat("y", 500)} {
			text := timeline.Cursor(v, digest, []byte(position))
			c, err := readCursor(text, digest)
			if err != nil || c.past != past || string(c.position) != position || c.TokenParts != timeline.TokenParts(v.Head) {
				t.Errorf("%s: got %+v, %v", text, c, err)
			}
			if _, err := readCursor(text, Digest{4}); !errors.Is(err, authz.ErrCursor) {
				t.Errorf("%s with another digest: %v", text, err)
			}
			for n := range min(len(text), len(cursorPrefix)+cursorFixed*4/3) {
				if _, err := readCursor(text[:n], digest); !errors.Is(err, authz.ErrCursor) {
					t.Errorf("the first %d bytes of %s: %v", n, text, err)
				}
			}
		}
	}
	raw := make([]byte, cursorFixed)
	copy(raw[authz.TokenBytes+1:], digest[:])
	for flag, want := range map[byte]error{0: nil, 1: nil, 2: authz.ErrCursor, 255: authz.ErrCursor} {
		raw[authz.TokenBytes] = flag
		if _, err := readCursor(cursorPrefix+base64.RawURLEncoding.EncodeToString(raw), digest); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("flag %d: %v", flag, err)
		}
	}
	raw[authz.TokenBytes] = 0
	for n, want := range map[int]string{authz.CursorBytesMax: "", authz.CursorBytesMax + 1: "has 8193 bytes, expected at most 8192"} {
		text := cursorPrefix + base64.RawURLEncoding.EncodeToString(append(slices.Clone(raw), make([]byte, authz.CursorBytesMax)...))
		if _, err := readCursor(text[:n], digest); want != "" && !strings.Contains(fmt.Sprint(err), want) || want == "" && err != nil && strings.Contains(err.Error(), "expected at most") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, text := range []string{"", "c", "c1", "c2.", "o1.", "c1.", "c1.%%%", "c1.AA=="} {
		if _, err := readCursor(text, digest); !errors.Is(err, authz.ErrCursor) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTokens reads tokens that are whole, changed, cut and too long.
func TestTokens(t *testing.T) {
	t.Parallel()
	timeline := &Timeline{Incarnation: storage.Incarnation{2, 15: 7}}
	token := timeline.Token(head(900))
	p, err := authz.ReadToken(token)
	if err != nil || p != timeline.TokenParts(head(900)) || p.Revision != 900 || p.Mark != markOf(head(900).Hash) {
		t.Errorf("got %+v, %v", p, err)
	}
	if again := authz.ParseTokenParts(p.Append([]byte("x"))[1:]); again != p {
		t.Errorf("parts %+v become %+v", p, again)
	}
	if r, err := token.Revision(); r != 900 || err != nil {
		t.Errorf("revision %d, %v", r, err)
	}
	for n := range len(token) {
		if p, err := authz.ReadToken(token[:n]); !errors.Is(err, authz.ErrToken) || p != (authz.TokenParts{}) {
			t.Errorf("the first %d bytes: %+v, %v", n, p, err)
		}
		for _, c := range []byte("\x00=A+_") {
			changed := []byte(token)
			if changed[n] == c {
				continue
			}
			changed[n] = c
			if other, err := authz.ReadToken(authz.Token(changed)); err == nil && (other == p || other.Token() != authz.Token(changed)) {
				t.Errorf("%s is read as %+v", changed, other)
			}
		}
	}
	for n, want := range map[int]string{authz.TokenBytesMax: "malformed text", authz.TokenBytesMax + 1: "has 65 bytes, expected at most 64"} {
		_, err := authz.ReadToken("o1." + authz.Token(strings.Repeat("A", n-3)))
		if !errors.Is(err, authz.ErrToken) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v, expected %q", n, err, want)
		}
	}
}

// TestSubscriptions pushes entries to subscriptions with different bounds of entries and of
// changes.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	timeline := &Timeline{Runtime: &Runtime{lag: lagBudget{max: 1 << 20}}}
	publish := func(from storage.Revision, changes ...int) bool {
		var entries []storage.Entry
		var heads []storage.Head
		for i, n := range changes {
			entries = append(entries, storage.Entry{Revision: from + storage.Revision(i), Changes: make([]storage.Change, n)})
			heads = append(heads, head(from+storage.Revision(i)))
		}
		return timeline.subscriptions.push(entries, heads)
	}
	if publish(1, 1) {
		t.Error("entries are kept without a subscription")
	}
	for _, c := range []struct {
		limit   int
		changes []int
		got     int
		behind  bool
	}{
		{3, []int{1, 1}, 2, false}, {3, []int{1, 1, 1}, 3, false}, {3, []int{1, 1, 1, 1}, 3, true}, {3, []int{1, 1, 1, 1, 1}, 3, true},
		{3, []int{300}, 1, false}, {3, []int{301}, 1, false}, {3, []int{100, 200}, 2, false}, {3, []int{100, 201}, 1, true},
		{3, []int{100, 201, 1}, 1, true}, {1, []int{1}, 1, false}, {1, []int{1, 1}, 1, true},
	} {
		for _, apart := range []bool{false, true} {
			s := timeline.Subscribe(c.limit)
			kept := false
			if apart {
				for i, n := range c.changes {
					kept = publish(storage.Revision(10+i), n)
				}
			} else {
				kept = publish(10, c.changes...)
			}
			items, err := s.Next(ctx)
			if !kept || len(items) != c.got || errors.Is(err, authz.ErrWatchBehind) != c.behind {
				t.Errorf("%v: kept %v, got %d, %v; expected %d", c, kept, len(items), err, c.got)
			}
			for i, item := range items {
				if item.Head != head(storage.Revision(10+i)) || len(item.Entry.Changes) != c.changes[i] {
					t.Errorf("%v: entry %d is revision %d", c, i, item.Head.Revision)
				}
			}
			if !c.behind { // what was read makes room
				publish(20, c.changes...)
				if items, err := s.Next(ctx); len(items) != c.got || err != nil {
					t.Errorf("%v: then got %d, %v", c, len(items), err)
				}
			} else if items, err := s.Next(ctx); len(items) > 0 || !errors.Is(err, authz.ErrWatchBehind) {
				t.Errorf("%v: after the error got %d, %v", c, len(items), err)
			}
			timeline.subscriptions.fail(ErrReload)
			if items, err := s.Next(ctx); len(items) > 0 || !errors.Is(err, ErrReload) && !c.behind {
				t.Errorf("%v: after fail: got %d, %v", c, len(items), err)
			}
			s.Close()
			if s.Close(); publish(30, 1) {
				t.Errorf("%v: entries are kept after Close", c)
			}
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	s := timeline.Subscribe(1)
	defer s.Close()
	if _, err := s.Next(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled Next: %v", err)
	}
}

// TestManySubscriptions has more subscriptions than a writer serves itself. Each gets all
// entries in order, and they share what they show.
func TestManySubscriptions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{directMax, directMax + 1, 3 * directMax} {
		timeline := &Timeline{Runtime: &Runtime{lag: lagBudget{max: 1 << 20}}}
		var all []*Subscription
		for range n {
			all = append(all, timeline.Subscribe(100))
		}
		for r := range storage.Revision(50) {
			if !timeline.subscriptions.push([]storage.Entry{{Revision: r}}, []storage.Head{head(r)}) {
				t.Error("entries are not kept")
			}
		}
		found := 0
		for _, s := range all {
			next := storage.Revision(0)
			for next < 50 {
				items, err := s.Next(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					if item.Head.Revision != next {
						t.Fatalf("%d subscriptions: got revision %d, expected %d", n, item.Head.Revision, next)
					}
					next++
					item.Visible(func(*storage.Entry) []storage.Change { found++; return nil })
				}
			}
			s.Close()
		}
		if found != 50 {
			t.Errorf("%d subscriptions: the changes of 50 entries were found %d times", n, found)
		}
	}
}

// TestWriteLock takes the lock in each way, while it is free, held, and while a group is
// being appended.
func TestWriteLock(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	l := WriteLock{held: make(chan struct{}, 1)}
	if !l.TryLock() || l.TryLock() {
		t.Fatal("TryLock of a free lock, then of a held one")
	}
	if ok, err := l.LockWithin(context.Background(), time.Nanosecond); ok || err != nil {
		t.Errorf("LockWithin of a held lock: %v, %v", ok, err)
	}
	if ok, err := l.LockWithin(canceled, time.Hour); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled LockWithin: %v, %v", ok, err)
	}
	if err := l.LockIdle(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled LockIdle of a held lock: %v", err)
	}
	l.Unlock()
	var group Latch
	for range 2 {
		if ok, err := l.LockWithin(context.Background(), time.Hour); !ok || err != nil || l.Appending() {
			t.Fatalf("LockWithin of a free lock: %v, %v", ok, err)
		}
		l.SetAppending(&group)
		if !l.Appending() {
			t.Error("not appending")
		}
		l.Unlock()
		if err := l.LockIdle(canceled); !errors.Is(err, context.Canceled) || !l.TryLock() {
			t.Fatalf("a canceled LockIdle while a group is being appended: %v", err)
		}
		l.Unlock()
		done := make(chan error)
		go func() { done <- l.LockIdle(context.Background()) }()
		group.Open()
		group.Wait()
		if err := <-done; err != nil || l.Appending() || l.TryLock() {
			t.Fatalf("LockIdle: %v", err)
		}
		if !group.Opened() {
			t.Error("the latch is not open")
		}
		l.Unlock()
		if group.Reset(); group.Opened() {
			t.Error("the latch is open after Reset")
		}
	}
}
