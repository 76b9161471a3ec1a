package server_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/server"
)

// raw sends bytes and returns the status and body of each response until the
// connection ends.
func (r *running) raw(t testing.TB, text string) []string { return r.afterResponse(t, "", text) }

// afterResponse is raw for the bytes that follow a first request, after its response. It
// uses TLS if the server does.
func (r *running) afterResponse(t testing.TB, first, text string) (got []string) {
	t.Helper()
	conn := r.connect(t)
	if r.secured {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	response := func() (string, bool) {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return "", false
		}
		body, err := io.ReadAll(resp.Body)
		return fmt.Sprintf("%d %s", resp.StatusCode, body), err == nil
	}
	if first != "" {
		io.WriteString(conn, first)
		if text, ok := response(); !ok {
			t.Fatalf("%.40q: no response but %q", first, text)
		}
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return nil // the server closed the connection early
	}
	conn.(interface{ CloseWrite() error }).CloseWrite()
	for {
		one, ok := response()
		if !ok {
			return got
		}
		got = append(got, one)
	}
}

// TestHostileHTTP checks that malformed requests are refused, and that no form of
// the request target avoids authentication.
func TestHostileHTTP(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"})})
	const tail = "\r\nHost: localhost\r\n\r\n"
	const auth = "\r\nHost: localhost\r\nAuthorization: Bearer k\r\n"
	for _, c := range []struct{ text, want string }{
		{"GET /echo/caller HTTP/1.1" + tail, "401"},
		{"GET http://x/echo/caller HTTP/1.1" + tail, "401"},
		{"GET http://other/echo/caller HTTP/1.1" + tail, "401"},
		{"GET /echo/open/../caller HTTP/1.1" + tail, "400"},
		{"GET http://x/echo/open/../caller HTTP/1.1" + tail, "400"},
		{"GET http://x//echo/caller HTTP/1.1" + tail, "400"},
		{"GET /echo/%63aller HTTP/1.1" + tail, "404"}, // only parameters may be escaped, not fixed segments
		{"GET /echo/caller%00 HTTP/1.1" + tail, "400"},
		{"GET /echo\\caller HTTP/1.1" + tail, "400"},
		{"GET /echo/caller; HTTP/1.1" + tail, "404"},
		{"GET /echo/caller/ HTTP/1.1" + tail, "404"},
		{"GET /ECHO/caller HTTP/1.1" + tail, "404"},
		{"GET echo/caller HTTP/1.1" + tail, "400"},
		{"GET  /echo/caller HTTP/1.1" + tail, "400"},
		{"CONNECT /echo/caller HTTP/1.1" + tail, "404"},
		{"CONNECT x:80 HTTP/1.1" + tail, "400"},
		{"OPTIONS * HTTP/1.1" + tail, "200"},
		{"TRACE /echo/caller HTTP/1.1" + tail, "404"},
		{"G\x00T /echo/caller HTTP/1.1" + tail, "400"},
		{"GET /echo/caller HTTP/9.9" + tail, "505"},
		{"GET /echo/caller HTTP/1.1\r\n\r\n", "400"},
		{"GET /echo/caller HTTP/1.1\r\nHost: localhost\r\nHost: y\r\n\r\n", "400"},
		{"GET /echo/caller\r\n", ""},
		// Two lengths, or a length and chunks, could be read in two ways.
		{"POST /echo HTTP/1.1" + auth + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
		{"POST /echo HTTP/1.1" + auth + "Content-Length: -1\r\n\r\nab", "400"},
		{"POST /echo HTTP/1.1" + auth + "Content-Length: 99999999999999999999\r\n\r\nab", "400"},
		{"POST /echo HTTP/1.1" + auth + "Transfer-Encoding: gzip\r\n\r\nab", "501"},
		{"POST /echo HTTP/1.1" + auth + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
		{"POST /echo HTTP/1.1" + auth + "Content-Length: 10\r\n\r\nhalf", "400"},
		{"POST /echo HTTP/1.1" + auth + "Expect: 200-ok\r\nContent-Length: 2\r\n\r\nab", "417"},
		{"POST /echo HTTP/1.1" + auth + "Content-Length: 2\r\n\r\nab", "200 ab"},
		{"GET /echo/open HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: y\r\n", 20_000) + "\r\n", "431"},
		{"GET /echo/open HTTP/1.1\r\nHost: localhost\r\nBad Name: y\r\n\r\n", "400"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ""},
	} {
		got := r.raw(t, c.text)
		if len(got) > 1 {
			t.Errorf("%.60q is read as several requests: %q", c.text, got)
		}
		if c.want == "" && len(got) == 1 && strings.HasPrefix(got[0], "200") || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%.60q: %q, want %s", c.text, got, c.want)
		}
	}
	if n := strings.Count(r.logs.String(), `"msg":"panic"`); n > 0 {
		t.Errorf("%d panics", n)
	}
}

// TestSlowReader checks that a stream to a client that does not read ends after
// TransferTime.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r := start(t, server.Options{TransferTime: 50 * time.Millisecond})
	conn := r.connect(t)
	io.WriteString(conn, "GET /echo/flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
	io.ReadFull(conn, make([]byte, 1000))
	wait(t, func() bool {
		return strings.Contains(r.metric(t, `ostiary_requests_total{door="echo",outcome="ok",route="Flood"`), " 1")
	})
	if got := r.metric(t, "ostiary_streams_in_flight "); strings.TrimSpace(got) != "ostiary_streams_in_flight 0" {
		t.Error(got)
	}
}

// TestTenThousandConnections opens 10,000 connections with one HTTP stream each
// to a server in another process. It needs 10,000 file descriptors in both
// processes and runs only with OSTIARY_STREAMS=1, as "make connections" does.
func TestTenThousandConnections(t *testing.T) {
	if os.Getenv("OSTIARY_STREAMS") == "" {
		t.Skip("OSTIARY_STREAMS=1 runs it")
	}
	s := launchChild(t, "echo")
	const n = 10_000
	conns := make([]net.Conn, n)
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := c; i < n; i += 8 {
				conn, err := net.Dial("tcp", s.address)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = conn
				io.WriteString(conn, "GET /echo/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
			}
		})
	}
	wg.Wait()
	for i, conn := range conns {
		if conn == nil {
			t.Fatal("a connection could not be opened")
		}
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	resp, err := http.Post("http://"+s.address+"/echo", "text/plain", strings.NewReader("still"))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(text) != "still" {
		t.Error(resp.Status, string(text))
	}
	for _, conn := range conns {
		conn.Close()
	}
}

// TestForeignPages checks that a server without keys refuses web pages of other
// sites that run in a browser on this machine. A server with keys, or with
// Anonymous, accepts them.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	open := start(t, server.Options{})
	listed := start(t, server.Options{CORS: []string{"https://app.example"}})
	anonymous := start(t, server.Options{Anonymous: true})
	keyed := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"})})
	for _, c := range []struct {
		name   string
		r      *running
		origin string
		want   int
	}{
		{"another site", open, "https://evil.example", 403},
		{"a sandboxed page", open, "null", 403},
		{"a name that resembles localhost", open, "http://localhost.evil.example", 403},
		{"localhost as user name", open, "http://localhost@evil.example", 403},
		{"not an origin", open, "http://[", 403},
		{"a page of this machine", open, "http://localhost:3000", 200},
		{"by address", open, "http://[::1]:3000", 200},
		{"allowed", listed, "https://app.example", 200},
		{"not allowed", listed, "https://evil.example", 403},
		{"anonymous callers allowed", anonymous, "https://evil.example", 200},
		{"with keys", keyed, "https://evil.example", 200},
	} {
		if status, _, body := c.r.ask(t, "GET", "/echo/caller", "", "Origin", c.origin, "Authorization", "Bearer k"); status != c.want {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
	if status, _, _ := open.ask(t, "GET", "/healthz", "", "Origin", "https://evil.example"); status != 200 {
		t.Error("health", status)
	}
}

// TestForeignNames checks that a server without keys refuses a Host that is not a
// name of this machine alone (DNS rebinding).
func TestForeignNames(t *testing.T) {
	t.Parallel()
	open := start(t, server.Options{})
	listed := start(t, server.Options{CORS: []string{"*"}})
	anonymous := start(t, server.Options{Anonymous: true})
	keyed := start(t, server.Options{Keys: keys(t, server.Key{Secret: "k"})})
	for _, c := range []struct {
		r    *running
		host string
		want int
	}{
		{open, "127.0.0.1", 200}, {open, "127.0.0.1:8080", 200}, {open, "localhost:8080", 200}, {open, "localhost", 200},
		{open, "[::1]:8080", 200}, {open, "[::1]", 200}, {open, "127.8.9.1:1", 200},
		{open, "evil.example", 403}, {open, "evil.example:8080", 403}, {open, "localhost.evil.example", 403},
		{open, "127.0.0.1.evil.example", 403}, {open, "10.0.0.1:8080", 403}, {open, "[fe80::1]:80", 403}, {open, "::1", 403}, {open, "", 403},
		{listed, "evil.example", 403}, {anonymous, "evil.example", 200}, {keyed, "evil.example", 200},
	} {
		raw := "GET /echo/caller HTTP/1.1\r\nHost: " + c.host + "\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n"
		if got := c.r.raw(t, raw); len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprint(c.want)) {
			t.Errorf("%q: %q, want %d", c.host, got, c.want)
		}
	}
}

// TestAmbiguousHeads checks that a head which servers and proxies read in different ways
// ends its connection, and that nothing behind it is read as a request: first on a
// connection or later, with and without TLS.
func TestAmbiguousHeads(t *testing.T) {
	t.Parallel()
	const next = "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n"
	const chunks = "2\r\nab\r\n0\r\n\r\n"
	plain := server.Options{Keys: keys(t, server.Key{Secret: "k"})}
	secured := plain
	secured.TLS = certificate(t)
	for name, r := range map[string]*running{"HTTP": start(t, plain), "HTTPS": start(t, secured)} {
		for _, c := range []struct{ what, text, want string }{
			{"length and chunks", head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "400"},
			{"chunks and length", head + "transfer-encoding: chunked\r\ncontent-length: 14\r\n\r\n" + chunks, "400"},
			{"HTTP/1.0 with chunks", strings.Replace(head, "1.1", "1.0", 1) + "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + next, "400"},
			{"folded with a space", head + "X: a\r\n b\r\nContent-Length: 2\r\n\r\nab", "400"},
			{"folded with a tab", head + "X: a\r\n\tb\r\nContent-Length: 2\r\n\r\nab", "400"},
			{"folded first", "POST /echo HTTP/1.1\r\n Host: localhost\r\n\r\n", "400"},
			{"LF after the request", "GET /echo/open HTTP/1.1\nHost: localhost\r\n\r\n", "400"},
			{"LF after a field", "GET /echo/open HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", "400"},
			{"LF at the end", "GET /echo/open HTTP/1.1\r\nHost: localhost\r\n\n", "400"},
			{"LF only", "GET /echo/open HTTP/1.1\nHost: localhost\n\n", "400"},
			// These are unusual, but have one meaning.
			{"chunks", head + "Transfer-Encoding: chunked\r\n\r\n" + chunks, "200 ab"},
			{"a body of lines", head + "Content-Length: 17\r\n\r\n\n x\nTransfer-E: \n", "200 \n x\nTransfer-E: \n"},
			{"similar names", head + "Transfer-Encodings: chunked\r\nContent-Length: 2\r\n\r\nab", "200 ab"},
		} {
			for _, before := range []string{"", next, head + "Content-Length: 9\r\n\r\n\n a\n b\n c"} {
				got := r.afterResponse(t, before, c.text+next)
				responses := 2
				if c.want == "400" {
					responses = 1
				}
				if len(got) != responses || !strings.HasPrefix(got[0], c.want) {
					t.Errorf("%s, %s after %.20q: %q, expected %d responses and first %q", name, c.what, before, got, responses, c.want)
				}
			}
		}
	}
}
