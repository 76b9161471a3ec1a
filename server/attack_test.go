package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// attack is one way to attack a server from outside.
type attack struct {
	name  string
	limit int  // of files, 0 for the system's
	tls   bool // over TLS
	run   func(t *testing.T, v *victim) (answer string)
}

var attacks = []attack{
	{"200 gRPC messages held back, no key", 0, false, func(t *testing.T, v *victim) string { return v.holdBack(t, 1, 200, "") }},
	{"20 connections of these", 0, false, func(t *testing.T, v *victim) string { return v.holdBack(t, 20, 200, "") }},
	{"200 gRPC messages held back, with a key", 0, false, func(t *testing.T, v *victim) string { return v.holdBack(t, 1, 200, attackKey) }},
	{"200 HTTP bodies held back, with a key", 0, false, func(t *testing.T, v *victim) string { return v.slowBodies(t) }},
	{"1,400 idle connections, 1,024 files", 1024, false, func(t *testing.T, v *victim) string { return v.idle(t) }},
	{"6,000 gRPC answers that are not read", 0, false, func(t *testing.T, v *victim) string { return v.unread(t) }},
	{"300 HTTP streams that are not read", 0, false, func(t *testing.T, v *victim) string { return v.stalled(t) }},
	{"100,000 streams reset at once, over TLS", 0, true, func(t *testing.T, v *victim) string { return v.resets(t) }},
}

const (
	attackKey   = "attack-test-key"
	attackModel = `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"viewer":{"this":{}}},
		"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`
)

// TestAttacks attacks the program that OSTIARY_ATTACK names, and prints a table:
// resident memory before, at its peak and some time later, and the 99th
// percentile of a neighbor's checks in quiet and under attack.
// OSTIARY_ATTACK_REST is that time, by default a minute. "make attack" runs it.
func TestAttacks(t *testing.T) {
	program := os.Getenv("OSTIARY_ATTACK")
	if program == "" {
		t.Skip("OSTIARY_ATTACK=PROGRAM runs it")
	}
	rest := time.Minute
	if text := os.Getenv("OSTIARY_ATTACK_REST"); text != "" {
		var err error
		if rest, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("| attack | MB before | peak | later | p99 in quiet | under attack | neighbor's errors | answer |\n|---|---|---|---|---|---|---|---|")
	for _, a := range attacks {
		if only := os.Getenv("OSTIARY_ATTACK_ONLY"); only != "" && !strings.Contains(a.name, only) {
			continue
		}
		t.Run(a.name, func(t *testing.T) { a.play(t, program, rest) })
	}
}

func (a *attack) play(t *testing.T, program string, rest time.Duration) {
	v := launchVictim(t, program, a.limit, a.tls)
	quiet, _ := v.neighbor(t, 2*time.Second, nil)
	before := v.resident(t)
	peak, done := before, make(chan struct{})
	answer := make(chan string, 1)
	go func() {
		defer close(done)
		answer <- a.run(t, v)
	}()
	sampled := make(chan int)
	go func() {
		top := 0
		for {
			top = max(top, v.resident(t))
			select {
			case sampled <- top:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	attacked, errors := v.neighbor(t, 5*time.Second, done)
	peak = max(peak, <-sampled)
	got := <-answer
	for _, c := range v.open {
		c.Close()
	}
	time.Sleep(rest)
	fmt.Printf("| %s | %d | %d | %d | %v | %v | %d | %s |\n", a.name, before, peak, v.resident(t), quiet, attacked, errors, got)
}

// victim is a server in another process.
type victim struct {
	pid                int
	http, grpc, store  string
	client             *http.Client
	open               []net.Conn // closed after the attack
	url, cert, keyFile string
}

func launchVictim(t *testing.T, program string, limit int, overTLS bool) *victim {
	t.Helper()
	dir := t.TempDir()
	v := &victim{keyFile: filepath.Join(dir, "keys"), url: "http://"}
	if err := os.WriteFile(v.keyFile, []byte(attackKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics", "off",
		"--auth-keys-file", v.keyFile, "--log-level", "error", "--json"}
	transport := &http.Transport{MaxIdleConnsPerHost: 2}
	if overTLS {
		cert, key := certify(t, dir, "attack", 1)
		args = append(args, "--tls-cert", cert, "--tls-key", key)
		transport.TLSClientConfig, v.url = &tls.Config{InsecureSkipVerify: true}, "https://"
	}
	v.client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	shell := `exec "$0" "$@"`
	if limit > 0 {
		shell = fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit)
	}
	cmd := exec.Command("bash", append([]string{"-c", shell, program}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var at map[string]string
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	v.pid, v.http, v.grpc = cmd.Process.Pid, at["http"], at["grpc"]
	v.fill(t)
	return v
}

// fill creates the store of the attacks, with 20,000 tuples.
func (v *victim) fill(t *testing.T) {
	t.Helper()
	var store struct{ ID string }
	_, text := v.post(t, "/stores", `{"name":"attacked"}`)
	if err := json.Unmarshal([]byte(text), &store); err != nil {
		t.Fatal(err, text)
	}
	v.store = store.ID
	v.post(t, "/stores/"+v.store+"/authorization-models", attackModel)
	for i := range 200 {
		var keys []string
		for j := range 100 {
			keys = append(keys, fmt.Sprintf(`{"user":"user:anne","relation":"viewer","object":"doc:a-document-with-a-long-name-%d"}`, 100*i+j))
		}
		if status, text := v.post(t, "/stores/"+v.store+"/write", `{"writes":{"tuple_keys":[`+strings.Join(keys, ",")+`]}}`); status != 200 {
			t.Fatal(text)
		}
	}
}

func (v *victim) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	req, _ := http.NewRequest("POST", v.url+v.http+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+attackKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := v.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// neighbor sends checks, and a write now and then, for some time and until done
// is closed. It returns the 99th percentile of the checks and the number of
// errors.
func (v *victim) neighbor(t *testing.T, d time.Duration, done <-chan struct{}) (p99 time.Duration, errors int) {
	t.Helper()
	var took []time.Duration
	for i, end := 0, time.Now().Add(d); ; i++ {
		if time.Now().After(end) {
			if done == nil {
				break
			}
			select {
			case <-done:
				done = nil
			default:
			}
			if done == nil {
				break
			}
		}
		start := time.Now()
		status, _ := v.post(t, "/stores/"+v.store+"/check", `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:a-document-with-a-long-name-7"}}`)
		took = append(took, time.Since(start))
		if status != 200 {
			errors++
		}
		if i%50 == 0 {
			if status, _ := v.post(t, "/stores/"+v.store+"/write", fmt.Sprintf(`{"writes":{"tuple_keys":[{"user":"user:bob","relation":"viewer","object":"doc:%d"}]}}`, time.Now().UnixNano())); status != 200 {
				errors++
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)*99/100].Round(10 * time.Microsecond), errors
}

// resident returns the resident memory of the server in MB, or 0 if it ended.
func (v *victim) resident(t *testing.T) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n / 1024
		}
	}
	return 0
}

// raw opens a gRPC connection that the attack closes at its end.
func (v *victim) raw(t *testing.T, settings ...http2.Setting) *rawRPC {
	c := dialRaw(t, v.grpc, settings...)
	v.open = append(v.open, c.Conn)
	return c
}

// messages reads frames in another goroutine. It counts the values of
// grpc-message, and signals each window update.
func (c *rawRPC) messages(done <-chan struct{}) <-chan map[string]int {
	out := make(chan map[string]int, 1)
	go func() {
		counts := map[string]int{}
		for {
			frame, err := c.ReadFrame()
			if err != nil {
				select {
				case <-done:
				default:
					counts["closed"]++
				}
				out <- counts
				return
			}
			if h, ok := frame.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
				for _, f := range h.Fields {
					if f.Name == "grpc-message" {
						counts[f.Value]++
					}
				}
			}
		}
	}()
	return out
}

// holdBack announces messages of 4 MiB and holds the last byte of each back.
func (v *victim) holdBack(t *testing.T, conns, streams int, key string) string {
	done := make(chan struct{})
	var results []<-chan map[string]int
	part := make([]byte, 16_000)
	for range conns {
		c := v.raw(t)
		c.SetDeadline(time.Now().Add(8 * time.Second))
		results = append(results, c.messages(done))
		go func() {
			var ids []uint32
			for range streams {
				id := c.open(t, "/openfga.v1.OpenFGAService/Check", key)
				c.announce(t, id, 4<<20, nil)
				ids = append(ids, id)
			}
			time.Sleep(200 * time.Millisecond) // let the server open the windows
			for sent := 0; sent+len(part) < 4<<20; sent += len(part) {
				for _, id := range ids {
					if c.WriteData(id, false, part) != nil {
						return
					}
				}
			}
		}()
	}
	return summary(results, done)
}

// summary waits for the attack's end and returns the most frequent answer.
func summary(results []<-chan map[string]int, done chan struct{}) string {
	time.Sleep(6 * time.Second)
	close(done)
	all := map[string]int{}
	for _, r := range results {
		select {
		case counts := <-r:
			for text, n := range counts {
				all[text] += n
			}
		case <-time.After(3 * time.Second):
		}
	}
	var out []string
	for text, n := range all {
		out = append(out, fmt.Sprintf("%d × %s", n, text))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// slowBodies sends 200 HTTP bodies of 4 MiB without their last byte.
func (v *victim) slowBodies(t *testing.T) string {
	body := append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), 4<<20-7)...)
	answers := make(chan string, 200)
	for range 200 {
		conn, err := net.Dial("tcp", v.http)
		if err != nil {
			return err.Error()
		}
		v.open = append(v.open, conn)
		conn.SetDeadline(time.Now().Add(6 * time.Second))
		go func() {
			fmt.Fprintf(conn, "POST /stores/%s/check HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", v.store, attackKey, len(body)+1)
			conn.Write(body)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				answers <- "none"
				return
			}
			text, _ := io.ReadAll(resp.Body)
			answers <- fmt.Sprint(resp.StatusCode, " ", string(text))
		}()
	}
	counts := map[string]int{}
	for range 200 {
		counts[<-answers]++
	}
	return fmt.Sprint(counts)
}

// idle opens connections that send nothing.
func (v *victim) idle(t *testing.T) string {
	refused := 0
	for i := range 1400 {
		conn, err := net.DialTimeout("tcp", []string{v.http, v.grpc}[i%2], 200*time.Millisecond)
		if err != nil {
			refused++
			continue
		}
		v.open = append(v.open, conn)
	}
	time.Sleep(2 * time.Second)
	status, text := v.post(t, "/stores/"+v.store+"/write", `{"writes":{"tuple_keys":[{"user":"user:carl","relation":"viewer","object":"doc:1"}]}}`)
	return fmt.Sprintf("%d refused, then a write: %d %s", refused, status, text)
}

// unread asks for large answers over gRPC with a window of 0 bytes.
func (v *victim) unread(t *testing.T) string {
	done := make(chan struct{})
	c := v.raw(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	c.SetDeadline(time.Now().Add(8 * time.Second))
	results := []<-chan map[string]int{c.messages(done)}
	var message []byte
	for field, text := range []string{v.store, "", "doc", "viewer", "user:anne"} { // a ListObjectsRequest
		if text != "" {
			message = append(message, byte((field+1)<<3|2), byte(len(text)))
			message = append(message, text...)
		}
	}
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	go func() {
		for range 6000 {
			if c.WriteData(c.open(t, "/openfga.v1.OpenFGAService/ListObjects", attackKey), true, data) != nil {
				return
			}
		}
	}()
	return summary(results, done)
}

// stalled opens streams over HTTP and reads nothing.
func (v *victim) stalled(t *testing.T) string {
	for range 300 {
		conn, err := net.Dial("tcp", v.http)
		if err != nil {
			return err.Error()
		}
		conn.(*net.TCPConn).SetReadBuffer(1024)
		v.open = append(v.open, conn)
		body := `{"type":"doc","relation":"viewer","user":"user:anne"}`
		fmt.Fprintf(conn, "POST /stores/%s/streamed-list-objects HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", v.store, attackKey, len(body), body)
	}
	time.Sleep(5 * time.Second)
	return "none"
}

// resets opens streams over TLS and resets each at once.
func (v *victim) resets(t *testing.T) string {
	raw, err := tls.Dial("tcp", v.http, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return err.Error()
	}
	v.open = append(v.open, raw)
	raw.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(raw, http2.ClientPreface)
	f := http2.NewFramer(raw, raw)
	f.WriteSettings()
	go io.Copy(io.Discard, raw)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range 100_000 {
		block.Reset()
		for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/stores"}, {":authority", "localhost"}} {
			encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
		}
		id := uint32(2*i + 1)
		if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true}) != nil ||
			f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			return fmt.Sprintf("closed after %d", i)
		}
	}
	return "all accepted"
}
