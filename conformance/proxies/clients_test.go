package proxies

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// client asks checks over one protocol until it is stopped.
type client struct {
	program *program
	http    *http.Client
	address string
	// ask sends the request with a number and checks its answer.
	ask func(c *client, number int) error
	// asked counts the requests.
	asked atomic.Int64
}

// newClient returns a client that speaks HTTP/1.1 or HTTP/2.
func newClient(p *program, address string, http2 bool, ask func(*client, int) error) *client {
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &client{program: p, address: address, ask: ask,
		http: &http.Client{Transport: &http.Transport{Protocols: &protocols, MaxIdleConnsPerHost: 8}}}
}

// run asks with 4 goroutines until stop is closed.
func (c *client) run(t *testing.T, wait *sync.WaitGroup, stop <-chan struct{}) {
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.ask(c, int(c.asked.Add(1))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
}

func (c *client) post(path, contentType string, body []byte) (*http.Response, []byte, error) {
	req, err := http.NewRequest("POST", "http://"+c.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Te", "trailers")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}

// askBatch sends a batch of two checks with ids that no other request has. The answer
// must have these ids, an allow and a denial.
func (c *client) askBatch(number int) error {
	i := number % documents
	yes, no := fmt.Sprintf("client-%s-%d-yes", tag(c.address), number), fmt.Sprintf("client-%s-%d-no", tag(c.address), number)
	check := func(id string, user int) string {
		return fmt.Sprintf(`{"correlation_id":%q,"tuple_key":{"user":"user:u%d","relation":"viewer","object":"doc:d%d"}}`, id, user, i)
	}
	resp, text, err := c.post("/stores/"+c.program.store+"/batch-check", "application/json",
		[]byte(`{"checks":[`+check(yes, i)+","+check(no, i+1)+`]}`))
	if err != nil {
		return fmt.Errorf("%s: %w", yes, err)
	}
	var got struct {
		Result map[string]struct{ Allowed bool }
	}
	if err := json.Unmarshal(text, &got); err != nil || resp.StatusCode != 200 || len(got.Result) != 2 || !got.Result[yes].Allowed || got.Result[no].Allowed {
		return fmt.Errorf("%s: %d %s", yes, resp.StatusCode, text)
	}
	if _, ok := got.Result[no]; !ok {
		return fmt.Errorf("%s: %s", no, text)
	}
	return nil
}

// tag returns the port of an address, which ids of requests contain.
func tag(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// askRPC sends a Check over gRPC. Even numbers are allowed, odd ones are denied.
func (c *client) askRPC(number int) error {
	i := number % documents
	tuple := field(1, fmt.Sprintf("user:u%d", i+number%2)) + field(2, "viewer") + field(3, fmt.Sprintf("doc:d%d", i))
	message := field(1, c.program.store) + field(2, tuple)
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	resp, text, err := c.post("/openfga.v1.OpenFGAService/Check", "application/grpc", body)
	if err != nil {
		return fmt.Errorf("gRPC call %d: %w", number, err)
	}
	status := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
	// CheckResponse: allowed is field 1, a bool, and absent if false.
	allowed := len(text) > 6 && text[5] == 1<<3 && text[6] == 1
	if resp.StatusCode != 200 || status != "0" || len(text) < 5 || allowed != (number%2 == 0) {
		return fmt.Errorf("gRPC call %d: HTTP status %d, gRPC status %q, %x, trailers %v", number, resp.StatusCode, status, text, resp.Trailer)
	}
	return nil
}

// field returns a protobuf field of a text.
func field(number int, text string) string {
	return string(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(text)))) + text
}

// large sends bodies and headers above the bounds.
func (p *program) large(t *testing.T, f front) {
	for name, c := range map[string]*client{"HTTP/1.1": newClient(p, f.http1, false, nil), "HTTP/2": newClient(p, f.http2, true, nil)} {
		if c.address == "" {
			continue
		}
		resp, text, err := c.post("/ostiary/v1/stores/"+p.store+"/check", "application/json", bytes.Repeat([]byte(" "), 5<<20))
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "BodyBytes") {
			t.Errorf("%s, a large body: %v, %.300s; expected status 413 with the bound's name", name, err, text)
		}
		req, _ := http.NewRequest("GET", "http://"+c.address+"/stores", nil)
		req.Header.Set("Authorization", "Bearer "+key)
		for i := range 5000 {
			req.Header.Set(fmt.Sprintf("X-%d", i), "a header")
		}
		if resp, err := c.http.Do(req); err == nil {
			if resp.Body.Close(); resp.StatusCode/100 != 4 && resp.StatusCode != 502 {
				t.Errorf("%s, large headers: %d", name, resp.StatusCode)
			}
		}
	}
	c := newClient(p, f.grpc, true, nil)
	resp, _, err := c.post("/openfga.v1.OpenFGAService/Check", "application/grpc", append(binary.BigEndian.AppendUint32([]byte{0}, 5<<20), make([]byte, 5<<20)...))
	if err == nil && resp.Trailer.Get("Grpc-Status")+resp.Header.Get("Grpc-Status") == "0" {
		t.Error("a gRPC message of 5 MiB is accepted")
	}
}
