package sharedlogtest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Way carries connections to a server, as a load balancer or a virtual address does.
type Way struct {
	// URL is the address of the log through the way.
	URL string

	mu     sync.Mutex
	target string
	delay  time.Duration
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

// Delay makes all that the server sends come later.
func (w *Way) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
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
	_, _ = io.Copy(server, client)
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
