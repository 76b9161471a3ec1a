// Package overnoop compares the cost of ostiary serve with that of a server that
// does nothing. Over HTTP that server is one on net/http that reads the body and
// writes the same bytes; over gRPC it is one on grpc-go that decodes the message
// and returns a response. The pairs run in turns.
package overnoop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// childEnv makes the test binary the gRPC server that does nothing, plainEnv
// with grpc-go's own settings.
const (
	childEnv = "OSTIARY_NOOP_GRPC"
	plainEnv = "OSTIARY_NOOP_PLAIN"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(childEnv); address != "" {
		if err := serveNothing(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// nothing returns the same response to every check.
type nothing struct {
	openfgav1.UnimplementedOpenFGAServiceServer
}

func (nothing) Check(context.Context, *openfgav1.CheckRequest) (*openfgav1.CheckResponse, error) {
	return &openfgav1.CheckResponse{Allowed: true}, nil
}

// serveNothing serves with the gRPC settings of ostiary serve, or with the
// defaults of grpc-go. Its heap is like that of a server with data.
func serveNothing(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer bench.HoldHeap()()
	var settings []grpc.ServerOption
	if os.Getenv(plainEnv) == "" {
		settings = []grpc.ServerOption{grpc.NumStreamWorkers(uint32(32 * runtime.GOMAXPROCS(0)))}
	}
	s := grpc.NewServer(settings...)
	openfgav1.RegisterOpenFGAServiceServer(s, nothing{})
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	go func() {
		<-end
		s.Stop()
	}()
	return s.Serve(l)
}

// deaf accepts any decision.
type deaf struct{ *bench.GRPC }

func (d deaf) Prepare(r bench.Request) (bench.Prepared, error) {
	p, err := d.GRPC.Prepare(r)
	return deafPrepared{p}, err
}

type deafPrepared struct{ bench.Prepared }

func (p deafPrepared) Send(ctx context.Context, client int) error {
	err := p.Prepared.Send(ctx, client)
	var f *bench.Failure
	if errors.As(err, &f) && f.What == "wrong answer" {
		return nil
	}
	return err
}

// number reads a setting.
func number(t *testing.T, name string, otherwise float64) float64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// TestOverNoop asks ours and the no-ops in turns. By default it is short and
// shows that all questions are answered rightly; for figures that count set
// OSTIARY_PAIRS (turns), OSTIARY_SECONDS (of each), OSTIARY_SIZE (tuples),
// OSTIARY_CLIENTS and OSTIARY_CELLS (of bench.CellsOpenFGA, with commas).
// OSTIARY_DATA=pebble keeps the data on disk, fsync on.
func TestOverNoop(t *testing.T) {
	pairs, seconds := int(number(t, "OSTIARY_PAIRS", 1)), number(t, "OSTIARY_SECONDS", 0.2)
	size, clients := int(number(t, "OSTIARY_SIZE", 4_000)), int(number(t, "OSTIARY_CLIENTS", 8))
	cells := []string{"direct", "3-hop", "batch 50", "list 1000", "write 100"}
	if s := os.Getenv("OSTIARY_CELLS"); s != "" {
		cells = strings.Split(s, ",")
	}
	var flags []string
	if os.Getenv("OSTIARY_DATA") == "pebble" {
		flags = append(flags, "--data", filepath.Join(t.TempDir(), "data"))
	}
	ours, keyed := servers.Ours(t, flags...), keyedServer(t)
	http := httpSide(t, ours, "ostiary", "")
	sides := []bench.Side{http, floorSide(t, http.Target.(*bench.HTTP)), httpSide(t, keyed, "ostiary, keys", secret)}
	checks := []bench.Side{grpcSide(t, ours), nothingSide(t, false)}
	seen := results{}
	load := bench.Load{Clients: clients, Duration: time.Duration(seconds * float64(time.Second)), WarmUp: time.Duration(seconds * 0.15 * float64(time.Second))}
	for range pairs {
		r := &bench.Runner{Sides: sides, Emit: seen.take}
		if err := r.OpenFGA(t.Context(), bench.OpenFGAOptions{Size: size, Cells: cells, Load: load}); err != nil {
			t.Fatal(err)
		}
		r.Sides = checks
		if err := r.OpenFGA(t.Context(), bench.OpenFGAOptions{Size: size, Cells: []string{"direct", "3-hop"}, Load: load}); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(sides) // no side is always first
		slices.Reverse(checks)
	}
	seen.show(t)
}

const secret = "a-key-that-is-long-enough-for-a-test-0123456789"

func keyedServer(t *testing.T) *servers.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return servers.Ours(t, "--auth-keys-file", file)
}

func httpSide(t *testing.T, s *servers.Server, name, key string) bench.Side {
	t.Helper()
	target, err := bench.NewHTTP(s.URL(""), key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return bench.Side{Peer: name, Target: target, PID: s.PID()}
}

func floorSide(t *testing.T, like *bench.HTTP) bench.Side {
	t.Helper()
	s := servers.Floor(t)
	target, err := bench.NewFloorTarget(s.URL(""), like)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return bench.Side{Peer: "no-op", Target: target, PID: s.PID()}
}

func grpcSide(t *testing.T, s *servers.Server) bench.Side {
	t.Helper()
	target, err := bench.NewGRPC(s.GRPC, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	return bench.Side{Peer: "ostiary", Target: target, PID: s.PID()}
}

// nothingSide starts this program as the gRPC server that does nothing: with
// the settings of ours ("no-op"), or with grpc-go's own ("no-op, plain").
func nothingSide(t *testing.T, plain bool) bench.Side {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	name := "no-op"
	child.Env = append(os.Environ(), childEnv+"="+address)
	if plain {
		child.Env, name = append(child.Env, plainEnv+"=1"), "no-op, plain"
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Signal(syscall.SIGTERM)
		_ = child.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(end) { // it should have listened by now
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	target, err := bench.NewGRPC(address, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	target.Attach(&bench.HTTP{}) // it has no stores to make
	return bench.Side{Peer: name, Target: deaf{target}, PID: child.Process.Pid}
}

// results holds the records of each cell, door and side.
type results map[[3]string][]bench.Record

func (r results) take(record bench.Record) error {
	if n := record.Failed(); n > 0 {
		return fmt.Errorf("%s, %s, %s: %d of %d failed: %v %s", record.Cell, record.Door, record.Peer, n, n+record.N, record.Failures, record.Notes)
	}
	k := [3]string{record.Cell, record.Door, record.Peer}
	r[k] = append(r[k], record)
	return nil
}

// show prints a line a cell and side: rates and processor time, and both
// against the no-op of the same turn.
func (r results) show(t *testing.T) {
	t.Helper()
	var keys [][3]string
	for k := range r {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [3]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		own, base := r[k], r[[3]string{k[0], k[1], "no-op"}]
		line := fmt.Sprintf("%-10s %-5s %-14s %s /s  %s µs", k[0], k[1], k[2],
			spread(values(own, func(i int) float64 { return own[i].Throughput }), "%.0f"),
			spread(values(own, func(i int) float64 { return own[i].ServerCPU / 1000 }), "%.1f"))
		if k[2] != "no-op" && len(base) == len(own) {
			line += fmt.Sprintf("  rate × %s  over the no-op %s µs",
				spread(values(own, func(i int) float64 { return own[i].Throughput / base[i].Throughput }), "%.2f"),
				spread(values(own, func(i int) float64 { return (own[i].ServerCPU - base[i].ServerCPU) / 1000 }), "%.1f"))
		}
		t.Log(line)
	}
}

// spread is a median with the least and the most.
func spread(all []float64, format string) string {
	all = slices.Sorted(slices.Values(all))
	return fmt.Sprintf(format+" ["+format+"–"+format+"]", all[len(all)/2], all[0], all[len(all)-1])
}

// values returns the value of each record.
func values(records []bench.Record, value func(i int) float64) []float64 {
	all := make([]float64, len(records))
	for i := range records {
		all[i] = value(i)
	}
	return all
}
