package quorum_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/storage"
)

// raftMethods are the methods of the service with which nodes keep the log.
var raftMethods = []string{"Term", "Index", "Members", "Propose", "Parts", "Connect"}

// given makes a node use certificates that its operator has made, for hosts, and listen at
// the last one. They name no node.
func (c *nodes) given(a *certificate.Authority, authority []byte, i int, hosts ...string) func(*quorum.Options) {
	c.Helper()
	p, err := a.Issue(hosts, time.Now(), time.Now().AddDate(0, 1, 0))
	if err != nil {
		c.Fatal(err)
	}
	return func(o *quorum.Options) {
		c.Helper()
		o.Files = c.files(p, authority)
		o.Listener.Close()
		if o.Listener, err = net.Listen("tcp", hosts[len(hosts)-1]+":0"); err != nil {
			c.Skip("this machine has no second address of loopback: ", err)
		}
		o.Address = o.Listener.Addr().String()
	}
}

// files are certificates of a node in a folder.
func (c *nodes) files(p certificate.Pair, authority []byte) *certificate.Files {
	c.Helper()
	dir := c.TempDir()
	crt, key, ca := filepath.Join(dir, "node.crt"), filepath.Join(dir, "node.key"), filepath.Join(dir, "ca.crt")
	err := p.Write(crt, key)
	if err == nil {
		err = os.WriteFile(ca, authority, 0o600)
	}
	if err != nil {
		c.Fatal(err)
	}
	return c.open3(crt, key, ca)
}

func (c *nodes) open3(crt, key, ca string) *certificate.Files {
	c.Helper()
	f, err := certificate.Open(crt, key, ca, nil)
	if err != nil {
		c.Fatal(err)
	}
	return f
}

// own are the certificates in the folder of a node.
func (c *nodes) own(i int) *certificate.Files {
	c.Helper()
	file := func(name string) string { return filepath.Join(c.folder(i), name) }
	return c.open3(file("node.crt"), file("node.key"), file("ca.crt"))
}

// address returns the address of a node, as another one knows it.
func (c *nodes) address(knows, of *quorum.Quorum) string {
	c.Helper()
	members, err := knows.Members()
	if err != nil {
		c.Fatal(err)
	}
	for _, m := range members {
		if m.ID == of.ID().String() {
			return m.Address
		}
	}
	c.Fatalf("node %s is no member", of.ID())
	return ""
}

// call calls a method of the service of a node, as the node with an id, and returns the
// status.
func (c *nodes) call(files *certificate.Files, to *quorum.Quorum, at, method, id string) *status.Status {
	c.Helper()
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		c.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(credentials.NewTLS(files.Dial(host))))
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close()
	text, err := os.ReadFile(filepath.Join(c.folder(0), "node.json"))
	if err != nil {
		c.Fatal(err)
	}
	var state struct{ Cluster string }
	if err := json.Unmarshal(text, &state); err != nil {
		c.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(c.ctx(), "ostiary-log", state.Cluster, "ostiary-log-from", id, "ostiary-log-to", to.ID().String(),
		"ostiary-log-version-min", "1", "ostiary-log-version-max", "1")
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/ostiary.raft.v1.Raft/"+method)
	if err == nil {
		_ = stream.SendMsg(wrapperspb.Bytes(make([]byte, 12)))
		_ = stream.CloseSend() // a connection that is admitted ends with it
		err = stream.RecvMsg(&wrapperspb.BytesValue{})
	}
	return status.Convert(err)
}

// TestRemovedCertificate requires that the certificate of a removed node has no power: with
// no id, also with that of a node that keeps the log, a call of a method is admitted.
func TestRemovedCertificate(t *testing.T) {
	t.Parallel()
	a, pair, err := certificate.NewAuthority(time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own authority %t", own), func(t *testing.T) {
			t.Parallel()
			c := newNodes(t)
			// Nodes with their own authority are on one host: the certificate names the node.
			files := func(i int) func(*quorum.Options) {
				if own {
					return func(*quorum.Options) {}
				}
				return c.given(a, pair.Certificate, i, fmt.Sprintf("127.0.0.%d", i+1))
			}
			first := c.start(0, "", files(0))
			second := c.start(1, c.token(first), files(1))
			var removed *certificate.Files
			third := c.start(2, c.token(first), files(2), func(o *quorum.Options) { removed = o.Files })
			if own {
				removed = c.own(2)
			}
			c.eventually("three nodes vote", func() bool { return voters(first) == 3 })
			at, from := c.address(second, first), c.address(second, second)
			if s := c.call(removed, first, at, "Term", third.ID().String()); s.Code() != codes.OK {
				t.Fatalf("a node that keeps the log is refused: %v", s)
			}
			if err := first.Remove(c.ctx(), third.ID()); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{second.ID().String(), third.ID().String(), storage.NodeID{7}.String()} {
				for _, method := range raftMethods {
					s := c.call(removed, first, at, method, id)
					if s.Code() != codes.PermissionDenied && (id != storage.NodeID{7}.String() || method != "Members") {
						t.Errorf("%s as node %s: %v", method, id, s)
					}
				}
			}
			// The node's own address in the message does not help either.
			if s := c.call(removed, second, from, "Term", first.ID().String()); s.Code() != codes.PermissionDenied || !strings.Contains(s.Message(), "certificate is refused") {
				t.Errorf("%v", s)
			}
			c.append(second, first)
		})
	}
}

// TestUnknownLeader requires that a node which was away follows a leader that has joined
// meanwhile, whose certificate names no node: another node knows its host.
func TestUnknownLeader(t *testing.T) {
	t.Parallel()
	a, pair, err := certificate.NewAuthority(time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := newNodes(t)
	files := func(i int) func(*quorum.Options) {
		return c.given(a, pair.Certificate, i, fmt.Sprintf("127.0.0.%d", i+1))
	}
	first := c.start(0, "", files(0))
	second := c.start(1, c.token(first), files(1))
	var address string
	away := c.start(2, c.token(first), files(2), func(o *quorum.Options) { address = o.Address })
	c.eventually("three nodes vote", func() bool { return voters(first) == 3 && voters(away) == 3 })
	if err := away.Close(); err != nil {
		t.Fatal(err)
	}
	leads := c.start(3, c.token(first), files(3))
	c.eventually("four nodes vote", func() bool { return voters(first) == 4 })
	leads.PreferLead(func() bool { return true })
	c.eventually("the new node leads", func() bool {
		members, err := second.Members()
		for _, m := range members {
			if m.ID == leads.ID().String() && m.Leader {
				return err == nil
			}
		}
		return false
	})
	back := c.start(2, "", files(2), func(o *quorum.Options) {
		o.Listener.Close()
		if o.Listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		o.Address = address
	})
	c.append(leads, back)
}
