package delay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Namespaces are hosts with a network namespace each. Between them run IP packets, over
// TUN devices that this process reads and writes; a client reaches each over a pair of
// Ethernet devices without delay. Everything goes away with the process.
type Namespaces struct {
	way    atomic.Pointer[Way]
	hosts  []*namespace
	block  int // which block of client addresses
	counts lateness
	links  []atomic.Pointer[queue] // from × hosts + to
	mu     sync.Mutex              // guards the making of links, and ports
	ports  map[string]int
	ended  bool
}

// namespace is one host.
type namespace struct {
	number int
	space  *os.File    // the namespace
	tun    *os.File    // the other end of its device
	jobs   chan func() // run on a thread in the namespace, which lives as long as the host
	read   chan struct{}
}

// mtu is the size of packets, as on Ethernet.
const mtu = 1500

// OpenNamespaces makes n hosts. way is the delay between them. It returns an error that
// wraps [ErrUnavailable] if the system or the user cannot have namespaces.
func OpenNamespaces(n int, way Way) (*Namespaces, error) {
	if n < 2 || n > HostsMax {
		return nil, fmt.Errorf("%d hosts: expected 2 to %d", n, HostsMax)
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: this needs root", ErrUnavailable)
	}
	if _, err := servers.Find("ip"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	block, err := freeBlock()
	if err != nil {
		return nil, err
	}
	all := &Namespaces{block: block, links: make([]atomic.Pointer[queue], n*n), ports: map[string]int{}}
	all.way.Store(&way)
	for i := range n {
		h := &namespace{number: i, jobs: make(chan func()), read: make(chan struct{})}
		made := make(chan error)
		go h.thread(made)
		if err = <-made; err == nil {
			all.hosts = append(all.hosts, h)
			err = all.connect(h)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("host %d: %w", i+1, err), all.Close())
		}
	}
	for _, h := range all.hosts {
		go all.forward(h)
	}
	return all, nil
}

// blocks is how many networks of this kind a machine can have at the same time.
const blocks = 4

// freeBlock returns a block of client addresses that no device of this machine has:
// 198.18.0.0/15 is reserved for measurements.
func freeBlock() (int, error) {
	used, err := net.InterfaceAddrs()
	if err != nil {
		return 0, err
	}
	for block := range blocks {
		_, want, _ := net.ParseCIDR(fmt.Sprintf("198.19.%d.0/18", block*64))
		free := true
		for _, a := range used {
			if ip, ok := a.(*net.IPNet); ok && want.Contains(ip.IP) {
				free = false
			}
		}
		if free {
			return block, nil
		}
	}
	return 0, fmt.Errorf("all %d blocks of 198.19.0.0/16 are used on this machine: other measurements run", blocks)
}

// thread makes a namespace on a thread of its own, and then runs jobs there. The thread
// lives until jobs is closed, so that a program that it has started can end with it.
func (h *namespace) thread(made chan<- error) {
	runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	} else if h.space, err = os.Open("/proc/thread-self/ns/net"); err == nil {
		if err = h.device(); err != nil {
			h.space.Close()
		}
	}
	made <- err
	if err != nil {
		return
	}
	for job := range h.jobs {
		job()
	}
}

// device makes the device of the delayed network, in the namespace of this thread.
func (h *namespace) device() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("%w: /dev/net/tun: %w", ErrUnavailable, err)
	}
	request, err := unix.NewIfreq("delayed")
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("%w: TUN device: %w", ErrUnavailable, err)
	}
	h.tun = os.NewFile(uintptr(fd), "tun")
	return errors.Join(ip("link", "set", "lo", "up"),
		ip("addr", "add", h.address()+"/16", "dev", "delayed"),
		ip("link", "set", "delayed", "mtu", strconv.Itoa(mtu), "txqueuelen", "10000", "up"))
}

func (h *namespace) address() string { return fmt.Sprintf("198.18.0.%d", h.number+1) }

// ip runs the command ip, in the namespace of this thread.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// connect makes the way of clients to a host.
func (n *Namespaces) connect(h *namespace) error {
	outside := n.outside(h)
	space := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), h.space.Fd())
	err := errors.Join(ip("link", "add", outside, "type", "veth", "peer", "name", "client", "netns", space),
		ip("addr", "add", n.client(h, 1)+"/24", "dev", outside), ip("link", "set", outside, "up"))
	if err != nil {
		return err
	}
	h.do(func() {
		err = errors.Join(ip("addr", "add", n.client(h, 2)+"/24", "dev", "client"), ip("link", "set", "client", "up"))
	})
	return err
}

// outside returns the name of the clients' device to a host.
func (n *Namespaces) outside(h *namespace) string {
	return fmt.Sprintf("ostiary%d-%d", n.block, h.number)
}

// client returns an address between clients and a host: 1 is the clients' end, 2 the
// host's.
func (n *Namespaces) client(h *namespace, end int) string {
	return fmt.Sprintf("198.19.%d.%d", n.block*64+h.number, end)
}

// do runs a job on the thread of the host.
func (h *namespace) do(job func()) {
	done := make(chan struct{})
	h.jobs <- func() {
		job()
		close(done)
	}
	<-done
}

// inside runs a job on a new thread in the namespace of a host. Sockets that it opens
// stay there.
func (h *namespace) inside(job func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Setns(int(h.space.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = job()
		}
		done <- err
	}()
	return <-done
}

// forward carries the packets that a host sends.
func (n *Namespaces) forward(h *namespace) {
	defer close(h.read)
	buffer := make([]byte, 1<<16)
	for {
		size, err := h.tun.Read(buffer)
		if err != nil {
			return // closed
		}
		to := destination(buffer[:size])
		if to < 0 || to >= len(n.hosts) {
			continue // of IPv6, or for no host
		}
		takes := (*n.way.Load())(h.number, to)
		if takes < 0 {
			continue
		}
		if q := n.link(h.number, to); q != nil {
			q.add(append([]byte(nil), buffer[:size]...), takes, false)
		}
	}
}

// destination returns the number of the host to which a packet goes, or -1.
func destination(p []byte) int {
	if len(p) < 20 || p[0]>>4 != 4 || binary.BigEndian.Uint16(p[16:]) != 198<<8|18 {
		return -1
	}
	return int(binary.BigEndian.Uint16(p[18:])) - 1
}

// link returns the queue from one host to another, nil after the end.
func (n *Namespaces) link(from, to int) *queue {
	at := &n.links[from*len(n.hosts)+to]
	if q := at.Load(); q != nil {
		return q
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if q := at.Load(); q != nil || n.ended {
		return q
	}
	tun := n.hosts[to].tun
	q := newQueue(queueBytes, &n.counts, func(p []byte) {
		if _, err := tun.Write(p); err != nil {
			n.counts.dropped.Add(1)
		}
	})
	at.Store(q)
	return q
}

// Kind describes the network.
func (n *Namespaces) Kind() string { return "network namespaces, packets delayed in user space" }

// Bind returns the address on which servers of a host listen: all of its own.
func (n *Namespaces) Bind(int) string { return "0.0.0.0" }

// portFirst is the first port of services.
const portFirst = 7000

// Port returns the port of a service, the same on each host.
func (n *Namespaces) Port(_ int, service string) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[service] == 0 {
		n.ports[service] = portFirst + 10*len(n.ports)
	}
	return n.ports[service], nil
}

// Reach returns the address of a service for other hosts.
func (n *Namespaces) Reach(_, to int, service string) (string, error) {
	port, err := n.Port(to, service)
	return net.JoinHostPort(n.hosts[to].address(), strconv.Itoa(port)), err
}

// Client returns the address of a service for clients.
func (n *Namespaces) Client(host int, service string) (string, error) {
	port, err := n.Port(host, service)
	return net.JoinHostPort(n.client(n.hosts[host], 2), strconv.Itoa(port)), err
}

// Dial connects from the namespace of a host to a service.
func (n *Namespaces) Dial(ctx context.Context, from, to int, service string) (net.Conn, error) {
	address, err := n.Reach(from, to, service)
	if err != nil {
		return nil, err
	}
	return n.dial(ctx, from, address)
}

// dial connects from the namespace of a host to an address.
func (n *Namespaces) dial(ctx context.Context, from int, address string) (c net.Conn, err error) {
	err = n.hosts[from].inside(func() (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, "tcp4", address)
		return err
	})
	return c, err
}

// Start starts a program on a host.
func (n *Namespaces) Start(host int, cmd *exec.Cmd) (err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	n.hosts[host].do(func() { err = cmd.Start() })
	return err
}

// Counters returns what the network has carried. What a device had no room for is in
// Dropped.
func (n *Namespaces) Counters() Counters {
	c := n.counts.counters()
	for _, h := range n.hosts {
		h.do(func() { c.Dropped += deviceDrops() })
	}
	return c
}

// deviceDrops returns how many packets the device of this thread's namespace has dropped
// on their way to this process.
func deviceDrops() int64 {
	text, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		if fields := strings.Fields(rest); ok && name == "delayed" && len(fields) > 11 {
			dropped, _ := strconv.ParseInt(fields[11], 10, 64) // of sent packets
			return dropped
		}
	}
	return 0
}

// Measure measures the network.
func (n *Namespaces) Measure(ctx context.Context) (Measured, error) {
	before := n.Counters()
	way := n.way.Load()
	dial := func(ctx context.Context, from, _ int, l net.Listener) (net.Conn, error) {
		return n.dial(ctx, from, l.Addr().String())
	}
	listen := func(host int) (l net.Listener, err error) {
		return l, n.hosts[host].inside(func() (err error) {
			l, err = net.Listen("tcp4", n.hosts[host].address()+":0")
			return err
		})
	}
	none := Way(func(int, int) time.Duration { return 0 })
	m, err := measure(ctx, len(n.hosts), *way, dial, listen, func(still bool) {
		if n.way.Store(way); still {
			n.way.Store(&none)
		}
	})
	m.Dropped = n.Counters().Dropped - before.Dropped
	return m, err
}

// Close removes the hosts.
func (n *Namespaces) Close() error {
	n.mu.Lock()
	n.ended = true
	n.mu.Unlock()
	for i := range n.links {
		if q := n.links[i].Load(); q != nil {
			q.end()
		}
	}
	var errs []error
	for _, h := range n.hosts {
		_ = ip("link", "del", n.outside(h)) // it goes away with the namespace as well, but later
		errs = append(errs, h.tun.Close(), h.space.Close())
		close(h.jobs)
	}
	return errors.Join(errs...)
}
