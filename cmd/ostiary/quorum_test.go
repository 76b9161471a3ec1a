package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// fails requires that a command fails with texts, and returns what it prints.
func (c *nodes) fails(texts []string, args ...string) string {
	c.Helper()
	out, err := exec.CommandContext(c.Context(), "ostiary", args...).CombinedOutput()
	if err == nil {
		c.Errorf("ostiary %s succeeds: %s", strings.Join(args, " "), out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			c.Errorf("ostiary %s: want %q in %s", strings.Join(args, " "), text, out)
		}
	}
	return string(out)
}

// kill kills a process, and waits until it has ended.
func (c *nodes) kill(p *process) {
	c.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		c.Fatal(err)
	}
	<-p.ended
}

// id returns the id of a node, which its folder keeps.
func (c *nodes) id(p *process) string {
	c.Helper()
	if id := p.ready().Node.Node; id != "" {
		return id
	}
	c.Fatalf("node %d has no id", p.number)
	return ""
}

// TestQuorumReplace kills the node that began a cluster without a database, removes it
// through another one, and lets a new folder join in its place. The audit log of that one
// has these commands.
func TestQuorumReplace(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 0)
	for i := range 3 {
		c.flags = []string{"--audit-folder", c.file(fmt.Sprint("audit", i))}
		p := &process{number: i}
		c.all = append(c.all, p)
		c.start(p)
	}
	c.flags = nil
	c.prepare(c.all[0])
	first, second := c.all[0], c.all[1]
	if err := c.write(first, 1); err != nil {
		t.Fatal(err)
	}
	gone := c.id(first)
	c.fails([]string{"so it may run", "that was killed counts as gone 30s after its last report", "--force"}, "node", "remove", gone, "--data", c.folder(second))
	c.fails([]string{"expected 32 hexadecimal digits"}, "node", "remove", "1", "--data", c.folder(second))
	c.fails([]string{"no node " + strings.Repeat("0", 32) + " is registered"}, "node", "remove", strings.Repeat("0", 32), "--data", c.folder(second))
	c.kill(first)
	c.fails([]string{"no server has the folder open"}, "node", "token", "--data", c.folder(first))
	if err := c.write(second, 2); err != nil {
		t.Fatal(err)
	}
	if out := c.run("node", "remove", gone, "--force", "--data", c.folder(second)); !strings.Contains(out, "ostiary node rotate-authority") {
		t.Errorf("the removal does not name the command that replaces the authority: %s", out)
	}
	c.fails([]string{"node " + gone + " was removed"}, "serve", "--cluster", "--data", c.folder(first), "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--nodes-listen", "127.0.0.1:0")
	if out := c.run("node", "rotate-authority", "--data", c.folder(second)); !strings.Contains(out, "replaced the authority on 2 nodes") {
		t.Errorf("the authority is not replaced: %s", out)
	}
	if err := c.write(c.all[2], 7); err != nil {
		t.Fatal(err)
	}
	if list := c.list(c.all[2]); strings.Contains(list, gone) {
		t.Errorf("the removed node is listed: %s", list)
	}
	log, err := os.ReadFile(filepath.Join(c.file("audit1"), "audit-000000000001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, m := range regexp.MustCompile(`"kind":"command","operation":"([^"]*)","caller":{"id":"local"},"outcome":"([^"]*)","why":"([^":]*)`).FindAllStringSubmatch(string(log), -1) {
		commands = append(commands, strings.Join(m[1:], ", "))
	}
	if want := []string{"node-token, made, valid for 1h0m0s", "node-remove, failed, node " + gone + ", force false",
		"node-remove, failed, node " + strings.Repeat("0", 32) + ", force false", "node-remove, made, node " + gone + ", force true",
		"node-rotate-authority, made, without nodes that are away false"}; !slices.Equal(commands, want) {
		t.Errorf("the audit log has %q, want %q", commands, want)
	}
	next := &process{number: 3}
	c.all = append(c.all, next)
	c.start(next)
	c.shows(next, 1)
	c.kill(second)
	if err := c.write(next, 3); err != nil { // the new node is a part of the majority
		t.Fatal(err)
	}
	c.shows(c.all[2], 3)
}

// TestQuorumAddress requires that a node with the address of another one that runs is refused
// by name, when it joins and when it moves. Its token stays good.
func TestQuorumAddress(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 1)
	first := c.all[0]
	var listed struct {
		Nodes []struct{ ID, Address string }
	}
	if err := json.Unmarshal([]byte(c.list(first)), &listed); err != nil || len(listed.Nodes) != 1 {
		t.Fatalf("%+v, %v", listed, err)
	}
	taken := listed.Nodes[0]
	ports := []string{"--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--nodes-listen", "127.0.0.1:0"}
	ends := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "ostiary", append(append([]string{"serve"}, ports...), args...)...).CombinedOutput()
		if text := fmt.Sprintf("cannot be at %s, because node %s is there: choose another address", taken.Address, taken.ID); err == nil || !strings.Contains(string(out), text) {
			t.Errorf("want %q: %v\n%s", text, err, out)
		}
	}
	token := strings.TrimSpace(c.run("node", "token", "--data", c.folder(first)))
	ends("--data", c.file("other"), "--join", token, "--nodes-address", taken.Address)
	for i := 1; i < 3; i++ {
		p := &process{number: i}
		c.all = append(c.all, p)
		if i == 1 {
			c.launchAs(p, "--nodes-listen", "127.0.0.1:0", "--join", token)
			c.eventually("the node is ready", func() bool { return p.ready().Status == "SERVING" })
		} else {
			c.start(p)
		}
	}
	c.kill(c.all[2])
	ends("--data", c.folder(c.all[2]), "--cluster", "--nodes-address", taken.Address)
}

// TestQuorumRecover loses two of three nodes. The third one refuses writes
// until it is recovered, which must be confirmed, and goes on with what it has.
func TestQuorumRecover(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 3, "--request-timeout", "10s")
	c.prepare(c.all[0])
	for n := range 5 {
		if err := c.write(c.all[n%3], n); err != nil {
			t.Fatal(err)
		}
	}
	last := c.all[2]
	for _, p := range c.all[:2] {
		c.kill(p)
		if err := os.RemoveAll(c.folder(p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.write(last, 5); err == nil || !strings.HasPrefix(err.Error(), "50") {
		t.Errorf("a write without the majority: %v", err)
	}
	c.fails([]string{"a server (process"}, "node", "recover", "--data", c.folder(last))
	c.kill(last)
	shown := c.fails([]string{"nothing was changed", "are lost then", "last entry: term"}, "node", "recover", "--data", c.folder(last))
	if again := c.fails(nil, "node", "recover", "--data", c.folder(last)); again != shown {
		t.Errorf("it has changed something: %s, before %s", again, shown)
	}
	c.fails([]string{"expected the data folder of a node"}, "node", "recover", "--data", filepath.Join(c.dir, "none"))
	c.fails([]string{"invalid --nodes-address"}, "node", "recover", "--data", c.folder(last), "--accept-loss")
	c.run("node", "recover", "--data", c.folder(last), "--accept-loss", "--nodes-address", "127.0.0.1:1")
	next := &process{number: 1}
	if err := os.Rename(c.file("node2"), c.file("node0")); err != nil {
		t.Fatal(err)
	}
	last.number, c.all = 0, []*process{last, next}
	c.start(last)
	for n := range 5 {
		c.shows(last, n)
	}
	if err := c.write(last, 6); err != nil {
		t.Fatal(err)
	}
	c.start(next)
	c.shows(next, 6)
}

// TestClusterExample starts the cluster of examples/cluster twice with the same data, and
// kills a node behind the proxy.
func TestClusterExample(t *testing.T) {
	t.Parallel()
	if err := servers.FindAll("haproxy", "curl", "pgrep"); err != nil {
		t.Skip(err)
	}
	ostiary, err := exec.LookPath("ostiary")
	if err != nil {
		t.Fatal(err)
	}
	// The script needs this port and the 30 after it: below those that connections take.
	port := 10_000 + rand.IntN(22_000)
	data := t.TempDir()
	start := func() (stop func()) {
		t.Helper()
		cmd := exec.Command("bash", "../../examples/cluster/cluster.sh", ostiary, data)
		cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
		var stderr lockedBuffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		text := ""
		for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "serving"); {
			text += lines.Text()
		}
		go func() { _ = cmd.Wait(); close(ended) }()
		stop = func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
		}
		if strings.Count(text, "votes")+strings.Count(text, "leads") != 3 {
			stop()
			t.Fatalf("the cluster does not start: %s\n%s", text, stderr.String())
		}
		return stop
	}
	c := &nodes{T: t}
	p := &process{http: fmt.Sprintf("http://127.0.0.1:%d", port)}
	stop := start()
	c.prepare(p)
	if err := c.write(p, 1); err != nil {
		t.Error(err)
	}
	pids, err := exec.Command("pgrep", "-f", "serve --data "+data+"/node2 ").Output()
	if err != nil || exec.Command("kill", "-9", strings.TrimSpace(string(pids))).Run() != nil {
		t.Errorf("node 2 cannot be killed: %v, %s", err, pids)
	}
	c.eventually("the proxy has noticed the dead node", func() bool {
		for range 6 {
			if _, err := c.check(p, 1); err != nil {
				return false
			}
		}
		return true
	})
	if err := c.write(p, 2); err != nil {
		t.Error(err)
	}
	stop()
	defer start()()
	for n := 1; n <= 2; n++ {
		c.shows(p, n)
	}
	if response, err := (&http.Client{Timeout: time.Minute}).Get(p.http + "/readyz"); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("the proxy answers %v, error %v", response, err)
	}
}

// TestClusterExamplePrograms requires that the script of examples/cluster starts nothing
// without a program that it needs, and names the package.
func TestClusterExamplePrograms(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	script, err := filepath.Abs("../../examples/cluster/cluster.sh")
	if err != nil {
		t.Fatal(err)
	}
	ostiary, err := exec.LookPath("ostiary")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ missing, ostiary, want string }{
		{"haproxy", ostiary, "no program haproxy: install the package haproxy"},
		{"curl", ostiary, "no program curl: install the package curl"},
		{"", "/nowhere/ostiary", "no program /nowhere/ostiary: build it with make build"},
	} {
		programs, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
		for _, name := range []string{"dirname", "mkdir", "tail", "sleep", "haproxy", "curl"} {
			if at := "/bin/true"; name != c.missing {
				if found, err := exec.LookPath(name); err == nil && name != "haproxy" && name != "curl" {
					at = found
				}
				if err := os.Symlink(at, filepath.Join(programs, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.missing == "haproxy" {
			if _, err := os.Stat("/usr/sbin/haproxy"); err == nil {
				continue // the script finds it there too
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, bash, script, c.ostiary, data)
		cmd.Env = []string{"PATH=" + programs}
		out, err := cmd.CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("without %s: want %q: %v\n%s", c.missing, c.want, err, out)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("without %s: the script has started", c.missing)
		}
	}
}

// TestQuorumRolling restarts each of three nodes in turn, as a rolling upgrade does, while
// clients write and read through the others: no request fails.
func TestQuorumRolling(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 3)
	c.prepare(c.all[0])
	number := 0
	for _, restarted := range c.all {
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for _, p := range c.all {
			if p == restarted {
				continue
			}
			number++
			first := number * 1_000_000
			writers.Go(func() {
				for n := first; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					if err := c.write(p, n); err != nil {
						t.Errorf("node %d, while node %d is restarted: document %d: %v", p.number, restarted.number, n, err)
						return
					}
					c.shows(p, n)
				}
			})
		}
		if err := restarted.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-restarted.ended
		if !restarted.cmd.ProcessState.Success() {
			t.Errorf("node %d ends with %s", restarted.number, restarted.cmd.ProcessState)
		}
		c.start(restarted)
		close(stop)
		writers.Wait()
	}
}

// TestQuorumSettings changes the settings of a cluster without a database while it runs, to
// longer leases and to shorter ones. Restarted nodes use them, the one that writes last. No
// write fails.
func TestQuorumSettings(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 3)
	c.prepare(c.all[0])
	settings := func(args ...string) string {
		t.Helper()
		return c.run(append([]string{"node", "settings", "--data", c.folder(c.all[1])}, args...)...)
	}
	if out := settings(); out != "holder-lease 1s\nread-lease 700ms\nacknowledge leased\n" {
		t.Errorf("node settings: %s", out)
	}
	if out := c.run("node", "upgrade", "--data", c.folder(c.all[2])); !strings.Contains(out, "already") {
		t.Errorf("node upgrade: %s", out)
	}
	c.changeSettings(10, settings, "1.3s", "800ms")
	c.changeSettings(20, settings, "900ms", "500ms")
	last := c.all[2]
	c.kill(last)
	c.fails([]string{"holder lease \"1s\", expected \"900ms\""}, "serve", "--cluster", "--data", c.folder(last), "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--nodes-listen", "127.0.0.1:0", "--holder-lease", "1s")
}

// changeSettings changes the leases and restarts the nodes, the one that writes last. first
// is a number of documents.
func (c *nodes) changeSettings(first int, settings func(...string) string, holderLease, readLease string) {
	c.Helper()
	changed := fmt.Sprintf("holder-lease %s\nread-lease %s\nacknowledge leased\n", holderLease, readLease)
	if out := settings("--holder-lease", holderLease, "--read-lease", readLease); out != changed {
		c.Errorf("a change: %s", out)
	}
	writer := c.holder()
	restart := func(p *process) {
		c.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			c.Fatal(err)
		}
		<-p.ended
		c.launch(p, c.flags...)
	}
	for _, p := range c.all {
		if p != writer {
			restart(p)
			if err := c.write(writer, first+p.number); err != nil {
				c.Error(err)
			}
			c.shows(p, first+p.number)
		}
	}
	restart(writer)
	for _, p := range c.all {
		c.eventually(fmt.Sprintf("node %d is ready", p.number), func() bool { return p.ready().Status == "SERVING" })
		if err := c.write(p, first+5+p.number); err != nil {
			c.Errorf("node %d: %v", p.number, err)
		}
	}
	for _, p := range c.all {
		c.shows(p, first+7-p.number)
	}
	if out := settings(); out != changed {
		c.Errorf("after the restarts: %s", out)
	}
}
