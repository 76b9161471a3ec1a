package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestDatabaseScripts runs testdata/databases/*.txtar with the URLs of empty databases.
func TestDatabaseScripts(t *testing.T) {
	t.Parallel()
	postgres, mariadb := databases.PostgreSQL(t), databases.MariaDB(t)
	server, err := memorylog.New().Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/databases",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"served": served, "terminate": terminate, "code": code, "pick": pick, "voters": voters, "drill": drill},
		Setup: func(e *testscript.Env) error {
			for i := range 3 {
				e.Setenv(fmt.Sprint("POSTGRES", i+1), postgres.Database())
				e.Setenv(fmt.Sprint("MARIADB", i+1), mariadb.Database())
				e.Setenv(fmt.Sprint("NODES", i+1), freeAddress(t))
			}
			e.Setenv("WORKSHOP", "workshop://"+server.Address())
			return os.Chmod(e.WorkDir+"/other.key", 0o600)
		},
	})
}

// voters waits until a number of nodes votes, as the server of a folder knows: voters FOLDER
// NUMBER.
func voters(ts *testscript.TestScript, neg bool, args []string) {
	for range 600 { // a minute
		out, err := exec.Command("ostiary", "node", "list", "--data", ts.MkAbs(args[0])).CombinedOutput()
		if n := strings.Count(string(out), "votes") + strings.Count(string(out), "leads"); err == nil && fmt.Sprint(n) == args[1] {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("not within a minute: %s nodes vote", args[1])
}

// TestMigrateKilled kills the command at later and later times until it has succeeded, from a
// folder to a cluster in place, to PostgreSQL, to MariaDB, to a new cluster and to a new
// folder. It is repeated each time, and each place has the same at the end, and no temporary
// files are left.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := func(name string) string { return filepath.Join(dir, name) }
	c := &nodes{T: t, dir: dir}
	c.run("--data", folder("first"), "store", "create", "team")
	model := filepath.Join(dir, "model.fga")
	text := "model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define reader: [user]\n"
	tuples := "user_type,user_id,relation,object_type,object_id\n"
	for i := range 20_000 {
		tuples += fmt.Sprintf("user,%d,reader,doc,%d\n", i, i%1000)
	}
	for name, text := range map[string]string{model: text, folder("tuples.csv"): tuples} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.run("--data", folder("first"), "--store", "team", "schema", "write", model)
	c.run("--data", folder("first"), "--store", "team", "tuple", "import", folder("tuples.csv"))
	places := []string{folder("first"), "cluster:" + folder("first"), databases.PostgreSQL(t).Database(), databases.MariaDB(t).Database(), "cluster:" + folder("second"), folder("last")}
	killed := 0
	temporary := folder("temporary")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, from := range places[:5] {
		args := []string{"migrate", from, places[i+1], "--force"}
		if i == 2 {
			args = append(args, "--work", folder("work"))
			if err := os.MkdirAll(folder("work.ostiary-removed/pebble"), 0o700); err != nil { // of an attempt that was killed
				t.Fatal(err)
			}
		}
		for wait := 10 * time.Millisecond; ; wait = wait * 3 / 2 {
			cmd := exec.Command("ostiary", args...)
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
			out, err := runFor(t, cmd, wait)
			if err == nil {
				break
			}
			if cmd.ProcessState.Exited() {
				t.Fatalf("ostiary %v: %v: %s", args, err, out)
			}
			killed++
		}
		c.run("migrate", "--verify", from, places[i+1])
		for _, pattern := range []string{filepath.Join(temporary, "*", "*"), folder("work*")} {
			if left, _ := filepath.Glob(pattern); len(left) > 0 {
				t.Errorf("the commands left %v", left)
			}
		}
	}
	t.Logf("killed %d times", killed)
	if killed < 15 {
		t.Errorf("the commands were killed %d times, expected more", killed)
	}
	c.run("--data", folder("last"), "--store", "team", "check", "user:19999", "reader", "doc:999")
}

// runFor runs a command, and kills it after a time unless it has ended. It returns its output and
// how it ended.
func runFor(t *testing.T, cmd *exec.Cmd, wait time.Duration) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// TestMigrateForce moves the log of a node that runs, with --force, while a client writes. The
// node can acknowledge nothing that is not moved.
func TestMigrateForce(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 1, "--holder-lease", "20m", "--read-lease", "10m", "--request-timeout", "8s")
	p := c.all[0]
	c.prepare(p)
	var done atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for {
			if err := c.write(p, int(done.Load())); err != nil {
				ended <- err
				return
			}
			done.Add(1)
		}
	}()
	c.eventually("a client writes", func() bool { return done.Load() > 10 || len(ended) > 0 })
	to := c.file("to")
	c.fails([]string{"a node runs on the log"}, "migrate", c.log, to)
	c.run("migrate", "--force", c.log, to)
	t.Logf("the client has made %d writes, and then: %v", done.Load(), <-ended)
	text := c.run("--data", to, "--store", "nodes", "tuple", "export", "--format", "jsonl")
	for n := range int(done.Load()) {
		if !strings.Contains(text, fmt.Sprintf("document:%d\"", n)) {
			t.Fatalf("write %d was acknowledged, and was not moved", n)
		}
	}
}

// TestMigrateLongLease requires that nodes are not moved with leases that would keep writes
// waiting for longer than clients wait.
func TestMigrateLongLease(t *testing.T) {
	t.Parallel()
	to := startNodes(t, 0)
	c := startNodes(t, 1, "--holder-lease", "3s", "--read-lease", "1s", "--next-log", to.log)
	c.fails([]string{"FROM has a holder lease of 3s and a read lease of 1s, with which no node would write for 2.2s, expected a difference of at most 909",
		"change them with \"ostiary node settings\""}, "migrate", "--live", c.log, to.log)
	c.prepare(c.all[0])
	if err := c.write(c.all[0], 1); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
}

// patientFlags are settings of nodes none of whose requests may fail although their database
// does not answer for ten seconds, as on a busy machine: a read waits for twice the holder
// lease.
var patientFlags = []string{"--request-timeout", "60s", "--holder-lease", "6s", "--read-lease", "5700ms"}

// move moves a log while nodes run. The command lets writes wait for two seconds at most, in
// which a busy machine may not end the move: it then asks for another attempt.
func (c *nodes) move(from, to string) string {
	c.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		out, err := exec.Command("ostiary", "migrate", "--live", from, to).CombinedOutput()
		if err == nil {
			return string(out)
		}
		if !strings.Contains(string(out), "repeat the command") || time.Now().After(end) {
			c.Fatalf("ostiary migrate --live %s %s: %v\n%s", from, to, err, out)
		}
	}
}

// TestMigrateLive moves the log of three nodes from PostgreSQL to MariaDB while clients write
// and read through each of them. The command is killed several times first. No request
// fails, and each acknowledged write is there afterwards, also after the nodes were started
// on the new log alone.
func TestMigrateLive(t *testing.T) {
	t.Parallel()
	from, to := databases.PostgreSQL(t).Database(), databases.MariaDB(t).Database()
	c := startNodesOn(t, from, 3, patientFlags...)
	out, err := exec.Command("ostiary", "migrate", "--live", from, to).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "does not know TO: start it with --next-log") {
		t.Fatalf("moved nodes that do not know where: error %v: %s", err, out)
	}
	c.flags = append(c.flags[:len(c.flags):len(c.flags)], "--next-log", to)
	for _, p := range c.all {
		c.stop(p)
		c.start(p)
	}
	c.prepare(c.all[0])
	load := c.load()
	for i := range 4 {
		load.progress()
		cmd := exec.Command("ostiary", "migrate", "--live", from, to)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(i+1)*200*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
	}
	load.progress()
	text := c.move(from, to)
	if !strings.Contains(text, "3 nodes go on with it now") {
		t.Errorf("the command printed %s", text)
	}
	load.progress()
	if text := c.move(from, to); !strings.Contains(text, "an earlier command has proved it") || !strings.Contains(text, "3 nodes go on with it now") {
		t.Errorf("the repeated command printed %s", text)
	}
	c.fails([]string{"runs on FROM and does not know TO"}, "migrate", "--live", to, from)
	load.progress()
	n := load.end()
	if t.Failed() {
		return
	}
	t.Logf("%d writes, longest %v; %d reads, longest %v", n, load.longestWrite.Load(), load.reads.Load(), load.longestRead.Load())
	c.log, c.flags = to, nil
	for _, p := range c.all {
		c.stop(p)
		c.start(p)
	}
	for _, p := range c.all {
		for i := range n {
			c.shows(p, i)
		}
	}
	// The registry of the old log has no node that runs any more, 30 seconds later.
	c.eventually("the nodes count as gone in the old log", func() bool {
		var listed struct{ Nodes []struct{ AgoMillis int64 } }
		if err := json.Unmarshal([]byte(c.run("node", "list", "--log", from, "--json")), &listed); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(listed.Nodes, func(n struct{ AgoMillis int64 }) bool { return n.AgoMillis < sharedlog.RunsTime.Milliseconds() })
	})
	if text := c.move(from, to); !strings.Contains(text, "an earlier command has proved it") {
		t.Errorf("the repeated command printed %s", text)
	}
	verify, err := exec.Command("ostiary", "migrate", "--verify", from, to).CombinedOutput()
	if err == nil || !strings.Contains(string(verify), "one ends with segment") {
		t.Errorf("the old log has what was written after the move: error %v: %s", err, verify)
	}
}

// TestMigrateLiveFolder moves the folder of a single server to PostgreSQL while clients write
// and read. The server is killed in the middle of a move once, and goes on.
func TestMigrateLiveFolder(t *testing.T) {
	t.Parallel()
	to := databases.PostgreSQL(t).Database()
	c := &nodes{T: t, dir: t.TempDir(), plain: true}
	p := &process{}
	from := c.folder(p)
	c.run("--data", from, "store", "create", "before")
	c.fails([]string{"no server has the folder open", "start it with --next-log"}, "migrate", "--live", from, to)
	serve := func(flags ...string) {
		t.Helper()
		c.launchAs(p, append([]string{"--request-timeout", "60s"}, flags...)...)
		c.eventually("the server is ready", func() bool { return p.ready().Status == "SERVING" })
	}
	c.all = []*process{p}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%.6000s", p.stderr.String())
		}
	})
	serve()
	c.prepare(p)
	c.fails([]string{"the server does not know TO: start it again with --next-log first"}, "migrate", "--live", from, to)
	c.stop(p)
	serve("--next-log", to)
	if err := c.write(p, 1_000_000); err != nil {
		t.Fatal(err)
	}
	c.fails([]string{"the server does not know TO"}, "migrate", "--live", from, to+"other")
	cmd := exec.Command("ostiary", "migrate", "--live", from, to)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.kill(p)
	_ = cmd.Wait()
	serve("--next-log", to)
	load := c.load()
	load.progress()
	if text := c.move(from, to); !strings.Contains(text, "1 node goes on with it now") {
		t.Errorf("the command printed %s", text)
	}
	load.progress()
	n := load.end()
	if t.Failed() {
		return
	}
	t.Logf("%d writes, longest %v; %d reads, longest %v", n, load.longestWrite.Load(), load.reads.Load(), load.longestRead.Load())
	for _, flags := range [][]string{{"--next-log", to}, {"--log", to}} {
		c.stop(p)
		serve(flags...)
		c.shows(p, 1_000_000)
		for i := range n {
			c.shows(p, i)
		}
	}
	c.stop(p)
	c.fails([]string{"copy of a shared log"}, "--data", from, "store", "list")
}

// TestMigrateLiveCluster moves a cluster of three nodes without a database to MariaDB while
// clients write and read through each of them. The command is sent to a node that does not
// write.
func TestMigrateLiveCluster(t *testing.T) {
	t.Parallel()
	to := databases.MariaDB(t).Database()
	c := startNodesOn(t, "", 3, append([]string{"--next-log", to}, patientFlags...)...)
	c.prepare(c.all[0])
	holder := c.holder()
	through := c.all[(holder.number+1)%3]
	load := c.load()
	load.progress()
	if text := c.move("cluster:"+c.folder(through), to); !strings.Contains(text, "3 nodes go on with it now") {
		t.Errorf("the command printed %s", text)
	}
	load.progress()
	n := load.end()
	if t.Failed() {
		return
	}
	t.Logf("%d writes, longest %v; %d reads, longest %v", n, load.longestWrite.Load(), load.reads.Load(), load.longestRead.Load())
	for _, p := range c.all { // one after the other, with the certificates of the cluster
		c.stop(p)
		at := filepath.Join(c.folder(p), "cluster")
		c.launchAs(p, "--log", to, "--nodes-listen", "127.0.0.1:0", "--nodes-ca", filepath.Join(at, "ca.crt"),
			"--nodes-certificate", filepath.Join(at, "node.crt"), "--nodes-key", filepath.Join(at, "node.key"))
		c.eventually(fmt.Sprintf("node %d is ready", p.number), func() bool { return p.ready().Status == "SERVING" })
		if err := c.write(p, n); err != nil {
			t.Error(err)
		}
		n++
	}
	for _, p := range c.all {
		for i := range n {
			c.shows(p, i)
		}
	}
}

// stop ends a process in order.
func (c *nodes) stop(p *process) {
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.ended
}

// load are clients of nodes.
type load struct {
	c                         *nodes
	running                   sync.WaitGroup
	ended                     chan struct{}
	written, done, reads      atomic.Int64 // written are those that were begun
	longestWrite, longestRead longest
}

// longest is the longest of several durations.
type longest struct{ atomic.Int64 }

func (l *longest) since(begun time.Time) {
	for took := int64(time.Since(begun)); ; {
		old := l.Int64.Load()
		if took <= old || l.CompareAndSwap(old, took) {
			return
		}
	}
}

// Load returns the duration.
func (l *longest) Load() time.Duration { return time.Duration(l.Int64.Load()) }

// load starts a client for each node: it writes through it, and reads through the next.
func (c *nodes) load() *load {
	l := &load{c: c, ended: make(chan struct{})}
	for i, p := range c.all {
		next := c.all[(i+1)%len(c.all)]
		l.running.Go(func() {
			for l.step(p, next) {
			}
		})
	}
	return l
}

// step writes and reads once.
func (l *load) step(p, next *process) bool {
	select {
	case <-l.ended:
		return false
	case <-time.After(clientPause):
	}
	n := int(l.written.Add(1)) - 1
	begun := time.Now()
	if err := l.c.write(p, n); err != nil {
		l.c.Errorf("write %d through node %d, after %v: %v", n, p.number, time.Since(begun), err)
		return false
	}
	l.longestWrite.since(begun)
	begun = time.Now()
	if allowed, err := l.c.check(next, n); err != nil || !allowed {
		l.c.Errorf("read %d through node %d, after %v: allowed %v, error %v", n, next.number, time.Since(begun), allowed, err)
		return false
	}
	l.longestRead.since(begun)
	l.done.Add(1)
	l.reads.Add(1)
	return true
}

// progress waits until some requests have been made.
func (l *load) progress() {
	l.c.Helper()
	at := l.done.Load()
	l.c.eventually("clients write", func() bool { return l.done.Load() >= at+10 || l.c.Failed() })
}

// end ends the clients, and returns the number of writes.
func (l *load) end() int {
	close(l.ended)
	l.running.Wait()
	return int(l.written.Load())
}
