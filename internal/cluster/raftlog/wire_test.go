package raftlog_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/internal/cluster/raftlog/wire"
)

// methods are those of the service, with the kinds of their requests and answers.
func methods() (all []string) {
	kind := map[bool]string{false: "one", true: "many"}
	service := wire.File_ostiary_raft_v1_raft_proto.Services().Get(0)
	for i := range service.Methods().Len() {
		m := service.Methods().Get(i)
		all = append(all, fmt.Sprintf("/%s/%s %s %s, %s %s", service.FullName(), m.Name(),
			kind[m.IsStreamingClient()], m.Input().FullName(), kind[m.IsStreamingServer()], m.Output().FullName()))
	}
	slices.Sort(all)
	return all
}

// TestWire: programs from before the service had a .proto file speak with this one.
func TestWire(t *testing.T) {
	t.Parallel()
	const b = "google.protobuf.BytesValue"
	want := []string{
		"/ostiary.raft.v1.Raft/Connect many " + b + ", many " + b,
		"/ostiary.raft.v1.Raft/Index one " + b + ", one " + b,
		"/ostiary.raft.v1.Raft/Members one " + b + ", one " + b,
		"/ostiary.raft.v1.Raft/Parts one " + b + ", many " + b,
		"/ostiary.raft.v1.Raft/Propose many " + b + ", one " + b,
		"/ostiary.raft.v1.Raft/Term one " + b + ", one " + b,
	}
	if have := methods(); !slices.Equal(have, want) {
		t.Errorf("the methods are %q, want %q", have, want)
	}
}

// TestAdmits requires that every method refuses a caller that names no node, and one of
// another log.
func TestAdmits(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	conn, err := f.dial(f.ctx(), f.nodes[0].address)
	if err != nil {
		t.Fatal(err)
	}
	stranger := []string{"ostiary-log", "x", "ostiary-log-from", "y", "ostiary-log-version-min", "1", "ostiary-log-version-max", "1"}
	for _, m := range wire.Raft_ServiceDesc.Methods {
		for _, headers := range [][]string{nil, stranger} {
			var out wrapperspb.BytesValue
			err := conn.Invoke(metadata.AppendToOutgoingContext(f.ctx(), headers...), "/"+wire.Raft_ServiceDesc.ServiceName+"/"+m.MethodName, &wrapperspb.BytesValue{}, &out)
			if status.Code(err).String() != "PermissionDenied" {
				t.Errorf("%s with %q: error %v", m.MethodName, headers, err)
			}
		}
	}
	for i := range wire.Raft_ServiceDesc.Streams {
		desc := &wire.Raft_ServiceDesc.Streams[i]
		for _, headers := range [][]string{nil, stranger} {
			stream, err := conn.NewStream(metadata.AppendToOutgoingContext(f.ctx(), headers...), desc, "/"+wire.Raft_ServiceDesc.ServiceName+"/"+desc.StreamName)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.SendMsg(&wrapperspb.BytesValue{})
			_ = stream.CloseSend()
			if err := stream.RecvMsg(&wrapperspb.BytesValue{}); status.Code(err).String() != "PermissionDenied" {
				t.Errorf("%s with %q: error %v", desc.StreamName, headers, err)
			}
		}
	}
}
