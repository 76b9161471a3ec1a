package quorum_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/link"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/raftlog"
)

// stranger returns a connection to a node without a certificate.
func (c *nodes) stranger(to *quorum.Quorum) *grpc.ClientConn {
	c.Helper()
	config := certificate.Joining(to.Files().Fingerprint(), "127.0.0.1")
	config.VerifyConnection = nil // a stranger need not know the authority
	conn, err := grpc.NewClient("passthrough:///"+to.Address(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { conn.Close() })
	return conn
}

// TestStranger calls the service of the consensus without a certificate, in the name of a
// member, with all that a member sends. The members stay, and no answer names the log or a node.
func TestStranger(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "")
	second := c.start(1, c.token(first))
	c.eventually("two nodes vote", func() bool { return voters(first) == 2 })
	before, err := first.Members()
	if err != nil {
		t.Fatal(err)
	}
	conn := c.stranger(first)
	change := map[string]any{"a": map[string]any{"ID": "phantom", "Address": "127.0.0.1:1", "Voter": true}, "r": "", "p": true}
	body, err := msgpack.Marshal(change)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"Term", "Index", "Members"} {
		for _, log := range []string{"x", first.LogName()} {
			ctx := metadata.AppendToOutgoingContext(c.ctx(), "ostiary-log", log, "ostiary-log-from", second.ID().String(), "ostiary-log-to", "",
				"ostiary-log-version-min", "1", "ostiary-log-version-max", "1")
			var out wrapperspb.BytesValue
			err := conn.Invoke(ctx, "/ostiary.raft.v1.Raft/"+method, wrapperspb.Bytes(body), &out)
			if status.Code(err) == codes.OK {
				t.Errorf("%s without a certificate, log %s: answered %q", method, log, out.GetValue())
			} else if text := err.Error(); containsAny(text, first.LogName(), first.ID().String(), second.ID().String()) {
				t.Errorf("%s without a certificate, log %s: the refusal names the log or a node: %s", method, log, text)
			}
		}
	}
	after, err := first.Members()
	if err != nil || !slices.Equal(before, after) {
		t.Errorf("the members are %+v, error %v; want %+v", after, err, before)
	}
	c.append(second, first)
}

// ask calls the service with which a node joins, without a certificate.
func (c *nodes) ask(conn *grpc.ClientConn, body []byte) error {
	var out wrapperspb.BytesValue
	return conn.Invoke(c.ctx(), "/ostiary.join.v1.Join/Join", wrapperspb.Bytes(body), &out)
}

// TestStrangerJoins sends requests to join that are wrong in several ways. None of them makes
// an entry of the log, and a large one is refused before it is read.
func TestStrangerJoins(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	patient := func(o *quorum.Options) { o.HolderLease = 10 * time.Second } // an election writes to the log too
	first := c.start(0, "", patient)
	second := c.start(1, c.token(first), patient)
	c.eventually("two nodes vote", func() bool { return voters(first) == 2 })
	c.append(second, first)
	body := func(secret []byte, id string) []byte {
		b, err := msgpack.Marshal(map[string]any{"s": secret, "i": id, "r": 1})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	id := strings.Repeat("0b", 16)
	for what, r := range map[string]struct {
		body []byte
		code codes.Code
		text string
	}{
		"garbage":       {[]byte{0xc1}, codes.InvalidArgument, "msgpack"},
		"wrong":         {body(make([]byte, raftlog.TokenBytes), id), codes.PermissionDenied, "it is not known"},
		"short":         {body(make([]byte, 5), id), codes.PermissionDenied, "5 bytes, expected 16"},
		"no id":         {body(make([]byte, raftlog.TokenBytes), ""), codes.InvalidArgument, "0 characters"},
		"long id":       {body(make([]byte, raftlog.TokenBytes), strings.Repeat("x", 10_000)), codes.InvalidArgument, "10000 characters"},
		"large message": {body(make([]byte, link.JoinBytesMax), id), codes.ResourceExhausted, "larger than max"},
		"claims much":   {[]byte{0x81, 0xa1, 's', 0xc6, 0xff, 0xff, 0xff, 0xff}, codes.InvalidArgument, "msgpack"},
	} {
		for _, to := range []*quorum.Quorum{first, second} {
			before := first.Syncs() + second.Syncs()
			err := c.ask(c.stranger(to), r.body)
			if status.Code(err) != r.code || !strings.Contains(err.Error(), r.text) {
				t.Errorf("%s: error %v, want %s with %q", what, err, r.code, r.text)
			}
			if after := first.Syncs() + second.Syncs(); after != before {
				t.Errorf("%s: %d writes of the log", what, after-before)
			}
		}
	}
	if !c.refused.have("it is not known", "127.0.0.1:") {
		t.Errorf("refused: %q", c.refused.all)
	}
	ctx := metadata.AppendToOutgoingContext(c.ctx(), "large", strings.Repeat("x", 8<<10))
	if err := c.stranger(first).Invoke(ctx, "/ostiary.join.v1.Join/Join", &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}); err == nil || status.Code(err) == codes.InvalidArgument {
		t.Errorf("headers of 8 KiB: error %v", err)
	}
	c.start(2, c.token(second))
}

// TestStrangersWait opens more idle connections without a certificate than a node keeps, before
// and after the handshake, from the address from which a node joins. The node joins, and the
// idle connections end.
func TestStrangersWait(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	first := c.start(0, "")
	token := c.token(first)
	var idle []net.Conn
	config := certificate.Joining(first.Files().Fingerprint(), "127.0.0.1")
	for i := range 2 * link.PendingPerAddress {
		raw, err := net.Dial("tcp", first.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		if idle = append(idle, raw); i%2 == 0 {
			continue
		}
		if err := tls.Client(raw, config).HandshakeContext(c.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	second := c.start(1, token)
	c.append(second, first)
	for _, conn := range idle {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("an idle connection without a certificate is open after a minute")
		}
	}
	if !c.refused.have("JoiningPerAddress") {
		t.Errorf("refused: %q", c.refused.all)
	}
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
