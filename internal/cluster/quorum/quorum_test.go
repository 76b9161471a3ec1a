package quorum_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/storage"
)

// nodes are the parts of nodes in one process.
type nodes struct {
	*testing.T
	dir     string
	log     logged
	refused refusals
}

// refusals are what the nodes have refused, with the addresses of the other ends.
type refusals struct {
	mu  sync.Mutex
	all []string
}

func (r *refusals) add(remote, who string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s: %s", remote, who, why))
}

// have reports whether a refusal has all texts.
func (r *refusals) have(texts ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(one string) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(one, text) })
	})
}

// logged is what the nodes have logged.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func newNodes(t *testing.T) *nodes {
	c := &nodes{T: t, dir: t.TempDir()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.8000s", c.log.b.String())
		}
	})
	return c
}

func (c *nodes) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	c.Cleanup(cancel)
	return ctx
}

func (c *nodes) folder(i int) string { return filepath.Join(c.dir, fmt.Sprint("node", i)) }

// open opens node i on a free port.
func (c *nodes) open(i int, join string, change ...func(*quorum.Options)) (*quorum.Quorum, error) {
	c.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	o := quorum.Options{Folder: c.folder(i), Address: l.Addr().String(), Listener: l, Join: join, Refused: c.refused.add,
		Log: slog.New(slog.NewTextHandler(&c.log, nil)).With("node", i)}
	for _, f := range change {
		f(&o)
	}
	return quorum.Open(c.ctx(), o)
}

func (c *nodes) start(i int, join string, change ...func(*quorum.Options)) *quorum.Quorum {
	c.Helper()
	q, err := c.open(i, join, change...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { q.Close() })
	return q
}

func (c *nodes) token(q *quorum.Quorum) string {
	c.Helper()
	token, err := q.Token(c.ctx(), time.Hour)
	if err != nil {
		c.Fatal(err)
	}
	return token.String()
}

func (c *nodes) eventually(what string, ok func() bool) {
	c.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.Fatalf("not within a minute: %s", what)
		}
	}
}

// voters returns how many nodes vote, as a node knows.
func voters(q *quorum.Quorum) (n int) {
	members, _ := q.Members()
	for _, m := range members {
		if m.Voter {
			n++
		}
	}
	return n
}

// append appends a segment through a node, and requires that another one shows it.
func (c *nodes) append(through, shows *quorum.Quorum) {
	c.Helper()
	l, other := through.Log(), shows.Log()
	defer l.Close()
	defer other.Close()
	head, err := l.Head(c.ctx())
	if err != nil {
		c.Fatal(err)
	}
	s := sharedlog.Segment{Sequence: head.Sequence + 1, Previous: head.Hash, Writer: through.ID()}
	r, err := s.Record()
	if err == nil {
		err = sharedlog.Commit(c.ctx(), l, head, r, nil)
	}
	if err != nil {
		c.Fatal(err)
	}
	if have, err := other.Head(c.ctx()); err != nil || have != r.Position {
		c.Fatalf("the head is %s, error %v; want %s", have, err, r.Position)
	}
}

// TestJoin makes a cluster of six nodes with a token each, of which the first five vote,
// stops the first one, and lets a seventh join through another one.
func TestJoin(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "")
	second := c.start(1, c.token(first))
	for i := 2; i < 5; i++ {
		c.start(i, c.token(second))
	}
	c.eventually("five nodes vote", func() bool { return voters(first) == 5 })
	sixth := c.start(5, c.token(first))
	c.append(sixth, first)
	if n := voters(sixth); n != raftlog.VotersMax {
		t.Errorf("%d nodes vote", n)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(c.ctx(), first.ID()); err != nil {
		t.Fatal(err)
	}
	c.eventually("the sixth node votes in place of the first", func() bool { return voters(second) == 5 })
	seventh := c.start(6, c.token(sixth), func(o *quorum.Options) { o.NoVote = true })
	c.append(seventh, second)
	_, err := c.open(0, "")
	if !errors.Is(err, raftlog.ErrRefused) || !strings.Contains(err.Error(), first.ID().String()+" was removed") {
		t.Errorf("the removed node starts again: %v", err)
	}
}

// TestRefused requires that nodes that may not join are refused, with the reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "")
	used := c.token(first)
	second := c.start(1, used)
	other := newNodes(t)
	stranger := other.start(0, "")
	refused := func(what, join string, kind error, texts ...string) {
		t.Helper()
		_, err := c.open(9, join)
		if !errors.Is(err, kind) {
			t.Errorf("%s: error %v, want %v", what, err, kind)
			return
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: error %q does not contain %q", what, err, text)
			}
		}
	}
	refused("no token", "secret", raftlog.ErrToken, "it is no token", "ostiary node token")
	refused("used", used, raftlog.ErrToken, "node "+second.ID().String()+" has used it")
	parsed, err := quorum.ParseToken(c.token(first))
	if err != nil {
		t.Fatal(err)
	}
	wrong := *parsed
	wrong.Secret = make([]byte, raftlog.TokenBytes)
	refused("wrong", wrong.String(), raftlog.ErrToken, "it is not known")
	wrong = *parsed
	theirs, err := quorum.ParseToken(other.token(stranger))
	if err != nil {
		t.Fatal(err)
	}
	wrong.Addresses = theirs.Addresses
	if _, err := c.open(9, wrong.String()); err == nil || !strings.Contains(err.Error(), "another authority than the token's") {
		t.Errorf("a token at a node of another cluster: %v", err)
	}
	short, err := first.Token(c.ctx(), time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	refused("expired", short.String(), raftlog.ErrToken, "it has expired")
	if err := quorum.AskOlder(c.ctx(), parsed); !errors.Is(err, storage.ErrFormat) || !strings.Contains(err.Error(), "uses version 1 of the log, but the program of node "+strings.Repeat("0a", 16)+" reads up to 0") {
		t.Errorf("an older program: %v", err)
	}
	if _, err := c.open(9, parsed.String()); err != nil { // after all that, a good one works
		t.Fatal(err)
	}
}

// TestFolder requires that a node is restarted with another address, that a lost log is
// named, and that a lost certificate is made again.
func TestFolder(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "")
	second := c.start(1, c.token(first))
	third := c.start(2, c.token(first))
	c.eventually("three nodes vote", func() bool { return voters(first) == 3 })
	moved := func(q *quorum.Quorum, i int) *quorum.Quorum {
		t.Helper()
		id := q.ID()
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(c.folder(i), "node.crt")); err != nil {
			t.Fatal(err)
		}
		q = c.start(i, "ignored: the folder has joined")
		if q.ID() != id {
			t.Fatalf("node %s became %s", id, q.ID())
		}
		return q
	}
	second = moved(second, 1)
	c.append(second, third)
	first = moved(first, 0)
	c.append(first, second)
	members, err := third.Members()
	if err != nil || len(members) != 3 || voters(third) != 3 {
		t.Fatalf("the members are %+v, error %v; want three voters", members, err)
	}
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.folder(2), "log")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.open(2, c.token(first)); !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), "ostiary node remove "+third.ID().String()) {
		t.Errorf("a node without its log starts: %v", err)
	}
}

// TestHolderLease: a node that joins learns the holder lease of the cluster before its
// part of the log has it.
func TestHolderLease(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "", func(o *quorum.Options) { o.HolderLease = 2 * time.Second })
	c.start(1, c.token(first), func(o *quorum.Options) { o.HolderLease = time.Second })
	for i := range 2 {
		text, err := os.ReadFile(filepath.Join(c.folder(i), "node.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"holder_lease_ns": 2000000000`) {
			t.Errorf("node %d keeps %s", i, text)
		}
	}
}
