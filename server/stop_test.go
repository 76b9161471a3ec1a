package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
)

// TestStopLosesNothing checks that clients that send requests without a pause,
// over HTTP and gRPC, get a response to each of them, up to the one that asks
// them to close the connection, and that the ports are closed afterwards.
func TestStopLosesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{DrainTime: 10 * time.Second})
	var begun sync.WaitGroup
	var clients sync.WaitGroup
	var answered, closing atomic.Int64
	for range 8 {
		begun.Add(1)
		clients.Go(func() {
			conn, err := net.Dial("tcp", r.at["http"])
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			once := sync.OnceFunc(begun.Done)
			for {
				if _, err := io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
					t.Error("lost while sending:", err)
					return
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Error("lost:", err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || string(body) != "hello" {
					t.Error("lost:", err)
					return
				}
				answered.Add(1)
				once()
				if resp.Close {
					closing.Add(1)
					return
				}
			}
		})
	}
	rpc := r.dial(t)
	begun.Add(1)
	clients.Go(func() {
		once := sync.OnceFunc(begun.Done)
		for {
			var out wrapperspb.StringValue
			err := rpc.Invoke(context.Background(), "/test.Echo/Echo", wrapperspb.String("hello"), &out)
			if err != nil && strings.Contains(err.Error(), "connect") {
				return // the port is closed, so the call was not started
			}
			if err != nil || out.Value != "hello" {
				t.Error("lost:", err)
				return
			}
			once()
		}
	})
	begun.Wait()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	clients.Wait()
	if closing.Load() != 8 || answered.Load() < 8 {
		t.Errorf("%d responses, %d of them with Connection: close", answered.Load(), closing.Load())
	}
	if c, err := net.Dial("tcp", r.at["http"]); err == nil {
		c.Close()
		t.Error("the port still listens")
	}
}

// TestStopWithRequestsOnTheirWay checks that a stop answers every request that
// has arrived on an open connection when it begins, without a drain and with a
// short one, over plain text and TLS.
func TestStopWithRequestsOnTheirWay(t *testing.T) {
	t.Parallel()
	for _, drain := range []time.Duration{-1, time.Millisecond} {
		for _, certificate := range []*server.Certificate{nil, certificate(t)} {
			r := start(t, server.Options{DrainTime: drain, TLS: certificate})
			const request = "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\r\n"
			conns, in := make([]net.Conn, 100), make([]*bufio.Reader, 100)
			for i := range conns {
				conns[i] = r.connect(t)
				if certificate != nil {
					conns[i] = tls.Client(conns[i], &tls.Config{InsecureSkipVerify: true})
				}
				conns[i].SetDeadline(time.Now().Add(time.Minute))
				in[i] = bufio.NewReader(conns[i])
				io.WriteString(conns[i], request)
				resp, err := http.ReadResponse(in[i], nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
			}
			stopped := make(chan error, 1)
			for i, c := range conns {
				io.WriteString(c, request) // it is in the server's buffer now
				if i == len(conns)-1 {
					go func() { stopped <- r.stop() }()
				}
			}
			lost := 0
			for i := range conns {
				if resp, err := http.ReadResponse(in[i], nil); err != nil || resp.StatusCode != 200 {
					lost++
				}
			}
			if lost > 0 {
				t.Errorf("drain %v, TLS %v: %d of %d requests were dropped", drain, certificate != nil, lost, len(conns))
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStopBound checks that a request that lasts longer than StopTimeout is cut
// off, and that Stop returns ErrStopped.
func TestStopBound(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{RequestTimeout: -1, StopTimeout: 50 * time.Millisecond})
	done := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + r.at["http"] + "/echo/wait/wait")
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		done <- err
	}()
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_requests_in_flight"), " 1") })
	if err := r.stop(); !errors.Is(err, server.ErrStopped) {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("a response that was cut off looks complete")
	}
}

// TestProbe checks that health reports NOT_SERVING when Probe fails, and that the
// server ends with the reason.
func TestProbe(t *testing.T) {
	t.Parallel()
	var failed atomic.Bool
	broken := errors.New("the disk is broken")
	r := start(t, server.Options{DrainTime: time.Minute, Probe: func() error {
		if failed.Load() {
			return broken
		}
		return nil
	}})
	held := r.connect(t) // keeps the server draining, so that it still answers
	failed.Store(true)
	wait(t, func() bool {
		status, _, body := r.ask(t, "GET", "/healthz", "")
		return status == 503 && body == `{"status":"NOT_SERVING"}`
	})
	rpc := healthpb.NewHealthClient(r.dial(t))
	wait(t, func() bool {
		got, err := rpc.Check(context.Background(), &healthpb.HealthCheckRequest{})
		return err == nil && got.Status == healthpb.HealthCheckResponse_NOT_SERVING
	})
	if !strings.Contains(r.metric(t, "ostiary_serving"), " 0") {
		t.Error("ostiary_serving is not 0")
	}
	held.Close()
	http.DefaultClient.CloseIdleConnections()
	if err := r.stop(); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{})
	s, err := server.New(server.Options{HTTP: "127.0.0.1:0", GRPC: r.at["grpc"]})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "grpc") {
		t.Error(err)
	}
}

// certify writes a certificate for localhost, and its key.
func certify(t testing.TB, dir, name string, serial int64) (cert, key string) {
	t.Helper()
	return issuers.WriteCertificate(t, dir, name, issuers.NewAuthority(t, name).Issue(func(c *x509.Certificate) {
		c.SerialNumber, c.DNSNames = big.NewInt(serial), []string{"localhost"}
	}))
}

// TestTLS checks that both ports need TLS 1.2 or later, that HTTP/2 works, and
// that a new certificate is used while the server runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := certify(t, dir, "a", 1)
	c, err := server.NewCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, server.Options{TLS: c})
	config := &tls.Config{InsecureSkipVerify: true}
	client := func(h2 bool) *http.Client {
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: h2, DisableKeepAlives: true}}
	}
	for _, h2 := range []bool{false, true} {
		resp, err := client(h2).Post("https://"+r.at["http"]+"/echo", "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "hello" || (resp.ProtoMajor == 2) != h2 || resp.TLS.PeerCertificates[0].SerialNumber.Int64() != 1 {
			t.Error(resp.Proto, string(body))
		}
	}
	for _, port := range []string{"http", "grpc"} {
		old := config.Clone()
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if conn, err := tls.Dial("tcp", r.at[port], old); err == nil {
			conn.Close()
			t.Errorf("%s accepts TLS 1.1", port)
		}
	}
	if resp, err := http.Get("http://" + r.at["http"] + "/echo/open"); err == nil {
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Error("status over plain text:", resp.StatusCode)
		}
	}
	h2only := config.Clone()
	h2only.NextProtos = []string{"h2"}
	got, err := healthpb.NewHealthClient(r.dial(t, grpc.WithTransportCredentials(credentials.NewTLS(h2only)))).Check(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil || got.Status != healthpb.HealthCheckResponse_SERVING {
		t.Error(got, err)
	}

	if err := os.WriteFile(cert, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err == nil {
		t.Error("a broken certificate is accepted")
	}
	certify(t, dir, "a", 2)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	resp, err := client(false).Get("https://" + r.at["http"] + "/echo/open")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 {
		t.Error("the old certificate is still in use")
	}
}

// lateListener is a port whose Accept returns only when the port was closed a second
// time, as that of a busy machine may. Like a TCP port, it can be closed once.
type lateListener struct {
	net.Listener
	closes atomic.Int32
	late   chan struct{}
}

func (l *lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.late
	}
	return c, err
}

func (l *lateListener) Close() error {
	if l.closes.Add(1) == 2 {
		close(l.late)
	}
	return l.Listener.Close()
}

// TestStopIsLate checks that a stop succeeds although a port's goroutine has not yet
// noticed that the port is closed.
func TestStopIsLate(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Options{HTTP: "127.0.0.1:0", DrainTime: -1, StopTimeout: 50 * time.Second, Doors: []*door.Door{echoDoor()},
		Listen: func(_, address string) (net.Listener, error) {
			l, err := net.Listen("tcp", address)
			return &lateListener{Listener: l, late: make(chan struct{})}, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get("http://" + s.Addresses()[0].Addr.String() + "/echo/open"); err != nil { // the goroutine accepts
		t.Error(err)
	} else {
		resp.Body.Close()
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
