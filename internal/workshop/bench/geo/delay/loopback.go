package delay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

// Loopback are hosts without addresses of their own: all programs are on the loopback
// interface, and a proxy for each service carries the bytes of TCP connections after a
// delay. Connections, which cost a round trip, take one as well. Packets and their losses
// do not exist here.
type Loopback struct {
	way     Way
	hosts   int
	instant atomic.Bool // carry everything at once
	counts  lateness

	mu      sync.Mutex
	ports   map[string]int
	proxies map[string]*proxy
}

// OpenLoopback makes n hosts. way is the delay between them.
func OpenLoopback(n int, way Way) (*Loopback, error) {
	if n < 2 || n > HostsMax {
		return nil, fmt.Errorf("%d hosts: expected 2 to %d", n, HostsMax)
	}
	return &Loopback{way: way, hosts: n, ports: map[string]int{}, proxies: map[string]*proxy{}}, nil
}

// Kind describes the network.
func (l *Loopback) Kind() string { return "loopback, the bytes of TCP connections delayed by proxies" }

// Bind returns the address on which servers listen.
func (l *Loopback) Bind(int) string { return "127.0.0.1" }

// Port returns a free port for the service of a host.
func (l *Loopback) Port(host int, service string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.port(host, service)
}

func (l *Loopback) port(host int, service string) (int, error) {
	key := fmt.Sprint(host, " ", service)
	if l.ports[key] == 0 {
		free, err := servers.FreePort("127.0.0.1")
		if err != nil {
			return 0, err
		}
		_, port, _ := net.SplitHostPort(free)
		if l.ports[key], err = strconv.Atoi(port); err != nil {
			return 0, err
		}
	}
	return l.ports[key], nil
}

// Client returns the address of a service itself.
func (l *Loopback) Client(host int, service string) (string, error) {
	port, err := l.Port(host, service)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// Reach returns the address of a proxy for a service. If from is -1, its delay is the
// one from the host before.
func (l *Loopback) Reach(from, to int, service string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	port, err := l.port(to, service)
	if err != nil {
		return "", err
	}
	target := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if from == to {
		return target, nil
	}
	key := fmt.Sprint(from, " ", to, " ", service)
	if l.proxies[key] == nil {
		if from < 0 {
			from = (to + l.hosts - 1) % l.hosts
		}
		p, err := l.listen(target, from, to)
		if err != nil {
			return "", err
		}
		l.proxies[key] = p
	}
	return l.proxies[key].listener.Addr().String(), nil
}

// Dial connects to a service through its proxy.
func (l *Loopback) Dial(ctx context.Context, from, to int, service string) (net.Conn, error) {
	address, err := l.Reach(from, to, service)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// Forward opens a proxy for a server that no host has, at HOST:PORT, and returns the
// address of the proxy. Its delay is that of the way from one host to another.
func (l *Loopback) Forward(from, to int, target string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, err := l.listen(target, from, to)
	if err != nil {
		return "", err
	}
	l.proxies[p.listener.Addr().String()] = p
	return p.listener.Addr().String(), nil
}

// Start starts a program.
func (l *Loopback) Start(_ int, cmd *exec.Cmd) error { return cmd.Start() }

// Counters returns what the proxies have carried.
func (l *Loopback) Counters() Counters { return l.counts.counters() }

// Measure measures the proxies.
func (l *Loopback) Measure(ctx context.Context) (Measured, error) {
	var made []*proxy
	defer func() {
		for _, p := range made {
			p.close()
		}
	}()
	var mu sync.Mutex
	dial := func(ctx context.Context, from, to int, server net.Listener) (net.Conn, error) {
		p, err := l.listen(server.Addr().String(), from, to)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		made = append(made, p)
		mu.Unlock()
		var d net.Dialer
		return d.DialContext(ctx, "tcp", p.listener.Addr().String())
	}
	listen := func(int) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	return measure(ctx, l.hosts, l.way, dial, listen, l.instant.Store)
}

// Close ends the proxies.
func (l *Loopback) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, p := range l.proxies {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// proxy carries the connections to one service.
type proxy struct {
	of       *Loopback
	listener net.Listener
	target   string
	from, to int
	mu       sync.Mutex
	conns    map[net.Conn]bool // nil after close
	wait     sync.WaitGroup
}

func (l *Loopback) listen(target string, from, to int) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{of: l, listener: listener, target: target, from: from, to: to, conns: map[net.Conn]bool{}}
	p.wait.Go(p.accept)
	return p, nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wait.Go(func() { p.carry(client, time.Now()) })
	}
}

// own adds a connection to those that close ends. It returns false after close.
func (p *proxy) own(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

// carry carries one connection. The server's side is connected at once, and the first
// bytes take a round trip longer, as they do after a handshake.
func (p *proxy) carry(client net.Conn, began time.Time) {
	if !p.own(client) {
		return
	}
	defer client.Close()
	var d net.Dialer
	server, err := d.Dial("tcp", p.target)
	if err != nil || !p.own(server) {
		return
	}
	defer server.Close()
	there, back := p.of.way(p.from, p.to), p.of.way(p.to, p.from)
	open := began.Add(there + back)
	var both sync.WaitGroup
	both.Go(func() { p.copy(client, server, there, open) })
	both.Go(func() { p.copy(server, client, back, time.Time{}) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// copy carries one direction of a connection. No byte leaves before open.
func (p *proxy) copy(from, to net.Conn, after time.Duration, open time.Time) {
	q := newQueue(queueBytes, &p.of.counts, func(b []byte) {
		if len(b) == 0 {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
		if _, err := to.Write(b); err != nil {
			from.Close()
		}
	})
	defer q.end()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		wait := after + max(0, time.Until(open))
		if p.of.instant.Load() {
			wait = 0
		}
		if n > 0 {
			q.add(append([]byte(nil), buffer[:n]...), wait, true)
		}
		if err != nil {
			q.add(nil, wait, true) // the end of the stream
			q.drain()
			return
		}
	}
}

// close ends the proxy and its connections.
func (p *proxy) close() error {
	err := p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wait.Wait()
	return err
}
