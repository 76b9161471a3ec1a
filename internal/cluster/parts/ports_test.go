package parts

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/internal/cluster/quorum"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
	"github.com/ostiary/ostiary/internal/workshop/golden"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/storage/pebble"
)

// TestPorts calls every method of every service on the port of a node, and one that no
// service has, as callers of every kind, all of which name a live node, and compares who is
// admitted with testdata/ports.callers. The ports of the API are in testdata/routes.callers of
// cmd/ostiary/internal/serve.
func TestPorts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, own := range []bool{true, false} {
		p := newPorts(t, own)
		line := fmt.Sprintf("# %s\n%-32s", p.what, "method")
		for _, c := range p.callers {
			line += fmt.Sprintf(" %-17s", c.kind)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
		for _, method := range p.methods() {
			line := fmt.Sprintf("%-32s", strings.TrimPrefix(method, "/ostiary."))
			for _, c := range p.callers {
				line += fmt.Sprintf(" %-17s", p.call(c, method))
			}
			out.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	golden.Equal(t, "testdata/ports.callers", out.String())
}

// ports are three nodes, of which one was removed, and who calls the first one.
type ports struct {
	*testing.T
	what                 string
	first, live, removed *Parts
	logName              string // of the first node
	callers              []portCaller
}

// portCaller is a kind of caller: its certificate, and the node that it names.
type portCaller struct {
	kind   string
	config func(host string) *tls.Config
	as     lease.Peer
}

func newPorts(t *testing.T, own bool) *ports {
	p := &ports{T: t, what: "nodes that keep the log themselves"}
	a, pair, err := certificate.NewAuthority(time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	foreign, foreignPair, err := certificate.NewAuthority(time.Now(), time.Now().AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	tables := memorylog.New()
	join := ""
	var all []*Parts
	var files []*certificate.Files
	for i := range 3 {
		// Certificates of an operator name a host, and no node.
		host := "127.0.0.1"
		o := Options{Quorum: QuorumOptions{Folder: t.TempDir(), Join: join}}
		if !own {
			host = fmt.Sprintf("127.0.0.%d", i+1)
			o.Files = portFiles(t, a, pair.Certificate, host)
			o.Log = func(context.Context) (sharedlog.Log, error) { return tables.Open(), nil }
			p.what = "nodes with a log in a database"
		}
		if o.Local, err = pebble.Open(o.Quorum.Folder, pebble.Options{Copy: true, NoSync: true}); err != nil {
			t.Fatal(err)
		}
		if o.Listener, err = net.Listen("tcp", host+":0"); err != nil {
			t.Skip("this machine has no second address of loopback: ", err)
		}
		o.Address = o.Listener.Addr().String()
		n, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		all = append(all, n)
		f := o.Files
		if own {
			folder := filepath.Join(o.Quorum.Folder, quorum.FolderName)
			if f, err = certificate.Open(filepath.Join(folder, "node.crt"), filepath.Join(folder, "node.key"), filepath.Join(folder, "ca.crt"), nil); err != nil {
				t.Fatal(err)
			}
			token, err := all[0].Quorum.Token(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			join = token.String()
		}
		files = append(files, f)
	}
	p.first, p.live, p.removed = all[0], all[1], all[2]
	if own {
		var state struct{ Cluster string }
		text, err := os.ReadFile(filepath.Join(p.first.opts.Quorum.Folder, quorum.FolderName, "node.json"))
		if err == nil {
			err = json.Unmarshal(text, &state)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.logName = state.Cluster
	}
	p.remove(t)
	client := issuers.NewAuthority(t, "clients").Client("urn:client")
	p.callers = []portCaller{
		{"none", func(string) *tls.Config { return &tls.Config{} }, p.live.Self},
		{"other authority", portFiles(t, foreign, foreignPair.Certificate, "127.0.0.2").Dial, p.live.Self},
		{"caller of the API", func(string) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{client}} }, p.live.Self},
		{"node", files[1].Dial, p.live.Self},
		{"node as first", files[1].Dial, p.first.Self},
		{"removed", files[2].Dial, p.removed.Self},
		{"removed as node", files[2].Dial, p.live.Self},
	}
	// A node reads the registry every few seconds.
	wait.Until(t, "the removed node is refused", func() bool { return p.call(p.callers[5], wire.Link_HandOver_FullMethodName) == "refused" })
	return p
}

// remove removes a node, as the command does.
func (p *ports) remove(t *testing.T) {
	if err := p.first.Log.Forget(t.Context(), p.removed.Self.ID); err != nil {
		t.Fatal(err)
	}
	if p.first.Quorum == nil {
		return
	}
	wait.Until(t, "the node is removed", func() bool { return p.first.Quorum.Remove(t.Context(), p.removed.Self.ID) == nil })
}

// portFiles returns the certificates of a node for a host.
func portFiles(t *testing.T, a *certificate.Authority, authority []byte, host string) *certificate.Files {
	t.Helper()
	pair, err := a.Issue([]string{host}, time.Now(), time.Now().AddDate(0, 1, 0))
	dir := t.TempDir()
	crt, key, ca := filepath.Join(dir, "node.crt"), filepath.Join(dir, "node.key"), filepath.Join(dir, "ca.crt")
	if err == nil {
		err = errors.Join(pair.Write(crt, key), os.WriteFile(ca, authority, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := certificate.Open(crt, key, ca, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// methods returns all methods of the port of the first node.
func (p *ports) methods() []string {
	all := []string{"/ostiary.none.None/None"}
	nodes, joining := p.first.Link.Transport().Services()
	for _, services := range []map[string]grpc.ServiceInfo{nodes, joining} {
		for _, name := range slices.Sorted(maps.Keys(services)) {
			for _, m := range services[name].Methods {
				all = append(all, "/"+name+"/"+m.Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// call calls a method, and returns who has ended the call: the handshake, the port, which
// does not serve the method to this caller, the check of the caller, or what serves the method.
func (p *ports) call(c portCaller, method string) string {
	p.Helper()
	host, _, err := net.SplitHostPort(p.first.Self.Address)
	if err != nil {
		p.Fatal(err)
	}
	config := c.config(host).Clone()
	config.InsecureSkipVerify, config.VerifyConnection, config.NextProtos = true, nil, []string{"h2"} // a stranger trusts anybody
	conn, err := grpc.NewClient("passthrough:///"+p.first.Self.Address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		p.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	stream, err := conn.NewStream(p.headers(ctx, c.as), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err == nil {
		_ = stream.SendMsg(&emptypb.Empty{})
		_ = stream.CloseSend() // a connection that is admitted ends with it
		err = stream.RecvMsg(&emptypb.Empty{})
		if header, _ := stream.Header(); len(header.Get(identityHeader)) > 0 {
			return "SERVED" // the link names the node only to who it admits, and then refuses an empty message
		}
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return "handshake"
	case codes.Unimplemented:
		return "not served"
	case codes.PermissionDenied:
		return "refused"
	}
	return "SERVED"
}

const identityHeader = "ostiary-node-bin"

// headers returns ctx with what a node sends with each call, of both services.
func (p *ports) headers(ctx context.Context, as lease.Peer) context.Context {
	p.Helper()
	id, _ := p.first.Rules.Driver.Self()
	peer := func(n lease.Peer) *wire.Peer { return &wire.Peer{Id: n.ID[:], Start: n.Start, Address: n.Address} }
	identity, err := proto.Marshal(&wire.Identity{VersionMin: 1, VersionMax: 1, Cluster: id[:], From: peer(as), To: peer(p.first.Self)})
	if err != nil {
		p.Fatal(err)
	}
	return metadata.AppendToOutgoingContext(ctx, identityHeader, string(identity), "ostiary-log", p.logName, "ostiary-log-from", as.ID.String(),
		"ostiary-log-to", p.first.Self.ID.String(), "ostiary-log-version-min", "1", "ostiary-log-version-max", "1")
}
