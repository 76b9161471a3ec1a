package link

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage"
)

func listenAgain(t *testing.T, address string) (l net.Listener) {
	t.Helper()
	wait.Until(t, "the port is free again", func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", address)
		return err == nil
	})
	return l
}

// TestRefusedNodes requires that a node refuses calls of a node that is not of the
// cluster, and that both ends name the reason.
func TestRefusedNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change change
		texts  []string
	}{
		"another cluster": {change{options: func(o *Options) { o.Cluster = sharedlog.ClusterID{9} }}, []string{"belongs to cluster 0900", "this node to cluster 010203"}},
		"not registered":  {change{quiet: true}, []string{"is not registered"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			one, two := r.start(t, 1), r.start(t, 2, c.change)
			wants(t, two.refusal(t, one), lease.ErrPeer, c.texts...)
			if !one.refused.have(append(c.texts, two.self.ID.String())...) {
				t.Errorf("refused: %s", &one.refused)
			}
		})
	}
}

// TestVersions requires that nodes without a common version refuse each other, and name
// both ranges.
func TestVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	versions := func(min, max uint32) change {
		return change{options: func(o *Options) { o.versionMin, o.versionMax = min, max }}
	}
	old, middle, new := r.start(t, 1, versions(1, 2)), r.start(t, 2, versions(2, 3)), r.start(t, 3, versions(3, 4))
	wants(t, new.refusal(t, old), lease.ErrPeer, "it is newer: it speaks versions 3 to 4", "this node 1 to 2")
	wants(t, old.refusal(t, new), lease.ErrPeer, "it is older: it speaks versions 1 to 2", "this node 3 to 4")
	for _, n := range []*node{old, new} {
		n.follow(t, middle)
		middle.follow(t, n)
	}
}

// TestCopiedFolder requires that a node refuses one with its own id, and that a third
// one refuses the start that is not registered.
func TestCopiedFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, three := r.start(t, 1), r.start(t, 3)
	twin := r.start(t, 1, change{quiet: true})
	wants(t, twin.refusal(t, one), lease.ErrPeer, "has the id of this node: a data folder was copied")
	twin = r.start(t, 1, change{quiet: true, options: func(o *Options) { o.Self.Start = 5 }})
	wants(t, twin.refusal(t, three), lease.ErrPeer, "has start 5, and start 1 is registered", "copied")
}

// TestRefusedCertificates requires that certificates of another authority, expired ones
// and ones for another name are refused by the node that is called and by the one that
// calls, and that the errors name them.
func TestRefusedCertificates(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	one := r.start(t, 1)
	foreign := r.start(t, 2, change{ca: other.ca, pair: func() certificate.Pair { return r.pair(t, other.authority, "127.0.0.1") }})
	_ = foreign.refusal(t, one)
	wait.Until(t, "the node that is called names the authority", func() bool {
		return one.refused.have("certificate for 127.0.0.1 is signed by", other.authority.Name(), "expected", r.authority.Name(), "another cluster")
	})
	wants(t, one.refusal(t, foreign), nil, "certificate for 127.0.0.1 is signed by", other.authority.Name(), "another cluster")

	renamed := r.start(t, 3, change{
		quiet:   true,
		pair:    func() certificate.Pair { return r.pair(t, r.authority, "localhost") },
		options: func(o *Options) { o.Self.Address = "localhost" + strings.TrimPrefix(o.Self.Address, "127.0.0.1") },
	})
	registered := renamed.self
	registered.Address = "127.0.0.1" + strings.TrimPrefix(registered.Address, "localhost")
	r.register(t, registered)
	wants(t, renamed.refusal(t, one), lease.ErrPeer, "certificate for localhost is not for 127.0.0.1", renamed.self.ID.String())
	renamed.self = registered // as others see it
	wants(t, one.refusal(t, renamed), nil, "certificate for localhost is not for 127.0.0.1")
}

// TestOtherNode requires that a node whose certificate names it is refused under the id of
// another node of the same host, when it calls and when it is called, and that a removed
// node is refused as itself.
func TestOtherNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	named := func(id byte) func() certificate.Pair {
		return func() certificate.Pair {
			p, err := r.authority.IssueNode(storage.NodeID{id}.String(), []string{"127.0.0.1"}, time.Now(), time.Now().AddDate(0, 1, 0))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	one, two := r.start(t, 1, change{pair: named(1)}), r.start(t, 2, change{pair: named(2)})
	two.follow(t, one)
	liar := r.start(t, 3, change{quiet: true, pair: named(3), options: func(o *Options) { o.Self.ID = two.self.ID }})
	texts := []string{"node " + two.self.ID.String(), "certificate for 127.0.0.1 is that of node " + storage.NodeID{3}.String()}
	wants(t, liar.refusal(t, one), lease.ErrPeer, texts...)
	wants(t, one.refusal(t, liar), nil, texts[1:]...)

	if err := sharedlog.Remove(t.Context(), r.log, two.self.ID); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the removed node is refused", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		stream, err := two.Follow(ctx, one.self, two.hello(one))
		if err == nil {
			_, err = stream.Recv()
		}
		return errors.Is(err, lease.ErrPeer) && strings.Contains(err.Error(), "is not registered: it was removed")
	})
}

// TestExpires requires that a connection ends once the certificate of the other end has
// expired, and that the error names the certificate.
func TestExpires(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var later atomic.Int64
	one := r.start(t, 1, change{options: func(o *Options) {
		n := &node{files: t.TempDir()}
		n.put(t, r.pair(t, r.authority, "127.0.0.1"), r.ca)
		files, err := certificate.Open(n.file("crt"), n.file("key"), n.file("ca"), func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
		if err != nil {
			t.Fatal(err)
		}
		o.Files = files
	}})
	two := r.start(t, 2, change{pair: func() certificate.Pair {
		p, err := r.authority.Issue([]string{"127.0.0.1"}, time.Now(), time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}})
	stream, served := two.follow(t, one)
	one.refreshNow()
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
	later.Store(int64(2 * time.Hour))
	one.refreshNow()
	_, err := stream.Recv()
	wants(t, err, nil)
	if !one.refused.have("certificate for 127.0.0.1 is valid from", "renew it") {
		t.Errorf("refused: %s", &one.refused)
	}
	wants(t, one.refusal(t, two), nil, "certificate for 127.0.0.1 is valid from", "renew it")
}

// TestGarbage requires that bytes that are none of the protocol end only the connection
// on which they come, before and after the handshake.
func TestGarbage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	stream, served := two.follow(t, one)
	garbage := make([]byte, 1<<16)
	for i := range garbage {
		garbage[i] = byte(i * 7)
	}
	raw := dial(t, one)
	_, _ = raw.Write(garbage)
	ends(t, raw)
	conn, err := tls.LoadX509KeyPair(two.file("crt"), two.file("key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*tls.Config{
		{InsecureSkipVerify: true, NextProtos: []string{"h2"}}, // without a certificate
		{InsecureSkipVerify: true, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{conn}},
	} {
		client := tls.Client(dial(t, one), c)
		_, _ = client.Write(garbage)
		ends(t, client)
	}
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
}

func dial(t *testing.T, to *node) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", to.self.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ends requires that the other end closes a connection.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
		t.Error("the connection is open")
	}
}

// TestMalformed requires that messages with missing or wrong fields are refused with an
// error, and never panic.
func TestMalformed(t *testing.T) {
	t.Parallel()
	from := lease.Peer{ID: storage.NodeID{2}, Start: 1}
	hash := make([]byte, 32)
	whole := &wire.Hello{Cluster: make([]byte, 16), Node: peerOut(from), To: peerOut(from)}
	if _, err := helloIn(whole, from); err != nil {
		t.Fatal(err)
	}
	edit := func(f func(*wire.Hello)) *wire.Hello {
		m := proto.Clone(whole).(*wire.Hello)
		f(m)
		return m
	}
	for name, m := range map[string]*wire.Hello{
		"none": nil, "empty": {},
		"short id":      edit(func(m *wire.Hello) { m.Node.Id = m.Node.Id[:15] }),
		"another start": edit(func(m *wire.Hello) { m.Node.Start++ }),
		"long cluster":  edit(func(m *wire.Hello) { m.Cluster = append(m.Cluster, 0) }),
		"no to":         edit(func(m *wire.Hello) { m.To = nil }),
	} {
		if _, err := helloIn(m, from); err == nil {
			t.Errorf("hello, %s: no error", name)
		}
	}
	for _, m := range []*wire.FollowerMessage{{}, {Message: &wire.FollowerMessage_Hello{Hello: whole}}, {Message: &wire.FollowerMessage_Applied{Applied: &wire.Position{Hash: hash[:31]}}}} {
		if _, err := followerIn(m); err == nil {
			t.Errorf("%v: no error", m)
		}
	}
	for _, m := range []*wire.HolderMessage{{}, {Message: &wire.HolderMessage_Segment{Segment: &wire.Segment{}}}, {Message: &wire.HolderMessage_Grant{Grant: &wire.Grant{Head: &wire.Position{}}}}} {
		if _, err := holderIn(m); err == nil {
			t.Errorf("%v: no error", m)
		}
	}
	if _, err := handOverIn(&wire.HandOverRequest{}, from); err == nil {
		t.Error("an empty hand-over: no error")
	}
	if _, err := headIn(&wire.RequestHead{}); err == nil {
		t.Error("an empty head: no error")
	}
}

// TestOversized requires that a message above the limit ends its stream with an error
// that names the size, and nothing else.
func TestOversized(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	_, served := two.follow(t, one)
	big := lease.Segment{Passed: sharedlog.Passed{Record: sharedlog.Record{Bytes: make([]byte, MessageBytesMax+1)}}}
	wants(t, served.Send(big), nil, "larger than max")
	p, err := two.peer(one.self)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := p.client.Forward(p.call(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	as := headOut(forwarded)
	as.Request = &wire.RequestHead_Http{Http: &wire.HTTPRequest{Method: "POST", Target: "/"}}
	read := make(chan error, 1)
	one.http = readsBody(read)
	for _, m := range []*wire.ForwardRequest{{Part: &wire.ForwardRequest_Head{Head: as}}, {Part: &wire.ForwardRequest_Body{Body: make([]byte, PartBytesMax+1)}}} {
		if err := raw.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, <-read, lease.ErrPeer, "PartBytesMax")
	stream, served := two.follow(t, one)
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
}

// TestPending requires that connections that show no certificate neither keep a node
// out nor stay.
func TestPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	var idle []net.Conn
	for range PendingPerAddress + 8 {
		idle = append(idle, dial(t, one))
	}
	stream, served := two.follow(t, one)
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
	ends(t, idle[0]) // it had to go, or its time is over
	if !one.refused.have("PendingPerAddress") {
		t.Errorf("refused: %s", &one.refused)
	}
	ends(t, idle[len(idle)-1]) // its time is over
	one.transport.gate.mu.Lock()
	defer one.transport.gate.mu.Unlock()
	if n := len(one.transport.gate.open); n != 1 {
		t.Errorf("%d open connections, want that of the other node", n)
	}
}

// TestConnections requires that one certificate opens only so many connections.
func TestConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.start(t, 1), r.start(t, 2)
	pair, err := tls.LoadX509KeyPair(two.file("crt"), two.file("key"))
	if err != nil {
		t.Fatal(err)
	}
	open := func() *tls.Conn {
		c := tls.Client(dial(t, one), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair}})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i := range ConnectionsPerCertificate {
		open()
		wait.Until(t, "the connection counts", func() bool {
			one.transport.gate.mu.Lock()
			defer one.transport.gate.mu.Unlock()
			return len(one.transport.gate.open) == i+1
		})
	}
	ends(t, open())
	if !one.refused.have("ConnectionsPerCertificate") {
		t.Errorf("refused: %s", &one.refused)
	}
}

// TestReplayed requires that bytes that somebody on the way sends twice end the
// connection, and that the node connects again.
func TestReplayed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one := r.start(t, 1)
	proxy, replay := replayer(t, one.self.Address)
	seen := one.self // as a node sees it that is behind the proxy
	seen.Address = proxy
	two := r.start(t, 2)
	open := func() (lease.Stream, *served) {
		stream, err := two.Follow(t.Context(), seen, two.hello(one))
		if err != nil {
			t.Fatal(err)
		}
		return stream, <-one.served
	}
	stream, served := open()
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
	replay()
	_ = stream.Send(lease.Renew{Number: 2})
	for n := uint64(2); ; n++ {
		m, err := served.Recv()
		if err != nil {
			break
		}
		if m != (lease.Renew{Number: n}) {
			t.Fatalf("received %v, want number %d at most once", m, n)
		}
	}
	if _, err := stream.Recv(); err == nil {
		t.Fatal("the stream is open")
	}
	stream, served = open()
	pass(t, stream, served, []lease.Message{lease.Renew{Number: 1}})
}

// replayer starts a proxy on loopback. Once replay is called, it sends what comes next
// from the client twice.
func replayer(t *testing.T, to string) (address string, replay func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	twice := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			go func() { _, _ = io.Copy(c, s); c.Close() }()
			go func() {
				defer s.Close()
				b := make([]byte, 1<<16)
				for {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					_, _ = s.Write(b[:n])
					select {
					case <-twice:
						_, _ = s.Write(b[:n])
					default:
					}
				}
			}()
		}
	}()
	return l.Addr().String(), func() { twice <- struct{}{} }
}

// TestWrongAnswer requires that a node refuses an answer of another node than the one
// that it has called.
func TestWrongAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two, three := r.start(t, 1), r.start(t, 2), r.start(t, 3)
	answer, err := three.identity(two.self)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.verifyAnswer(answer, three.self); err != nil {
		t.Fatal(err)
	}
	wants(t, two.verifyAnswer(answer, one.self), lease.ErrPeer, three.self.ID.String(), "expected start 1 of node "+one.self.ID.String())
}
