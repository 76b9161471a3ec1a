package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/benchmark"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// measure is the program ostiary-bench; see TestMain.
func measure() {
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv}
	os.Exit(a.Execute(context.Background(), benchmark.Root(a), os.Args[1:]))
}

// benchmarked runs ostiary-bench and returns what it prints.
func benchmarked(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ostiary-bench", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ostiary-bench %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// recorded runs ostiary-bench and returns its records.
func recorded(t *testing.T, args ...string) []bench.Record {
	t.Helper()
	file := filepath.Join(t.TempDir(), "records")
	benchmarked(t, append(args, "--out", file)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	records, err := bench.Read(file, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// benchFails runs ostiary-bench, which must fail and print all the texts.
func benchFails(t *testing.T, texts []string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ostiary-bench", args...).CombinedOutput()
	if err == nil {
		t.Errorf("ostiary-bench %s succeeds: %s", strings.Join(args, " "), out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			t.Errorf("ostiary-bench %s: want %q in %s", strings.Join(args, " "), text, out)
		}
	}
}

// TestBenchOfAnotherBuild starts ostiary-bench without the program ostiary, and with one of
// another build: each is refused before anything is measured.
func TestBenchOfAnotherBuild(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("ostiary-bench")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	alone := filepath.Join(dir, "ostiary-bench")
	if err := os.WriteFile(alone, text, 0o700); err != nil {
		t.Fatal(err)
	}
	fails := func(want string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), alone, "lxd", "--runs", "1", "--no-floor")
		cmd.Env = append(os.Environ(), "PATH="+dir)
		out, err := cmd.CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), want) {
			t.Errorf("want exit code 2 and %q: %v\n%s", want, err, out)
		}
	}
	fails("the program ostiary is neither in " + dir + ", the folder of this program, nor in PATH: build both with \"make build\"")
	other := "#!/bin/sh\necho '{\"version\":\"v0.0.7\"}'\n"
	if err := os.WriteFile(filepath.Join(dir, "ostiary"), []byte(other), 0o700); err != nil {
		t.Fatal(err)
	}
	fails("has the version \"v0.0.7\", and this program")
}

// TestBenchNodes measures the calls of LXD at both kinds of nodes of a cluster.
func TestBenchNodes(t *testing.T) {
	t.Parallel()
	benchFails(t, []string{"invalid --nodes 2", "expected 1, or 3 to 5"}, "lxd", "--nodes", "2")
	table := benchmarked(t, "lxd", "--nodes", "3", "--runs", "1", "--no-floor")
	measured := map[string]int{}
	for line := range strings.Lines(table) {
		for _, side := range []string{"ostiary, pebble, http", "ostiary, other node, pebble, http"} {
			if strings.Contains(line, side) && strings.Contains(line, "closed, 1 client") {
				measured[side]++
			}
		}
	}
	if len(measured) != 2 || measured["ostiary, pebble, http"] != 3 || measured["ostiary, other node, pebble, http"] != 3 {
		t.Errorf("measured %v, want three cells at each of two nodes, in\n%s", measured, table)
	}
}

// TestBenchWrites measures writes over a log of the nodes, and over a database if this machine
// has one, with the program twice.
func TestBenchWrites(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("ostiary")
	if err != nil {
		t.Fatal(err)
	}
	records := recorded(t, "cluster", "--log", "raft,postgresql", "--delay", "5ms", "--proxies", "--writers", "2", "--duration", "100ms", "--program", program+","+program)
	sides := map[string]int{}
	for _, r := range records {
		sides[r.Store+", "+r.Cell+" of "+r.Peer]++
		trips := 20 * time.Millisecond // the commit, and to the nodes that show the write
		if strings.Contains(r.Peer, "other node") {
			trips += 10 * time.Millisecond
		}
		if r.N == 0 || r.RoundTrips < float64(trips) || r.ServerCPU <= 0 || !strings.Contains(r.Notes, "load average") {
			t.Errorf("%s of %s: %d answers, failures %v, round trips of %s (at least %s), %g ns of processor time, notes %q",
				r.Cell, r.Peer, r.N, r.Failures, time.Duration(r.RoundTrips), trips, r.ServerCPU, r.Notes)
		}
	}
	for _, peer := range []string{"ostiary", "ostiary, other node"} {
		if n := sides["raft, raft, 5 ms, 2 writers of "+peer]; n != 2 {
			t.Errorf("%d records of %s, want 2: %v", n, peer, sides)
		}
	}
}

// TestBenchCluster measures a cluster, with a kill of the node that writes and a new node.
func TestBenchCluster(t *testing.T) {
	t.Parallel()
	benchFails(t, []string{"invalid --nodes 6", "expected 1 to 5"}, "cluster", "--nodes", "6")
	benchFails(t, []string{"invalid --kills 5 with --nodes 2", "expected 0"}, "cluster", "--nodes", "2")
	benchFails(t, []string{"invalid --size 3k", "at least 4000 tuples"}, "cluster", "--size", "3k")
	records := recorded(t, "cluster", "--writers", "2", "--duration", "100ms", "--warm-up", "0", "--kills", "1")
	cells := map[string]int{}
	for _, r := range records {
		cells[r.Cell+" of "+r.Peer]++
		if r.Cell != "memory, before the load" && r.N == 0 || r.Failed() > 0 && !strings.Contains(r.Cell, "joins") {
			t.Errorf("%s of %s: %d answers, failures %v", r.Cell, r.Peer, r.N, r.Failures)
		}
		if nodes := r.Door == "http" && !strings.Contains(r.Peer, "single"); r.Cell == "2 writers" && nodes != (r.Syncs > 0) {
			t.Errorf("%s of %s, %s: %g syncs per second", r.Cell, r.Peer, r.Door, r.Syncs)
		}
	}
	for cell, want := range map[string]int{"memory, before the load of ostiary, a single server": 1, "2 writers of fdatasync": 1, "2 writers of ostiary": 2,
		"2 writers of ostiary, other node": 1, "next commit after a kill of ostiary, other node": 1, "a new node joins of ostiary, other node": 1} {
		if cells[cell] != want {
			t.Errorf("%d records of %s, want %d", cells[cell], cell, want)
		}
	}
}
