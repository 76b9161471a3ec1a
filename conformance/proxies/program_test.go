package proxies

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// key authenticates the clients and the attackers that have one.
const key = "the-key-of-the-clients"

// documents is the number of stored tuples: document i is shared with user i.
const documents = 50

// program is a running server with a filled store.
type program struct {
	http, grpc, store string
}

// build builds the program into a folder and returns its path.
func build(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ostiary")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/ostiary")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// launch starts the program and fills a store.
func launch(t *testing.T) *program {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(build(t, dir), "serve", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
		"--metrics", "off", "--auth-keys-file", keys, "--log-level", "error", "--json", "--connections-per-address", "5000")
	line := bufio.NewReader(start(t, cmd))
	text, err := line.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var at map[string]string
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		t.Fatal(err, text)
	}
	p := &program{http: at["http"], grpc: at["grpc"]}
	p.fill(t)
	return p
}

// start starts a command and ends it after the test. It returns its output.
func start(t *testing.T, cmd *exec.Cmd) io.Reader {
	t.Helper()
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
	return out
}

// post sends a request with the key to the program itself.
func (p *program) post(t *testing.T, path, body string) string {
	t.Helper()
	req, _ := http.NewRequest("POST", "http://"+p.http+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatal(path, resp.StatusCode, string(text), err)
	}
	return string(text)
}

func (p *program) fill(t *testing.T) {
	t.Helper()
	var store struct{ ID string }
	if err := json.Unmarshal([]byte(p.post(t, "/stores", `{"name":"behind"}`)), &store); err != nil {
		t.Fatal(err)
	}
	p.store = store.ID
	p.post(t, "/stores/"+p.store+"/authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc",
		"relations":{"viewer":{"this":{}}},"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`)
	var keys []string
	for i := range documents {
		keys = append(keys, fmt.Sprintf(`{"user":"user:u%d","relation":"viewer","object":"doc:d%d"}`, i, i))
	}
	p.post(t, "/stores/"+p.store+"/write", `{"writes":{"tuple_keys":[`+strings.Join(keys, ",")+`]}}`)
}

// unchanged checks that the store has the tuples of fill and no others.
func (p *program) unchanged(t *testing.T) {
	t.Helper()
	var page struct{ Tuples []any }
	if err := json.Unmarshal([]byte(p.post(t, "/stores/"+p.store+"/read", `{"page_size":100}`)), &page); err != nil {
		t.Fatal(err)
	}
	var stores struct{ Stores []any }
	req, _ := http.NewRequest("GET", "http://"+p.http+"/stores", nil)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		err = json.NewDecoder(resp.Body).Decode(&stores)
		resp.Body.Close()
	}
	if err != nil || len(page.Tuples) != documents || len(stores.Stores) != 1 {
		t.Errorf("%d tuples in %d stores, expected %d in 1: a hidden request was executed (%v)", len(page.Tuples), len(stores.Stores), documents, err)
	}
}

// free returns an address on loopback that nothing listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// reachable waits until something listens on an address.
func reachable(t *testing.T, address string) {
	t.Helper()
	for range 1200 { // a minute
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("nothing listens on ", address)
}
