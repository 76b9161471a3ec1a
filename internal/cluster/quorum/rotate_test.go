package quorum_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
)

// forged returns a certificate that the authority in the folder of a node makes for a node
// with an id.
func (c *nodes) forged(i int, id string) *certificate.Files {
	c.Helper()
	ca := c.read(i, "ca.crt")
	a, err := certificate.ReadAuthority(certificate.Pair{Certificate: ca, Key: c.read(i, "ca.key")})
	if err != nil {
		c.Fatal(err)
	}
	p, err := a.IssueNode(id, []string{"127.0.0.1"}, time.Now(), time.Now().AddDate(0, 1, 0))
	if err != nil {
		c.Fatal(err)
	}
	return c.files(p, ca)
}

// TestRotate replaces the authority of three nodes that run, after a fourth was removed whose
// folder has the key of the old one, and while a fifth is away: it is named, and nothing is
// changed without a word for it. It comes back with a token.
func TestRotate(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "")
	second, third := c.start(1, c.token(first)), c.start(2, c.token(first))
	gone, away := c.start(3, c.token(first)), c.start(4, c.token(first))
	c.eventually("five nodes vote", func() bool { return voters(first) == 5 })
	if err := errors.Join(gone.Close(), away.Close(), first.Remove(c.ctx(), gone.ID())); err != nil {
		t.Fatal(err)
	}
	old, at := c.token(second), c.address(first, second)
	forged := c.forged(3, third.ID().String())
	if s := c.call(forged, second, at, "Term", third.ID().String()); s.Code() != codes.OK {
		t.Fatalf("the key of the authority does not make a certificate: %v", s)
	}
	before := c.read(0, "ca.crt")

	_, err := second.Rotate(c.ctx(), false)
	if !errors.Is(err, quorum.ErrAway) || !strings.Contains(err.Error(), away.ID().String()) {
		t.Fatalf("with a node away: %v", err)
	}
	if now := c.read(0, "ca.crt"); !bytes.Equal(now, before) {
		t.Fatalf("the authority was changed to %s", now)
	}
	if _, err := first.Rotate(c.ctx(), true); err == nil || !strings.Contains(err.Error(), "node "+second.ID().String()+" replaces the authority") {
		t.Fatalf("two attempts at a time: %v", err)
	}
	done, err := second.Rotate(c.ctx(), true)
	if err != nil || len(done.Nodes) != 3 || len(done.Away) != 1 || done.Away[0] != away.ID().String() {
		t.Fatalf("replaced: %+v, error %v", done, err)
	}
	c.append(first, third)
	for i, q := range []*quorum.Quorum{first, second, third} {
		if s := c.call(forged, q, c.address(q, q), "Term", third.ID().String()); s.Code() != codes.Unavailable {
			t.Errorf("node %d accepts the old authority: %v", i, s)
		}
	}
	if _, err := c.open(8, old); err == nil || !strings.Contains(err.Error(), "another authority than the token's") {
		t.Errorf("a token of the old authority: %v", err)
	}
	// A restart finds what a rotation has left.
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	third = c.start(2, old)
	c.append(third, first)
	c.append(second, c.start(5, c.token(third)))
	back := c.start(4, c.token(first))
	c.append(back, second)
	if done, err = back.Rotate(c.ctx(), false); err != nil || len(done.Nodes) != 5 || len(done.Away) != 0 {
		t.Errorf("replaced again: %+v, error %v", done, err)
	}
	c.append(first, back)
}

// TestRotateStopped requires that a node starts wherever a step of the rotation ended, and
// that nodes which are at different steps keep the log.
func TestRotateStopped(t *testing.T) {
	t.Parallel()
	a, next, err := certificate.NewAuthority(time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := newNodes(t)
	first := c.start(0, "")
	second := c.start(1, c.token(first))
	c.eventually("two nodes vote", func() bool { return voters(first) == 2 })
	both, err := certificate.Join(c.read(0, "ca.crt"), next.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"both trust both", func() { c.write(0, "ca.crt", both); c.write(1, "ca.crt", both) }},
		{"one has the next key", func() { c.write(1, "ca.key", next.Key) }},
		{"the other one has it too", func() { c.write(0, "ca.key", next.Key) }},
		{"one trusts the next alone", func() { c.write(1, "ca.crt", next.Certificate) }},
	} {
		if err := errors.Join(first.Close(), second.Close()); err != nil {
			t.Fatal(err)
		}
		step.do()
		started := make(chan *quorum.Quorum, 1)
		go func() { started <- c.startAt(0, first) }()
		second = c.startAt(1, second)
		first = <-started
		c.append(first, second)
	}
	if f := c.own(1); f.Fingerprint() != a.Fingerprint() || f.Node() != second.ID().String() {
		t.Errorf("the certificate is of %x and names node %q", f.Fingerprint(), f.Node())
	}
}

// TestTokenOfAnother requires that a folder of a cluster is refused with the token of another
// one, by name, and that the token is not used up.
func TestTokenOfAnother(t *testing.T) {
	t.Parallel()
	c, other := newNodes(t), newNodes(t)
	first, stranger := c.start(0, ""), other.start(0, "")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	token := other.token(stranger)
	_, err := c.open(0, token)
	if !errors.Is(err, raftlog.ErrRefused) || !strings.Contains(err.Error(), "another cluster: expected a new, empty folder") {
		t.Fatalf("the folder of another cluster: %v", err)
	}
	other.start(1, token)
}

// read and write are for files in the folder of a node.
func (c *nodes) read(i int, name string) []byte {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.folder(i), name))
	if err != nil {
		c.Fatal(err)
	}
	return text
}

func (c *nodes) write(i int, name string, text []byte) {
	if err := os.WriteFile(filepath.Join(c.folder(i), name), text, 0o600); err != nil {
		c.Error(err)
	}
}

// startAt starts a node again at the address that it had.
func (c *nodes) startAt(i int, had *quorum.Quorum) *quorum.Quorum {
	address := had.Address()
	q, err := c.open(i, "", func(o *quorum.Options) {
		o.Listener.Close()
		c.eventually("the port is free again", func() bool {
			l, err := net.Listen("tcp", address)
			o.Listener, o.Address = l, address
			return err == nil
		})
	})
	if err != nil {
		c.Error(err)
		return nil
	}
	c.Cleanup(func() { q.Close() })
	return q
}
