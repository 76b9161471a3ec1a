//go:build linux

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// startTime is how long a node may take until it is ready.
const startTime = 2 * time.Minute

// ErrEnded means that the process of a node has ended.
var ErrEnded = errors.New("the process has ended")

// Node is a node of a fleet. Its methods are safe for concurrent use.
type Node struct {
	Number int
	// HTTP and GRPC are the addresses of its ports. They are the same for each start.
	HTTP, GRPC string
	// ToLog is its path to the database.
	ToLog *Path

	fleet           *Fleet
	program         string // of the next start
	host            string
	metrics         string
	listen, address string // for other nodes: where it listens, and what it advertises
	log             string // its own URL of the log

	mu    sync.Mutex
	run   *exec.Cmd     // the newest process; nil before the first
	ended chan struct{} // closed when it has ended
}

// Output returns the file with what the processes of the node have printed.
func (n *Node) Output() string { return n.fleet.file(fmt.Sprintf("node%d.log", n.Number)) }

// Use sets the program of the next starts, and returns the one before.
func (n *Node) Use(program string) (before string) {
	before, n.program = n.program, program
	return before
}

// Start starts the process and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Begin(); err != nil {
		return err
	}
	return n.WaitReady(ctx)
}

// Data returns the data folder of the node.
func (n *Node) Data() string { return n.fleet.file(fmt.Sprintf("node%d", n.Number)) }

// Begin starts the process.
func (n *Node) Begin() error {
	f := n.fleet
	out, err := os.OpenFile(n.Output(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	flags := []string{"serve", "--json", "--data", n.Data(),
		"--http", n.at(n.HTTP), "--grpc", n.at(n.GRPC), "--metrics", n.at(n.metrics), "--drain-time", "500ms",
		"--nodes-listen", n.at(n.listen), "--nodes-address", n.address}
	if f.hosts != nil {
		flags = append(flags, "--metrics-exposed")
	}
	part, variables, err := f.part(n)
	if err != nil {
		return err
	}
	switch {
	case f.options.Key != "":
		variables = append(variables, "OSTIARY_AUTH_KEYS="+f.options.Key)
	case f.hosts != nil:
		flags = append(flags, "--auth-anonymous")
	}
	flags = append(flags, part...)
	if f.options.Ports != nil {
		flags = append(flags, f.options.Ports(n, n.host)...)
	}
	run := exec.Command(n.program, append(flags, f.options.Flags...)...)
	run.Env = append(slices.DeleteFunc(os.Environ(), isSetting), variables...)
	run.Stdout, run.Stderr = out, out
	// The signals of a terminal are not for the nodes, which end with this process.
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	start := run.Start
	if f.hosts != nil {
		start = func() error { return f.hosts.Start(n.Number, run) }
	}
	if err := start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = run.Wait()
		close(ended)
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run, n.ended = run, ended
	return nil
}

// apart sets the addresses of a node on a host of its own.
func (n *Node) apart() (err error) {
	hosts := n.fleet.hosts
	for service, to := range map[string]*string{"http": &n.HTTP, "grpc": &n.GRPC, "metrics": &n.metrics} {
		if *to, err = hosts.Client(n.Number, service); err != nil {
			return err
		}
	}
	n.address, err = hosts.Reach(-1, n.Number, "nodes")
	n.listen = n.address
	return err
}

// name returns the host at which other nodes reach the node.
func (n *Node) name() string {
	host, _, _ := net.SplitHostPort(n.address)
	return host
}

// nearLog reports whether the node has a database on its own host, so that no path leads there.
func (n *Node) nearLog() bool {
	at, err := url.Parse(n.log)
	return n.fleet.hosts != nil && err == nil && at.Hostname() == n.name()
}

// at returns where a node listens for an address of clients, or of other nodes.
func (n *Node) at(address string) string {
	if n.fleet.hosts == nil {
		return address
	}
	_, port, _ := net.SplitHostPort(address) // of a host
	return net.JoinHostPort(n.fleet.hosts.Bind(n.Number), port)
}

// isSetting reports whether a variable may set a flag of the program.
func isSetting(variable string) bool {
	return len(variable) > 8 && variable[:8] == "OSTIARY_"
}

// WaitReady waits until the node serves. It fails with [ErrEnded] if the process ends.
func (n *Node) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		if n.Ready(ctx).Status == "SERVING" {
			return nil
		}
		select {
		case <-n.Ended():
			printed, _ := os.ReadFile(n.Output())
			return fmt.Errorf("node %d: %w: see %s, which ends with %q", n.Number, ErrEnded, n.Output(), printed[max(0, len(printed)-500):])
		case <-ctx.Done():
			return fmt.Errorf("node %d is not ready: %w: see %s", n.Number, ctx.Err(), n.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Readiness is what a node knows about the cluster, as /readyz prints it.
type Readiness struct {
	Status string
	Node   struct {
		Node, Role, Holder, Failure string
		Shown                       uint64
		ReadLeaseMillis             int64
		Version                     uint32
	}
}

// Ready asks the node. It returns the zero value if the node does not answer.
func (n *Node) Ready(ctx context.Context) (r Readiness) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.metrics+"/readyz", nil)
	if err != nil {
		return r
	}
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		return r
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&r)
	return r
}

// Process returns the id of the newest process; 0 before the first.
func (n *Node) Process() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run == nil {
		return 0
	}
	return n.run.Process.Pid
}

// Ended returns a channel that is closed when the newest process has ended.
func (n *Node) Ended() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return n.ended
}

// signal sends a signal to the process, if it runs.
func (n *Node) signal(s os.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != nil {
		_ = n.run.Process.Signal(s)
	}
}

// Kill ends the process at once.
func (n *Node) Kill() {
	n.signal(syscall.SIGKILL)
	<-n.Ended()
}

// Stop stops the process in order. It fails if the process ends with an error.
func (n *Node) Stop() error {
	n.signal(syscall.SIGTERM)
	<-n.Ended()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run != nil && !n.run.ProcessState.Success() {
		return fmt.Errorf("node %d ended with %s: see %s", n.Number, n.run.ProcessState, n.Output())
	}
	return nil
}

// Pause stops the process without its knowledge, until Resume.
func (n *Node) Pause() { n.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (n *Node) Resume() { n.signal(syscall.SIGCONT) }

// Command runs a command of a program on the log, or for a cluster without a database on
// this node. It returns what the command has printed.
func (n *Node) Command(ctx context.Context, program string, arguments ...string) (string, error) {
	where := []string{"--data", n.Data()}
	if n.log != "" {
		where = []string{"--log", n.log}
	}
	run := exec.CommandContext(ctx, program, append(slices.Clone(arguments), where...)...)
	run.Env = slices.DeleteFunc(os.Environ(), isSetting)
	out, err := run.CombinedOutput()
	return string(out), err
}
