package bench_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// serveRPC serves OpenFGA's gRPC API over an engine.
func serveRPC(t *testing.T, e *ostiary.Engine) *bench.GRPC {
	t.Helper()
	d, err := openfga.New(e, openfga.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	for _, s := range d.Services {
		server.RegisterService(s.Desc, s.Impl)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	target, err := bench.NewGRPC(l.Addr().String(), "a key")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		target.Close()
		server.Stop()
		<-done
	})
	return target
}

const targetModel = `model
  schema 1.1
type user
type group
  relations
    define member: [user]
type document
  relations
    define viewer: [user, group#member, user with small]
condition small(amount: int, limit: int) {
  amount < limit
}
`

func tuple(text string) rel.Tuple {
	t, err := rel.Parse(text)
	if err != nil {
		panic(err)
	}
	return t
}

// TestTargets sends each kind of request through each target, with the right and
// with a wrong expected answer.
func TestTargets(t *testing.T) {
	t.Parallel()
	conditional := tuple("document:1#viewer@user:carl")
	conditional.Condition, conditional.Context = "small", `{"limit":10}`
	unconfigured := tuple("document:2#viewer@user:carl")
	unconfigured.Condition = "small"
	stored := []rel.Tuple{tuple("document:1#viewer@user:anne"), tuple("document:2#viewer@user:anne"), tuple("document:1#viewer@group:eng#member"), conditional, unconfigured}
	check := func(object, user string, allowed bool) bench.Check {
		return bench.Check{Object: rel.Object{Type: "document", ID: object}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: user}, Allowed: allowed}
	}
	member := []rel.Tuple{tuple("group:eng#member@user:bob")}
	list := func(user string, count int, contextual ...rel.Tuple) bench.Request {
		return bench.Request{List: &bench.List{Type: "document", Relation: "viewer", Subject: rel.Subject{Type: "user", ID: user}, Tuples: contextual, Count: count}}
	}
	one := func(c bench.Check) bench.Request { return bench.Request{Check: &c} }
	withContext := func(amount, limit int, allowed bool) bench.Request {
		c := check("1", "carl", allowed)
		if limit > 0 {
			c = check("2", "carl", allowed)
		}
		c.Context = map[string]any{"amount": amount}
		if limit > 0 {
			c.Context["limit"] = limit
		}
		return one(c)
	}
	contextual := check("1", "bob", true)
	contextual.Tuples = member
	unknown := check("1", "anne", true)
	unknown.Relation = "none"
	extra := []rel.Tuple{tuple("document:3#viewer@user:anne"), conditional}
	extra[1].Object.ID = "3"
	requests := []struct {
		what    string
		request bench.Request
		want    string // name of the failure
	}{
		{"allowed", one(check("1", "anne", true)), ""},
		{"allowed, but not expected", one(check("1", "anne", false)), "wrong answer"},
		{"denied", one(check("1", "bob", false)), ""},
		{"denied, but not expected", one(check("1", "bob", true)), "wrong answer"},
		{"contextual", one(contextual), ""},
		{"context", withContext(5, 0, true), ""},
		{"context too large", withContext(10, 0, false), ""},
		{"whole context", withContext(5, 6, true), ""},
		{"batch", bench.Request{Batch: []bench.Check{check("1", "anne", true), check("2", "anne", true), check("1", "bob", false)}}, ""},
		{"batch, one wrong", bench.Request{Batch: []bench.Check{check("1", "anne", true), check("2", "anne", false), check("1", "bob", false)}}, "wrong answer"},
		{"list", list("anne", 2), ""},
		{"list, another number", list("anne", 1), "wrong answer"},
		{"list, any number", list("anne", -1), ""},
		{"contextual list", list("bob", 1, member...), ""},
		{"write", bench.Request{Write: extra}, ""},
		{"list after the write", list("anne", 3), ""},
		{"write again", bench.Request{Write: extra}, "a failure"},
		{"remove", bench.Request{Remove: extra}, ""},
		{"list after the removal", list("anne", 2), ""},
		{"remove again", bench.Request{Remove: extra}, "a failure"},
		{"unknown relation", one(unknown), "a failure"},
	}
	e := memory(t)
	overHTTP := serveFront(t, &front{}, e, openFGADoor)
	attached := serveFront(t, &front{}, e, openFGADoor)
	engines := map[string]*ostiary.Engine{"embedded": memory(t), "http": e, "grpc": memory(t)}
	targets := map[string]bench.Target{"embedded": bench.NewEmbedded(engines["embedded"]), "http": overHTTP, "grpc": serveRPC(t, engines["grpc"])}
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		target := targets[name]
		if target.Door() != name {
			t.Errorf("%s: door %q", name, target.Door())
		}
		ctx := t.Context()
		written := 0
		tuples := func(yield func(rel.Tuple) bool) {
			for _, one := range stored {
				if !yield(one) {
					return
				}
			}
		}
		if err := target.Setup(ctx, targetModel, tuples, func(n int) { written = n }); err != nil || written != len(stored) {
			t.Fatalf("%s: %d tuples, error %v", name, written, err)
		}
		if name == "http" {
			if err := attached.Attach(ctx); err != nil {
				t.Fatal(err)
			}
			if err := attached.Setup(ctx, "no model", nil, nil); err != nil {
				t.Errorf("a setup after attaching: %v", err)
			}
			if err := attached.Teardown(ctx); err != nil {
				t.Error(err)
			}
		}
		for _, on := range []bench.Target{target, attached} {
			if on == attached && name != "http" {
				continue
			}
			for _, r := range requests {
				p, err := on.Prepare(r.request)
				if err != nil {
					t.Errorf("%s, %s: %v", name, r.what, err)
					continue
				}
				err = p.Send(ctx, 0)
				var failure *bench.Failure
				if r.want == "" && err != nil || r.want != "" && (!errors.As(err, &failure) || r.want != "a failure" && failure.What != r.want || r.want == "a failure" && failure.What == "wrong answer") {
					t.Errorf("%s, %s: error %v, want %q", name, r.what, err, r.want)
				}
				if name != "grpc" {
					continue // the request may have been sent already
				}
				canceled, cancel := context.WithCancel(ctx)
				cancel()
				if err = p.Send(canceled, 0); !errors.As(err, &failure) || failure.What != "timeout" {
					t.Errorf("%s, %s: canceled: %v", name, r.what, err)
				}
			}
		}
		if name == "http" {
			// The store of another target is used, and not removed.
			again := serveRPC(t, e)
			again.Attach(overHTTP)
			if err := again.Setup(ctx, "no model", nil, nil); err != nil {
				t.Error(err)
			}
			p, err := again.Prepare(requests[0].request)
			if err == nil {
				err = p.Send(ctx, 0)
			}
			if err = errors.Join(err, again.Teardown(ctx)); err != nil {
				t.Errorf("gRPC with the store of HTTP: %v", err)
			}
		}
		noJSON := check("1", "anne", true)
		noJSON.Context = map[string]any{"amount": make(chan int)}
		if _, err := target.Prepare(one(noJSON)); err == nil && name != "embedded" {
			t.Errorf("%s: a context that is no JSON is accepted", name)
		}
		if err := target.Teardown(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p, err := target.Prepare(requests[0].request); err == nil {
			if err = p.Send(ctx, 0); err == nil {
				t.Errorf("%s: the store exists after Teardown", name)
			}
		}
		if err := target.Setup(ctx, "no model", tuples, nil); err == nil {
			t.Errorf("%s: a malformed model is accepted", name)
		}
		for info, err := range engines[name].Stores(ctx, storage.StoreID{}) {
			t.Errorf("%s: the store %v is left, error %v", name, info, err)
		}
	}
	if _, err := bench.NewEmbedded(e).Prepare(bench.Request{}); err == nil {
		t.Error("an empty request is accepted")
	}
	for _, target := range []bench.Target{bench.NewEmbedded(e), serveFront(t, &front{}, e, openFGADoor), serveRPC(t, e)} {
		if err := target.Teardown(t.Context()); err != nil {
			t.Errorf("%s: teardown without a setup: %v", target.Door(), err)
		}
	}
}

// TestAttachRefuses attaches to servers without the expected store.
func TestAttachRefuses(t *testing.T) {
	t.Parallel()
	e := memory(t)
	target := serveFront(t, &front{}, e, openFGADoor)
	refused := func(text string) {
		t.Helper()
		if err := target.Attach(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want %q", err, text)
		}
	}
	refused(`has 0 stores named "bench", expected one`)
	if _, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "bench"}); err != nil {
		t.Fatal(err)
	}
	refused("has no model")
	model, tuples := bench.WorldLXD()
	n := 0
	if _, err := bench.Fill(t.Context(), e, model, tuples, func(done int) { n = done }); err != nil || n == 0 {
		t.Fatalf("%d tuples, error %v", n, err)
	}
	refused(`has 2 stores named "bench", expected one`)
	floor := httptest.NewServer(&bench.Floor{})
	t.Cleanup(floor.Close)
	other, err := bench.NewHTTP(floor.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if err := other.Attach(t.Context()); err == nil {
		t.Error("a server without stores is accepted")
	}
}

// TestFailedSetup makes the first requests of a setup fail, one in each run, and some
// of the later ones. The workload must fail before a cell is measured.
func TestFailedSetup(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for fail := 1; ; fail += 1 + fail/5 {
				f := &front{cell: "setup"}
				failed, created := false, false
				f.spoil = func(cell string, n int, status int, body []byte) (int, []byte) {
					if (cell == "setup" || strings.HasPrefix(cell, "loading ")) && !failed && f.total() == fail {
						failed, created = true, bytes.Contains(body, []byte(`"created_at"`))
						return 500, []byte("{}")
					}
					return status, body
				}
				stop := errors.New("a cell was measured")
				r := &bench.Runner{Emit: func(bench.Record) error { return stop }}
				r.Progress = func(title string, done, total int) {
					if !strings.HasPrefix(title, "loading ") {
						f.progress(title, done, total)
					}
				}
				err := s.run(t, f, r)
				if !failed {
					if !errors.Is(err, stop) {
						t.Errorf("after %d requests: %v", fail, err)
					}
					if fail < 2 {
						t.Error("the workload has no setup")
					}
					return
				}
				if left := storesLeft(t, f); left > 0 && !created {
					t.Errorf("request %d of the setup fails: %d stores are left", fail, left)
				}
				// The first cells of LXD make no calls, and a warm-up follows them.
				if err == nil || errors.Is(err, stop) && (s.name != "lxd" || fail <= 3) {
					t.Errorf("request %d of the setup fails: %v", fail, err)
				}
			}
		})
	}
}

// total returns the number of all requests.
func (f *front) total() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, order := range f.order {
		n += len(order)
	}
	return n
}

// storesLeft returns the number of stores of a server with OpenFGA's door.
func storesLeft(t *testing.T, f *front) int {
	t.Helper()
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, httptest.NewRequest("GET", "/stores", nil))
	return strings.Count(w.Body.String(), `"id":`)
}
