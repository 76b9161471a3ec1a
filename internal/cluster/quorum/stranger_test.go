package quorum_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
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

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
