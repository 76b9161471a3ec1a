package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestIdleConnections opens 1,400 connections without a request to a server that
// may open few files. A client with a key can still connect, write and check.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	for _, files := range []int{256, 1024} {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "keys"), []byte("the-key\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := limitedServer(t, dir, files)
			for i := range 1400 {
				conn, err := net.Dial("tcp", at[[]string{"http", "grpc"}[i%2]])
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
			}
			client := &http.Client{Timeout: 30 * time.Second}
			post := func(path, body string) map[string]any {
				t.Helper()
				req, err := http.NewRequest("POST", "http://"+at["http"]+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer the-key")
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var out map[string]any
				if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode >= 300 {
					t.Fatalf("%s: %d %v, %v", path, resp.StatusCode, out, err)
				}
				return out
			}
			store := fmt.Sprint("/stores/", post("/stores", `{"name":"busy"}`)["id"])
			post(store+"/authorization-models", `{"schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"viewer":{"this":{}}},
				"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}`)
			for i := range 20 {
				post(store+"/write", fmt.Sprintf(`{"writes":{"tuple_keys":[{"user":"user:anne","relation":"viewer","object":"doc:%d"}]}}`, i))
			}
			if got := post(store+"/check", `{"tuple_key":{"user":"user:anne","relation":"viewer","object":"doc:19"}}`); got["allowed"] != true {
				t.Error(got)
			}
		})
	}
}

// limitedServer runs a server that may open so many files, until the test ends.
// It returns the server's addresses.
func limitedServer(t *testing.T, dir string, files int) (at map[string]string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), "ostiary", "serve", "--data", filepath.Join(dir, "data"),
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--metrics", "off", "--auth-keys-file", filepath.Join(dir, "keys"), "--log-level", "error", "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
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
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	return at
}
