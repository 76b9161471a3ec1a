package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/server"
)

// TestBusyConnections fills the places of connections without an accepted request, and
// those of their address, with busy ones, in each way that needs no key. Meanwhile, each
// new connection of a caller with a key is served, over HTTP and gRPC, and so are health
// and metrics. Connections that have shown a key or a token are kept, with their streams.
func TestBusyConnections(t *testing.T) {
	for _, perAddress := range []int{0, 160} {
		for _, o := range occupants {
			t.Run(fmt.Sprintf("%s, %d per address", o.name, perAddress), func(t *testing.T) {
				busyConnections(t, o, perAddress)
			})
		}
	}
}

func busyConnections(t *testing.T, o occupant, perAddress int) {
	r := start(t, server.Options{ConnectionsMax: 160, ConnectionsPerAddress: perAddress, Keys: keys(t, server.Key{Secret: "k"}),
		Doors: []*door.Door{echoDoor(), ownDoor()}, TransferTime: time.Hour, HeaderTimeout: time.Hour})
	at := "http://" + r.at["http"]
	user, holder := keep("X-Auth-Token", "valid", time.Minute), keep("Authorization", "Bearer k", time.Minute)
	if !user.answered(at+"/own/who") || !holder.answered(at+"/echo/caller") {
		t.Fatal("the kept connections are not served")
	}
	stream := r.connect(t)
	io.WriteString(stream, "GET /echo/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(stream), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(err)
	}
	withKey := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer k")
	watch, err := r.dial(t).NewStream(withKey, &grpc.StreamDesc{ServerStreams: true}, "/test.Echo/Stream")
	if err == nil {
		err = watch.SendMsg(wrapperspb.String(""))
	}
	if err == nil {
		err = watch.RecvMsg(new(wrapperspb.StringValue))
	}
	if err != nil {
		t.Fatal(err)
	}

	c := &crowd{http: r.at["http"], grpc: r.at["grpc"], public: "/echo/open", guarded: "/echo/large", login: "/own"}
	c.fill(200, o, false)
	defer c.close()
	for _, request := range []struct{ what, url, key string }{{"with a key", at + "/echo/caller", "k"}, {"of health", at + "/readyz", ""},
		{"of metrics", "http://" + r.at["metrics"] + "/metrics", ""}, {"of health at the port of metrics", "http://" + r.at["metrics"] + "/readyz", ""}} {
		if n := served(30, request.url, request.key, time.Minute); n != 30 {
			t.Errorf("%d of 30 requests %s on new connections are answered", n, request.what)
		}
	}
	for i := range 10 {
		var out wrapperspb.StringValue
		if err := r.dial(t).Invoke(withKey, "/test.Echo/Echo", wrapperspb.String("hello"), &out); err != nil {
			t.Errorf("call %d with a key on a new connection: %v", i, err)
		}
	}
	if !user.answered(at + "/own/who") {
		t.Error("the connection that has shown a token is closed")
	}
	if !holder.answered(at + "/echo/caller") {
		t.Error("the connection that has shown a key is closed")
	}
	r.EndStreams()
	stream.SetDeadline(time.Now().Add(time.Minute)) // those 200 connections may have taken one
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "begin\nend\n" {
		t.Errorf("the stream of a caller with a key over HTTP: %q, %v", text, err)
	}
	var out wrapperspb.StringValue
	if err := watch.RecvMsg(&out); err != nil || out.Value != "end" {
		t.Errorf("the stream of a caller with a key over gRPC: %q, %v", out.Value, err)
	}
}

// TestStopWithBusyConnections checks that a stop ends while clients without a key keep all
// their connections busy, and open others.
func TestStopWithBusyConnections(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{ConnectionsMax: 160, StopTimeout: 2 * time.Second, Keys: keys(t, server.Key{Secret: "k"}), Doors: []*door.Door{echoDoor(), ownDoor()}})
	var crowds []*crowd
	for _, o := range occupants {
		c := &crowd{http: r.at["http"], grpc: r.at["grpc"], public: "/echo/open", guarded: "/echo/large", login: "/own"}
		c.fill(20, o, true)
		crowds = append(crowds, c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		_ = r.stop() // ErrStopped is right: some requests never arrive
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Error("the server does not stop")
	}
	for _, c := range crowds {
		go c.close()
	}
}
