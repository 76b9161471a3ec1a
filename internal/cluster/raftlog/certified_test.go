package raftlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/raftlog"
	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
)

// asOlder changes requests to what a node of an older program reads: it does not know that
// the address of a member can be asked for.
func asOlder(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	if b, ok := request.(*wrapperspb.BytesValue); ok && method == wire.Raft_Members_FullMethodName {
		var fields map[string]any
		if err := msgpack.Unmarshal(b.Value, &fields); err != nil {
			return err
		}
		delete(fields, "k")
		value, err := msgpack.Marshal(fields)
		if err != nil {
			return err
		}
		request = wrapperspb.Bytes(value)
	}
	return call(ctx, method, request, answer, c, o...)
}

// TestJoinsOlder: a new node, which knows no member yet, joins nodes that do not answer where
// a member is, if the certificates of the callers are for an address that came with its token.
func TestJoinsOlder(t *testing.T) {
	t.Parallel()
	f := newSteadyFleet(t, 1)
	f.options = []grpc.DialOption{grpc.WithUnaryInterceptor(asOlder)}
	first := f.nodes[0]
	// The certificates of all callers name no node, and are for the host of the first one.
	certified := func(_ context.Context, id, address string) (bool, error) {
		if address != first.address {
			return false, errors.New("certificate names no node, and is not for " + address)
		}
		return false, nil
	}
	term := func(to *member, from string) error {
		conn, err := f.dial(f.ctx(), to.address)
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(f.ctx(), "ostiary-log", first.Cluster(), "ostiary-log-from", from, "ostiary-log-version-min", "1", "ostiary-log-version-max", "1")
		_, err = wire.NewRaftClient(conn).Term(ctx, &wrapperspb.BytesValue{})
		return err
	}
	f.startIn(1, "", f.folder(1), func(o *raftlog.Options) {
		o.Certified, o.Peers = certified, []string{first.address}
	})
	joins := f.nodes[1]
	if err := term(joins, first.ID()); err != nil {
		t.Errorf("a caller at an address of the token: %v", err)
	}
	f.startIn(2, "", f.folder(2), func(o *raftlog.Options) {
		o.Certified, o.Peers = certified, []string{joins.address}
	})
	if err := term(f.nodes[2], first.ID()); status.Code(err) != codes.Unavailable {
		t.Errorf("a caller at another address than that of the token: error %v", err)
	}

	if err := first.Admit(f.ctx(), f.token(0), joins.ID(), nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.ctx(), time.Minute)
	defer cancel()
	if err := first.Add(ctx, raftlog.Member{ID: joins.ID(), Address: joins.address, Voter: true}); err != nil {
		t.Fatal(err)
	}
	f.append(0, 1)
	if _, err := joins.Log().Head(ctx); err != nil {
		t.Fatal(err)
	}
	if err := term(joins, first.ID()); err != nil {
		t.Errorf("a member that the node knows: %v", err)
	}
	// It knows the members now, so that the token no longer counts.
	if err := term(joins, "another"); err == nil {
		t.Error("a node that is no member is admitted by its address alone")
	}
}
