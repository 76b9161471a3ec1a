package sharedlogtest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// Way carries connections to a server, as a load balancer or a virtual address does.
type Way struct {
	// URL is the address of the log through the way.
	URL string

	mu     sync.Mutex
	target string
	delay  time.Duration
	sent   int               // bytes, by all clients
	cutAt  int               // how many they send until the connections end; 0 is never
	open   map[net.Conn]bool // those of clients, and whether they get what the server sends
	heard  *sync.Cond
}

// NewWay opens a way to the server of a URL. It ends with the test.
func NewWay(t *testing.T, address string) *Way {
	t.Helper()
	w := &Way{open: map[net.Conn]bool{}}
	w.heard = sync.NewCond(&w.mu)
	var target string
	w.URL, target = relay(t, address, func(client net.Conn, _ string) { w.carry(client) }, func() { w.To("") })
	w.To(target)
	return w
}

// relay lets clients connect to a new port, at the URL through, instead of the server of a
// URL, target. carry carries a connection, and end ends them when the test ends.
func relay(t *testing.T, address string, carry func(client net.Conn, target string), end func()) (through, target string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target, u.Host = u.Host, listener.Addr().String()
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		end()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { carry(client, target) })
		}
	})
	return u.String(), target
}

// To ends the connections, and leads new ones to another server, HOST:PORT.
func (w *Way) To(target string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.target = target
	for client := range w.open {
		client.Close()
		w.open[client] = true
	}
	w.heard.Broadcast()
}

// Reset ends the connections as a server that has restarted does: what comes on them is refused.
func (w *Way) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for client := range w.open {
		if c, ok := client.(*net.TCPConn); ok {
			_ = c.SetLinger(0)
		}
		client.Close()
	}
}

// Delay makes all that the server sends come later.
func (w *Way) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Sent returns how many bytes the clients have sent.
func (w *Way) Sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// CutAfter ends the connections when the clients have sent so many more bytes; 0 never does. The
// rest of what they send is lost. New connections are carried. It reports whether the cut that was
// chosen before is still to come.
func (w *Way) CutAfter(bytes int) (toCome bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	toCome = w.cutAt > 0
	if w.cutAt = 0; bytes > 0 {
		w.cutAt = w.sent + bytes
	}
	return toCome
}

// Mute keeps back what the server sends on the connections that are open now. Each of them
// lives on.
func (w *Way) Mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for client := range w.open {
		w.open[client] = false
	}
}

// carry carries one connection.
func (w *Way) carry(client net.Conn) {
	defer client.Close()
	w.mu.Lock()
	target := w.target
	w.open[client] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, client)
	}()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(heardBy{w, client}, server)
		client.Close()
	})
	_, _ = io.Copy(sentBy{w, server}, client)
	server.Close()
	w.mu.Lock()
	w.open[client] = true // it has ended
	w.heard.Broadcast()
	w.mu.Unlock()
	back.Wait()
}

// heardBy writes to a client once it gets what the server sends.
type heardBy struct {
	w      *Way
	client net.Conn
}

func (h heardBy) Write(b []byte) (int, error) {
	h.w.mu.Lock()
	for !h.w.open[h.client] {
		h.w.heard.Wait()
	}
	delay := h.w.delay
	h.w.mu.Unlock()
	time.Sleep(delay)
	return h.client.Write(b)
}

// sentBy writes to the server what a client sends, up to the byte at which connections end.
type sentBy struct {
	w      *Way
	server net.Conn
}

func (s sentBy) Write(b []byte) (int, error) {
	s.w.mu.Lock()
	s.w.sent += len(b)
	lost := s.w.sent - s.w.cutAt
	cut, target := s.w.cutAt > 0 && lost >= 0, s.w.target
	if cut {
		s.w.cutAt = 0
	}
	s.w.mu.Unlock()
	if !cut {
		return s.server.Write(b)
	}
	_, _ = s.server.Write(b[:len(b)-lost])
	s.w.To(target)
	return 0, net.ErrClosed
}

// through opens a log through a new way to its database. Both end with the test.
func (open SQL) through(t *testing.T, url string) (*Way, sharedlog.Log) {
	t.Helper()
	way := NewWay(t, url)
	l, err := open(t.Context(), way.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return way, l
}
