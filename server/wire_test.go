package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/ostiary/ostiary/server"
)

// rawRPC is a gRPC connection that a test writes frame by frame.
type rawRPC struct {
	net.Conn
	*http2.Framer
	buffer  bytes.Buffer
	headers *hpack.Encoder
	next    uint32        // the next stream
	out     *bufio.Writer // see dialFlood
}

// rawRPC opens a connection to the gRPC port. settings are the client's.
func (r *running) rawRPC(t testing.TB, settings ...http2.Setting) *rawRPC {
	t.Helper()
	return dialRaw(t, r.at["grpc"], settings...)
}

func dialRaw(t testing.TB, address string, settings ...http2.Setting) *rawRPC {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	raw.SetDeadline(time.Now().Add(time.Minute))
	c := newRaw(raw)
	io.WriteString(raw, http2.ClientPreface)
	if err := c.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return c
}

// newRaw returns a connection on which nothing was sent yet.
func newRaw(raw net.Conn) *rawRPC {
	c := &rawRPC{Conn: raw, Framer: http2.NewFramer(raw, raw), next: 1}
	c.headers = hpack.NewEncoder(&c.buffer)
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return c
}

// open begins a call and returns its stream.
func (c *rawRPC) open(t testing.TB, method, key string) uint32 {
	t.Helper()
	id, err := c.begin(method, key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// begin is open for a connection that the server may close.
func (c *rawRPC) begin(method, key string) (uint32, error) {
	fields := []string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "content-type", "application/grpc", "te", "trailers"}
	if key != "" {
		fields = append(fields, "authorization", "Bearer "+key)
	}
	return c.beginWith(false, fields...)
}

// beginWith begins a request with these names and values of headers. end is whether
// it has no body.
func (c *rawRPC) beginWith(end bool, fields ...string) (uint32, error) {
	c.buffer.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.headers.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	id := c.next
	c.next += 2
	return id, c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.buffer.Bytes(), EndHeaders: true, EndStream: end})
}

// announce begins a message of n bytes with the first of them.
func (c *rawRPC) announce(t testing.TB, stream uint32, n int, part []byte) {
	t.Helper()
	data := binary.BigEndian.AppendUint32([]byte{0}, uint32(n))
	if err := c.WriteData(stream, false, append(data, part...)); err != nil {
		t.Fatal(err)
	}
}

// await reads frames until so many streams have ended, and returns the value of
// grpc-message for each of them.
func (c *rawRPC) await(t testing.TB, n int) (ended map[uint32]string) {
	t.Helper()
	ended = map[uint32]string{}
	for len(ended) < n {
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("%d of %d streams have ended: %v", len(ended), n, err)
		}
		if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
			for _, f := range h.Fields {
				if f.Name == "grpc-message" {
					ended[h.StreamID] = f.Value
				}
			}
		}
	}
	return ended
}

// TestHeldBackMessages checks that a client without a key cannot make the server
// wait for its messages: a call that needs a key is refused by its headers, and
// messages of public methods are small.
func TestHeldBackMessages(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"})})
	for method, want := range map[string]string{"/test.Echo/Echo": "credentials are required", "/test.Echo/Stream": "credentials are required",
		"/test.Echo/Open": "the bound BodyBytes is 16384"} {
		c := r.rawRPC(t)
		for range 10 {
			c.announce(t, c.open(t, method, ""), 4<<20, nil)
		}
		for _, message := range c.await(t, 10) {
			if !strings.Contains(message, want) {
				t.Errorf("%s: %q, want %q", method, message, want)
			}
		}
	}
}

// TestBodyBytes checks the bound of gRPC messages on one connection: at the
// bound a message is accepted, one byte above it is not.
func TestBodyBytes(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{BodyBytes: 100_000, BodyBytesPerConnection: 200_000})
	c := r.rawRPC(t)
	c.announce(t, c.open(t, "/test.Echo/Echo", ""), 100_000, nil)
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_body_bytes_in_flight"), " 100000") })
	c.announce(t, c.open(t, "/test.Echo/Echo", ""), 100_000, nil)
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_body_bytes_in_flight"), " 200000") })
	over := c.open(t, "/test.Echo/Echo", "")
	c.announce(t, over, 16<<10+1, nil)
	if got := c.await(t, 1)[over]; !strings.Contains(got, "the bound BodyBytesPerConnection is 200000") {
		t.Errorf("%q", got)
	}
	c.Close()
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_body_bytes_in_flight"), " 0") })
}

// TestBodyBytesTotal checks the bound over all connections, over gRPC and HTTP.
// A client that holds a body back loses its connection when others need the
// room.
func TestBodyBytesTotal(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{BodyBytes: 100_000, BodyBytesPerConnection: 200_000, BodyBytesTotal: 200_000, TransferTime: time.Hour})
	c, conn := r.rawRPC(t), r.connect(t)
	c.announce(t, c.open(t, "/test.Echo/Echo", ""), 100_000, nil)
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_body_bytes_in_flight"), " 100000") })
	io.WriteString(conn, "POST /echo/large HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nbegin")
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_body_bytes_in_flight"), " 200000") })
	status, _, body := r.ask(t, "POST", "/echo/large", strings.Repeat("x", 20_000))
	if status != 200 && !strings.Contains(body, "the bound BodyBytesTotal is 200000") {
		t.Error(status, body)
	}
	wait(t, func() bool { // once the two are older than a second
		status, _, _ := r.ask(t, "POST", "/echo/large", strings.Repeat("x", 90_000))
		return status == 200
	})
	c.SetDeadline(time.Now().Add(time.Minute))
	for {
		if _, err := c.ReadFrame(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the connection with the oldest message is still open")
		} else if err != nil {
			break // it was closed
		}
	}
}

// TestReceive checks that a message must arrive within TransferTime.
func TestReceive(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{TransferTime: 50 * time.Millisecond})
	for _, method := range []string{"/test.Echo/Echo", "/test.Echo/Stream"} {
		c := r.rawRPC(t)
		none, part := c.open(t, method, ""), c.open(t, method, "")
		c.announce(t, part, 50_000, []byte("part"))
		for id, got := range c.await(t, 2) {
			if !strings.Contains(got, "the bound TransferTime is 50ms") {
				t.Errorf("%s, stream %d of %d and %d: %q", method, id, none, part, got)
			}
		}
	}
}

// TestConnections checks the bound on connections: idle ones are closed for new
// ones, those without an accepted request first.
func TestConnections(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{ConnectionsMax: 100})
	kept := r.connect(t)
	io.WriteString(kept, "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := kept.Read(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		port := []string{"http", "grpc", "metrics"}[i%3]
		conn, err := net.Dial("tcp", r.at[port])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if status, _, body := r.ask(t, "POST", "/echo", "still"); status != 200 || body != "still" {
		t.Error(status, body)
	}
	io.WriteString(kept, "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, err := kept.Read(make([]byte, 1000)); err != nil {
		t.Error("a connection with an accepted request was closed before idle ones:", err)
	}
	if n := r.Connections(); n > 100+16 { // the port of metrics has its own 16
		t.Errorf("%d connections", n)
	}
}

// TestConnectionsBusy checks that a request is refused with the name of the bound if
// others with accepted requests are busy on all connections of such requests, and that
// new connections and health are served all the same.
func TestConnectionsBusy(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{ConnectionsMax: 40, ConnectionsPerAddress: 40})
	for i := range 35 {
		conn := r.connect(t)
		io.WriteString(conn, "GET /echo/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 200 {
			t.Fatal(i, err)
		}
	}
	for i := range 10 {
		if status, _, body := r.ask(t, "GET", "/echo/stream", "", "Connection", "close"); status != 429 || !strings.Contains(body, "the bound TrustedConnectionsPerAddress is 35") {
			t.Fatalf("one stream more, %d: %d %s", i, status, body)
		}
		if status, _, body := r.ask(t, "GET", "/readyz", "", "Connection", "close"); status != 200 {
			t.Fatalf("health, %d: %d %s", i, status, body)
		}
	}
	r.awaits(t, "ostiary_streams_in_flight", "35")
}

// TestMetricsHost checks that /metrics refuses web pages of other machines, as
// the doors do.
func TestMetricsHost(t *testing.T) {
	t.Parallel()
	for _, o := range []server.Options{{}, {Keys: keys(t, server.Key{Secret: "k"})}} {
		r := start(t, o)
		for _, c := range []struct{ headers, want string }{
			{"Host: localhost\r\n", "200"}, {"Host: evil.example\r\n", "403"}, {"Host: localhost\r\nOrigin: https://evil.example\r\n", "403"},
		} {
			conn, err := net.Dial("tcp", r.at["metrics"])
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, "GET /metrics HTTP/1.1\r\n"+c.headers+"Connection: close\r\n\r\n")
			text, _ := io.ReadAll(conn)
			conn.Close()
			if !strings.HasPrefix(string(text), "HTTP/1.1 "+c.want) {
				t.Errorf("%q: %.60q, want %s", c.headers, text, c.want)
			}
		}
	}
}

// TestRemovedKey checks that a key that is removed ends its streams, and that
// the streams of other keys go on.
func TestRemovedKey(t *testing.T) {
	t.Parallel()
	k := keys(t, server.Key{Secret: "old"}, server.Key{Secret: "kept"})
	r := start(t, server.Options{Keys: k})
	http := map[string]net.Conn{}
	rpc := map[string]*rawRPC{}
	for _, key := range []string{"old", "kept"} {
		http[key] = r.connect(t)
		io.WriteString(http[key], "GET /echo/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+key+"\r\n\r\n")
		if _, err := http[key].Read(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		rpc[key] = r.rawRPC(t)
		id := rpc[key].open(t, "/test.Echo/Stream", key)
		if err := rpc[key].WriteData(id, true, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_streams_in_flight"), " 4") })
	if err := k.Replace([]server.Key{{Secret: "new"}, {Secret: "kept"}}); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(http["old"]); err != nil || !strings.Contains(string(text), "end") {
		t.Errorf("%q, %v", text, err)
	}
	if got := rpc["old"].await(t, 1)[1]; !strings.Contains(got, "the credentials are not accepted") {
		t.Errorf("%q", got)
	}
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_streams_in_flight"), " 2") })
}

// TestLargeBody checks that a client that sends its whole body before it reads
// sees the refusal of a body above the bound, whether it announces the length or
// sends chunks.
func TestLargeBody(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{BodyBytes: 100_000, Keys: keys(t, server.Key{Secret: "k"})})
	body := strings.Repeat("x", 4<<20)
	for _, c := range []struct{ key, length, body, want string }{
		{"k", "Content-Length: 4194304", body, "HTTP/1.1 413"},
		{"k", "Transfer-Encoding: chunked", "400000\r\n" + body + "\r\n0\r\n\r\n", "HTTP/1.1 413"},
		{"wrong", "Content-Length: 4194304", body, "HTTP/1.1 401"},
	} {
		conn := r.connect(t)
		conn.SetDeadline(time.Now().Add(time.Minute))
		_, err := io.WriteString(conn, "POST /echo/large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer "+c.key+"\r\n"+c.length+"\r\n\r\n"+c.body)
		if err != nil && c.key == "k" { // without accepted credentials, the server does not read the body
			t.Errorf("%s: the body cannot be sent: %v", c.length, err)
		}
		text, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(text), c.want) || strings.Contains(c.want, "413") && !strings.Contains(string(text), "the bound BodyBytes is 100000") {
			t.Errorf("%s: %q, %v", c.length, text, err)
		}
	}
}

// TestClientsLeaveRefusals checks that a connection over gRPC whose client has left does
// not stay open until the last of its refusals, which wait up to a second each.
func TestClientsLeaveRefusals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not report that a client has left before its bytes are read")
	}
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"})})
	before := r.metric(t, "ostiary_connections_open ")
	for _, linger := range []int{-1, 0} { // the end of the connection, and its reset
		c := r.rawRPC(t)
		for range 200 {
			c.open(t, "/test.Echo/Own", "wrong")
		}
		c.await(t, 4) // the next ones wait
		c.Conn.(*net.TCPConn).SetLinger(linger)
		c.Close()
		wait(t, func() bool { return r.metric(t, "ostiary_connections_open ") == before })
	}
}

// TestKeyEndsAsStreamEnds removes keys while their streams over HTTP/2 end: what the removal
// does to a stream must not reach the response of a handler that has returned, for net/http
// panics then.
func TestKeyEndsAsStreamEnds(t *testing.T) {
	t.Parallel()
	k := keys(t, server.Key{Secret: "kept"})
	r := start(t, server.Options{Keys: k, TLS: certificate(t)})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for range 20 {
		if err := k.Replace([]server.Key{{Secret: "old"}, {Secret: "kept"}}); err != nil {
			t.Fatal(err)
		}
		var open []io.ReadCloser
		for range 50 {
			req, err := http.NewRequest("GET", "https://"+r.at["http"]+"/echo/stream", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer old")
			resp, err := client.Do(req)
			if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			open = append(open, resp.Body)
		}
		if err := k.Replace([]server.Key{{Secret: "kept"}}); err != nil {
			t.Fatal(err)
		}
		for _, body := range open {
			io.Copy(io.Discard, body)
			body.Close()
		}
	}
	wait(t, func() bool { return strings.Contains(r.metric(t, "ostiary_streams_in_flight"), " 0") })
}
