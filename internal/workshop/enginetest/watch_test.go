package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

func TestWatch(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		s := newStore(t, start(t, d, ostiary.Options{}).engine, documents())
		from := must(s.Head(ctx))(t)
		const before, after = 20, 30
		for i := range before {
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:a", i))}))(t)
		}
		started := make(chan struct{})
		go func() {
			<-started
			for i := range after {
				if _, err := s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:a", before+i))}); err != nil {
					t.Error(err)
				}
			}
		}()
		n := 0
		for e, err := range s.Watch(ctx, authz.WatchRequest{After: from}) {
			if n == before+after {
				wantKind(t, err, authz.ErrCanceled)
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("document:%d#owner@user:a", n); len(e.Changes) != 1 || e.Changes[0].Tuple.String() != want || int(e.Revision) != n+2 {
				t.Fatalf("entry %d: %v", n, e)
			}
			if n++; n == before {
				close(started)
			}
			if n == before+after {
				if head := must(s.Head(ctx))(t); e.Token != head {
					t.Errorf("the last entry has token %s, want the head's, %s", e.Token, head)
				}
				cancel()
			}
		}
		if n != before+after {
			t.Errorf("the watch yielded %d entries, want %d", n, before+after)
		}
	})
}

// TestWatchBehind writes more entries than the buffer holds while the consumer
// does not read. The watch must end with the token to resume from, and no entry may
// be missing.
func TestWatchBehind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{WatchBuffer: 4}}), documents())
	write := func(n, count int) {
		for i := range count {
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf("document:%d#owner@user:a", n+i))}))(t)
		}
	}
	from := must(s.Head(ctx))(t)
	write(0, 1)
	n, behind := 0, 0
	for n < 30 {
		for e, err := range s.Watch(ctx, authz.WatchRequest{After: from}) {
			var w *authz.WatchError
			if errors.As(err, &w) {
				wantKind(t, err, authz.ErrWatchBehind)
				from = w.Resume
				behind++
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("document:%d#owner@user:a", n); e.Changes[0].Tuple.String() != want {
				t.Fatalf("got %s, want %s", e.Changes[0].Tuple, want)
			}
			if n++; n == 1 {
				write(1, 29) // these writes do not wait for the consumer
			}
			if n == 30 {
				break
			}
		}
	}
	if behind == 0 {
		t.Error("the watch did not fall behind")
	}
}

func TestWatchEndsWithItsStore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := must(ostiary.Open(ctx, ostiary.Options{}))(t)
	s := newStore(t, e, documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	first := true
	for _, err := range s.Watch(ctx, authz.WatchRequest{After: must(s.Changes(ctx, authz.ChangesRequest{Limit: 1}))(t).Next}) {
		if first {
			first = false
			must(struct{}{}, e.Close())(t)
			continue
		}
		wantKind(t, err, authz.ErrClosed)
	}
	if first {
		t.Error("the watch yielded no entry")
	}
}

// TestSecrets writes a secret. Its plain text may appear neither in the driver's
// data nor in the log's changes (class S).
func TestSecrets(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{SecretKey: &[32]byte{1}})
		s := newStore(t, x.engine, documents())
		k := authz.DocumentKey{Kind: "password", Key: "anne"}
		must(s.Write(ctx, authz.WriteRequest{
			Secrets:   []authz.Document{{Kind: k.Kind, Key: k.Key, Body: []byte("open sesame")}},
			Documents: []authz.Document{{Kind: "person", Key: "anne", Secondary: []string{"city:rome"}, Body: []byte("{}")}}}))(t)
		for range 2 {
			if got := must(s.Secret(ctx, k))(t); string(got.Body) != "open sesame" || fmt.Sprint(got) != "password/anne [body not shown]" {
				t.Errorf("got secret %v", got)
			}
			if docs := must(s.DocumentsBy(ctx, "person", "city:rome"))(t); len(docs) != 1 || docs[0].Key != "anne" {
				t.Errorf("got documents %v", docs)
			}
			raw := must(x.driver.Secret(ctx, s.ID(), k.Kind, k.Key))(t)
			if len(raw.Body) < 12+16 || string(raw.Body[len(raw.Body)-11:]) == "open sesame" {
				t.Error("the driver stores the plain text")
			}
			for _, e := range must(s.Changes(ctx, authz.ChangesRequest{}))(t).Entries {
				for _, c := range e.Changes {
					if c.Kind == storage.SecretPut || c.Document.Kind == k.Kind {
						t.Error("the changes contain a secret")
					}
				}
			}
			s = x.again(s)
		}
		x.opts.SecretKey = &[32]byte{2}
		s = x.again(s)
		_, err := s.Secret(ctx, k)
		wantKind(t, err, authz.ErrNoSecretKey)
		x.opts.SecretKey = nil
		s = x.again(s)
		_, err = s.Secret(ctx, k)
		wantKind(t, err, authz.ErrNoSecretKey)
		_, err = s.Write(ctx, authz.WriteRequest{Secrets: []authz.Document{{Kind: "a", Key: "b"}}})
		wantKind(t, err, authz.ErrNoSecretKey)
		must(s.Write(ctx, authz.WriteRequest{RemoveSecrets: []authz.DocumentKey{k}}))(t)
		_, err = x.driver.Secret(ctx, s.ID(), k.Kind, k.Key)
		if !errors.Is(err, storage.ErrNoDocument) {
			t.Error(err)
		}
	})
}

func TestChanges(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx, clock := context.Background(), newClock()
		s := newStore(t, start(t, d, ostiary.Options{Clock: clock.Now}).engine, documents())
		for i := range 10 {
			clock.Advance(1e9)
			object := "document:%d#owner@user:a"
			if i%2 == 1 {
				object = "folder:%d#viewer@user:a"
			}
			must(s.Write(ctx, authz.WriteRequest{Add: tups(t, fmt.Sprintf(object, i))}))(t)
		}
		r := authz.ChangesRequest{Limit: 2, Types: []string{"folder"}}
		var got []string
		for pages := 0; ; pages++ {
			page := must(s.Changes(ctx, r))(t)
			for _, e := range page.Entries {
				got = append(got, e.Changes[0].Tuple.Object.ID)
			}
			if r.After = page.Next; !page.More {
				break
			}
			if pages > 10 {
				t.Fatal("there are too many pages")
			}
		}
		if fmt.Sprint(got) != "[1 3 5 7 9]" {
			t.Errorf("got changes of folders %v, want [1 3 5 7 9]", got)
		}
		if r.After != must(s.Head(ctx))(t) {
			t.Error("the last page does not end at the head")
		}
		since := must(s.Changes(ctx, authz.ChangesRequest{Since: clock.Now().Add(-2e9)}))(t)
		if len(since.Entries) != 3 || since.Entries[0].Changes[0].Tuple.Object.ID != "7" {
			t.Errorf("changes since two seconds ago: got %v", since)
		}
		_, err := s.Changes(ctx, authz.ChangesRequest{After: "x"})
		wantKind(t, err, authz.ErrToken)
		_ = rel.Object{}
	})
}
