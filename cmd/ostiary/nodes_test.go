package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// testLogs returns the kinds of shared logs that the program of the tests can open.
func testLogs() map[string]cli.OpenLog {
	all := logs()
	all["workshop"] = func(ctx context.Context, address string) (sharedlog.Log, error) {
		return memorylog.Dial(ctx, strings.TrimPrefix(address, "workshop://"))
	}
	return all
}

// nodes are processes that serve the same stores over one log.
type nodes struct {
	*testing.T
	dir    string
	server *memorylog.Server
	log    string // --log; "" for nodes that keep the log themselves
	all    []*process
	store  string
	flags  []string
	plain  bool // without the settings for other nodes
}

// process is one of them.
type process struct {
	number  int
	cmd     *exec.Cmd
	http    string
	metrics string
	grpc    string
	stderr  lockedBuffer
	ended   chan struct{} // closed when the process has ended
}

// lockedBuffer is a buffer that a process fills.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startNodes starts n processes over a new log.
func startNodes(t *testing.T, n int, flags ...string) *nodes {
	t.Helper()
	server, err := memorylog.New().Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	c := startNodesOn(t, "workshop://"+server.Address(), n, flags...)
	c.server = server
	return c
}

// startNodesOn starts n processes over the log of a URL.
func startNodesOn(t *testing.T, log string, n int, flags ...string) *nodes {
	t.Helper()
	c := &nodes{T: t, dir: t.TempDir(), log: log, flags: flags}
	if log != "" {
		c.run("node", "certificate", "--folder", c.file("certificates"), "127.0.0.1")
	}
	for i := range n {
		p := &process{number: i}
		c.all = append(c.all, p)
		c.start(p)
	}
	t.Cleanup(func() {
		for _, p := range c.all {
			if t.Failed() && p.alive() {
				t.Logf("node %d: %+v", p.number, p.ready())
			}
			_ = p.cmd.Process.Kill()
			<-p.ended
			if t.Failed() {
				t.Logf("node %d:\n%.6000s", p.number, p.stderr.String())
			}
		}
	})
	return c
}

func (c *nodes) file(name string) string { return filepath.Join(c.dir, name) }

func (c *nodes) folder(p *process) string { return c.file(fmt.Sprint("node", p.number)) }

// list returns what ostiary node list prints through a node.
func (c *nodes) list(through *process) string {
	c.Helper()
	if c.log != "" {
		return c.run("node", "list", "--log", c.log, "--json")
	}
	return c.run("node", "list", "--data", c.folder(through), "--json")
}

// run runs a command and returns what it prints.
func (c *nodes) run(args ...string) string {
	c.Helper()
	out, err := exec.Command("ostiary", args...).CombinedOutput()
	if err != nil {
		c.Fatalf("ostiary %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// links returns the settings for other nodes.
func (c *nodes) links() []string {
	return []string{"--nodes-listen", "127.0.0.1:0", "--nodes-ca", c.file("certificates/ca.crt"),
		"--nodes-certificate", c.file("certificates/127.0.0.1.crt"), "--nodes-key", c.file("certificates/127.0.0.1.key")}
}

// start starts a process on its folder, and waits until it is ready.
func (c *nodes) start(p *process) {
	c.Helper()
	c.launch(p, c.flags...)
	c.eventually(fmt.Sprintf("node %d is ready", p.number), func() bool { return p.ready().Status == "SERVING" })
}

// launch starts a process on its folder, and waits until it serves.
func (c *nodes) launch(p *process, flags ...string) {
	c.Helper()
	switch {
	case c.log != "":
		flags = append(flags[:len(flags):len(flags)], "--log", c.log)
		if !c.plain {
			flags = append(flags, c.links()...)
		}
	case p.number == 0 || p.ended != nil:
		flags = append(flags[:len(flags):len(flags)], "--nodes-listen", "127.0.0.1:0", "--cluster")
	default:
		flags = append(flags[:len(flags):len(flags)], "--nodes-listen", "127.0.0.1:0", "--join", strings.TrimSpace(c.run("node", "token", "--data", c.folder(c.all[p.number-1]))))
	}
	c.launchAs(p, flags...)
}

// launchAs starts a process on its folder with these flags, and waits until it serves. Unless
// they have another time, a request may take long, as on a busy machine.
func (c *nodes) launchAs(p *process, flags ...string) {
	c.Helper()
	p.cmd = exec.Command("ostiary", append([]string{"serve", "--json", "--data", c.folder(p),
		"--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "127.0.0.1:0", "--drain-time", "500ms", "--request-timeout", "30s"}, flags...)...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		c.Fatal(err)
	}
	ended := make(chan struct{})
	p.ended = ended
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { _ = p.cmd.Wait(); close(ended) }()
	var at map[string]string
	if err == nil {
		err = json.Unmarshal([]byte(line), &at)
	}
	if err != nil {
		c.Fatalf("node %d does not start: %v\n%s", p.number, err, p.stderr.String())
	}
	p.http, p.metrics, p.grpc = "http://"+at["http"], "http://"+at["metrics"], at["grpc"]
}

// readiness is the answer of /readyz on the port of metrics.
type readiness struct {
	Status string
	Node   struct {
		Node, Role, Holder, Failure string
		Shown, Lag                  uint64
		ReadLeaseMillis             int64
	}
}

func (p *process) ready() (r readiness) {
	response, err := http.Get(p.metrics + "/readyz")
	if err != nil {
		return r
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&r)
	return r
}

// eventually asks until the answer is true. It pauses for longer than an answer takes, so that
// a program which it starts each time does not keep a processor busy.
func (c *nodes) eventually(what string, ok func() bool) {
	c.Helper()
	for end := time.Now().Add(2 * time.Minute); ; {
		asked := time.Now()
		if ok() {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("not within two minutes: %s", what)
		}
		time.Sleep(max(10*time.Millisecond, 4*time.Since(asked)))
	}
}

// holder returns the process that writes.
func (c *nodes) holder() (found *process) {
	c.Helper()
	c.eventually("a node writes", func() bool {
		for _, p := range c.all {
			if p.alive() && p.ready().Node.Role == "holder" {
				found = p
			}
		}
		return found != nil
	})
	return found
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// post sends a request to a node and decodes the answer.
func (p *process) post(path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	response, err := http.Post(p.http+path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, got)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(got, answer)
}

// prepare creates a store with a model through a node.
func (c *nodes) prepare(p *process) {
	c.Helper()
	var store struct{ ID string }
	err := p.post("/stores", map[string]string{"name": "nodes"}, &store)
	if c.store = store.ID; err == nil {
		err = p.post("/stores/"+c.store+"/authorization-models", json.RawMessage(`{"schema_version":"1.1","type_definitions":[
			{"type":"user"},{"type":"document","relations":{"viewer":{"this":{}}},"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`), nil)
	}
	if err != nil {
		c.Fatal(err)
	}
}

func tupleOf(n int) map[string]string {
	return map[string]string{"user": "user:anne", "relation": "viewer", "object": fmt.Sprintf("document:%d", n)}
}

func (c *nodes) write(p *process, n int) error {
	return p.post("/stores/"+c.store+"/write", map[string]any{"writes": map[string]any{"tuple_keys": []any{tupleOf(n)}}}, nil)
}

func (c *nodes) check(p *process, n int) (bool, error) { return c.checkAt(p, n, "UNSPECIFIED") }

func (c *nodes) checkAt(p *process, n int, consistency string) (bool, error) {
	var answer struct{ Allowed bool }
	err := p.post("/stores/"+c.store+"/check", map[string]any{"tuple_key": tupleOf(n), "consistency": consistency}, &answer)
	return answer.Allowed, err
}

// shows requires that a node shows a write that was acknowledged. A node that refuses the read
// is asked again: its log may not have answered in time on a busy machine.
func (c *nodes) shows(p *process, n int) {
	c.Helper()
	allowed, err := c.check(p, n)
	for end := time.Now().Add(2 * time.Minute); err != nil && strings.HasPrefix(err.Error(), "503 ") && time.Now().Before(end); {
		allowed, err = c.check(p, n)
	}
	if err != nil || !allowed {
		c.Errorf("node %d: document %d: allowed %v, error %v, after it was acknowledged", p.number, n, allowed, err)
	}
}

// TestNodes starts three processes over one log. Each write through one of them is read
// through the others at once, without a token; also after the node that writes was
// killed, and after it was started again.
func TestNodes(t *testing.T) {
	t.Parallel()
	t.Run("RAM", func(t *testing.T) {
		t.Parallel()
		testNodes(startNodes(t, 3, "--request-timeout", "60s"))
	})
	t.Run("Raft", func(t *testing.T) {
		t.Parallel()
		testNodes(startNodesOn(t, "", 3, "--request-timeout", "60s"))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		testNodes(startNodesOn(t, databases.PostgreSQL(t).Database(), 3, "--request-timeout", "60s"))
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		testNodes(startNodesOn(t, databases.MariaDB(t).Database(), 3, "--request-timeout", "60s"))
	})
}

func testNodes(c *nodes) {
	t := c.T
	t.Helper()
	c.prepare(c.all[2])
	n := 0
	round := func() {
		t.Helper()
		for _, from := range c.all {
			if !from.alive() {
				continue
			}
			if err := c.write(from, n); err != nil {
				t.Fatalf("node %d: %v", from.number, err)
			}
			for _, to := range c.all {
				if to.alive() {
					c.shows(to, n)
				}
			}
			n++
		}
	}
	for range 10 {
		round()
	}
	first := c.holder()
	if list := c.list(first); strings.Count(list, `"id"`) != 3 || strings.Count(list, `"writes":true`) != 1 {
		t.Errorf("node list prints %s", list)
	}
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	for range 10 {
		round()
	}
	if next := c.holder(); next == first {
		t.Fatal("the killed node writes")
	}
	c.start(first)
	for range 10 {
		round()
	}
	for i := range n {
		c.shows(first, i)
	}
}

// TestNodesHandOver stops the node that writes while clients write through the others:
// no request fails.
func TestNodesHandOver(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 3, patientFlags...)
	c.prepare(c.all[0])
	holder := c.holder()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i, p := range c.all {
		if p == holder {
			continue
		}
		writers.Go(func() {
			for n := i * 1_000_000; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.write(p, n); err != nil {
					t.Errorf("node %d: document %d: %v", p.number, n, err)
					return
				}
				if allowed, err := c.check(p, n); err != nil || !allowed {
					t.Errorf("node %d: document %d: allowed %v, error %v", p.number, n, allowed, err)
					return
				}
			}
		})
	}
	if err := holder.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-holder.ended
	next := c.holder()
	close(stop)
	writers.Wait()
	if !holder.cmd.ProcessState.Success() {
		t.Errorf("the stopped node: %s", holder.cmd.ProcessState)
	}
	if !strings.Contains(holder.stderr.String(), "handed the role") {
		t.Errorf("node %d writes now, and the stopped one logged no hand-over", next.number)
	}
}

// TestNodesStopDuringWrite stops the node that writes while a write that another node has
// passed on waits for the read lease of a third one, which is paused. The client gets the
// answer of the next holder.
func TestNodesStopDuringWrite(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 3, "--holder-lease", "4s", "--read-lease", "3s", "--request-timeout", "30s")
	c.prepare(c.all[0])
	holder := c.holder()
	via, paused := c.all[(holder.number+1)%3], c.all[(holder.number+2)%3]
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before := holder.ready().Node.Shown
	written := make(chan error, 1)
	go func() { written <- c.write(via, 1) }()
	c.eventually("the holder shows the write", func() bool { return holder.ready().Node.Shown > before })
	if err := holder.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-holder.ended
	if err := <-written; err != nil {
		t.Errorf("the write: %v", err)
	}
	c.shows(via, 1)
	if err := paused.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.shows(paused, 1)
}

// TestNodesRefuse requires that a node with a wrong setting does not start, and that the
// error names what is wrong.
func TestNodesRefuse(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 1)
	c.run("node", "certificate", "--folder", c.file("other"), "127.0.0.1", "localhost")
	fails := func(text string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ostiary", append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--log", c.log,
			"--nodes-listen", "127.0.0.1:0"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), text) {
			t.Errorf("%v: error %v, want %q in %s", args, err, text, out)
		}
	}
	files := func(folder, name string) []string {
		return []string{"--nodes-ca", c.file(folder + "/ca.crt"), "--nodes-certificate", c.file(folder + "/" + name + ".crt"), "--nodes-key", c.file(folder + "/" + name + ".key")}
	}
	data := []string{"--data", c.file("another")}
	good := append(files("certificates", "127.0.0.1"), data...)
	fails("--log needs --nodes-ca", append(data, "--nodes-key", c.file("certificates/127.0.0.1.key"))...)
	fails("--log needs --nodes-certificate", data...)
	fails("node "+c.all[0].ready().Node.Node+" reported to the log", append(data, "--nodes-listen", "127.0.0.1:8082")...) // the default
	fails("is signed by", "--data", c.file("another"), "--nodes-ca", c.file("other/ca.crt"), "--nodes-certificate", c.file("certificates/127.0.0.1.crt"), "--nodes-key", c.file("certificates/127.0.0.1.key"))
	fails("certificate for localhost is not for 127.0.0.1", append(files("other", "localhost"), data...)...)
	fails(`"soon": expected leased or local`, append(good, "--acknowledge", "soon")...)
	fails("needs --nodes-address", append(good, "--nodes-listen", "0.0.0.0:0")...)
	fails(`has the scheme "sqlite"`, append(good, "--log", "sqlite:///x")...)
	fails("--log needs a data folder", append(files("certificates", "127.0.0.1"), "--data", "memory")...)
	key := c.file("secret.key")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(key, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
	fails("is all zeros", append(good, "--secret-key-file", key)...)
	put("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=\n")
	fails("key of the secrets differs", append(good, "--secret-key-file", key)...)
	fails(`holder lease "3s", expected "1s"`, append(good, "--holder-lease", "3s")...)
	fails(`acknowledge "local", expected "leased"`, append(good, "--acknowledge", "local")...)
	fails(`invalid --read-lease 2h0m0s`, append(good, "--read-lease", "2h")...)
	taken := regexp.MustCompile(`"address": *"([^"]+)"`).FindStringSubmatch(c.list(c.all[0]))[1]
	fails("node "+c.all[0].ready().Node.Node+" reported to the log", append(good, "--nodes-address", taken)...)
	fails("answers at "+taken+", which is --nodes-address of this node too", append(good, "--nodes-address", taken)...)
	if list := c.run("node", "list", "--log", c.log, "--json"); strings.Count(list, `"id"`) != 1 {
		t.Errorf("nodes that were refused are registered: %s", list)
	}

	// A copy of the folder of a node that runs has the same id: the second one to start is
	// the newer start, and the first one ends.
	p := c.all[0]
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	if err := os.CopyFS(c.file("copied"), os.DirFS(c.file("node0"))); err != nil {
		t.Fatal(err)
	}
	c.start(p)
	fails("a new node needs a folder of its own", append(files("certificates", "127.0.0.1"), "--data", c.file("copied"))...)
	fails("--log", "--log", "", "--data", c.file("copied"))

	// A new folder takes the address of a node that was killed at once.
	c.kill(p)
	next := &process{number: 1}
	c.all = append(c.all, next)
	c.launchAs(next, append(append(c.links(), "--log", c.log), "--nodes-listen", regexp.MustCompile(`"address": *"([^"]+)"`).FindStringSubmatch(c.list(p))[1])...)
}

// TestNodesSettings changes the settings of a cluster with its command, which refuses
// while a node runs; nodes without the flags have the new ones.
func TestNodesSettings(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, databases.PostgreSQL(t).Database(), 1, "--read-lease", "600ms")
	settings := func(args ...string) (string, error) {
		out, err := exec.Command("ostiary", append([]string{"node", "settings", "--log", c.log}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := settings(); err != nil || out != "holder-lease 1s\nread-lease 600ms\nacknowledge leased\n" {
		t.Errorf("node settings: %s, error %v", out, err)
	}
	if out, err := settings("--holder-lease", "2s"); err == nil || !strings.Contains(out, "so it runs: stop all nodes first") {
		t.Errorf("a change while a node runs: %s, error %v", out, err)
	}
	if list := c.run("node", "list", "--log", c.log); !strings.Contains(list, "holder") {
		t.Errorf("node list: %s", list)
	}
	p := c.all[0]
	before := len(p.stderr.String())
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	if log := p.stderr.String()[before:]; strings.Contains(log, "level=WARN") {
		t.Errorf("a node that is alone stops with a warning: %s", log)
	}
	if list := c.run("node", "list", "--log", c.log); !strings.Contains(list, "stopped") {
		t.Errorf("node list: %s", list)
	}
	const changed = "holder-lease 2s\nread-lease 600ms\nacknowledge local\n"
	if out, err := settings("--holder-lease", "2s", "--acknowledge", "local"); err != nil || out != changed {
		t.Errorf("a change: %s, error %v", out, err)
	}
	c.start(p)
	if out, err := settings(); err != nil || out != changed {
		t.Errorf("after a start: %s, error %v", out, err)
	}
}

// clientPause is the time between two requests of a client that works all the time: enough
// load, and others use the machine.
const clientPause = 20 * time.Millisecond

// TestNodesPaused stops the process that writes, and then another one, with SIGSTOP. The
// others go on; when the process goes on, it shows everything that was acknowledged
// meanwhile, from the first answer on, and takes writes.
func TestNodesPaused(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 3)
	c.prepare(c.all[0])
	n := 0
	for range 2 {
		holder := c.holder()
		other := c.all[(holder.number+1)%3]
		for _, p := range []*process{holder, other} {
			writer := c.all[(p.number+1)%3]
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			paused := time.Now()
			for first := n; n == first || time.Since(paused) < 3*time.Second; n++ {
				if err := c.write(writer, n); err != nil {
					t.Fatalf("node %d, while node %d is paused: %v", writer.number, p.number, err)
				}
				c.shows(c.all[(p.number+2)%3], n)
				time.Sleep(clientPause)
			}
			if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			c.shows(p, n-1)
			if err := c.write(p, n); err != nil {
				t.Errorf("node %d, after its pause: %v", p.number, err)
			}
			for _, to := range c.all {
				c.shows(to, n)
			}
			n++
		}
	}
}

// TestNodesNoLog requires that without the log writes get 503 with Retry-After, and
// reads get an answer, or 503, but never an old one; and that the nodes go on when the
// log is there again.
func TestNodesNoLog(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 2, "--request-timeout", "5s")
	c.prepare(c.all[0])
	if err := c.write(c.all[1], 1); err != nil {
		t.Fatal(err)
	}
	c.server.Pause(true)
	for _, p := range c.all {
		var err error
		c.eventually("a write gets 503", func() bool { // the outcome of the first ones is not known
			if err = c.write(p, 2); err == nil {
				t.Fatalf("node %d: a write without the log succeeds", p.number)
			}
			return strings.HasPrefix(err.Error(), "503")
		})
	}
	for _, p := range c.all { // also while it has a lease
		if _, err := c.checkAt(p, 1, "HIGHER_CONSISTENCY"); err == nil || !strings.HasPrefix(err.Error(), "503") {
			t.Errorf("node %d: a fully consistent read without the log: %v", p.number, err)
		}
	}
	c.eventually("no node is ready", func() bool {
		for _, p := range c.all {
			if p.ready().Status == "SERVING" {
				return false
			}
		}
		return true
	})
	for _, p := range c.all {
		if _, err := c.check(p, 1); err == nil || !strings.HasPrefix(err.Error(), "503") {
			t.Errorf("node %d: a read without a lease and without the log: %v", p.number, err)
		}
		if failure := p.ready().Node.Failure; failure == "" {
			t.Errorf("node %d: /readyz names no failure", p.number)
		}
	}
	c.server.Pause(false)
	for _, p := range c.all {
		c.eventually("the node is ready again", func() bool { return p.ready().Status == "SERVING" })
		c.shows(p, 1)
		if err := c.write(p, 10+p.number); err != nil {
			t.Errorf("node %d: %v", p.number, err)
		}
	}
}
