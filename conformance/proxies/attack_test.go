package proxies

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// setting returns a number from the environment, or a default.
func setting(t *testing.T, name string, value int) int {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("invalid %s %q: expected a number", name, text)
		}
		return n
	}
	return value
}

// attack sends malformed and ambiguous requests while clients ask for what they
// know. Every answer of a client must be right, and nothing hidden may be
// executed.
func (p *program) attack(t *testing.T, f front) {
	count, seed := setting(t, "OSTIARY_MALFORMED", 20_000), setting(t, "OSTIARY_SEED", 1)
	clients := []*client{newClient(p, f.http1, false, (*client).askBatch), newClient(p, f.grpc, true, (*client).askRPC)}
	if f.http2 != "" {
		clients = append(clients, newClient(p, f.http2, true, (*client).askBatch))
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for _, c := range clients {
		c.run(t, &asking, stop)
	}
	a := &attacker{program: p, t: t}
	for i, text := range ambiguous(p.store) {
		a.http1(f.http1, fmt.Sprintf("ambiguous %d", i), text)
	}
	if f.http2 != "" {
		a.http2(f.http2)
	}
	var attacking sync.WaitGroup
	const goroutines = 8
	for g := range goroutines {
		attacking.Go(func() {
			for i := g; i < count; i += goroutines {
				random := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
				a.http1(f.http1, fmt.Sprintf("seed %d, number %d", seed, i), mutate(random, p.store, i))
			}
		})
	}
	attacking.Wait()
	p.large(t, f)
	close(stop)
	asking.Wait()
	p.unchanged(t)
	for _, c := range clients {
		if n := c.asked.Load(); n < 100 {
			t.Errorf("a client asked %d times only", n)
		}
		t.Logf("a client of %s had %d right answers", c.address, c.asked.Load())
	}
	t.Logf("%d ambiguous and %d malformed requests, %d responses: %s", len(ambiguous(p.store)), count, a.responses.Load(), a.statuses())
}

// attacker sends raw requests and checks the responses.
type attacker struct {
	program   *program
	t         *testing.T
	responses atomic.Int64
	status    [600]atomic.Int64
}

// statuses returns how often each status was seen.
func (a *attacker) statuses() string {
	var out []string
	for status := range a.status {
		if n := a.status[status].Load(); n > 0 {
			out = append(out, fmt.Sprintf("%d × %d", n, status))
		}
	}
	return strings.Join(out, ", ")
}

// http1 sends bytes over HTTP/1 and checks each response until the connection
// ends or is quiet.
func (a *attacker) http1(address, name, text string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		a.t.Error(name, err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() {
		io.WriteString(conn, text)
		conn.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(conn)
	for {
		if _, err := in.Peek(1); err != nil {
			return
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return // the end of a body that was cut, or a response without a head
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		a.response(name, text, resp.StatusCode, string(body))
	}
}

// response checks a response to an attacker. It must not belong to a client, and
// without the key it must not be one of a store.
func (a *attacker) response(name, request string, status int, body string) {
	a.responses.Add(1)
	if status < 100 || status >= len(a.status) {
		a.t.Errorf("%s: status %d", name, status)
		return
	}
	a.status[status].Add(1)
	switch {
	case strings.Contains(body, "client-"):
		a.t.Errorf("%s: the response of a client: %d %.300s\nthe request was %.300q", name, status, body, request)
	case status/100 == 2 && strings.Contains(body, "allowed") && !strings.Contains(request, key):
		a.t.Errorf("%s: an answer without a key: %d %.300s\nthe request was %.300q", name, status, body, request)
	case status/100 == 5 && status != 501 && status != 502 && status != 503 && status != 504 && status != 505:
		a.t.Errorf("%s: %d %.300s\nthe request was %.300q", name, status, body, request)
	}
}

// ambiguous returns requests whose end, target or host can be read in two ways,
// without a key. Each hides a write that a client's key would allow.
func ambiguous(store string) (out []string) {
	write := `{"writes":{"tuple_keys":[{"user":"user:hidden","relation":"viewer","object":"doc:d0"}]}}`
	hidden := fmt.Sprintf("POST /stores/%s/write HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", store, len(write), write)
	// The head of the next request on the connection would become a header of this
	// one, and would add its key.
	swallow := fmt.Sprintf("POST /stores/%s/write?x=1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Swallow: ", store)
	head := "POST /stores/" + store + "/check HTTP/1.1\r\nHost: localhost\r\n"
	for _, inner := range []string{hidden, swallow} {
		chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
		for _, te := range []string{
			"Transfer-Encoding: chunked", "Transfer-Encoding : chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding: xchunked",
			"Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
			"Transfer-Encoding: x\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\x0bchunked", "X: y\nTransfer-Encoding: chunked",
			" Transfer-Encoding: chunked", "X: y\r\n Transfer-Encoding: chunked", "Transfer-Encoding\x00: chunked", "Transfer-Encoding: \"chunked\"",
			"transfer-encoding: CHUNKED", "Transfer-Encoding:\r\n chunked", "Transfer_Encoding: chunked", "Transfer-Encoding: chunked;x=y",
		} {
			out = append(out,
				head+"Content-Length: 5\r\n"+te+"\r\n\r\n0\r\n\r\n"+inner,
				head+te+"\r\nContent-Length: "+strconv.Itoa(len(chunk))+"\r\n\r\n"+chunk,
				head+te+"\r\nContent-Length: 4\r\n\r\n"+chunk)
		}
		for _, length := range []string{"0", "+0", "-0", "0x0", "0,0", "0, 5", "00", " 0 ", "1e0", "18446744073709551616", "0\r\nContent-Length: 5", "5\r\nContent-Length: 0", ""} {
			out = append(out, head+"Content-Length: "+length+"\r\n\r\n"+inner, head+"Content-Length : "+length+"\r\n\r\n"+inner)
		}
		for _, size := range []string{"0x0", "0 ", " 0", "-0", "+0", "0;x=\"\r\n\"", "0;x\n", "ffffffffffffffff0", "0\n", "00000000000000000000"} {
			out = append(out, head+"Transfer-Encoding: chunked\r\n\r\n"+size+"\r\n\r\n"+inner)
		}
		out = append(out,
			head+"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 100\r\nX: y\r\n\r\n"+inner, // a trailer
			head+"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"+inner,
			head+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n"+inner,
			head+"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n"+inner,
			head+"Connection: close, Content-Length\r\nContent-Length: "+strconv.Itoa(len(inner))+"\r\n\r\n"+inner,
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+strconv.Itoa(len(inner))+"\r\n\r\n"+inner,
			"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: "+strconv.Itoa(len(inner))+"\r\n\r\n"+inner,
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk,
			"GET /healthz HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk,
			"GET /healthz HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"+inner,
			"GET http://other/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"+inner,
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n"+inner,
			"GET /healthz HTTP/1.1\nHost: localhost\n\n"+inner,
			"GET /healthz\r\n\r\n"+inner,
			"\r\n\r\n"+inner,
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+inner)
	}
	// Paths that a proxy and the program may read differently.
	for _, path := range []string{"/healthz/../stores", "/healthz/%2e%2e/stores", "//stores", "/healthz/..;/stores", "/healthz%2f..%2fstores", "/\\stores", "/stores%00", "/stores%0d%0aX:%20y", "/./stores", "/stores/.", "*"} {
		out = append(out, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	return out
}

// mutate returns a request that is malformed in random ways. Every other one has
// the key, and an id of the attacker.
func mutate(random *rand.Rand, store string, number int) string {
	body := fmt.Sprintf(`{"checks":[{"correlation_id":"attack-%d","tuple_key":{"user":"user:u1","relation":"viewer","object":"doc:d1"}}]}`, number)
	head := "POST /stores/" + store + "/batch-check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	if number%2 == 0 {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	text := []byte(head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	if random.IntN(4) == 0 {
		text = []byte(head + "Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\n\r\n")
	}
	for range 1 + random.IntN(4) {
		at := random.IntN(len(text))
		switch random.IntN(7) {
		case 0:
			text[at] = byte(random.IntN(256))
		case 1:
			text = append(text[:at:at], text[at+1:]...)
		case 2:
			text = append(text[:at:at], append([]byte{byte(random.IntN(256))}, text[at:]...)...)
		case 3: // repeat a line
			end := at + bytes.IndexByte(text[at:], '\n') + 1
			text = append(text[:end:end], append(bytes.Clone(text[at:end]), text[end:]...)...)
		case 4:
			text = append(text[:at:at], append([]byte("\r\n"), text[at:]...)...)
		case 5:
			text = append(text[:at:at], append([]byte("\r\nTransfer-Encoding: chunked"), text[at:]...)...)
		case 6:
			text = append(text, text[:at]...)
		}
	}
	return string(text)
}
