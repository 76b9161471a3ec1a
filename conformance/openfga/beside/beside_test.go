package beside

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openfga/openfga/pkg/server"
	"github.com/openfga/openfga/pkg/storage/memory"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/conformance/openfga/servers"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
)

// TestBeside runs both workloads against both. By default it is short, and shows
// that each answers every question rightly; for figures that count set
//
//	OSTIARY_BENCH    a folder for records.jsonl and report.html
//	OSTIARY_SIZE     tuples of the workload "openfga" (default 4000, which the
//	                 original's memory datastore loads in seconds)
//	OSTIARY_SECONDS  how long each cell runs (default 0.2)
//	OSTIARY_CLIENTS  how many ask over the wire at once (default 8)
//	OSTIARY_RUNS     listings of the workload "lxd" (default 5; 50 in the report)
func TestBeside(t *testing.T) {
	size, seconds, clients, runs := 4_000, 0.2, 8, 5
	for name, set := range map[string]func(string) error{
		"OSTIARY_SIZE":    func(s string) (err error) { size, err = strconv.Atoi(s); return err },
		"OSTIARY_SECONDS": func(s string) (err error) { seconds, err = strconv.ParseFloat(s, 64); return err },
		"OSTIARY_CLIENTS": func(s string) (err error) { clients, err = strconv.Atoi(s); return err },
		"OSTIARY_RUNS":    func(s string) (err error) { runs, err = strconv.Atoi(s); return err },
	} {
		if s := os.Getenv(name); s != "" {
			if err := set(s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	if dir := os.Getenv("OSTIARY_BENCH"); dir != "" {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err) // before minutes of measuring
		}
	}
	var records []bench.Record
	r := &bench.Runner{Sides: all(t), Emit: func(r bench.Record) error { records = append(records, r); return nil }}
	load := bench.Load{Clients: clients, Duration: time.Duration(seconds * float64(time.Second)), WarmUp: time.Duration(seconds * 0.2 * float64(time.Second))}
	ctx := context.Background()
	if err := r.OpenFGA(ctx, bench.OpenFGAOptions{Size: size, Load: load}); err != nil {
		t.Error(err)
	}
	if err := r.LXD(ctx, bench.LXDOptions{Runs: runs}); err != nil {
		t.Error(err)
	}
	for _, r := range records {
		if r.Failed() > 0 && r.Peer == "ostiary" {
			t.Errorf("%s, %s, %s: %v: %s", r.Workload, r.Cell, r.Door, r.Failures, r.Notes)
		}
	}
	show(t, append(records, bench.LXDPublished()...))
}

// all opens ours, the floor and theirs.
func all(t *testing.T) []bench.Side {
	t.Helper()
	ours, theirs := servers.Ours(t), servers.Original(t, "--request-timeout", "1m")
	version := versionOf("github.com/openfga/openfga")
	http := func(s *servers.Server, version string) bench.Side {
		target, err := bench.NewHTTP("http://"+s.HTTP, "")
		return side(t, s.Name, version, s.PID(), target, err)
	}
	rpc := func(s *servers.Server, version string) bench.Side {
		target, err := bench.NewGRPC(s.GRPC, "")
		return side(t, s.Name, version, s.PID(), target, err)
	}
	mine := http(ours, "")
	floor := servers.Floor(t)
	floorTarget, err := bench.NewFloorTarget("http://"+floor.HTTP, mine.Target.(*bench.HTTP))
	floorSide := side(t, "floor", "", floor.PID(), floorTarget, err)
	called := rpc(ours, "")
	floorCalls, err := bench.NewFloorGRPC(floor.GRPC, called.Target.(*bench.GRPC))
	return []bench.Side{
		mine, floorSide, http(theirs, version),
		called, side(t, "floor", "", floor.PID(), floorCalls, err), rpc(theirs, version),
		library(t), original(t, version),
	}
}

func side(t *testing.T, peer, version string, pid int, target bench.Target, err error) bench.Side {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return bench.Side{Peer: peer, Version: version, Store: "memory", PID: pid, Target: target}
}

func library(t *testing.T) bench.Side {
	e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: cel.New(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return side(t, "ostiary", "", 0, bench.NewEmbedded(e), nil)
}

// original is OpenFGA embedded, with its defaults.
func original(t *testing.T, version string) bench.Side {
	s, err := server.NewServerWithOpts(server.WithDatastore(memory.New()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return side(t, "openfga", version, 0, bench.NewService(inProcess{server: s}), nil)
}

func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// show logs the table, and writes records and page to the folder OSTIARY_BENCH.
func show(t *testing.T, records []bench.Record) {
	t.Helper()
	var b strings.Builder
	if err := report.Text(&b, records); err != nil {
		t.Error(err)
	}
	t.Log("\n" + b.String())
	dir := os.Getenv("OSTIARY_BENCH")
	if dir == "" {
		return
	}
	data, err := os.Create(filepath.Join(dir, "records.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	page, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	if err := bench.Write(data, records...); err != nil {
		t.Error(err)
	}
	if err := report.HTML(page, "Ostiary beside OpenFGA", records); err != nil {
		t.Error(err)
	}
}
