package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/serve"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/server"
)

const movedStore = "01KC0000000000000000000001"

// brokenSource is a server with OpenFGA's API that fails after some pages of
// tuples.
type brokenSource struct {
	pages   int      // pages that it still serves
	tokens  []string // continuation tokens that it received
	refuses bool     // it refuses every token once
}

func (s *brokenSource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	write := func(v any) { json.NewEncoder(w).Encode(v) }
	switch {
	case strings.HasPrefix(r.URL.Path, nativePrefix):
		http.NotFound(w, r)
	case r.URL.Path == "/stores":
		write(map[string]any{"stores": []any{map[string]string{"id": movedStore, "name": "moved"}}})
	case strings.HasSuffix(r.URL.Path, "/authorization-models"):
		fmt.Fprint(w, `{"authorization_models":[{"id":"01KC0000000000000000000003","schema_version":"1.1","type_definitions":[{"type":"user"},{"type":"doc","relations":{"viewer":{"this":{}}},`+
			`"metadata":{"relations":{"viewer":{"directly_related_user_types":[{"type":"user"}]}}}}]}],"continuation_token":""}`)
	case strings.Contains(r.URL.Path, "/assertions/"):
		fmt.Fprint(w, `{"authorization_model_id":"01KC0000000000000000000003","assertions":[{"tuple_key":{"user":"user:1","relation":"viewer","object":"doc:1"},"expectation":true}]}`)
	case strings.HasSuffix(r.URL.Path, "/read"):
		var in struct {
			Token string `json:"continuation_token"`
		}
		json.NewDecoder(r.Body).Decode(&in)
		s.tokens = append(s.tokens, in.Token)
		if s.refuses && in.Token != "" {
			s.refuses = false
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"code":"invalid_continuation_token","message":"Invalid continuation token"}`)
			return
		}
		if s.pages--; s.pages < 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		n, _ := strconv.Atoi(in.Token)
		next := ""
		if n < movedPages-1 {
			next = strconv.Itoa(n + 1)
		}
		var tuples []any
		for i := range 100 {
			tuples = append(tuples, map[string]any{"key": map[string]string{"user": fmt.Sprint("user:", i), "relation": "viewer", "object": fmt.Sprint("doc:", n)}})
		}
		write(map[string]any{"tuples": tuples, "continuation_token": next})
	}
}

const movedPages = 50

// runOn runs a command on a target, which is two words: --data and a folder, or
// --server and a URL. It returns the exit code and the output.
func runOn(t *testing.T, target []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: &out, Err: &err, Lookup: func(string) (string, bool) { return "", false }, Patience: cli.Patience{Pause: -1}}
	code = run(context.Background(), a, append(args, target...))
	return code, out.String(), err.String()
}

// runImport imports from the source and returns the exit code and the output.
func runImport(t *testing.T, target []string, url string) (code int, stdout, stderr string) {
	t.Helper()
	return runOn(t, target, "import", "--from", url, "--json")
}

// onFolderAndServer runs a test on a new data folder and on a new server.
func onFolderAndServer(t *testing.T, f func(t *testing.T, target []string)) {
	t.Run("folder", func(t *testing.T) {
		t.Parallel()
		f(t, []string{"--data", filepath.Join(t.TempDir(), "data")})
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		f(t, []string{"--server", serveMemory(t)})
	})
}

// serveMemory serves all doors on an engine in memory until the test ends, and
// returns the URL.
func serveMemory(t *testing.T) string {
	t.Helper()
	url, _ := startMemory(t)
	return url
}

// startMemory is like serveMemory and also returns the server.
func startMemory(t *testing.T) (string, *server.Server) {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{Conditions: cli.Conditions(cel.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	doors, err := serve.AllDoors(e, &serve.DoorFlags{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{HTTP: "127.0.0.1:0", Doors: doors, Log: slog.New(slog.DiscardHandler), DrainTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	return "http://" + srv.Addresses()[0].Addr.String(), srv
}

const movedResult = `[{"store":"` + movedStore + `","name":"moved","models":1,"assertions":1,"tuples":5000}]` + "\n"

// An import that a failure of the source ends continues at the last page that is
// in the data folder.
func TestImportContinues(t *testing.T) {
	t.Parallel()
	onFolderAndServer(t, func(t *testing.T, target []string) {
		source := &brokenSource{pages: 31}
		server := httptest.NewServer(source)
		defer server.Close()
		code, _, stderr := runImport(t, target, server.URL)
		if code != cli.ExitError || !strings.Contains(stderr, "status 503") || !strings.Contains(stderr, "run the same command again to continue") {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
		source.pages, source.tokens = 1000, nil
		code, stdout, stderr := runImport(t, target, server.URL)
		if code != cli.ExitOK || stdout != movedResult {
			t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
		}
		if source.tokens[0] != "20" || len(source.tokens) != 30 {
			t.Errorf("the second run read %d pages from %q, want 30 from 20", len(source.tokens), source.tokens[0])
		}
		if _, out, _ := runOn(t, target, "schema", "list"); !strings.Contains(out, "01KC0000000000000000000003") {
			t.Errorf("the model has another id:\n%s", out)
		}
		source.tokens = nil
		if code, stdout, _ := runImport(t, target, server.URL); code != cli.ExitOK || len(source.tokens) != 0 || !strings.Contains(stdout, `"before":true`) {
			t.Errorf("a third run: exit code %d, %s, %d pages read, want none", code, stdout, len(source.tokens))
		}
	})
}

// If the source refuses the position of an earlier run, the import reads all
// tuples again and counts each once.
func TestImportPositionRefused(t *testing.T) {
	t.Parallel()
	onFolderAndServer(t, func(t *testing.T, target []string) {
		source := &brokenSource{pages: 31}
		server := httptest.NewServer(source)
		defer server.Close()
		if code, _, stderr := runImport(t, target, server.URL); code != cli.ExitError {
			t.Fatalf("exit code %d, %s", code, stderr)
		}
		source.pages, source.refuses, source.tokens = 1000, true, nil
		if code, stdout, stderr := runImport(t, target, server.URL); code != cli.ExitOK || stdout != movedResult || len(source.tokens) != movedPages+1 {
			t.Errorf("exit code %d, %s%s, %d pages read", code, stdout, stderr, len(source.tokens))
		}
	})
}

// An import does not write to a store that it did not create.
func TestImportOverExistingStore(t *testing.T) {
	t.Parallel()
	onFolderAndServer(t, func(t *testing.T, target []string) {
		server := httptest.NewServer(&brokenSource{pages: 1000})
		defer server.Close()
		if code, _, stderr := runOn(t, target, "store", "create", "mine", "--id", movedStore); code != cli.ExitOK {
			t.Fatal(stderr)
		}
		if code, _, stderr := runImport(t, target, server.URL); code != cli.ExitOK {
			t.Errorf("import over an empty store: exit code %d, %s", code, stderr)
		}
		other := httptest.NewServer(&brokenSource{pages: 1000})
		defer other.Close()
		if code, _, stderr := runImport(t, target, other.URL); code != cli.ExitError || !strings.Contains(stderr, "expected --from "+server.URL) {
			t.Errorf("import from another server: exit code %d, %s", code, stderr)
		}
	})
}

// An import does not write to a store with other data.
func TestImportOverData(t *testing.T) {
	t.Parallel()
	onFolderAndServer(t, func(t *testing.T, target []string) {
		source := httptest.NewServer(&brokenSource{pages: 1000})
		defer source.Close()
		model := filepath.Join(t.TempDir(), "model.fga")
		if err := os.WriteFile(model, []byte("model\n  schema 1.1\ntype user\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"store", "create", "mine", "--id", movedStore}, {"schema", "write", model}} {
			if code, _, stderr := runOn(t, target, args...); code != cli.ExitOK {
				t.Fatal(stderr)
			}
		}
		if code, _, stderr := runImport(t, target, source.URL); code != cli.ExitError || !strings.Contains(stderr, "already has a store with this id that was not imported") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	})
}
