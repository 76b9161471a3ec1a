package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// handler returns the native door on a new engine in memory.
func handler(t *testing.T) http.Handler {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	d, err := native.New(e, native.Options{})
	if err != nil {
		t.Fatal(err)
	}
	router, err := door.NewRouter(d.Routes)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// bothTransports runs a test over a network and on a handler, each with an engine and a
// store of its own.
func bothTransports(t *testing.T, f func(t *testing.T, c *client.Client, s *client.Store)) {
	t.Helper()
	t.Run("network", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(handler(t))
		t.Cleanup(server.Close)
		c := client.New(server.URL, client.Options{})
		f(t, c, newStore(t, c))
	})
	t.Run("handler", func(t *testing.T) {
		t.Parallel()
		c := client.New("http://folder", client.Options{Transport: client.Handler(handler(t))})
		f(t, c, newStore(t, c))
	})
}

func newStore(t *testing.T, c *client.Client) *client.Store {
	t.Helper()
	created, err := c.CreateStore(t.Context(), client.NewStore{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Store(created.ID)
	viewer := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}
	if _, err := s.WriteSchema(t.Context(), client.NewSchema{Model: &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{viewer}}}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func viewer(doc, user string) rel.Tuple {
	return rel.Tuple{Object: rel.Object{Type: "doc", ID: doc}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: user}}
}

// TestWritesAndErrors checks that a write without effect is marked, that an error has
// the engine's kind, and that an answer can be of a past revision.
func TestWritesAndErrors(t *testing.T) {
	t.Parallel()
	bothTransports(t, func(t *testing.T, c *client.Client, s *client.Store) {
		ctx := t.Context()
		add := client.Write{Add: client.TuplesOf(viewer("1", "anne"))}
		first, err := s.Write(ctx, add)
		if err != nil || first.Unchanged || first.Revision != 2 {
			t.Fatalf("%+v, %v", first, err)
		}
		var refused *client.Error
		if _, err := s.Write(ctx, add); !errors.Is(err, authz.ErrTupleExists) || !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Code != "tuple_exists" {
			t.Errorf("the same write again: %v", err)
		}
		add.OnDuplicate = "ignore"
		if again, err := s.Write(ctx, add); err != nil || !again.Unchanged || again.Token != first.Token {
			t.Errorf("the same write again, ignored: %+v, %v", again, err)
		}
		if _, err := c.Store("01ARZ3NDEKTSV4RRFFQ69G5FAV").Get(ctx); !errors.Is(err, authz.ErrNoStore) {
			t.Errorf("another store: %v", err)
		}
		one := uint64(1)
		for at, want := range map[*client.At]bool{nil: true, {}: true, {Revision: &one}: false, {Exactly: first.Token}: true} {
			got, err := s.Check(ctx, client.Question{Object: "doc:1", Relation: "viewer", Subject: "user:anne", Query: client.Query{At: at}})
			if err != nil || got.Allowed != want {
				t.Errorf("check at %+v: %+v, %v", at, got, err)
			}
		}
		for name, want := range map[string]int{"": 1, "acme": 1, "acm": 0} {
			if all, err := c.Stores(ctx, name); err != nil || len(all) != want {
				t.Errorf("stores of the name %q: %+v, %v", name, all, err)
			}
		}
	})
}

// sequence yields tuples, and then err unless it is nil.
func sequence(err error, tuples ...rel.Tuple) iter.Seq2[rel.Tuple, error] {
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

// A failed import has the number of stored tuples, and that of the tuple that is wrong,
// whether the store or the caller's sequence ends it.
func TestFailedImports(t *testing.T) {
	t.Parallel()
	bothTransports(t, func(t *testing.T, _ *client.Client, s *client.Store) {
		ctx, broken := t.Context(), errors.New("the file ends")
		done, err := s.Import(ctx, sequence(broken, viewer("1", "a"), viewer("2", "a"), viewer("3", "a")), client.ImportOptions{Entry: 2})
		if !errors.Is(err, broken) || done.Read != 2 {
			t.Errorf("a broken sequence: %+v, %v", done, err)
		}
		wrong := viewer("5", "a")
		wrong.Relation = "nothing"
		done, err = s.Import(ctx, sequence(nil, viewer("3", "a"), viewer("4", "a"), wrong), client.ImportOptions{Entry: 2})
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Tuple != 3 || done.Read != 2 {
			t.Errorf("a tuple that is not admitted: %+v, %v", done, err)
		}
		done, err = s.Import(ctx, sequence(nil, viewer("4", "a"), viewer("5", "a")), client.ImportOptions{OnDuplicate: "ignore"})
		if err != nil || done.Read != 2 || done.Written != 1 {
			t.Errorf("with a duplicate: %+v, %v", done, err)
		}
		stream, err := s.Export(ctx, done.Token, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		lines := ""
		for {
			line, err := stream.Next()
			if err != nil {
				t.Fatal(err)
			}
			if line.End != nil {
				lines += fmt.Sprint(line.End.Tuples)
				break
			}
			lines += line.Tuple.Object + " "
		}
		if !strings.HasPrefix(lines, "doc:") || !strings.HasSuffix(lines, " 5") || strings.Count(lines, "doc:") != 1 {
			t.Errorf("the export after four lines: %s", lines)
		}
	})
}

// A watch yields the entries after a token as they are written, and ends with its
// context. The error of its request is its only element.
func TestWatch(t *testing.T) {
	t.Parallel()
	bothTransports(t, func(t *testing.T, _ *client.Client, s *client.Store) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		now, err := s.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		if _, err := s.Write(ctx, client.Write{Add: client.TuplesOf(viewer("0", "a"))}); err != nil {
			t.Fatal(err)
		}
		for e, err := range s.Watch(ctx, "/watch", url.Values{"after": {now.Token}}) {
			if ctx.Err() != nil {
				break
			}
			if err != nil || !strings.Contains(string(e.Data), fmt.Sprintf(`"doc:%d"`, seen)) || e.Token == "" {
				t.Fatalf("%s, %v", e.Data, err)
			}
			if seen++; seen == 3 {
				stop()
				continue
			}
			if _, err := s.Write(ctx, client.Write{Add: client.TuplesOf(viewer(fmt.Sprint(seen), "a"))}); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range s.Watch(t.Context(), "/watch", url.Values{"after": {"nothing"}}) {
			if !errors.Is(err, authz.ErrToken) {
				t.Errorf("a watch after no token: %v", err)
			}
		}
	})
}

// A response without an error of the native API is one of another server.
func TestForeign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status  int
		body    string
		foreign bool
	}{
		{404, "404 page not found\n", true}, {404, `{"code":"undefined_endpoint","message":"x"}`, true}, {404, `{"error":{"message":"x"}}`, true},
		{404, `{"code":"no_store","message":"x"}`, false}, {500, "", false}, {401, `{"code":"no_credentials","message":"x"}`, false},
	} {
		at := client.New("http://other", client.Options{Transport: client.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))})
		if _, err := at.Stores(t.Context(), ""); err == nil || client.IsForeign(err) != c.foreign {
			t.Errorf("%d %s: %v is foreign: %v", c.status, c.body, err, client.IsForeign(err))
		}
		if native, err := at.Serves(t.Context()); native || err != nil {
			t.Errorf("%d %s: serves the native API: %v, %v", c.status, c.body, native, err)
		}
	}
}
