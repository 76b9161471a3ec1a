//go:build linux

// Package fleet runs several real servers, as processes of the program, over one shared
// log: a [Fleet] of [Node]s. It kills, pauses, stops and starts them, and the ways between
// them and to the database are [Path]s that can be cut, held and delayed. [Play] plays
// clients and faults on a fleet, and judges what the clients saw; [Balancer] makes one
// server of the nodes. It needs Linux, and ends only processes that it has started.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/geo/delay"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Options are the settings of a fleet. Program, Folder, Log and Nodes are required.
type Options struct {
	// Program is the path of ostiary.
	Program string
	// Folder is an existing folder for data, certificates and the output of the nodes. It
	// is left as it is at the end.
	Folder string
	// Log is the shared log.
	Log Log
	// Nodes is the number of nodes.
	Nodes int
	// Flags are more flags of ostiary serve, the same for each node.
	Flags []string
	// Key is a preshared key, without which the nodes answer no client; "" asks for none.
	Key string
	// Apart, if it is not nil, puts each node and the database into network namespaces of
	// their own, so far from each other, one way: the faults between them lose and delay
	// packets then. It needs root, and a database that Log.Own starts there.
	Apart *time.Duration
	// Ports returns more flags of a node, with ports of its own on a host; nil adds none.
	Ports func(n *Node, host string) []string
}

// Log is the shared log of a fleet.
type Log struct {
	// Name is in reports, for example "postgres".
	Name string
	// URL is that of --log. Each node gets another host, which is its own path there. ""
	// means that the nodes keep the log themselves: --cluster.
	URL string
	// Own, if it is not nil, returns the URL of each node instead. hosts are those of the
	// nodes, and one more, if they are apart; nil otherwise.
	Own func(hosts delay.Hosts) []string
}

// Fleet is some nodes over one log.
type Fleet struct {
	options Options
	Nodes   []*Node
	relays  []*relay
	hosts   delay.Hosts // of nodes that are apart, and of the database; nil otherwise
	urls    []string    // of the log, for each node; nil if they keep it themselves
	mu      sync.Mutex
	between map[[2]int]*Path // from one node to another one; -1 is what is no node
}

// Start starts a fleet and waits until all nodes are ready. The caller calls Close, also
// after an error.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	f := &Fleet{options: o, between: map[[2]int]*Path{}}
	if o.Apart != nil {
		if err := f.putApart(); err != nil {
			return f, err
		}
	}
	switch {
	case o.Log.Own != nil:
		f.urls = o.Log.Own(f.hosts)
	case o.Log.URL != "":
		f.urls = slices.Repeat([]string{o.Log.URL}, o.Nodes)
	}
	for i := range o.Nodes {
		n, err := f.newNode(i)
		if err != nil {
			return f, err
		}
		f.Nodes = append(f.Nodes, n)
	}
	certificates := exec.CommandContext(ctx, o.Program, append([]string{"node", "certificate", "--folder", f.file("certificates")}, f.names()...)...)
	if out, err := certificates.CombinedOutput(); err != nil {
		return f, fmt.Errorf("ostiary node certificate: %w\n%s", err, out)
	}
	for _, n := range f.Nodes {
		if err := n.Start(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}

// putApart makes the hosts of nodes that are apart, and the one of the database.
func (f *Fleet) putApart() error {
	if f.options.Log.URL != "" {
		return errors.New("nodes that are apart need a database on a host of its own")
	}
	hosts, err := delay.OpenNamespaces(f.options.Nodes+1, func(from, to int) time.Duration {
		if from == f.options.Nodes { // the answers of the database
			from, to = to, from
		}
		fault := f.Between(from, to).Fault()
		if fault.Cut || fault.Hang {
			return -1
		}
		return *f.options.Apart + fault.Delay
	})
	if err != nil {
		return err
	}
	f.hosts = hosts
	return nil
}

func (f *Fleet) file(name string) string { return filepath.Join(f.options.Folder, name) }

// newNode prepares a node and its paths.
func (f *Fleet) newNode(number int) (*Node, error) {
	n := &Node{Number: number, fleet: f, program: f.options.Program, ToLog: f.Between(number, f.options.Nodes)}
	if f.urls != nil {
		n.log = f.urls[number]
	}
	if f.hosts != nil {
		return n, n.apart()
	}
	// Each node has a host of its own, whose ports no outgoing connection takes.
	n.host = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255, number+1)
	for _, to := range []*string{&n.HTTP, &n.GRPC, &n.metrics, &n.listen} {
		at, err := servers.FreePort(n.host)
		if err != nil {
			return nil, err
		}
		*to = at
	}
	if n.log != "" {
		at, err := url.Parse(n.log)
		if err != nil {
			return nil, err
		}
		if at.Host, err = f.relay(at.Host, func(net.Conn) *Path { return n.ToLog }); err != nil {
			return nil, err
		}
		n.log = at.String()
	}
	var err error
	n.address, err = f.relay(n.listen, func(c net.Conn) *Path { return f.Between(f.ownerOf(c), number) })
	return n, err
}

// names returns the names in the certificates of the nodes.
func (f *Fleet) names() []string {
	names := []string{}
	for _, n := range f.Nodes {
		names = append(names, n.name())
	}
	return slices.Compact(names)
}

// part returns the flags and variables with which a node takes part in the cluster.
func (f *Fleet) part(n *Node) (flags, variables []string, err error) {
	if n.log != "" {
		certificate := f.file("certificates/" + n.name())
		return []string{"--nodes-ca", f.file("certificates/ca.crt"),
			"--nodes-certificate", certificate + ".crt", "--nodes-key", certificate + ".key"}, []string{"OSTIARY_LOG=" + n.log}, nil
	}
	if _, err := os.Stat(n.Data()); n.Number == 0 || err == nil {
		return []string{"--cluster"}, nil, nil
	}
	token, err := exec.Command(f.options.Program, "node", "token", "--data", f.Nodes[0].Data()).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("ostiary node token: %w", err)
	}
	return nil, []string{"OSTIARY_JOIN=" + strings.TrimSpace(string(token))}, nil
}

func (f *Fleet) relay(to string, pathOf func(net.Conn) *Path) (address string, err error) {
	r, err := newRelay(to, pathOf)
	if err != nil {
		return "", err
	}
	f.relays = append(f.relays, r)
	return r.address(), nil
}

// ownerOf returns the number of the node that has opened a connection; -1 if none has.
func (f *Fleet) ownerOf(c net.Conn) int {
	return slices.IndexFunc(f.Nodes, func(n *Node) bool { return owns(n.Process(), c) })
}

// Between returns the path of the connections that one node opens to another one.
func (f *Fleet) Between(from, to int) *Path {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [2]int{from, to}
	if f.between[key] == nil {
		f.between[key] = newPath()
	}
	return f.between[key]
}

// Apart sets the fault of all paths between a node and the others, in both directions.
func (f *Fleet) Apart(n *Node, fault Fault) {
	for _, other := range f.Nodes {
		if other != n {
			f.Between(n.Number, other.Number).Set(fault)
			f.Between(other.Number, n.Number).Set(fault)
		}
	}
}

// Balance returns proxies that send each request to the next node: for HTTP and for gRPC.
func (f *Fleet) Balance() (web, rpc *Balancer) {
	var toWeb, toRPC []string
	for _, n := range f.Nodes {
		toWeb, toRPC = append(toWeb, n.HTTP), append(toRPC, n.GRPC)
	}
	return NewBalancer(toWeb, false), NewBalancer(toRPC, true)
}

// Heal ends the faults of all paths, and all pauses.
func (f *Fleet) Heal() {
	for _, n := range f.Nodes {
		n.ToLog.Set(Fault{})
		f.Apart(n, Fault{})
		n.Resume()
	}
}

// holder is the role of the node that writes.
const holder = "holder"

// Holder returns the node that writes; nil if none does now.
func (f *Fleet) Holder(ctx context.Context) *Node {
	for _, n := range f.Nodes {
		if n.Ready(ctx).Node.Role == holder {
			return n
		}
	}
	return nil
}

// Close kills all nodes and closes all paths. A process that panicked is an error.
func (f *Fleet) Close() error {
	var errs []error
	f.Heal()
	for _, n := range f.Nodes {
		n.Kill()
		if text, err := os.ReadFile(n.Output()); err == nil && strings.Contains(string(text), "panic: ") {
			errs = append(errs, fmt.Errorf("node %d panicked: see %s", n.Number, n.Output()))
		}
	}
	for _, r := range f.relays {
		_ = r.listener.Close()
	}
	if f.hosts != nil {
		errs = append(errs, f.hosts.Close())
	}
	return errors.Join(errs...)
}
