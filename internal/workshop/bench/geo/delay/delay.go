// Package delay joins hosts on one machine by a network with a chosen delay, so that
// programs on them behave as if they were far apart. [Namespaces] gives each host a
// network namespace and carries IP packets between them through user space; it needs
// root and Linux. [Loopback] needs neither: it carries the bytes of TCP connections
// through proxies. Both are [Hosts].
//
// Queues are bounded: what does not fit is dropped or, by a proxy, waits, and is counted.
// Only the ways between hosts are delayed; a client outside reaches each host at once.
package delay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrUnavailable is returned by [OpenNamespaces] where namespaces cannot be made:
// without root, without /dev/net/tun, or on another system than Linux.
var ErrUnavailable = errors.New("network namespaces are not available")

// HostsMax bounds the number of hosts.
const HostsMax = 60

// Way returns the time that a packet takes from one host to another, one way; in
// [Namespaces] a negative one loses it. Hosts are numbered from 0. It is called often and
// concurrently.
type Way func(from, to int) time.Duration

// Hosts are the hosts of one network. Its methods may be called concurrently.
type Hosts interface {
	// Kind describes the network in a few words, for reports.
	Kind() string
	// Bind returns the address, without a port, on which a server of the host listens.
	Bind(host int) string
	// Port returns the port of a service of the host. The same name has the same port on
	// hosts with addresses of their own.
	Port(host int, service string) (int, error)
	// Reach returns HOST:PORT at which another host reaches a service, after the delay.
	// from is -1 if all hosts use the same address.
	Reach(from, to int, service string) (string, error)
	// Client returns HOST:PORT at which a client reaches a service without delay.
	Client(host int, service string) (string, error)
	// Dial connects from a host to a service of a host, with the delay of that way.
	Dial(ctx context.Context, from, to int, service string) (net.Conn, error)
	// Start starts a program on the host. The program ends if this process does.
	Start(host int, cmd *exec.Cmd) error
	// Counters returns what the network has carried since its start.
	Counters() Counters
	// Measure measures the network itself, over TCP. No other traffic should run.
	Measure(ctx context.Context) (Measured, error)
	// Close ends the network. Programs on it must have ended.
	Close() error
}

// Counters is what a network has carried.
type Counters struct {
	// Packets is the number of packets, or of pieces of streams, that arrived.
	Packets int64 `json:"packets"`
	// Bytes is their size, with the headers of packets.
	Bytes int64 `json:"bytes"`
	// Dropped is the number of packets that were lost because a queue was full.
	Dropped int64 `json:"dropped"`
	// LateMean is how much later than due packets were handed on, on average.
	LateMean time.Duration `json:"late_mean_ns"`
	// LateMax is the longest such time.
	LateMax time.Duration `json:"late_max_ns"`
}

// Less returns the counters since earlier ones. LateMax is that of the whole time.
func (c Counters) Less(earlier Counters) Counters {
	d := Counters{Packets: c.Packets - earlier.Packets, Bytes: c.Bytes - earlier.Bytes, Dropped: c.Dropped - earlier.Dropped, LateMax: c.LateMax}
	if d.Packets > 0 {
		d.LateMean = time.Duration((int64(c.LateMean)*c.Packets - int64(earlier.LateMean)*earlier.Packets) / d.Packets)
	}
	return d
}

// Measured is what [Hosts.Measure] found out about a network.
type Measured struct {
	// Hosts are the delays from host 0 to each other host, half of the median round trip
	// over TCP.
	Hosts []time.Duration `json:"hosts_ns"`
	// Expected are the chosen delays.
	Expected []time.Duration `json:"expected_ns"`
	// Ceiling is the most bytes per second that the network carries between two hosts
	// without a delay.
	Ceiling float64 `json:"ceiling_bytes_per_s"`
	// Dropped is the number of packets that were lost meanwhile.
	Dropped int64 `json:"dropped"`
}

// Wrong returns how a network differs from the chosen one, or "": a delay that is too
// short, or longer by more than a fifth and 5 ms, or lost packets.
func (m Measured) Wrong() string {
	for i, got := range m.Hosts {
		want := m.Expected[i]
		if got < want-want/100 || got > want+want/5+5*time.Millisecond {
			return fmt.Sprintf("the way to host %d takes %s, expected %s", i+1, got.Round(time.Microsecond), want)
		}
	}
	if m.Dropped > 0 {
		return fmt.Sprintf("%d packets were lost", m.Dropped)
	}
	return ""
}

// lateness collects how late packets are handed on.
type lateness struct{ packets, bytes, dropped, sum, max atomic.Int64 }

// carried counts a packet that was due at a time and is handed on now.
func (l *lateness) carried(size int, due time.Time) {
	l.packets.Add(1)
	l.bytes.Add(int64(size))
	late := int64(time.Since(due))
	l.sum.Add(late)
	for {
		old := l.max.Load()
		if late <= old || l.max.CompareAndSwap(old, late) {
			return
		}
	}
}

func (l *lateness) counters() Counters {
	c := Counters{Packets: l.packets.Load(), Bytes: l.bytes.Load(), Dropped: l.dropped.Load(), LateMax: time.Duration(l.max.Load())}
	if c.Packets > 0 {
		c.LateMean = time.Duration(l.sum.Load() / c.Packets)
	}
	return c
}

// roundTrips is the number of round trips to each host that measure takes the median of.
const roundTrips = 5

// ceilingBytes is how much measure sends to find the ceiling.
const ceilingBytes = 16 << 20

// measure measures a network. dial connects host from to the address of host to, and
// listen opens one. still is called with true to end the delays for a while.
func measure(ctx context.Context, hosts int, way Way, dial func(ctx context.Context, from, to int, l net.Listener) (net.Conn, error), listen func(host int) (net.Listener, error), still func(bool)) (m Measured, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m.Hosts, m.Expected = make([]time.Duration, hosts-1), make([]time.Duration, hosts-1)
	errs := make([]error, hosts-1)
	var wait sync.WaitGroup
	for to := 1; to < hosts; to++ {
		m.Expected[to-1] = (way(0, to) + way(to, 0)) / 2
		wait.Go(func() {
			errs[to-1] = echoed(ctx, to, dial, listen, func(c net.Conn) error {
				var times []time.Duration
				one := []byte{1}
				for range roundTrips {
					begin := time.Now()
					if _, err := c.Write(one); err != nil {
						return err
					}
					if _, err := io.ReadFull(c, one); err != nil {
						return err
					}
					times = append(times, time.Since(begin))
				}
				slices.Sort(times)
				m.Hosts[to-1] = times[len(times)/2] / 2
				return nil
			})
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return m, fmt.Errorf("measure the delay: %w", err)
	}
	still(true)
	defer still(false)
	return m, echoed(ctx, hosts-1, dial, listen, func(c net.Conn) error {
		begin := time.Now()
		sent := make(chan error, 1)
		go func() {
			_, err := io.Copy(c, io.LimitReader(zeros{}, ceilingBytes))
			sent <- err
		}()
		_, err := io.CopyN(io.Discard, c, ceilingBytes)
		if err = errors.Join(err, <-sent); err != nil {
			return fmt.Errorf("measure the ceiling: %w", err)
		}
		m.Ceiling = 2 * ceilingBytes / time.Since(begin).Seconds() // there and back
		return nil
	})
}

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// echoed calls use with a connection from host 0 to a server on another host that sends
// back what it gets.
func echoed(ctx context.Context, to int, dial func(context.Context, int, int, net.Listener) (net.Conn, error), listen func(int) (net.Listener, error), use func(net.Conn) error) error {
	l, err := listen(to)
	if err != nil {
		return err
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.Copy(c, c)
		c.Close()
	}()
	defer func() {
		l.Close()
		<-served
	}()
	c, err := dial(ctx, 0, to, l)
	if err != nil {
		return err
	}
	defer c.Close()
	if at, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(at); err != nil {
			return err
		}
	}
	return use(c)
}
