package sharedlogtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// Undone opens a log through a proxy that answers one statement in place of the server, as
// if the server had undone it in favor of another transaction: each statement that the
// methods of a log send, in turn. Every method must do what it does without that.
func (open SQL) Undone(t *testing.T, address string, refuse Refuse) {
	t.Helper()
	open.opens(t, address)
	p := newUndoing(t, address, refuse)
	l, err := open(t.Context(), p.address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var have left
	useAll(t, l, 1, &have) // statements are prepared
	for n := 1; ; n++ {
		end := p.count(n)
		useAll(t, l, n+1, &have)
		seen := end()
		if len(seen) < n && n < statementsLeast {
			t.Fatalf("%d statements, expected more: %q", len(seen), seen)
		}
		if len(seen) < n {
			return
		}
		if t.Failed() {
			t.Fatalf("statement %d was undone: %q", n, seen[n-1])
		}
	}
}

// statementsLeast is fewer than useAll sends.
const statementsLeast = 30

// UndoneOpen opens logs in new databases, and a statement of each is undone. A log is
// opened, or the error names the reason; and it can be opened then. It tries every step-th
// statement.
func (open SQL) UndoneOpen(t *testing.T, database func() string, refuse Refuse, reason string, step int) {
	t.Helper()
	for n := 1; ; n += step {
		address := database()
		p := newUndoing(t, address, refuse)
		end := p.count(n)
		l, err := open(t.Context(), p.address)
		if err == nil {
			l.Close()
		} else if !bytes.Contains([]byte(err.Error()), []byte(reason)) {
			t.Errorf("statement %d: error %v, expected %q", n, err, reason)
		}
		seen := end()
		if l, err = open(t.Context(), address); err != nil {
			t.Fatalf("after statement %d: %v", n, err)
		}
		useAll(t, l, 1, &left{})
		l.Close()
		if len(seen) < n {
			return
		}
	}
}

// left is what useAll has left in a log.
type left struct {
	cluster sharedlog.Cluster
	at      sharedlog.Position
	lease   sharedlog.Lease
}

// useAll calls the methods of a log with a node and a store of its own, and requires that
// each change was made once.
func useAll(t *testing.T, l sharedlog.Log, n int, have *left) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	id := func(k byte) (b [16]byte) {
		binary.BigEndian.PutUint32(b[:], uint32(n))
		b[15] = k
		return b
	}
	next := have.cluster
	next.ID, next.Epoch = sharedlog.ClusterID{1}, next.Epoch+1
	ok("SwapCluster", l.SwapCluster(ctx, have.cluster, next))
	have.cluster = next
	if have, err := l.Cluster(ctx); err != nil || have != next {
		t.Errorf("the cluster is %+v, error %v", have, err)
	}
	key := sharedlog.SecretKey{Store: id(1), Incarnation: storage.Incarnation{1}, Kind: "kind", Key: "key"}
	secret := func(body string) []sharedlog.SecretChange {
		return []sharedlog.SecretChange{{SecretKey: key, Digest: sha256.Sum256([]byte(body)), Body: []byte(body)}}
	}
	large := bytes.Repeat([]byte{byte(n)}, sharedlog.PartBytesMax+1)
	var records []sharedlog.Record
	at := have.at
	for _, a := range []struct {
		body    []byte
		secrets []sharedlog.SecretChange
	}{{[]byte("first"), nil}, {[]byte("second"), secret("old")}, {large, secret("new")}} {
		r := sharedlog.Record{Position: sharedlog.Position{Sequence: at.Sequence + 1, Hash: sha256.Sum256(fmt.Append(a.body[:5:5], n, at.Sequence))}, Bytes: a.body}
		ok("Append", l.Append(ctx, at, r, a.secrets))
		var conflict *sharedlog.ConflictError
		if err := l.Append(ctx, at, r, a.secrets); !errors.As(err, &conflict) || conflict.Head != r.Position {
			t.Errorf("the same append: error %v, expected a conflict with %s", err, r.Position)
		}
		at = r.Position
		records = append(records, r)
	}
	if head, err := l.Head(ctx); err != nil || head != at {
		t.Errorf("the head is %s, error %v, expected %s", head, err, at)
	}
	read := 0
	for r, err := range l.Read(ctx, have.at.Sequence+1) {
		if err != nil || read >= len(records) || r.Position != records[read].Position || !bytes.Equal(r.Bytes, records[read].Bytes) {
			t.Errorf("segment %d is %s, error %v", read+1, r.Position, err)
		}
		read++
	}
	if read != len(records) {
		t.Errorf("%d segments, expected %d", read, len(records))
	}
	if body, err := l.Secret(ctx, key, sha256.Sum256([]byte("new"))); err != nil || string(body) != "new" {
		t.Errorf("the secret is %q, error %v", body, err)
	}
	lease := have.lease
	for range 2 {
		next := sharedlog.Lease{Holder: id(2), Epoch: lease.Epoch + 1}
		ok("SwapLease", l.SwapLease(ctx, lease, next))
		if err := l.SwapLease(ctx, lease, next); !errors.Is(err, sharedlog.ErrSwap) {
			t.Errorf("the same swap of a lease: error %v", err)
		}
		lease = next
	}
	if have, err := l.Lease(ctx); err != nil || have != lease {
		t.Errorf("the lease is %+v, error %v", have, err)
	}
	node := sharedlog.NodeRecord{ID: id(3), Start: 1, Address: "here"}
	ok("Register", l.Register(ctx, node))
	node.Applied = 3
	ok("Report", l.Report(ctx, node))
	nodes, _, err := l.Nodes(ctx)
	if err != nil || len(nodes) != 1 || nodes[0].ID != node.ID || nodes[0].Applied != 3 {
		t.Errorf("the nodes are %+v, error %v", nodes, err)
	}
	ok("Forget", l.Forget(ctx, node.ID))
	for _, number := range []int{1, 2} {
		parts := func(yield func([]byte, error) bool) {
			_ = yield([]byte{byte(number)}, nil) && yield([]byte{byte(number), 2}, nil)
		}
		ok("PutSnapshot", l.PutSnapshot(ctx, records[number].Position, parts))
		at, have, err := l.Snapshot(ctx)
		var all [][]byte
		if err == nil {
			for p, partErr := range have {
				all, err = append(all, p), errors.Join(err, partErr)
			}
		}
		if err != nil || at != records[number].Position || !slices.EqualFunc(all, [][]byte{{byte(number)}, {byte(number), 2}}, bytes.Equal) {
			t.Errorf("the snapshot at %s is %v, error %v", at, all, err)
		}
	}
	ok("Trim", l.Trim(ctx, at.Sequence))
	restored := sharedlog.Position{Sequence: at.Sequence + 6, Hash: sha256.Sum256(fmt.Append(nil, n, "restored"))}
	ok("Restore", l.(sharedlog.Restorer).Restore(ctx, at, restored, secret("restored")))
	if head, err := l.Head(ctx); err != nil || head != restored {
		t.Errorf("the head is %s, error %v, expected %s", head, err, restored)
	}
	if body, err := l.Secret(ctx, key, sha256.Sum256([]byte("restored"))); err != nil || string(body) != "restored" {
		t.Errorf("the restored secret is %q, error %v", body, err)
	}
	have.at, have.lease = restored, lease
}

// Refuse carries what a client sends to a server. It calls statement with the text of each
// statement, and if that returns true, answers it itself: the server undid it. answer
// writes to the client.
type Refuse func(client io.Reader, server io.Writer, answer func([]byte) error, statement func(text string) bool) error

// undoing is a proxy in front of a database.
type undoing struct {
	address string // URL through the proxy
	mu      sync.Mutex
	seen    []string
	at      int  // the statement that is undone; 0 for none
	on      bool // statements are counted
}

// newUndoing opens a proxy for the server of a URL. It ends with the test.
func newUndoing(t *testing.T, address string, refuse Refuse) *undoing {
	t.Helper()
	p := &undoing{}
	p.address, _ = relay(t, address, func(client net.Conn, target string) { p.carry(client, target, refuse) }, func() {})
	return p
}

// carry carries one connection.
func (p *undoing) carry(client net.Conn, target string, refuse Refuse) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server)
		client.Close()
	})
	_ = refuse(client, server, func(b []byte) error {
		_, err := client.Write(b)
		return err
	}, p.statement)
	server.Close()
	back.Wait()
}

// statement notes a statement, and reports whether it is the one that is undone.
func (p *undoing) statement(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		return false
	}
	p.seen = append(p.seen, text[:min(len(text), 200)])
	return len(p.seen) == p.at
}

// count counts statements from now on, and lets one be undone. The function that it
// returns ends that, and returns the statements.
func (p *undoing) count(at int) (end func() []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.at, p.on = nil, at, true
	return func() []string {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.on = false
		return p.seen
	}
}
