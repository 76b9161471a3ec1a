package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// cuttingProxy is a server in front of an Ostiary. It cuts the connections of
// exports.
type cuttingProxy struct {
	source string

	mu sync.Mutex
	// cuts are the bytes after which it cuts the next exports, without a cut after the
	// last one. With hold, the next export waits for the end of its request.
	cuts   []int
	hold   bool
	held   chan string // receives skip of an export that is held
	skips  []string    // skip of each export
	before func()      // is called before each export
}

func (p *cuttingProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cut := -1
	if strings.HasSuffix(r.URL.Path, "/export") {
		skip := r.URL.Query().Get("skip")
		p.mu.Lock()
		p.skips = append(p.skips, skip)
		hold := len(p.cuts) == 0 && p.hold
		if len(p.cuts) > 0 {
			cut, p.cuts = p.cuts[0], p.cuts[1:]
		}
		p.mu.Unlock()
		if p.before != nil {
			p.before()
		}
		if hold {
			p.held <- skip
			<-r.Context().Done()
			return
		}
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.source+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(err)
	}
	req.Header = r.Header
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	if cut == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(resp.StatusCode)
	if cut > 0 {
		if n, _ := io.CopyN(w, resp.Body, int64(cut)); n == int64(cut) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	io.Copy(w, resp.Body)
}

// filledSource serves a store with tuples, some with conditions and expiries, and
// with attributes. It returns the URL and the store's id.
func filledSource(t *testing.T, tuples, attributes int) (url, store string) {
	t.Helper()
	url = serveMemory(t)
	if code, _, stderr := runOn(t, []string{"--server", url}, "store", "create", "big"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	var stores struct{ Stores []struct{ ID string } }
	getJSON(t, url+nativePrefix+"/stores", &stores)
	store = stores.Stores[0].ID
	direct := schema.RelationDef{Name: "viewer", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}, {Type: "user", Condition: "small"}}}
	model, err := json.Marshal(map[string]any{"model": schema.Model{
		Types:      []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{direct}, Attributes: []schema.AttributeDef{{Name: "public", Type: expr.Type{Kind: expr.Bool}}}}},
		Conditions: []expr.Definition{{Name: "small", Params: []expr.Param{{Name: "x", Type: expr.Type{Kind: expr.Int}}}, Source: "x < 10"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	post(t, url+nativePath+store+"/schemas", "application/json", bytes.NewReader(model))
	var lines bytes.Buffer
	for i := range tuples {
		more := ""
		switch i % 7 {
		case 0:
			more = `,"expires":"2099-01-02T03:04:05Z"`
		case 1:
			more = fmt.Sprintf(`,"condition":"small","context":{"x":%d}`, i)
		}
		fmt.Fprintf(&lines, `{"tuple":{"object":"doc:%d","relation":"viewer","subject":"user:%d"%s}}`+"\n", i, i%50, more)
	}
	for i := range attributes {
		fmt.Fprintf(&lines, `{"attribute":{"object":"doc:%d","name":"public","value":true}}`+"\n", i)
	}
	fmt.Fprintf(&lines, `{"end":{"tuples":%d,"attributes":%d}}`+"\n", tuples, attributes)
	post(t, url+nativePath+store+"/import", "application/x-ndjson", &lines)
	return url, store
}

func post(t *testing.T, url, contentType string, body io.Reader) {
	t.Helper()
	resp, err := http.Post(url, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		t.Fatalf("%s: %s", url, text)
	}
}

func getJSON(t *testing.T, url string, out any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
}

// exported returns the lines of the export of a store of a server, without its end,
// at a token; "" is the newest revision.
func exported(t *testing.T, url, store, token string) []string {
	t.Helper()
	if token != "" {
		token = "?token=" + token
	}
	resp, err := http.Get(url + nativePath + store + "/export" + token)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s", err, text)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if !strings.HasPrefix(lines[len(lines)-1], `{"end":`) {
		t.Fatalf("the export ends with %s", lines[len(lines)-1])
	}
	return lines[:len(lines)-1]
}

// copied returns the lines of the export of the store in a target.
func copied(t *testing.T, target []string, store string) []string {
	t.Helper()
	if target[0] == "--server" {
		return exported(t, target[1], store, "")
	}
	return exported(t, serveFolder(t, target[1]), store, "")
}

// serveFolder runs a server on a data folder until the test ends, and returns its
// URL.
func serveFolder(t *testing.T, folder string) string {
	t.Helper()
	k := &killed{dir: folder, http: &http.Client{}}
	k.start(t)
	t.Cleanup(func() { k.kill(t) })
	return k.base
}

// An import whose connection breaks again and again copies exactly the revision that
// was the newest one when it began, whatever the source gets meanwhile.
func TestImportCut(t *testing.T) {
	t.Parallel()
	onFolderAndServer(t, func(t *testing.T, target []string) {
		url, store := filledSource(t, 5000, 1500)
		want := exported(t, url, store, "")
		size := len(strings.Join(want, "\n"))
		writes := 0
		proxy := &cuttingProxy{source: url, cuts: []int{0, 1, 100, 1000, 0, size / 3, 100, size / 2, 10, 1000, 50, 50, 50, 50}, before: func() {
			body := fmt.Sprintf(`{"add":[{"object":"doc:new%d","relation":"viewer","subject":"user:1"}],"remove":[{"object":"doc:%d","relation":"viewer","subject":"user:%d"}]}`, writes, writes, writes%50)
			writes++
			resp, err := http.Post(url+nativePath+store+"/write", "application/json", strings.NewReader(body))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("write to the source: %v, %v", resp, err)
				return
			}
			resp.Body.Close()
		}}
		server := httptest.NewServer(proxy)
		defer server.Close()
		code, stdout, stderr := runImport(t, target, server.URL)
		if code != cli.ExitOK || !strings.Contains(stdout, `"tuples":5000,"attributes":1500`) {
			t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
		}
		if len(proxy.cuts) != 0 || writes != 15 {
			t.Errorf("%d cuts are left after %d exports, want 0 after 15", len(proxy.cuts), writes)
		}
		if got := copied(t, target, store); !slices.Equal(got, want) {
			t.Errorf("the copy has %d lines, the source had %d; the first differences: %v", len(got), len(want), differing(got, want))
		}
	})
}

// differing returns a few lines that only one of two exports has.
func differing(a, b []string) (out []string) {
	in := map[string]int{}
	for _, line := range a {
		in[line]++
	}
	for _, line := range b {
		in[line]--
	}
	for line, n := range in {
		if n != 0 && len(out) < 3 {
			out = append(out, fmt.Sprintf("%s (%+d)", line, n))
		}
	}
	return out
}

// An import that is killed leaves a store that answers no question, neither to the
// command line nor to a server on the folder. The next import continues with the line
// after the last one that is in the folder.
func TestImportKilled(t *testing.T) {
	t.Parallel()
	url, store := filledSource(t, 5000, 1500)
	want := exported(t, url, store, "")
	bytes := len(strings.Join(want, "\n"))
	for _, cut := range []int{0, bytes / 2, bytes + 1} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			t.Parallel()
			proxy := &cuttingProxy{source: url, cuts: []int{cut}, hold: true, held: make(chan string, 1)}
			server := httptest.NewServer(proxy)
			defer server.Close()
			target := []string{"--data", filepath.Join(t.TempDir(), "data")}
			cmd := exec.Command("ostiary", append([]string{"import", "--from", server.URL}, target...)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			skip := <-proxy.held // the lines before are in the folder
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if (skip == "") != (cut == 0) {
				t.Errorf("the second attempt skipped %q lines", skip)
			}
			expectIncomplete(t, target, store)
			expectIncompleteServer(t, target[1], store)
			proxy.mu.Lock()
			proxy.hold, proxy.skips = false, nil
			proxy.mu.Unlock()
			if code, stdout, stderr := runImport(t, target, server.URL); code != cli.ExitOK || !strings.Contains(stdout, `"tuples":5000,"attributes":1500`) {
				t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
			}
			if !slices.Equal(proxy.skips, []string{skip}) {
				t.Errorf("the next import skipped %q lines, want %q", proxy.skips, skip)
			}
			if code, stdout, stderr := runOn(t, target, "check", "user:0", "viewer", "doc:0"); code != cli.ExitOK {
				t.Errorf("check after the import: exit code %d, %s%s", code, stdout, stderr)
			}
			if got := copied(t, target, store); !slices.Equal(got, want) {
				t.Errorf("the copy has %d lines, the source had %d; the first differences: %v", len(got), len(want), differing(got, want))
			}
		})
	}
}

// expectIncomplete checks that commands refuse to answer from an incomplete store.
func expectIncomplete(t *testing.T, target []string, store string) {
	t.Helper()
	for _, args := range [][]string{{"check", "user:0", "viewer", "doc:0"}, {"tuple", "read"}, {"tuple", "export"}} {
		code, stdout, stderr := runOn(t, append([]string{"--json", "--store", store}, target...), args...)
		if code != cli.ExitError || !strings.Contains(stdout+stderr, `"incomplete"`) || !strings.Contains(stdout+stderr, "the import into the store is not complete") {
			t.Errorf("%v on an incomplete store: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}

// expectIncompleteServer is like expectIncomplete, for doors of a server on the
// folder.
func expectIncompleteServer(t *testing.T, folder, store string) {
	t.Helper()
	k := &killed{dir: folder, http: &http.Client{}}
	k.start(t)
	defer k.kill(t)
	for path, body := range map[string]string{
		nativePath + store + "/check":  `{"object":"doc:1","relation":"viewer","subject":"user:1"}`,
		"/stores/" + store + "/check":  `{"tuple_key":{"object":"doc:1","relation":"viewer","user":"user:1"}}`,
		nativePath + store + "/read":   `{}`,
		"/stores/" + store + "/read":   `{}`,
		nativePath + store + "/expand": `{"object":"doc:1","relation":"viewer"}`,
	} {
		resp, err := http.Post(k.base+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "the import into the store is not complete") {
			t.Errorf("%s of an incomplete store: %s %s", path, resp.Status, text)
		}
	}
}

// An import cannot continue after the source's store was deleted and created again.
// The incomplete copy can be deleted.
func TestImportOfAnotherStore(t *testing.T) {
	t.Parallel()
	onFolderAndServer(t, func(t *testing.T, target []string) {
		url, store := filledSource(t, 3000, 0)
		proxy := &cuttingProxy{source: url, cuts: []int{1000, 0, 0, 0, 0, 0, 0}}
		server := httptest.NewServer(proxy)
		defer server.Close()
		if code, _, stderr := runImport(t, target, server.URL); code != cli.ExitError || !strings.Contains(stderr, "in each of 6 attempts") {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
		expectIncomplete(t, target, store)
		for _, args := range [][]string{{"store", "delete", store, "--yes"}, {"store", "create", "big", "--id", store}} {
			if code, _, stderr := runOn(t, []string{"--server", url}, args...); code != cli.ExitOK {
				t.Fatal(stderr)
			}
		}
		if code, _, stderr := runImport(t, target, server.URL); code != cli.ExitError || !strings.Contains(stderr, "delete the store from the target, and import it again") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		expectIncomplete(t, target, store)
		if code, _, stderr := runOn(t, target, "store", "delete", store, "--yes"); code != cli.ExitOK {
			t.Error(stderr)
		}
		if code, _, stderr := runImport(t, target, server.URL); code != cli.ExitOK {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	})
}
