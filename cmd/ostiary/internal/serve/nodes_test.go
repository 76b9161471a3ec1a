package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/cluster/clustertest"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/replica"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/kv"
	"github.com/ostiary/ostiary/storage/memory"
)

// testNodes are nodes of one cluster in one process: each has an engine on a replica of
// the same log, and a server with all doors. Which of them is the holder is set by the
// test.
type testNodes struct {
	t     *testing.T
	nodes []*testNode
	epoch atomic.Uint64
	mu    sync.Mutex
	// holder is the number of the holder, or -1. moved is closed and replaced when it
	// changes.
	holder int
	moved  chan struct{}
}

// testNode is one of them. It is the forwarder of its server.
type testNode struct {
	*everyDoor
	all     *testNodes
	number  int
	driver  *clustertest.Replica
	server  *server.Server
	keys    *server.Keys
	log     *bytes.Buffer // of the server, guarded by logging
	logging sync.Mutex
	http    string
	grpc    string
	served  atomic.Int64 // forwarded requests that it got
	next    atomic.Uint64
	waiting atomic.Int64 // calls of Target that wait for a holder
	begun   atomic.Int64 // forwarded requests for which a hand-over would wait
	// believes is true while the node takes itself for the holder, whatever the others say.
	believes atomic.Bool
	// appends is called before each append of the node while it is the holder; nil does
	// nothing.
	appends func()
	// fault is called with the number of each request that the node forwards, before
	// (sent is false) and after it was served. An error is what the sender gets.
	fault func(sent bool) error
}

// openNodes opens n nodes, of which the first is the holder. change changes the settings
// of each node; nil changes nothing.
func openNodes(t *testing.T, n int, change func(*DoorFlags, *server.Options)) *testNodes {
	t.Helper()
	all := &testNodes{t: t, holder: -1, moved: make(chan struct{})}
	tables, fernet := memorylog.New(), settings.NewKey()
	for i := range n {
		all.nodes = append(all.nodes, all.open(tables, i, fernet, change))
	}
	all.lead(0)
	return all
}

func (all *testNodes) open(tables *memorylog.Tables, i int, fernet settings.Key, change func(*DoorFlags, *server.Options)) *testNode {
	t := all.t
	n := &testNode{all: all, number: i, log: &bytes.Buffer{}}
	local, err := kv.New(memory.NewStore(), kv.Options{Copy: true})
	if err == nil {
		n.driver, err = clustertest.OpenReplica(t.Context(), tables.Open(), local, replica.Options{Leads: n.Leads, Gate: replica.Gate{MayAppend: n.mayAppend}})
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := ostiary.Open(context.Background(), ostiary.Options{Driver: n.driver, Conditions: openfga.Conditions{Inner: cel.New(cel.Options{})}, SecretKey: &[32]byte{1},
		Record: authz.RecordingOptions{Step: traceStep}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		n.driver.Close()
	})
	f := &DoorFlags{}
	f.keystone.Identity.Rounds = password.RoundsMin
	f.keystone.Keys = func(context.Context) ([]settings.Key, error) { return []settings.Key{fernet}, nil }
	f.keystone.ReceiptKeys = f.keystone.Keys
	f.keystone.Identity.Leads = n.Leads
	n.keys, err = server.NewKeys([]server.Key{{Name: "walker", Secret: "walker-key"}, {Name: "other", Secret: "other-key"}})
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{HTTP: "localhost:0", GRPC: "localhost:0", Keys: n.keys, Forwarder: n, Engine: e, AccessLog: true, DrainTime: -1, RequestTimeout: time.Minute,
		Log: slog.New(slog.NewTextHandler(lockedWriter{&n.logging, n.log}, nil))}
	if change != nil {
		change(f, &o)
	}
	n.everyDoor = everyDoorOf(t, e, f)
	o.Doors = n.doors
	if n.server, err = server.New(o); err == nil {
		err = n.server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.server.Stop() })
	for _, a := range n.server.Addresses() {
		switch a.Name {
		case "http":
			n.http = "http://" + a.Addr.String()
		case "grpc":
			n.grpc = a.Addr.String()
		}
	}
	return n
}

// lockedWriter is a buffer that several goroutines write.
type lockedWriter struct {
	mu *sync.Mutex
	to io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// logged returns what the server has logged.
func (n *testNode) logged() string {
	n.logging.Lock()
	defer n.logging.Unlock()
	return n.log.String()
}

// lead makes a node the holder; -1 is none.
func (all *testNodes) lead(number int) {
	all.t.Helper()
	all.mu.Lock()
	all.holder = -1
	all.mu.Unlock()
	if number >= 0 {
		if _, err := all.nodes[number].driver.Barrier(all.t.Context(), all.epoch.Add(1)); err != nil {
			all.t.Fatal(err)
		}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.holder = number
	close(all.moved)
	all.moved = make(chan struct{})
}

// at returns the holder, or -1, and a channel that is closed when it changes.
func (all *testNodes) at() (int, <-chan struct{}) {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.holder, all.moved
}

func (n *testNode) mayAppend(context.Context) (uint64, error) {
	if holder, _ := n.all.at(); holder == n.number && n.appends != nil {
		n.appends()
	}
	if holder, _ := n.all.at(); holder != n.number {
		n.believes.Store(false)
		return 0, storage.ErrNotHolder
	}
	return n.all.epoch.Load(), nil
}

// Begin implements [forward.Forwarder].
func (n *testNode) Begin(ctx context.Context) bool {
	if !n.Leads() {
		return false
	}
	n.begun.Add(1)
	context.AfterFunc(ctx, func() { n.begun.Add(-1) })
	return true
}

// Leads reports whether the node is the holder, as far as it knows.
func (n *testNode) Leads() bool {
	holder, _ := n.all.at()
	return holder == n.number || n.believes.Load()
}

// Target implements [forward.Forwarder].
func (n *testNode) Target(ctx context.Context) (forward.Target, bool, error) {
	for {
		holder, moved := n.all.at()
		switch {
		case holder == n.number || n.believes.Load():
			return nil, true, nil
		case holder >= 0:
			return &inProcess{from: n, to: n.all.nodes[holder]}, false, nil
		}
		n.waiting.Add(1)
		select {
		case <-moved:
			n.waiting.Add(-1)
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// Next implements [forward.Forwarder].
func (n *testNode) Next() (storage.RequestID, uint64) {
	return storage.RequestID{Node: n.driver.Node(), Number: n.next.Add(1) * storage.RequestWrites}, n.driver.AppliedSequence()
}

// inProcess is a target in the same process.
type inProcess struct{ from, to *testNode }

// Node implements [forward.Target].
func (p *inProcess) Node() string { return p.to.driver.Node().String() }

// HTTP implements [forward.Target].
func (p *inProcess) HTTP(w http.ResponseWriter, r *http.Request, as forward.Head) error {
	if f := p.from.fault; f != nil {
		if err := f(false); err != nil {
			return err
		}
	}
	sent, err := http.NewRequestWithContext(r.Context(), r.Method, r.URL.RequestURI(), r.Body)
	if err != nil {
		return err
	}
	sent.Host, sent.Header, sent.ContentLength = r.Host, r.Header.Clone(), r.ContentLength
	p.to.served.Add(1)
	if f := p.from.fault; f != nil {
		// The response is lost after the request was served.
		lost := &lostResponse{header: http.Header{}}
		if err := p.to.server.ServeForwarded(lost, sent, as); err != nil {
			return err
		}
		if err := f(true); err != nil {
			return err
		}
		return lost.copy(&waitingWriter{w, p, r.Context()})
	}
	return p.to.server.ServeForwarded(&waitingWriter{w, p, r.Context()}, sent, as)
}

// RPC implements [forward.Target].
func (p *inProcess) RPC(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error) {
	f := p.from.fault
	if f == nil {
		f = func(bool) error { return nil }
	}
	if err := f(false); err != nil {
		return forward.Answer{}, err
	}
	p.to.served.Add(1)
	a, err := p.to.server.InvokeForwarded(ctx, c, as)
	if err == nil {
		err = f(true)
	}
	if err == nil {
		err = p.wait(ctx)
	}
	return a, err
}

// wait waits until the first node shows what the holder has applied.
func (p *inProcess) wait(ctx context.Context) error {
	return p.from.driver.WaitShown(ctx, p.to.driver.Readable())
}

// waitingWriter waits before each part of a response until the first node shows what
// the holder has.
type waitingWriter struct {
	http.ResponseWriter
	*inProcess
	ctx context.Context
}

func (w *waitingWriter) WriteHeader(status int) {
	if w.wait(w.ctx) == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *waitingWriter) Write(b []byte) (int, error) {
	if err := w.wait(w.ctx); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(b)
}

func (w *waitingWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// lostResponse keeps a response.
type lostResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (l *lostResponse) Header() http.Header         { return l.header }
func (l *lostResponse) WriteHeader(status int)      { l.status = status }
func (l *lostResponse) Write(b []byte) (int, error) { return l.body.Write(b) }

func (l *lostResponse) copy(w http.ResponseWriter) error {
	for name, values := range l.header {
		w.Header()[name] = values
	}
	w.WriteHeader(l.status)
	_, err := w.Write(l.body.Bytes())
	return err
}

// send sends a request with the key of a caller to a node.
func (n *testNode) send(key, method, path string, body []byte, header http.Header) (*http.Response, string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.http+path, bytes.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return response, string(text)
}

// shows waits until a node shows everything that the holder has.
func (n *testNode) shows() {
	n.t.Helper()
	holder, _ := n.all.at()
	if err := n.driver.WaitApplied(n.t.Context(), n.all.nodes[holder].driver.AppliedSequence()); err != nil {
		n.t.Fatal(err)
	}
}
