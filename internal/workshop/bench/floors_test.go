package bench_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// floorWorkloads are the workloads that can have a floor after a server, with few
// requests.
func floorWorkloads() map[string]struct {
	doors []func(*ostiary.Engine) (*door.Door, error)
	run   func(*bench.Runner) error
} {
	one := bench.Load{Clients: 1, Requests: 1, Duration: -1}
	type workload = struct {
		doors []func(*ostiary.Engine) (*door.Door, error)
		run   func(*bench.Runner) error
	}
	doors := func(d ...func(*ostiary.Engine) (*door.Door, error)) []func(*ostiary.Engine) (*door.Door, error) {
		return d
	}
	return map[string]workload{
		"openfga": {doors(openFGADoor), func(r *bench.Runner) error {
			return r.OpenFGA(context.Background(), bench.OpenFGAOptions{Size: bench.SizeMinOpenFGA, Cells: []string{"fan-out", "write 100"}, Load: one})
		}},
		"lxd": {doors(openFGADoor), func(r *bench.Runner) error {
			return r.LXD(context.Background(), bench.LXDOptions{Runs: 1, WarmUps: 1})
		}},
		"permify": {doors(func(e *ostiary.Engine) (*door.Door, error) { return permify.New(e, permify.Options{}) }), func(r *bench.Runner) error {
			return r.Permify(context.Background(), bench.PermifyOptions{IDs: 100, Load: one})
		}},
		"native": {doors(openFGADoor, func(e *ostiary.Engine) (*door.Door, error) { return authzen.New(e, authzen.Options{}) },
			func(e *ostiary.Engine) (*door.Door, error) { return native.New(e, native.Options{}) }), func(r *bench.Runner) error {
			return r.Native(context.Background(), bench.NativeOptions{Size: bench.SizeMinOpenFGA, Watchers: 1, Writes: 1, Load: one})
		}},
	}
}

// TestFloorBetweenServers measures a server, its floor and another server.
func TestFloorBetweenServers(t *testing.T) {
	t.Parallel()
	for name, w := range floorWorkloads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cells := map[string]int{}
			first, second := serve(t, w.doors...), serve(t, w.doors...)
			r := &bench.Runner{Sides: []bench.Side{{Peer: "first", Target: first}, floorOf(t, first, &bench.Floor{}), {Peer: "second", Target: second}}}
			r.Emit = func(r bench.Record) error {
				cells[r.Peer]++
				if r.Failed() > 0 {
					t.Errorf("%s, %s: failures %v", r.Peer, r.Cell, r.Failures)
				}
				return nil
			}
			if err := w.run(r); err != nil || cells["floor"] == 0 || cells["first"] < cells["floor"] || cells["first"] != cells["second"] {
				t.Errorf("cells %v, error %v", cells, err)
			}
		})
	}
}

// floorOf returns a floor of a server as a side.
func floorOf(t *testing.T, like *bench.HTTP, handler http.Handler) bench.Side {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	target, err := bench.NewFloorTarget(s.URL, like)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return bench.Side{Peer: "floor", Target: target}
}

// TestFloorFails has a floor that refuses one of the responses that it should repeat,
// and a server that fails when it is asked for such a response. Without the response
// the floor cannot be measured.
func TestFloorFails(t *testing.T) {
	t.Parallel()
	for name, w := range floorWorkloads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for refuse := int64(1); ; refuse *= 3 {
				var puts atomic.Int64
				floor := &bench.Floor{}
				target := serve(t, w.doors...)
				r := &bench.Runner{Emit: func(bench.Record) error { return nil }}
				r.Sides = []bench.Side{{Peer: "server", Target: target}, floorOf(t, target, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPut && puts.Add(1) == refuse {
						http.Error(w, "full", http.StatusInsufficientStorage)
						return
					}
					floor.ServeHTTP(w, r)
				}))}
				err := w.run(r)
				if puts.Load() < refuse {
					if err != nil {
						t.Errorf("after %d responses: %v", puts.Load(), err)
					}
					break
				}
				if err == nil || !strings.Contains(err.Error(), "the floor did not accept its response") {
					t.Errorf("response %d is refused: %v", refuse, err)
				}
			}
			f := &front{}
			var broken atomic.Bool
			f.spoil = func(_ string, _ int, status int, body []byte) (int, []byte) {
				if broken.Load() {
					return 500, []byte("{}")
				}
				return status, body
			}
			target := serveFront(t, f, memory(t), w.doors...)
			sample := errors.New("the floor was measured")
			r := &bench.Runner{Progress: f.progress, Sides: []bench.Side{{Peer: "server", Target: target}, floorOf(t, target, &bench.Floor{})}, Emit: func(r bench.Record) error {
				if r.Peer == "floor" {
					return sample
				}
				broken.Store(r.N > 0 && (name == "openfga" || name == "lxd" || r.Cell == "bulk check 100" || strings.HasPrefix(r.Cell, "write with watchers")))
				return nil
			}}
			if err := w.run(r); err == nil || !strings.Contains(err.Error(), "the sample request for the floor failed: status 500") {
				t.Errorf("the server fails: %v", err)
			}
		})
	}
}

// stuck is a target whose stores cannot be removed.
type stuck struct {
	bench.Nothing
	err error
}

func (s stuck) Teardown(context.Context) error { return s.err }

// TestTeardownFails must report that a store is left.
func TestTeardownFails(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	full := errors.New("the disk is full")
	for _, emit := range []error{nil, full} {
		r := &bench.Runner{Sides: []bench.Side{{Target: bench.Nothing{}}, {Target: stuck{err: first}}, {Target: stuck{err: second}}, {Target: bench.Nothing{}}},
			Emit: func(bench.Record) error { return emit }}
		want := first
		if emit != nil {
			want = emit
		}
		load := bench.Load{Requests: 1, Duration: -1}
		if err := r.OpenFGA(t.Context(), bench.OpenFGAOptions{Size: bench.SizeMinOpenFGA, Cells: []string{"direct"}, Load: load}); !errors.Is(err, want) {
			t.Errorf("openfga: %v, want %v", err, want)
		}
		if err := r.LXD(t.Context(), bench.LXDOptions{}); !errors.Is(err, want) {
			t.Errorf("lxd: %v, want %v", err, want)
		}
	}
}

// TestSizes gives the number of tuples of sizes. Records can only be compared if these
// stay the same.
func TestSizes(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{bench.SizeMinOpenFGA: 6_864, 9_999: 12_767, 10_000: 23_259, 67_000: 79_369, 999_999: 996_994, 1_000_000: 1_023_995} {
		_, tuples := bench.WorldOpenFGA(size)
		got := 0
		for range tuples {
			got++
		}
		if got != want {
			t.Errorf("size %d: %d tuples, want %d", size, got, want)
		}
	}
}
