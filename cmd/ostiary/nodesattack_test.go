package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/quorum"
)

// nodesAttacks are attacks on the port for other nodes. Each returns what was answered most.
var nodesAttacks = []struct {
	name string
	run  func(a *nodesAttacker) string
}{
	{"nodes: none, the control", func(*nodesAttacker) string { time.Sleep(nodesAttackTime); return "" }},
	{"nodes: 256 idle connections, opened again and again", func(a *nodesAttacker) string { return a.idle(nil) }},
	{"nodes: 256 idle connections after the handshake", func(a *nodesAttacker) string { return a.idle(a.stranger()) }},
	{"nodes: 96 wrong tokens at a time, with long ids", func(a *nodesAttacker) string {
		return a.calls(a.stranger(), 96, "/ostiary.join.v1.Join/Join", a.wrongToken)
	}},
	{"nodes: 32 requests to join of 32 MiB at a time", func(a *nodesAttacker) string {
		large := make([]byte, 32<<20)
		return a.calls(a.stranger(), 32, "/ostiary.join.v1.Join/Join", func() []byte { return large })
	}},
	{"nodes: 32 requests to join at a time that claim 4 GiB", func(a *nodesAttacker) string {
		return a.calls(a.stranger(), 32, "/ostiary.join.v1.Join/Join", func() []byte { return []byte{0x81, 0xa1, 's', 0xc6, 0xff, 0xff, 0xff, 0xff} })
	}},
	{"nodes: 64 changes of members at a time, without a certificate", func(a *nodesAttacker) string {
		return a.calls(a.stranger(), 64, "/ostiary.raft.v1.Raft/Members", phantom)
	}},
	{"nodes: 64 changes of members at a time, as a removed node", func(a *nodesAttacker) string {
		return a.calls(a.removed(), 64, "/ostiary.raft.v1.Raft/Members", phantom)
	}},
	{"nodes: 64 questions for the term at a time, as a removed node", func(a *nodesAttacker) string {
		return a.calls(a.removed(), 64, "/ostiary.raft.v1.Raft/Term", func() []byte { return nil })
	}},
}

// attackedNodes are nodes, and how many tuples were written: each write is of a new one.
type attackedNodes struct {
	*nodes
	written atomic.Int64
}

// nodesAttackTime is how long an attack and its control last.
const nodesAttackTime = 6 * time.Second

// nodesAttackPause is the time between two calls or connections of each of an attacker's
// workers: what the attacker itself costs would be on another machine.
const nodesAttackPause = 10 * time.Millisecond

// nodesAttacker is what an attacker knows: all that a removed node had.
type nodesAttacker struct {
	Attack             int
	To, Folder         string // the node that is attacked, and the folder of the removed node
	Log, Own, Live, ID string // of the log, of the removed node, of a live node, and of the attacked one
	until              time.Time
}

// TestAttackedNodes attacks the port for other nodes of the node that writes, of three, and
// prints a table: what it writes each second before and under attack, what the attack adds to
// the disks of all nodes beyond the control, and the node's memory. The attacker has the lowest
// priority, because it would be on another machine. "make attack" runs it.
func TestAttackedNodes(t *testing.T) {
	if os.Getenv("OSTIARY_ATTACK") == "" {
		t.Skip("OSTIARY_ATTACK=PROGRAM runs it")
	}
	only := os.Getenv("OSTIARY_ATTACK_ONLY")
	for _, name := range os.Environ() { // the program warns about variables that set no flag
		if name, _, _ = strings.Cut(name, "="); strings.HasPrefix(name, "OSTIARY_ATTACK") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	c := &attackedNodes{nodes: startNodesOn(t, "", 4)}
	c.prepare(c.all[0])
	removed := c.all[3]
	a := &nodesAttacker{Folder: filepath.Join(c.folder(removed), quorum.FolderName), Own: c.id(removed)}
	c.kill(removed)
	c.run("node", "remove", a.Own, "--force", "--data", c.folder(c.all[0]))
	c.all = c.all[:3]
	text, err := os.ReadFile(filepath.Join(a.Folder, "node.json"))
	var state struct{ Cluster string }
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Log = state.Cluster
	fmt.Println("| attack | writes/s before | under attack | ratio | MB written to disk a second before | under attack | MB of memory before | peak | answers |\n|---|---|---|---|---|---|---|---|---|")
	for i, attack := range nodesAttacks {
		if !strings.Contains(attack.name, only) {
			continue
		}
		a.Attack = i
		c.attack(a, attack.name)
	}
	members := c.list(c.all[0])
	if strings.Count(members, `"id"`) != 3 || strings.Contains(members, "phantom") {
		t.Errorf("after the attacks the nodes are %s", members)
	}
}

// attack plays one attack, and prints its row.
func (c *attackedNodes) attack(a *nodesAttacker, name string) {
	c.Helper()
	holder := c.holder()
	var list struct {
		Nodes []struct{ ID, Address string }
	}
	if err := json.Unmarshal([]byte(c.list(holder)), &list); err != nil {
		c.Fatal(err)
	}
	a.ID = c.id(holder)
	for _, n := range list.Nodes {
		if n.ID == a.ID {
			a.To = n.Address
		} else {
			a.Live = n.ID
		}
	}
	quietDisk, before := c.disk(), residentOf(holder)
	quiet := c.writes(holder, time.After(nodesAttackTime))
	attackedDisk := c.disk()
	quietDisk = attackedDisk - quietDisk
	peak := before
	watching, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-watching:
				return
			case <-time.After(50 * time.Millisecond):
				peak = max(peak, residentOf(holder))
			}
		}
	}()
	began := time.Now()
	answer := make(chan string, 1)
	ended := make(chan time.Time)
	go func() {
		text, err := a.order()
		if err != nil {
			text = err.Error()
		}
		answer <- text
		close(ended)
	}()
	attacked := c.writes(holder, ended)
	took := time.Since(began)
	close(watching)
	<-watched
	attackedDisk = c.disk() - attackedDisk
	perSecond := func(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
	fmt.Printf("| %s | %.0f | %.0f | %.2f | %.2f | %.2f | %d | %d | %s |\n", strings.TrimPrefix(name, "nodes: "), perSecond(quiet, nodesAttackTime), perSecond(attacked, took),
		perSecond(attacked, took)/perSecond(quiet, nodesAttackTime), perSecond(quietDisk, nodesAttackTime)/(1<<20), perSecond(attackedDisk, took)/(1<<20), before, peak, <-answer)
}

// writes writes through a node with several clients until end, and returns how often.
func (c *attackedNodes) writes(p *process, end <-chan time.Time) int {
	c.Helper()
	var made atomic.Int64
	var ends atomic.Bool
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for !ends.Load() {
				n := int(c.written.Add(1))
				if err := c.write(p, n); err == nil {
					made.Add(1)
				}
			}
		})
	}
	<-end
	ends.Store(true)
	clients.Wait()
	return int(made.Load())
}

// disk returns how many bytes the folders of the nodes have.
func (c *nodes) disk() (bytes int) {
	for _, p := range c.all {
		_ = filepath.WalkDir(c.folder(p), func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if info, err := d.Info(); err == nil {
					bytes += int(info.Size())
				}
			}
			return nil // a file may be gone
		})
	}
	return bytes
}

// residentOf returns the resident memory of a process in MB, or 0.
func residentOf(p *process) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n / 1024
		}
	}
	return 0
}

// order has another process run an attack, and returns its answer.
func (a *nodesAttacker) order() (string, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("nice", "-n", "19", os.Args[0], "-test.run", "^TestNodesAttacker$", "-test.v")
	cmd.Env = append(os.Environ(), "OSTIARY_NODES_ATTACKER="+string(text))
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		if answer, ok := strings.CutPrefix(line, "ANSWER "); ok {
			return strings.TrimSpace(answer), nil
		}
	}
	return "", fmt.Errorf("the attacker gave no answer: %w\n%.300s", err, out)
}

// TestNodesAttacker is the attacker's process.
func TestNodesAttacker(t *testing.T) {
	text := os.Getenv("OSTIARY_NODES_ATTACKER")
	if text == "" {
		t.Skip("TestAttackedNodes runs it")
	}
	a := &nodesAttacker{until: time.Now().Add(nodesAttackTime)}
	if err := json.Unmarshal([]byte(text), a); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nANSWER %s\n", strings.ReplaceAll(nodesAttacks[a.Attack].run(a), "\n", " "))
}

// stranger returns the settings of a connection without a certificate.
func (a *nodesAttacker) stranger() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
}

// removed returns the settings of a connection with the certificate of the removed node.
func (a *nodesAttacker) removed() *tls.Config {
	own, err := tls.LoadX509KeyPair(filepath.Join(a.Folder, "node.crt"), filepath.Join(a.Folder, "node.key"))
	if err != nil {
		panic(err)
	}
	c := a.stranger()
	c.Certificates = []tls.Certificate{own}
	return c
}

// idle keeps 256 connections open, after the handshake if there is a config, and opens those
// again that end.
func (a *nodesAttacker) idle(config *tls.Config) string {
	var opened atomic.Int64
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for time.Now().Before(a.until) {
				raw, err := net.Dial("tcp", a.To)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				opened.Add(1)
				_ = raw.SetDeadline(a.until)
				if config != nil {
					_ = tls.Client(raw, config).Handshake()
				}
				_, _ = io.Copy(io.Discard, raw) // until it ends
				raw.Close()
				time.Sleep(nodesAttackPause)
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d connections", opened.Load())
}

// calls calls a method with so many connections at a time, again and again, in the name of a
// live node. A connection that breaks is opened again.
func (a *nodesAttacker) calls(config *tls.Config, at int, method string, body func() []byte) string {
	var mu sync.Mutex
	counts := map[string]int{}
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for time.Now().Before(a.until) {
				code := a.call(config, method, body())
				mu.Lock()
				counts[code]++
				mu.Unlock()
				time.Sleep(nodesAttackPause)
			}
		})
	}
	all.Wait()
	var texts []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%d %s", counts[code], code))
	}
	return strings.Join(texts, ", ")
}

func (a *nodesAttacker) call(config *tls.Config, method string, body []byte) string {
	conn, err := grpc.NewClient("passthrough:///"+a.To, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	ctx, cancel := context.WithDeadline(context.Background(), a.until)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "ostiary-log", a.Log, "ostiary-log-from", a.Live, "ostiary-log-to", a.ID, "ostiary-log-version-min", "1", "ostiary-log-version-max", "1")
	var out wrapperspb.BytesValue
	return status.Code(conn.Invoke(ctx, method, wrapperspb.Bytes(body), &out)).String()
}

// wrongToken returns a request to join with a token that no cluster has, and an id of 8 KiB.
func (a *nodesAttacker) wrongToken() []byte {
	secret := make([]byte, 16)
	_, _ = rand.Read(secret)
	b, err := msgpack.Marshal(map[string]any{"s": secret, "i": strings.Repeat("x", 8<<10), "r": 1})
	if err != nil {
		panic(err)
	}
	return b
}

// phantom returns a change of the members that adds a voter that does not exist, as a member
// asks the leader for it.
func phantom() []byte {
	b, err := msgpack.Marshal(map[string]any{"a": map[string]any{"ID": "phantom", "Address": "127.0.0.1:1", "Voter": true}, "r": "", "p": true})
	if err != nil {
		panic(err)
	}
	return b
}
