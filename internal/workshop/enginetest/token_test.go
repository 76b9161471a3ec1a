package enginetest

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
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
		w := authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne", "document:2#owner@user:anne", "document:3#owner@user:anne")}
		ta, tb := must(a.Write(ctx, w))(t), must(b.Write(ctx, w))(t)
		if ta == tb {
			t.Fatal("two stores have the same token")
		}
		must(b.Write(ctx, authz.WriteRequest{Add: tups(t, "document:4#owner@user:only-b")}))(t)
		list := authz.ListObjectsRequest{Type: "document", Relation: "owner", Subject: rel.Subject{Type: "user", ID: "anne"}, Limit: 1}
		la, ra := must(a.ListObjects(ctx, list))(t), must(a.Read(ctx, authz.ReadRequest{Limit: 1}))(t)
		for range 2 {
			want(t, a, "document:4#owner@user:only-b", "false")
			want(t, b, "document:4#owner@user:only-b", "true")
			for _, at := range []authz.Consistency{authz.AtLeast(ta), authz.AtExactly(ta)} {
				_, err := b.Read(ctx, authz.ReadRequest{Consistency: at})
				wantKind(t, err, authz.ErrToken)
			}
			_, err := b.Changes(ctx, authz.ChangesRequest{After: ta})
			wantKind(t, err, authz.ErrToken)
			_, err = b.Resolve(ctx, authz.AtLeast(ta))
			wantKind(t, err, authz.ErrToken)
			if got := must(b.Resolve(ctx, authz.AtExactly(tb)))(t); got != tb {
				t.Errorf("the token %s is resolved to %s", tb, got)
			}
			for _, err := range b.Watch(ctx, authz.WatchRequest{After: ta}) {
				wantKind(t, err, authz.ErrToken)
			}
			list.Cursor = la.Next
			must(a.ListObjects(ctx, list))(t)
			_, err = b.ListObjects(ctx, list)
			wantKind(t, err, authz.ErrToken)
			_, err = b.Read(ctx, authz.ReadRequest{Cursor: ra.Next})
			wantKind(t, err, authz.ErrToken)
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
	open := func() (*ostiary.Store, authz.Token) {
		s := must(e.CreateStore(ctx, create))(t)
		must(struct{}{}, func() error {
			_, _, err := s.WriteSchema(ctx, authz.SchemaSource{Model: documents()})
			return err
		}())(t)
		return s, must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:anne")}))(t)
	}
	old, token := open()
	_, err := e.CreateStore(ctx, create)
	wantKind(t, err, authz.ErrStoreExists)
	must(struct{}{}, e.DeleteStore(ctx, create.ID))(t)
	_, err = e.StoreByAlias(ctx, "door", "same")
	wantKind(t, err, authz.ErrNoStore)
	s, _ := open()
	_, err = s.Read(ctx, authz.ReadRequest{Consistency: authz.AtLeast(token)})
	wantKind(t, err, authz.ErrToken)
	_, err = old.Read(ctx, authz.ReadRequest{})
	wantKind(t, err, authz.ErrNoStore)
	_, err = old.Write(ctx, authz.WriteRequest{Add: tups(t, "document:2#owner@user:anne")})
	wantKind(t, err, authz.ErrNoStore)
	if found := must(e.StoreByAlias(ctx, "door", "same"))(t); found != s {
		t.Error("the alias returned a second handle of the store")
	}
}

func TestFutureToken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{FutureWait: time.Millisecond}}), documents())
	head := must(s.Head(ctx))(t)
	raw := must(base64.RawURLEncoding.DecodeString(string(head[3:])))(t)
	raw[23]++ // the revision's last byte
	future := authz.Token("o1." + base64.RawURLEncoding.EncodeToString(raw))
	_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.AtLeast(future)})
	wantKind(t, err, authz.ErrFuture)
	done, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	_, err = s.Read(done, authz.ReadRequest{Consistency: authz.AtRevision(99)})
	if wantKind(t, err, authz.ErrFuture); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v: a door would take a future revision for its own deadline", err)
	}
	// Once the revision exists with another hash, the token belongs to another
	// history.
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	_, err = s.Read(ctx, authz.ReadRequest{Consistency: authz.AtLeast(future)})
	wantKind(t, err, authz.ErrToken)
}

// TestFarFuture checks that a request waits for a revision that is 100,000 later than the
// newest one, and fails at once for a later one.
func TestFarFuture(t *testing.T) {
	t.Parallel()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{FutureWait: 24 * time.Hour}}), documents())
	newest := must(s.Read(t.Context(), authz.ReadRequest{}))(t).Revision
	for r, waits := range map[storage.Revision]bool{newest + 100_000: true, newest + 100_001: false, 1<<63 - 1: false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client left")
		if waits {
			time.AfterFunc(10*time.Millisecond, func() { cancel(left) })
		}
		_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.AtRevision(r)}) // without an end if it waits
		wantKind(t, err, authz.ErrFuture)
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
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{FutureWait: time.Microsecond}}), documents())
	token := must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:a")}))(t)
	for i := range len(token) * 8 {
		b := []byte(token)
		b[i/8] ^= 1 << (i % 8)
		_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.AtExactly(authz.Token(b))})
		if !errors.Is(err, authz.ErrToken) && !errors.Is(err, authz.ErrFuture) {
			t.Errorf("bit %d flipped: got error %v, want ErrToken or ErrFuture", i, err)
		}
	}
}

// FuzzToken reads at an arbitrary token. Only the head's token may be accepted.
func FuzzToken(f *testing.F) {
	ctx := context.Background()
	s := newStore(f, newEngine(f, ostiary.Options{Bounds: authz.Bounds{FutureWait: time.Microsecond}}), documents())
	f.Add(string(must(s.Head(ctx))(f)))
	f.Add("o1.")
	f.Add("o2.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := s.Read(ctx, authz.ReadRequest{Consistency: authz.AtExactly(authz.Token(text))})
		if err == nil && authz.Token(text) != must(s.Head(ctx))(t) {
			t.Errorf("%q was accepted", text)
		}
	})
}

// FuzzCursor lists and reads with an arbitrary cursor. A text that is not a cursor
// of the question must be refused with an expected error.
func FuzzCursor(f *testing.F) {
	ctx := context.Background()
	s := newStore(f, newEngine(f, ostiary.Options{Bounds: authz.Bounds{FutureWait: time.Microsecond}}), documents())
	must(s.Write(ctx, authz.WriteRequest{Add: tups(f, "document:1#owner@user:a", "document:2#owner@user:a")}))(f)
	list := authz.ListObjectsRequest{Type: "document", Relation: "owner", Subject: rel.Subject{Type: "user", ID: "a"}, Limit: 1}
	f.Add(must(s.Read(ctx, authz.ReadRequest{Limit: 1}))(f).Next)
	f.Add(must(s.ListObjects(ctx, list))(f).Next)
	expand := authz.ExpandPageRequest{ExpandRequest: authz.ExpandRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "owner"}, Limit: 1}
	must(s.Write(ctx, authz.WriteRequest{Add: tups(f, "document:1#owner@user:b")}))(f)
	f.Add(must(s.ExpandPage(ctx, expand))(f).Next)
	f.Add("c1.")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		list := list
		list.Cursor = text
		_, errList := s.ListObjects(ctx, list)
		_, errRead := s.Read(ctx, authz.ReadRequest{Cursor: text, Limit: 1})
		expand := expand
		expand.Cursor = text
		_, errExpand := s.ExpandPage(ctx, expand)
		if errList == nil && errRead == nil || errExpand == nil && (errList == nil || errRead == nil) {
			t.Errorf("%q was accepted as a cursor of two different questions", text)
		}
		for _, err := range []error{errList, errRead, errExpand} {
			if err != nil && !errors.Is(err, authz.ErrCursor) && !errors.Is(err, authz.ErrToken) && !errors.Is(err, authz.ErrFuture) {
				t.Errorf("cursor %q: got unexpected error %v", text, err)
			}
		}
	})
}
