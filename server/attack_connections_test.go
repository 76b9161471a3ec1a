package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// crowd fills a server with connections that are busy and show no credential.
type crowd struct {
	http, grpc    string // the addresses of the ports
	from          string // its own address; "" is the usual one
	public        string // the path of a public document
	guarded       string // a path that needs a key
	login         string // the path of a login
	mu            sync.Mutex
	conns         []net.Conn
	opened, ended atomic.Int64
	done          chan struct{}
	working       sync.WaitGroup
}

// occupant is a way to keep a connection busy without a key. open opens one.
type occupant struct {
	name string
	open func(c *crowd) (net.Conn, error)
	deaf bool // it reads nothing
}

var occupants = []occupant{
	{"health watches", (*crowd).watch, false},
	{"pipelined documents that are not read", (*crowd).unread, true},
	{"chunked bodies held back", func(c *crowd) (net.Conn, error) {
		return c.send("POST " + c.guarded + " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	}, false},
	{"small bodies held back", func(c *crowd) (net.Conn, error) {
		return c.send("POST " + c.guarded + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhello")
	}, false},
	{"pipelined requests without a key", func(c *crowd) (net.Conn, error) {
		return c.send(strings.Repeat("GET "+c.guarded+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 500))
	}, false},
	{"calls without a key", (*crowd).calls, false},
	{"logins held back", func(c *crowd) (net.Conn, error) {
		return c.send("POST " + c.login + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\nhello")
	}, false},
	{"new connections that send nothing", func(c *crowd) (net.Conn, error) { return c.send("") }, false},
}

// dial opens a connection.
func (c *crowd) dial(address string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	if c.from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.from)}
	}
	return d.Dial("tcp", address)
}

// send opens an HTTP connection and sends a text.
func (c *crowd) send(text string) (net.Conn, error) {
	conn, err := c.dial(c.http)
	if err == nil {
		conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = io.WriteString(conn, text)
	}
	return conn, err
}

// unread asks for a document again and again, and reads nothing.
func (c *crowd) unread() (net.Conn, error) {
	conn, err := c.dial(c.http)
	if err == nil {
		conn.(*net.TCPConn).SetReadBuffer(1024)
		conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		io.WriteString(conn, strings.Repeat("GET "+c.public+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 5000)) // the rest has no room
	}
	return conn, err
}

// rpc opens a gRPC connection.
func (c *crowd) rpc() (*rawRPC, error) {
	conn, err := c.dial(c.grpc)
	if err != nil {
		return nil, err
	}
	conn.SetWriteDeadline(time.Now().Add(time.Second))
	raw := newRaw(conn)
	io.WriteString(conn, http2.ClientPreface)
	return raw, raw.WriteSettings()
}

// watch opens a watch of health.
func (c *crowd) watch() (net.Conn, error) {
	raw, err := c.rpc()
	if err != nil {
		return nil, err
	}
	id, err := raw.begin("/grpc.health.v1.Health/Watch", "")
	if err == nil {
		err = raw.WriteData(id, true, make([]byte, 5))
	}
	return raw.Conn, err
}

// calls begins 60 calls without a key: from the fourth on, the refusals wait.
func (c *crowd) calls() (net.Conn, error) {
	raw, err := c.rpc()
	for i := 0; i < 60 && err == nil; i++ {
		_, err = raw.begin("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "")
	}
	if raw == nil {
		return nil, err
	}
	return raw.Conn, err
}

// fill opens n connections. With again, it opens another one for each that the server
// closes, until close is called.
func (c *crowd) fill(n int, o occupant, again bool) {
	c.done = make(chan struct{})
	var first sync.WaitGroup
	for range n {
		first.Add(1)
		c.working.Go(func() {
			ready := sync.OnceFunc(first.Done)
			defer ready()
			for !c.closed() {
				conn, err := o.open(c)
				if conn == nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				c.opened.Add(1)
				if err == nil && c.keep(conn) {
					ready()
					c.wait(conn, o.deaf)
				}
				conn.Close()
				c.ended.Add(1)
				if !again {
					return
				}
			}
		})
	}
	first.Wait()
}

// wait returns when the server has closed the connection. A deaf one finds that out by
// sending more.
func (c *crowd) wait(conn net.Conn, deaf bool) {
	if !deaf {
		io.Copy(io.Discard, conn)
		return
	}
	for !c.closed() {
		time.Sleep(50 * time.Millisecond)
		conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
		if _, err := io.WriteString(conn, "G"); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

// keep records a connection for close. It reports false, and closes it, after that.
func (c *crowd) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed() {
		conn.Close()
		return false
	}
	c.conns = append(c.conns, conn)
	return true
}

func (c *crowd) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// close closes all connections.
func (c *crowd) close() {
	c.mu.Lock()
	close(c.done)
	for _, conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	c.working.Wait()
}

// attackedWait is how long a client of a server under attack waits for an answer.
const attackedWait = 5 * time.Second

// served counts how many of n requests, each on a connection of its own, are answered
// with 200 in time.
func served(n int, url, key string, within time.Duration) int {
	answered := 0
	for range n {
		client := &http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
		req, _ := http.NewRequest("GET", url, nil)
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		if resp, err := client.Do(req); err == nil {
			var text bytes.Buffer
			if _, err := text.ReadFrom(resp.Body); err == nil && resp.StatusCode == 200 {
				answered++
			}
			resp.Body.Close()
		}
	}
	return answered
}

// kept is a client that keeps its connection.
type kept struct {
	http.Client
	header, value string // of each request
	dials         atomic.Int64
}

// keep returns a client whose requests have a header, and must be answered in time.
func keep(header, value string, within time.Duration) *kept {
	k := &kept{header: header, value: value}
	k.Client = http.Client{Timeout: within, Transport: &http.Transport{MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			k.dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}}
	return k
}

// answered reports whether a request is answered with 200 on the first connection.
func (k *kept) answered(url string) bool {
	req, _ := http.NewRequest("GET", url, nil)
	req.Header.Set(k.header, k.value)
	resp, err := k.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK && k.dials.Load() == 1
}

// token logs in to Identity.
func (v *victim) token(t *testing.T) string {
	resp, err := v.client.Post(v.url+v.http+"/v3/auth/tokens", "application/json", strings.NewReader(loginBody))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	return resp.Header.Get("X-Subject-Token")
}

// crowded returns the attack of an occupant: it fills the server with 1,400 connections,
// and counts the answers to others, before and meanwhile. With again, it opens each
// connection again that the server closes, at once.
func crowded(o occupant, from string, again bool) func(v *victim, t *testing.T) string {
	return func(v *victim, t *testing.T) string {
		c := &crowd{http: v.http, grpc: v.grpc, from: from, public: "/.well-known/authzen-configuration", guarded: "/stores", login: "/v3/auth/tokens"}
		user := keep("X-Auth-Token", v.token(t), attackedWait)
		count := func() string {
			identity := 0
			for range 10 {
				if user.answered(v.url + v.http + "/v3/auth/projects") {
					identity++
				}
			}
			return fmt.Sprintf("%d of 30 new connections with a key, %d of 10 /readyz, %d of 10 /metrics, %d of 10 on a kept connection of Identity",
				served(30, v.url+v.http+"/stores", attackKey, attackedWait), served(10, v.url+v.http+"/readyz", "", attackedWait), served(10, "http://"+v.metrics+"/metrics", "", attackedWait), identity)
		}
		quiet := count()
		c.fill(1400, o, again)
		time.Sleep(time.Second)
		during := count()
		time.Sleep(time.Until(v.until))
		text := fmt.Sprintf("unattacked: %s; attacked: %s; %d opened, %d ended", quiet, during, c.opened.Load(), c.ended.Load())
		c.close()
		return text
	}
}

// connectionAttacks are the rows of all occupants under a small bound of files, and of the
// first one without it. Each comes from the address of the other clients, and, opening
// connections again, from that address and from another one.
func connectionAttacks() []attack {
	all := []attack{{"1,400 busy connections, no key: " + occupants[0].name, 0, false, crowded(occupants[0], "", false), nil}}
	for _, o := range occupants {
		all = append(all, attack{"1,400 busy connections, no key, 1,024 files: " + o.name, 1024, false, crowded(o, "", false), nil},
			attack{"1,400 busy connections, opened again from another address, 1,024 files: " + o.name, 1024, false, crowded(o, "127.0.0.2", true), nil},
			attack{"1,400 busy connections, opened again from the same address, 1,024 files: " + o.name, 1024, false, crowded(o, "", true), nil})
	}
	return all
}
