//go:build linux

package fleet_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/databases"
	"github.com/ostiary/ostiary/internal/workshop/fleet"
)

// built is the folder of the program that build has built.
var built = filepath.Join(os.TempDir(), "ostiary-fleet-"+strconv.Itoa(os.Getpid()))

// build builds the program once. OSTIARY_BIN names one that is built already.
var build = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("OSTIARY_BIN"); file != "" {
		return file, nil
	}
	file := filepath.Join(built, "ostiary")
	out, err := exec.Command("go", "build", "-o", file, "github.com/ostiary/ostiary/cmd/ostiary").CombinedOutput()
	os.Stderr.Write(out)
	return file, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// start starts three nodes over a new log of a kind. If the test fails, the folder with
// the output of the nodes is left.
func start(t *testing.T, kind string, flags ...string) (*fleet.Fleet, *databases.Server) {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var server *databases.Server
	switch kind {
	case "postgres":
		server = databases.PostgreSQL(t)
	case "mariadb":
		server = databases.MariaDB(t)
	case "raft":
	default:
		t.Fatalf("the log %q: expected postgres, mariadb or raft", kind)
	}
	var apart *time.Duration
	if text := os.Getenv("OSTIARY_PLAY_DELAY"); text != "" {
		way, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("OSTIARY_PLAY_DELAY is %q, expected a time such as 50ms", text)
		}
		apart = &way
		holder, read := geo.Leases(2*way, 2*way)
		flags = append(flags, "--holder-lease", holder.String(), "--read-lease", read.String())
	}
	log := fleet.Log{Name: kind}
	if server != nil {
		log.URL = server.Database()
	}
	folder, err := os.MkdirTemp("", "ostiary-nodes-")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Start(t.Context(), fleet.Options{Program: program, Folder: folder, Nodes: 3, Flags: flags, Log: log, Apart: apart})
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the folder of the nodes: %s", folder)
		} else {
			_ = os.RemoveAll(folder)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, server
}

// parallel lets a test run next to others, unless its nodes are apart: it would choose the
// same addresses for them as another one.
func parallel(t *testing.T) {
	if os.Getenv("OSTIARY_PLAY_DELAY") == "" {
		t.Parallel()
	}
}

// play plays and reports.
func play(t *testing.T, f *fleet.Fleet, o fleet.PlayOptions) *fleet.Result {
	t.Helper()
	o.Seed = uint64(time.Now().UnixNano())
	if text := os.Getenv("OSTIARY_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("OSTIARY_SEED is %q, expected a number", text)
		}
		o.Seed = seed
	}
	result, err := fleet.Play(t.Context(), f, o)
	if err != nil {
		t.Fatalf("seed %d: %v", o.Seed, err)
	}
	t.Logf("seed %d: %s", o.Seed, result)
	return result
}

// violationsShown is how many broken promises are printed.
const violationsShown = 20

func requireKept(t *testing.T, r *fleet.Result) {
	t.Helper()
	for i, v := range r.Violated {
		if i == violationsShown {
			t.Errorf("and %d more", len(r.Violated)-i)
			break
		}
		t.Errorf("%v", v)
	}
}

// TestPlay plays clients on three nodes while nodes are killed, paused and cut off, and
// requires that every promise is kept. OSTIARY_PLAY is how long; the default is short.
// OSTIARY_PLAY_LOG is the log: postgres, mariadb or raft (the default), which needs no
// database. OSTIARY_PLAY_DELAY, with raft and as root, puts the nodes so far apart, one way.
// OSTIARY_PLAY_FAULTS has the names of the faults of nodes, with commas between them; the
// default is all of them in a long play.
func TestPlay(t *testing.T) {
	parallel(t)
	long := os.Getenv("OSTIARY_PLAY")
	duration, err := time.ParseDuration(cmp.Or(long, "12s"))
	if err != nil {
		t.Fatalf("OSTIARY_PLAY is %q, expected a time such as 10m", long)
	}
	f, server := start(t, cmp.Or(os.Getenv("OSTIARY_PLAY_LOG"), "raft"))
	o := fleet.PlayOptions{For: duration, Clients: 8, Think: 10 * time.Millisecond}
	if text := os.Getenv("OSTIARY_PLAY_FAULTS"); text != "" {
		o.Faults = strings.Split(text, ",")
		for _, name := range o.Faults {
			if !slices.Contains(fleet.FaultNames(), name) {
				t.Fatalf("OSTIARY_PLAY_FAULTS has %q, expected some of %q", name, fleet.FaultNames())
			}
		}
	}
	if long == "" && o.Faults == nil {
		o.Faults = []string{"kill", "pause"}
	} else if server != nil {
		o.CrashDatabase = func() { server.Kill(); server.Start() }
	}
	requireKept(t, play(t, f, o))
}

// TestControl plays on nodes that acknowledge a write before the others show it: the
// judge must find reads without an acknowledged write. Nothing else may be wrong.
func TestControl(t *testing.T) {
	parallel(t)
	f, _ := start(t, "raft", "--acknowledge", "local")
	stale := 0
	for round := 0; stale == 0; round++ {
		if round == controlRounds {
			t.Fatalf("no read without an acknowledged write was found in %d rounds", round)
		}
		result := play(t, f, fleet.PlayOptions{For: 8 * time.Second, Clients: 8, Think: 10 * time.Millisecond, Faults: []string{"slow to nodes", "held from nodes"}})
		for _, v := range result.Violated {
			if strings.Contains(v.Error(), "shown or acknowledged before") {
				stale++
			} else {
				t.Errorf("%v", v)
			}
		}
	}
	t.Logf("%d reads without an acknowledged write", stale)
}

// controlRounds is how often the control plays at most. It needs one round, unless the
// machine is so busy that hardly any call is made.
const controlRounds = 10
