package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// served waits until a server has a folder open, and sets HTTP, GRPC and METRICS to
// its addresses.
func served(ts *testscript.TestScript, neg bool, args []string) {
	h, err := awaitHolder(ts.MkAbs(args[0]))
	ts.Check(err)
	for name, at := range h.Ports {
		ts.Setenv(strings.ToUpper(strings.NewReplacer(" ", "_", "-", "_").Replace(name)), at)
	}
}

func awaitHolder(dir string) (h cli.Holder, err error) {
	for range 12_000 { // a minute; a busy machine needs long
		text, err := os.ReadFile(filepath.Join(dir, cli.HolderName))
		if err == nil && json.Unmarshal(text, &h) == nil && cli.Alive(h.PID) {
			return h, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return h, fmt.Errorf("no server has opened %s", dir)
}

// terminate sends SIGTERM to the server of a folder.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	send(ts, args[0], syscall.SIGTERM)
}

// hangup sends SIGHUP to the server of a folder: it reads its keys and certificate
// again.
func hangup(ts *testscript.TestScript, neg bool, args []string) {
	send(ts, args[0], syscall.SIGHUP)
}

func send(ts *testscript.TestScript, dir string, s syscall.Signal) {
	h, err := awaitHolder(ts.MkAbs(dir))
	ts.Check(err)
	ts.Check(syscall.Kill(h.PID, s))
}

// await repeats a request until the response has a status: await STATUS URL
// [HEADER].
func await(ts *testscript.TestScript, neg bool, args []string) {
	for range 12_000 {
		req, err := http.NewRequest(http.MethodGet, args[1], nil)
		ts.Check(err)
		if len(args) > 2 {
			name, value, _ := strings.Cut(args[2], ": ")
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		ts.Check(err)
		resp.Body.Close()
		if fmt.Sprint(resp.StatusCode) == args[0] {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	ts.Fatalf("%s never responded with status %s", args[1], args[0])
}

// many writes a file of tuples: many FILE N.
func many(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	text := "user_type,user_id,relation,object_type,object_id\n"
	for i := range n {
		text += fmt.Sprintf("user,x,viewer,doc,%d\n", 1000+i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// ask sends a request and prints status and body: ask METHOD URL [BODY |
// "Name: value"]…
func ask(ts *testscript.TestScript, neg bool, args []string) {
	req, err := http.NewRequest(args[0], args[1], nil)
	ts.Check(err)
	for _, a := range args[2:] {
		if name, value, ok := strings.Cut(a, ": "); ok && !strings.HasPrefix(a, "{") {
			req.Header.Add(name, value)
			continue
		}
		req.Body = io.NopCloser(strings.NewReader(a))
		req.ContentLength = int64(len(a))
		req.Header.Set("Content-Type", "application/json")
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%d\n%s\n", resp.StatusCode, text)
}
