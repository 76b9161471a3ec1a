package link

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/cluster/lease"
	"github.com/ostiary/ostiary/internal/cluster/link/wire"
	"github.com/ostiary/ostiary/internal/cluster/sharedlog"
)

// BenchmarkRoundTrip measures what a link adds to gRPC, over TLS on loopback: a question
// and its answer on a stream, and a forwarded call of 300 bytes in both directions
// against a stream of gRPC that carries the same bytes.
func BenchmarkRoundTrip(b *testing.B) {
	r := newRig(b)
	one, two := r.start(b, 1), r.start(b, 2)
	one.call = func(_ context.Context, c forward.Call, _ forward.Head) (forward.Answer, error) {
		return forward.Answer{Message: c.Message}, nil
	}
	bare := bareClient(b, one, two)
	message := make([]byte, 300)
	b.Run("stream/link", func(b *testing.B) {
		stream, served := two.follow(b, one)
		defer stream.Close()
		go func() {
			for {
				m, err := served.Recv()
				if err != nil {
					return
				}
				_ = served.Send(lease.Grant{Number: m.(lease.Renew).Number})
			}
		}()
		for b.Loop() {
			if err := stream.Send(lease.Renew{Number: 1}); err != nil {
				b.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stream/bare", func(b *testing.B) {
		stream, err := bare.Follow(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := stream.Send(&wire.FollowerMessage{Message: &wire.FollowerMessage_Renew{Renew: &wire.Renew{Number: 1}}}); err != nil {
				b.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("forward/link", func(b *testing.B) {
		for b.Loop() {
			if _, err := two.Target(one.self).RPC(b.Context(), forward.Call{Method: "/a/b", Message: message}, forwarded); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("forward/bare", func(b *testing.B) {
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			stream, err := bare.Forward(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range []*wire.ForwardRequest{{Part: &wire.ForwardRequest_Head{Head: headOut(forwarded)}}, {Part: &wire.ForwardRequest_Body{Body: message}}} {
				if err := stream.Send(m); err != nil {
					b.Fatal(err)
				}
			}
			_ = stream.CloseSend()
			for range 3 {
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
			}
			cancel()
		}
	})
}

// bareClient returns a client of a server with nothing but gRPC and TLS.
func bareClient(b *testing.B, server, client *node) wire.LinkClient {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(server.opts.Files.Listen())))
	wire.RegisterLinkServer(s, bareService{})
	go func() { _ = s.Serve(l) }()
	b.Cleanup(s.Stop)
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(client.opts.Files.Dial("127.0.0.1"))))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return wire.NewLinkClient(c)
}

type bareService struct{ wire.UnimplementedLinkServer }

// Follow answers each message with a grant.
func (bareService) Follow(s grpc.BidiStreamingServer[wire.FollowerMessage, wire.HolderMessage]) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
		if err := s.Send(&wire.HolderMessage{Message: &wire.HolderMessage_Grant{Grant: &wire.Grant{Number: 1, Head: positionOut(sharedlog.Position{})}}}); err != nil {
			return err
		}
	}
}

// Forward reads a request and answers with the head, its body and the end.
func (bareService) Forward(s grpc.BidiStreamingServer[wire.ForwardRequest, wire.ForwardResponse]) error {
	var body []byte
	for {
		m, err := s.Recv()
		if err != nil {
			break
		}
		body = append(body, m.GetBody()...)
	}
	for _, m := range []*wire.ForwardResponse{{Part: &wire.ForwardResponse_Head{Head: &wire.ResponseHead{}}}, {Part: &wire.ForwardResponse_Body{Body: body}}, {Part: &wire.ForwardResponse_End{End: &wire.End{}}}} {
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}
