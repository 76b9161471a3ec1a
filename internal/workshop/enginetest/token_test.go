package enginetest

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// TestTwins uses two stores with equal names and contents. Tokens and cursors of
// one store must not be valid in the other (class I).
func TestTwins(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d disk) {
		ctx := context.Background()
		x := start(t, d, ostiary.Options{})
		a, b := newStore(t, x.engine, documents()), newStore(t, x.engine, documents())
		w := ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#owner@user:anne", "document:3#owner@user:anne")}
		ta, tb := must(a.Write(ctx, w))(t), must(b.Write(ctx, w))(t)
		if ta == tb {
			t.Fatal("two stores have the same token")
		}
		must(b.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:4#owner@user:only-b")}))(t)
		list := ostiary.ListObjectsRequest{Type: "document", Relation: "owner", Subject: rel.Subject{Type: "user", ID: "anne"}, Limit: 1}
		la, ra := must(a.ListObjects(ctx, list))(t), must(a.Read(ctx, ostiary.ReadRequest{Limit: 1}))(t)
		for range 2 {
			want(t, a, "document:4#owner@user:only-b", "false")
			want(t, b, "document:4#owner@user:only-b", "true")
			for _, at := range []ostiary.Consistency{ostiary.AtLeast(ta), ostiary.AtExactly(ta)} {
				_, err := b.Read(ctx, ostiary.ReadRequest{Consistency: at})
				wantKind(t, err, ostiary.ErrToken)
			}
			_, err := b.Changes(ctx, ostiary.ChangesRequest{After: ta})
			wantKind(t, err, ostiary.ErrToken)
			_, err = b.Resolve(ctx, ostiary.AtLeast(ta))
			wantKind(t, err, ostiary.ErrToken)
			if got := must(b.Resolve(ctx, ostiary.AtExactly(tb)))(t); got != tb {
				t.Errorf("the token %s is resolved to %s", tb, got)
			}
			for _, err := range b.Watch(ctx, ostiary.WatchRequest{After: ta}) {
				wantKind(t, err, ostiary.ErrToken)
			}
			list.Cursor = la.Next
			must(a.ListObjects(ctx, list))(t)
			_, err = b.ListObjects(ctx, list)
			wantKind(t, err, ostiary.ErrToken)
			_, err = b.Read(ctx, ostiary.ReadRequest{Cursor: ra.Next})
			wantKind(t, err, ostiary.ErrToken)
			a, b = x.again(a), must(x.engine.Store(ctx, b.ID()))(t)
		}
	})
}

// TestIncarnation deletes a store and creates it again under the same names.
func TestIncarnation(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	e := newEngine(t, ostiary.Options{})
	create := ostiary.CreateStoreRequest{Name: "same", Aliases: map[string]string{"door": "same"}, ID: storage.NewID(1)}
	open := func() (*ostiary.Store, ostiary.Token) {
		s := must(e.CreateStore(ctx, create))(t)
		must(struct{}{}, func() error {
			_, _, err := s.WriteSchema(ctx, ostiary.SchemaSource{Model: documents()})
			return err
		}())(t)
		return s, must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
	}
	old, token := open()
	_, err := e.CreateStore(ctx, create)
	wantKind(t, err, ostiary.ErrStoreExists)
	must(struct{}{}, e.DeleteStore(ctx, create.ID))(t)
	_, err = e.StoreByAlias(ctx, "door", "same")
	wantKind(t, err, ostiary.ErrNoStore)
	s, _ := open()
	_, err = s.Read(ctx, ostiary.ReadRequest{Consistency: ostiary.AtLeast(token)})
	wantKind(t, err, ostiary.ErrToken)
	_, err = old.Read(ctx, ostiary.ReadRequest{})
	wantKind(t, err, ostiary.ErrNoStore)
	_, err = old.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:2#owner@user:anne")})
	wantKind(t, err, ostiary.ErrNoStore)
	if found := must(e.StoreByAlias(ctx, "door", "same"))(t); found != s {
		t.Error("the alias returned a second handle of the store")
	}
}

func TestFutureToken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: ostiary.Bounds{FutureWait: time.Millisecond}}), documents())
	head := must(s.Head(ctx))(t)
	raw := must(base64.RawURLEncoding.DecodeString(string(head[3:])))(t)
	raw[23]++ // the revision's last byte
	future := ostiary.Token("o1." + base64.RawURLEncoding.EncodeToString(raw))
	_, err := s.Read(ctx, ostiary.ReadRequest{Consistency: ostiary.AtLeast(future)})
	wantKind(t, err, ostiary.ErrFuture)
	done, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	_, err = s.Read(done, ostiary.ReadRequest{Consistency: ostiary.AtRevision(99)})
	if wantKind(t, err, ostiary.ErrFuture); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: a door would take a future revision for its own deadline", err)
	}
	// Once the revision exists with another hash, the token belongs to another
	// history.
	must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	_, err = s.Read(ctx, ostiary.ReadRequest{Consistency: ostiary.AtLeast(future)})
	wantKind(t, err, ostiary.ErrToken)
}

// TestFarFuture checks that a request waits for a revision that is 100,000 later than the
// newest one, and fails at once for a later one.
func TestFarFuture(t *testing.T) {
	t.Parallel()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: ostiary.Bounds{FutureWait: 24 * time.Hour}}), documents())
	newest := must(s.Read(t.Context(), ostiary.ReadRequest{}))(t).Revision
	for r, waits := range map[ostiary.Revision]bool{newest + 100_000: true, newest + 100_001: false, 1<<63 - 1: false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client left")
		if waits {
			time.AfterFunc(10*time.Millisecond, func() { cancel(left) })
		}
		_, err := s.Read(ctx, ostiary.ReadRequest{Consistency: ostiary.AtRevision(r)}) // without an end if it waits
		wantKind(t, err, ostiary.ErrFuture)
		if waited := strings.Contains(err.Error(), left.Error()); waited != waits {
			t.Errorf("revision %d, the newest is %d: %v, expected to wait: %v", r, newest, err, waits)
		}
		cancel(nil)
	}
}

// TestTokenBits flips every bit of a token. No changed token may be accepted.
func TestTokenBits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: ostiary.Bounds{FutureWait: time.Microsecond}}), documents())
	token := must(s.Write(ctx, ostiary.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	for i := range len(token) * 8 {
		b := []byte(token)
		b[i/8] ^= 1 << (i % 8)
		_, err := s.Read(ctx, ostiary.ReadRequest{Consistency: ostiary.AtExactly(ostiary.Token(b))})
		if !errors.Is(err, ostiary.ErrToken) && !errors.Is(err, ostiary.ErrFuture) {
			t.Errorf("bit %d flipped: got error %v, want ErrToken or ErrFuture", i, err)
		}
	}
}

// FuzzToken reads at an arbitrary token. Only the head's token may be accepted.
func FuzzToken(f *testing.F) {
	ctx := context.Background()
	s := newStore(f, newEngine(f, ostiary.Options{Bounds: ostiary.Bounds{FutureWait: time.Microsecond}}), documents())
	f.Add(string(must(s.Head(ctx))(f)))
	f.Add("o1.")
	f.Add("o2.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := s.Read(ctx, ostiary.ReadRequest{Consistency: ostiary.AtExactly(ostiary.Token(text))})
		if err == nil && ostiary.Token(text) != must(s.Head(ctx))(t) {
			t.Errorf("%q was accepted", text)
		}
	})
}

// FuzzCursor lists and reads with an arbitrary cursor. A text that is not a cursor
// of the question must be refused with an expected error.
func FuzzCursor(f *testing.F) {
	ctx := context.Background()
	s := newStore(f, newEngine(f, ostiary.Options{Bounds: ostiary.Bounds{FutureWait: time.Microsecond}}), documents())
	must(s.Write(ctx, ostiary.WriteRequest{Add: tups(f, "document:1#owner@user:a", "document:2#owner@user:a")}))(f)
	list := ostiary.ListObjectsRequest{Type: "document", Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"}, Limit: 1}
	f.Add(must(s.Read(ctx, ostiary.ReadRequest{Limit: 1}))(f).Next)
	f.Add(must(s.ListObjects(ctx, list))(f).Next)
	expand := ostiary.ExpandPageRequest{ExpandRequest: ostiary.ExpandRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner"}, Limit: 1}
	must(s.Write(ctx, ostiary.WriteRequest{Add: tups(f, "document:1#owner@user:b")}))(f)
	f.Add(must(s.ExpandPage(ctx, expand))(f).Next)
	f.Add("c1.")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		list := list
		list.Cursor = text
		_, errList := s.ListObjects(ctx, list)
		_, errRead := s.Read(ctx, ostiary.ReadRequest{Cursor: text, Limit: 1})
		expand := expand
		expand.Cursor = text
		_, errExpand := s.ExpandPage(ctx, expand)
		if errList == nil && errRead == nil || errExpand == nil && (errList == nil || errRead == nil) {
			t.Errorf("%q was accepted as a cursor of two different questions", text)
		}
		for _, err := range []error{errList, errRead, errExpand} {
			if err != nil && !errors.Is(err, ostiary.ErrCursor) && !errors.Is(err, ostiary.ErrToken) && !errors.Is(err, ostiary.ErrFuture) {
				t.Errorf("cursor %q: got unexpected error %v", text, err)
			}
		}
	})
}
