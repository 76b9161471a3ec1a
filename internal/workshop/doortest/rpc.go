package doortest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/ostiary/ostiary/door"
)

// rpcClient calls a door's gRPC services over a connection in memory.
type rpcClient struct{ conn *grpc.ClientConn }

func newRPCClient(t testing.TB, d *door.Door) *rpcClient {
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	for _, s := range d.Services {
		server.RegisterService(s.Desc, s.Impl)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///door", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-done
	})
	return &rpcClient{conn}
}

// sendRPC sends the request of a GRPC step.
func (p *player) sendRPC(st *step) (*response, error) {
	if p.rpc == nil {
		return nil, errors.New("the door has no gRPC services")
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(st.path, "/"), "/")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil, err
	}
	sd, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is not a service", service)
	}
	method := sd.Methods().ByName(protoreflect.Name(name))
	if method == nil {
		return nil, fmt.Errorf("%s has no method %s", service, name)
	}
	request := dynamicpb.NewMessage(method.Input())
	if body := p.fill(st.body); body != "" {
		if err := protojson.Unmarshal([]byte(body), request); err != nil {
			return nil, err
		}
	}
	ctx := context.Background()
	for _, h := range st.headers {
		ctx = metadata.AppendToOutgoingContext(ctx, h.name, p.fill(h.value))
	}
	return p.rpc.stream(ctx, st.path, method, request)
}

// stream calls a method and collects its responses. It treats a unary call as a
// stream with one response.
func (c *rpcClient) stream(ctx context.Context, path string, m protoreflect.MethodDescriptor, request *dynamicpb.Message) (*response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	desc := &grpc.StreamDesc{StreamName: string(m.Name()), ServerStreams: m.IsStreamingServer(), ClientStreams: m.IsStreamingClient()}
	s, err := c.conn.NewStream(ctx, desc, path)
	if err == nil {
		err = s.SendMsg(request)
	}
	if err == nil || err == io.EOF {
		err = s.CloseSend()
	}
	var lines []string
	for err == nil {
		got := dynamicpb.NewMessage(m.Output())
		if err = s.RecvMsg(got); err != nil {
			break
		}
		text, marshalErr := protojson.MarshalOptions{UseProtoNames: true}.Marshal(got)
		if marshalErr != nil {
			return nil, marshalErr
		}
		lines = append(lines, string(text))
		if !desc.ServerStreams {
			err = io.EOF
		}
	}
	out := &response{status: codes.OK.String(), header: http.Header{}}
	if err != io.EOF {
		failed := status.Convert(err)
		out.status = codeName(failed.Code())
		lines = append(lines, rpcError(failed))
	}
	if s != nil {
		if md, err := s.Header(); err == nil {
			addMetadata(out.header, md)
		}
		addMetadata(out.header, s.Trailer())
	}
	out.body = strings.Join(lines, "\n")
	return out, nil
}

// addMetadata adds gRPC metadata to headers.
func addMetadata(h http.Header, md metadata.MD) {
	for k, values := range md {
		for _, v := range values {
			h.Add(k, v)
		}
	}
}

// codeName returns a code's name, or its number for a code that a protocol
// defines itself.
func codeName(c codes.Code) string {
	if name := c.String(); !strings.Contains(name, "(") {
		return name
	}
	return strconv.Itoa(int(c))
}

// rpcError returns an error as the script's JSON.
func rpcError(s *status.Status) string {
	out := `{"message": ` + quote(s.Message())
	if details := s.Proto().GetDetails(); len(details) > 0 {
		var items []string
		for _, d := range details {
			text, err := protojson.Marshal(d)
			if err != nil {
				text = []byte(quote(d.GetTypeUrl()))
			}
			// protojson separates members by blanks that differ from build to build.
			var compact bytes.Buffer
			if json.Compact(&compact, text) == nil {
				text = compact.Bytes()
			}
			items = append(items, string(text))
		}
		out += `, "details": [` + strings.Join(items, ", ") + `]`
	}
	return out + "}"
}
