//go:build linux

package fleet_test

import (
	"cmp"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
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
func start(t *testing.T, kind string, flags ...string) (*fleet.Fleet, []*databases.Server) {
	t.Helper()
	return startWith(t, kind, "", flags...)
}

// startWith is start with nodes that ask for a key, unless it is "".
func startWith(t *testing.T, kind, key string, flags ...string) (*fleet.Fleet, []*databases.Server) {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
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
	servers, log := database(t, kind)
	folder, err := os.MkdirTemp("", "ostiary-nodes-")
	if err != nil {
		t.Fatal(err)
	}
	var f *fleet.Fleet
	defer func() {
		if f == nil { // the database is not installed
			_ = os.RemoveAll(folder)
		}
	}()
	f, err = fleet.Start(t.Context(), fleet.Options{Program: program, Folder: folder, Nodes: nodesTotal, Flags: flags, Key: key, Log: log, Apart: apart})
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
	return f, servers()
}

// nodesTotal is the number of nodes that start starts.
const nodesTotal = 3

// database returns a log of a kind, and what returns its servers once it is opened. Nodes that
// are apart have a PostgreSQL or a MariaDB on another host. Each has a server of a Galera
// cluster for itself, on its own host.
func database(t *testing.T, kind string) (started func() []*databases.Server, log fleet.Log) {
	t.Helper()
	var all []*databases.Server
	log.Name = kind
	// at is where the servers of a host run.
	at := func(hosts delay.Hosts, host int) (p databases.Place) {
		if hosts == nil {
			return p
		}
		address, err := hosts.Reach(-1, host, "database")
		if err != nil {
			t.Fatal(err)
		}
		p.Address, _, _ = net.SplitHostPort(address)
		p.Start = func(c *exec.Cmd) error { return hosts.Start(host, c) }
		return p
	}
	one := func(start func(databases.Place, testing.TB, ...string) *databases.Server) func(delay.Hosts) []string {
		return func(hosts delay.Hosts) []string {
			all = append(all, start(at(hosts, nodesTotal), t))
			return slices.Repeat([]string{all[0].Database()}, nodesTotal)
		}
	}
	switch kind {
	case "postgres":
		log.Own = one(databases.Place.PostgreSQL)
	case "mariadb":
		log.Own = one(databases.Place.MariaDB)
	case "galera":
		log.Own = func(hosts delay.Hosts) (urls []string) {
			var places []databases.Place
			for i := range nodesTotal {
				places = append(places, at(hosts, i))
			}
			all = databases.GaleraAt(t, places...)
			name, _, _ := strings.Cut(path.Base(all[0].Database()), "?")
			for _, s := range all {
				urls = append(urls, s.URL(name))
			}
			return urls
		}
	case "raft":
	default:
		t.Fatalf("the log %q: expected postgres, mariadb, galera or raft", kind)
	}
	return func() []*databases.Server { return all }, log
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
// OSTIARY_PLAY_LOG is the log: postgres, mariadb, galera or raft (the default), which needs no
// database. OSTIARY_PLAY_DELAY, as root, puts the nodes, and a PostgreSQL or a MariaDB, so far
// apart, one way. In a long play many clients write at the same time. OSTIARY_PLAY_FLAGS are
// more flags of the nodes, for example --groups-ahead=1.
// OSTIARY_PLAY_OLD is an earlier program, which the first node runs.
// OSTIARY_PLAY_FAULTS has the names of the faults of nodes, with commas between them; the
// default is all of them in a long play.
func TestPlay(t *testing.T) {
	parallel(t)
	long := os.Getenv("OSTIARY_PLAY")
	duration, err := time.ParseDuration(cmp.Or(long, "12s"))
	if err != nil {
		t.Fatalf("OSTIARY_PLAY is %q, expected a time such as 10m", long)
	}
	log := cmp.Or(os.Getenv("OSTIARY_PLAY_LOG"), "raft")
	f, servers := startWith(t, log, strings.Repeat("key", 12), strings.Fields(os.Getenv("OSTIARY_PLAY_FLAGS"))...)
	if old := os.Getenv("OSTIARY_PLAY_OLD"); old != "" {
		first := f.Nodes[0]
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
		first.Use(old)
		if err := first.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	o := fleet.PlayOptions{For: duration, Clients: 8, Writers: 8, Stores: 2, Think: 20 * time.Millisecond}
	if long != "" {
		o.Writers, o.Stores, o.Think = 64, 3, 100*time.Millisecond
	}
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
	} else if len(servers) > 0 {
		o.CrashDatabase = func() {
			s := servers[rand.IntN(len(servers))]
			s.Kill()
			if log == "galera" {
				s.Rejoin()
				return
			}
			s.Start()
		}
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
