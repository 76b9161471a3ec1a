package documents_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// notes is a value: the bodies of the documents "note" by their keys. finished counts
// how often it was completed.
type notes struct {
	bodies   map[string]string
	finished int
}

func (n notes) String() string {
	var text []string
	for _, k := range slices.Sorted(maps.Keys(n.bodies)) {
		text = append(text, k+"="+n.bodies[k])
	}
	return strings.Join(text, " ")
}

// form makes notes.
func form() documents.Form[notes] {
	return documents.Form[notes]{Kinds: []string{"note", "other note"}, Empty: func() notes { return notes{} },
		Apply: func(_ context.Context, old notes, changes []storage.Change) (notes, error) {
			next := notes{maps.Clone(old.bodies), old.finished}
			if next.bodies == nil {
				next.bodies = map[string]string{}
			}
			for _, c := range changes {
				switch c.Kind {
				case storage.DocumentPut:
					next.bodies[c.Document.Key] = string(c.Document.Body)
				case storage.DocumentRemove:
					delete(next.bodies, c.Document.Key)
				case storage.RemoveByFilter:
					maps.DeleteFunc(next.bodies, func(k, _ string) bool { return strings.HasPrefix(k, c.Filter.DocumentKeyPrefix) })
				}
			}
			return next, nil
		},
		Finish: func(_ context.Context, previous, next notes) (notes, error) {
			next.finished = previous.finished + 1
			return next, nil
		},
	}
}

func note(key, body string) authz.Document {
	return authz.Document{Kind: "note", Key: key, Body: []byte(body)}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// engines returns the same store of several engines on one driver.
func engines(t *testing.T, d storage.Driver, n int) []*ostiary.Store {
	t.Helper()
	stores := make([]*ostiary.Store, n)
	for i := range stores {
		e := must(ostiary.Open(t.Context(), ostiary.Options{Driver: d}))(t)
		t.Cleanup(func() { e.Close() })
		if i == 0 {
			stores[0] = must(e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "notes"}))(t)
		} else {
			stores[i] = must(e.Store(t.Context(), stores[0].ID()))(t)
		}
	}
	return stores
}

func newest(t *testing.T, r *documents.Replica[notes]) *documents.At[notes] {
	t.Helper()
	return must(r.Newest(t.Context()))(t)
}

// trim drops the past of a store.
func trim(t *testing.T, s *ostiary.Store) {
	t.Helper()
	head := must(must(s.Head(t.Context()))(t).Revision())(t)
	if err := s.Trim(t.Context(), head, head); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, s *ostiary.Store, w authz.WriteRequest) authz.Token {
	t.Helper()
	return must(s.Write(t.Context(), w))(t)
}

// TestReads compares the value with the writes before it.
func TestReads(t *testing.T) {
	t.Parallel()
	d := memory.New()
	defer d.Close()
	s := engines(t, d, 1)[0]
	write(t, s, authz.WriteRequest{Documents: []authz.Document{note("a", "1"), {Kind: "unknown", Key: "u"}}})
	r := documents.New(s, form())
	check := func(text string, finished int) {
		t.Helper()
		at := newest(t, r)
		if head := must(s.Head(t.Context()))(t); at.Value.String() != text || at.Value.finished != finished || at.Token != head {
			t.Errorf("got %q, finished %d times, at %s; want %q, %d, %s", at.Value, at.Value.finished, at.Token, text, finished, head)
		}
	}
	check("a=1", 1)
	write(t, s, authz.WriteRequest{Documents: []authz.Document{note("b", "2"), {Kind: "other note", Key: "c", Body: []byte("3")}}})
	check("a=1 b=2 c=3", 2)
	write(t, s, authz.WriteRequest{Documents: []authz.Document{{Kind: "unknown", Key: "v"}}})
	check("a=1 b=2 c=3", 2) // the write does not concern the notes
	write(t, s, authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterAttributes, ObjectType: "t"}, {Target: storage.FilterDocuments, DocumentKind: "unknown"}}})
	check("a=1 b=2 c=3", 2)
	old := newest(t, r)
	write(t, s, authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: "note", Key: "a"}}, RemoveMatching: []storage.Filter{{Target: storage.FilterDocuments, DocumentKind: "note", DocumentKeyPrefix: "b"}}})
	check("c=3", 3)
	if old.Value.String() != "a=1 b=2 c=3" {
		t.Errorf("an older value changed to %q", old.Value)
	}

	// After a trim, the log does not continue the value.
	for i := range 3 {
		write(t, s, authz.WriteRequest{Documents: []authz.Document{note("d", fmt.Sprint(i))}})
	}
	trim(t, s)
	if _, err := s.Changes(t.Context(), authz.ChangesRequest{After: old.Token}); !errors.Is(err, authz.ErrTooOld) {
		t.Fatalf("the log still continues revision %d: %v", old.Revision, err)
	}
	check("c=3 d=2", 4)

	// More documents than one page.
	for n := range 2 {
		var w authz.WriteRequest
		for i := range 700 {
			w.Documents = append(w.Documents, note(fmt.Sprintf("many %d of %d", i, n), "x"))
		}
		write(t, s, w)
	}
	all := newest(t, r).Value.String()
	if loaded := newest(t, documents.New(s, form())).Value.String(); loaded != all || strings.Count(all, "many") != 1400 {
		t.Errorf("the loaded value has %d bytes, the followed one %d with %d documents", len(loaded), len(all), strings.Count(all, "many"))
	}
}

// TestPast compares the values of past revisions with those that readers got then.
func TestPast(t *testing.T) {
	t.Parallel()
	d := memory.New()
	defer d.Close()
	s := engines(t, d, 1)[0]
	r := documents.New(s, form())
	var then []*documents.At[notes]
	remember := func() { then = append(then, newest(t, r)) }
	remember()
	for i := range 3 {
		write(t, s, authz.WriteRequest{Documents: []authz.Document{note(fmt.Sprint(i%2), fmt.Sprint("text ", i))}})
		remember()
		write(t, s, authz.WriteRequest{Documents: []authz.Document{{Kind: "unknown", Key: fmt.Sprint(i)}}})
		remember()
	}
	write(t, s, authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: "note", Key: "0"}}})
	remember()
	finished := newest(t, r).Value.finished
	for i, want := range then {
		got := must(r.Past(t.Context(), storage.Revision(i)))(t)
		if got.Value.String() != want.Value.String() || got.Token != want.Token || got.Revision != want.Revision || int(got.Revision) != i {
			t.Errorf("revision %d: got %q at %d, %s; want %q at %d, %s", i, got.Value, got.Revision, got.Token, want.Value, want.Revision, want.Token)
		}
		if past := i < len(then)-1; past && got.Value.finished != finished+1 || !past && got != want {
			t.Errorf("revision %d was finished %d times, the newest one %d times", i, got.Value.finished, finished)
		}
	}
	if have := newest(t, r); have != then[len(then)-1] {
		t.Errorf("after reads of the past, the newest value is %q", have.Value)
	}
	trim(t, s)
	if _, err := r.Past(t.Context(), 5); !errors.Is(err, authz.ErrTooOld) {
		t.Errorf("after a trim: %v", err)
	}
}

// TestTwoEngines changes one store through two engines.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	d := memory.New()
	defer d.Close()
	var replicas []*documents.Replica[notes]
	for _, s := range engines(t, d, 2) {
		replicas = append(replicas, documents.New(s, form()))
	}
	for i := range 6 { // what one wrote the other sees
		r, other := replicas[i%2], replicas[(i+1)%2]
		at := must(r.Change(t.Context(), func(*documents.At[notes]) (*authz.WriteRequest, notes, error) {
			return &authz.WriteRequest{Documents: []authz.Document{note("turn", fmt.Sprint(i))}}, notes{bodies: map[string]string{"turn": fmt.Sprint(i)}}, nil
		}))(t)
		if n := must(at.Token.Revision())(t); at.Revision != n {
			t.Errorf("change %d has the revision %d and the token of %d", i, at.Revision, n)
		}
		if have := newest(t, r); have != at {
			t.Errorf("a read after change %d has %q at %s, want the value of the change", i, have.Value, have.Token)
		}
		if seen := must(other.Wait(t.Context(), authz.AtLeast(at.Token)))(t); seen.Value.String() != fmt.Sprint("turn=", i) {
			t.Errorf("the other engine has %q after change %d", seen.Value, i)
		}
	}

	// No increment is lost, whichever engine decides it, and in whichever way.
	const each = 15
	var all sync.WaitGroup
	for _, r := range replicas {
		for _, change := range []func(context.Context, documents.Decide[notes]) (*documents.At[notes], error){r.Change, r.Together, r.Together} {
			all.Go(func() {
				for range each {
					if _, err := change(t.Context(), increment); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	want := strings.Repeat("x", each*6)
	for i, r := range replicas {
		limit := time.Now().Add(time.Minute)
		for newest(t, r).Value.bodies["n"] != want {
			if time.Now().After(limit) {
				t.Fatalf("replica %d: %d increments, want %d", i, len(newest(t, r).Value.bodies["n"]), len(want))
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// increment makes the note n longer.
func increment(base *documents.At[notes]) (*authz.WriteRequest, notes, error) {
	next := notes{maps.Clone(base.Value.bodies), base.Value.finished}
	if next.bodies == nil {
		next.bodies = map[string]string{}
	}
	next.bodies["n"] += "x"
	return &authz.WriteRequest{Documents: []authz.Document{note("n", next.bodies["n"])}}, next, nil
}

// TestRefused makes changes that are refused, or change nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	d := memory.New()
	defer d.Close()
	s := engines(t, d, 1)[0]
	r := documents.New(s, form())
	must(r.Change(t.Context(), increment))(t)
	refusal := errors.New("refused")
	for name, change := range map[string]func(context.Context, documents.Decide[notes]) (*documents.At[notes], error){"alone": r.Change, "together": r.Together} {
		before := newest(t, r)
		if _, err := change(t.Context(), func(*documents.At[notes]) (*authz.WriteRequest, notes, error) { return nil, notes{}, refusal }); err != refusal {
			t.Errorf("%s: refused with %v", name, err)
		}
		same, err := change(t.Context(), func(*documents.At[notes]) (*authz.WriteRequest, notes, error) { return nil, notes{}, nil })
		if err != nil || same != before || newest(t, r) != before {
			t.Errorf("%s: a change of nothing returned %v, %v", name, same, err)
		}
		_, err = change(t.Context(), func(*documents.At[notes]) (*authz.WriteRequest, notes, error) {
			return &authz.WriteRequest{Documents: []authz.Document{{Kind: "note"}}}, notes{}, nil
		})
		if !errors.Is(err, authz.ErrInvalidRequest) || newest(t, r) != before {
			t.Errorf("%s: an invalid write returned %v", name, err)
		}
	}
	// A writer that always comes first.
	behind := 0
	_, err := r.Change(t.Context(), func(base *documents.At[notes]) (*authz.WriteRequest, notes, error) {
		behind++
		write(t, s, authz.WriteRequest{Documents: []authz.Document{note("first", fmt.Sprint(behind))}})
		return increment(base)
	})
	if !errors.Is(err, authz.ErrConflict) || behind != 100 || newest(t, r).Value.bodies["n"] != "x" {
		t.Errorf("%d attempts, error %v", behind, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, change := range map[string]func(context.Context, documents.Decide[notes]) (*documents.At[notes], error){"alone": r.Change, "together": r.Together} {
		if _, err := change(ended, increment); !errors.Is(err, authz.ErrCanceled) {
			t.Errorf("%s: a change without time: %v", name, err)
		}
		for range 20 {
			if _, err := change(ended, func(*documents.At[notes]) (*authz.WriteRequest, notes, error) { return nil, notes{}, nil }); !errors.Is(err, authz.ErrCanceled) {
				t.Fatalf("%s: a change of nothing without time: %v", name, err)
			}
		}
		// A change that waits for another one ends with its context.
		must(r.Change(t.Context(), func(base *documents.At[notes]) (*authz.WriteRequest, notes, error) {
			if _, err := change(ended, increment); !errors.Is(err, authz.ErrCanceled) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: a change that waits: %v", name, err)
			}
			return nil, notes{}, nil
		}))(t)
	}
}

// TestFails makes each operation of the driver fail.
func TestFails(t *testing.T) {
	t.Parallel()
	// A past view is complete before its state is closed.
	optional := map[string][]failing.Operation{"past": {failing.CloseState}}
	for name, call := range map[string]func(ctx context.Context, r *documents.Replica[notes], s *ostiary.Store) (*documents.At[notes], error){
		"load": func(ctx context.Context, r *documents.Replica[notes], _ *ostiary.Store) (*documents.At[notes], error) {
			return r.Newest(ctx)
		},
		"change": func(ctx context.Context, r *documents.Replica[notes], _ *ostiary.Store) (*documents.At[notes], error) {
			return r.Change(ctx, increment)
		},
		"past": func(ctx context.Context, r *documents.Replica[notes], _ *ostiary.Store) (*documents.At[notes], error) {
			return r.Past(ctx, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
				s := engines(t, d, 1)[0]
				write(t, s, authz.WriteRequest{Documents: []authz.Document{note("a", "1")}})
				write(t, s, authz.WriteRequest{Documents: []authz.Document{note("a", "2")}})
				r := documents.New(s, form())
				return failing.Scenario{Optional: optional[name], Call: func() (string, error) {
					at, err := call(context.Background(), r, s)
					if err != nil {
						return "", err
					}
					return at.Value.String(), nil
				}}
			})
		})
	}
}
