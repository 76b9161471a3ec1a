package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/storage"
)

// rig is a cluster whose nodes only have links.
type rig struct {
	*testing.T
	authority *certificate.Authority
	ca        []byte
	id        sharedlog.ClusterID
	log       *memorylog.Log
}

func newRig(t testing.TB) *rig {
	a, pair, err := certificate.NewAuthority(time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{authority: a, ca: pair.Certificate, id: sharedlog.ClusterID{1, 2, 3}, log: memorylog.New().Open()}
	r.T, _ = t.(*testing.T)
	return r
}

// node is one of its nodes.
type node struct {
	*Link
	self    lease.Peer
	files   string // folder
	refused refusals
	shown   atomic.Uint64
	stopped atomic.Pointer[error] // why the node has stopped serving
	served  chan *served          // streams that were opened to it

	mu       sync.Mutex
	takeOver func(lease.HandOver) error
	http     func(w http.ResponseWriter, r *http.Request, as forward.Head) error
	call     func(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error)
}

// served is a stream at the holder.
type served struct {
	lease.Stream
	from  lease.Peer
	hello lease.Hello
	end   chan error // what Serve returns
}

// refusals are the reasons why a node has refused others.
type refusals struct {
	mu  sync.Mutex
	all []string
}

func (r *refusals) add(remote, who string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s", who, why))
}

func (r *refusals) have(texts ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.all {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(s, text)
		}
		if all {
			return true
		}
	}
	return false
}

func (r *refusals) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, "\n")
}

// change changes a node before it starts.
type change struct {
	options func(*Options)
	pair    func() certificate.Pair // its certificate
	ca      []byte                  // what it trusts
	quiet   bool                    // it is not registered
}

// start starts a node with an id on a free port of loopback.
func (r *rig) start(t testing.TB, id byte, changes ...change) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var c change
	if len(changes) > 0 {
		c = changes[0]
	}
	n := &node{self: lease.Peer{ID: storage.NodeID{id}, Start: 1, Address: l.Addr().String()}, files: t.TempDir(), served: make(chan *served, 16)}
	pair := r.pair(t, r.authority, "127.0.0.1")
	if c.pair != nil {
		pair = c.pair()
	}
	n.put(t, pair, append(append([]byte{}, r.ca...), c.ca...))
	files, err := certificate.Open(n.file("crt"), n.file("key"), n.file("ca"), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Self: n.self, Cluster: r.id, Registry: r.log, Files: files, Listener: l, Refused: n.refused.add}
	if c.options != nil {
		c.options(&o)
	}
	n.self = o.Self
	if !c.quiet {
		r.register(t, n.self)
	}
	if n.Link, err = New(o); err != nil {
		t.Fatal(err)
	}
	n.Attach(n, n)
	t.Cleanup(func() { n.Link.Close() })
	return n
}

func (n *node) file(name string) string { return filepath.Join(n.files, name) }

// put writes the files of a node.
func (n *node) put(t testing.TB, p certificate.Pair, ca []byte) {
	t.Helper()
	for name, text := range map[string][]byte{"crt": p.Certificate, "key": p.Key, "ca": ca} {
		if err := os.WriteFile(n.file(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *rig) pair(t testing.TB, a *certificate.Authority, names ...string) certificate.Pair {
	t.Helper()
	p, err := a.Issue(names, time.Now(), time.Now().AddDate(0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (r *rig) register(t testing.TB, p lease.Peer) {
	t.Helper()
	if err := r.log.Register(context.Background(), sharedlog.NodeRecord{ID: p.ID, Start: p.Start, Address: p.Address}); err != nil {
		t.Fatal(err)
	}
}

// hello is what a node says to another one.
func (n *node) hello(to *node) lease.Hello {
	return lease.Hello{Version: lease.Version, Cluster: n.opts.Cluster, Node: n.self, To: to.self, Epoch: 7,
		Settings: sharedlog.Settings{HolderLease: time.Minute, ReadLease: 3, Acknowledge: sharedlog.AcknowledgeLocal}}
}

// follow opens a stream and returns both ends.
func (n *node) follow(t testing.TB, to *node) (lease.Stream, *served) {
	t.Helper()
	stream, err := n.Follow(t.Context(), to.self, n.hello(to))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case s := <-to.served:
		return stream, s
	case <-time.After(time.Minute):
		t.Fatalf("the stream did not arrive; refused: %s", &to.refused)
	}
	return nil, nil
}

// refusal returns the error of a stream that the other end refuses.
func (n *node) refusal(t *testing.T, to *node) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := n.Follow(ctx, to.self, n.hello(to))
	if err == nil {
		_, err = stream.Recv()
	}
	if err == nil || ctx.Err() != nil {
		t.Fatalf("the stream was not refused: %v", err)
	}
	return err
}

// Serve implements [Keeper].
func (n *node) Serve(ctx context.Context, stream lease.Stream, from lease.Peer, hello lease.Hello) error {
	s := &served{stream, from, hello, make(chan error, 1)}
	n.served <- s
	select {
	case err := <-s.end:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TakeOver implements [Keeper].
func (n *node) TakeOver(_ context.Context, _ lease.Peer, h lease.HandOver) error {
	return n.takeOver(h)
}

// Reached implements [Keeper].
func (n *node) Reached() (uint64, error) {
	if p := n.stopped.Load(); p != nil {
		return n.shown.Load(), *p
	}
	return n.shown.Load(), nil
}

// WaitShown implements [Keeper].
func (n *node) WaitShown(ctx context.Context, sequence uint64) error {
	for n.shown.Load() < sequence {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ServeForwarded implements [Receiver].
func (n *node) ServeForwarded(w http.ResponseWriter, r *http.Request, as forward.Head) error {
	return n.http(w, r, as)
}

// InvokeForwarded implements [Receiver].
func (n *node) InvokeForwarded(ctx context.Context, c forward.Call, as forward.Head) (forward.Answer, error) {
	return n.call(ctx, c, as)
}

// wants requires that err wraps kind, if it is not nil, and has all texts.
func wants(t *testing.T, err, kind error, texts ...string) {
	t.Helper()
	if err == nil || kind != nil && !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}
