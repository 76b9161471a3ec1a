package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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

// runImport imports from the source and returns the exit code and the output.
func runImport(t *testing.T, data, url string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &err, lookup: func(string) (string, bool) { return "", false }}
	code = a.run(context.Background(), []string{"import", "--data", data, "--from", url, "--json"})
	return code, out.String(), err.String()
}

const movedResult = `[{"store":"` + movedStore + `","name":"moved","models":1,"assertions":1,"tuples":5000}]` + "\n"

// An import that a failure of the source ends continues at the last page that is
// in the data folder.
func TestImportContinues(t *testing.T) {
	t.Parallel()
	source := &brokenSource{pages: 31}
	server := httptest.NewServer(source)
	defer server.Close()
	data := filepath.Join(t.TempDir(), "data")
	code, _, stderr := runImport(t, data, server.URL)
	if code != exitError || !strings.Contains(stderr, "status 503") || !strings.Contains(stderr, "run the same command again to continue") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	source.pages, source.tokens = 1000, nil
	code, stdout, stderr := runImport(t, data, server.URL)
	if code != exitOK || stdout != movedResult {
		t.Fatalf("exit code %d, %s%s", code, stdout, stderr)
	}
	if source.tokens[0] != "20" || len(source.tokens) != 30 {
		t.Errorf("the second run read %d pages from %q, want 30 from 20", len(source.tokens), source.tokens[0])
	}
	var out bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &out, lookup: func(string) (string, bool) { return "", false }}
	if a.run(context.Background(), []string{"schema", "list", "--data", data}); !strings.Contains(out.String(), "01KC0000000000000000000003") {
		t.Errorf("the model has another id:\n%s", out.String())
	}
	source.tokens = nil
	if code, stdout, _ := runImport(t, data, server.URL); code != exitOK || len(source.tokens) != 0 || !strings.Contains(stdout, `"before":true`) {
		t.Errorf("a third run: exit code %d, %s, %d pages read, want none", code, stdout, len(source.tokens))
	}
}

// If the source refuses the position of an earlier run, the import reads all
// tuples again and counts each once.
func TestImportPositionRefused(t *testing.T) {
	t.Parallel()
	source := &brokenSource{pages: 31}
	server := httptest.NewServer(source)
	defer server.Close()
	data := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := runImport(t, data, server.URL); code != exitError {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	source.pages, source.refuses, source.tokens = 1000, true, nil
	if code, stdout, stderr := runImport(t, data, server.URL); code != exitOK || stdout != movedResult || len(source.tokens) != movedPages+1 {
		t.Errorf("exit code %d, %s%s, %d pages read", code, stdout, stderr, len(source.tokens))
	}
}

// An import does not write to a store that it did not create.
func TestImportOverExistingStore(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&brokenSource{pages: 1000})
	defer server.Close()
	data := filepath.Join(t.TempDir(), "data")
	var out bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &out, err: &out, lookup: func(string) (string, bool) { return "", false }}
	if code := a.run(context.Background(), []string{"store", "create", "mine", "--id", movedStore, "--data", data}); code != exitOK {
		t.Fatal(out.String())
	}
	if code, _, stderr := runImport(t, data, server.URL); code != exitOK {
		t.Errorf("import over an empty store: exit code %d, %s", code, stderr)
	}
	other := httptest.NewServer(&brokenSource{pages: 1000})
	defer other.Close()
	if code, _, stderr := runImport(t, data, other.URL); code != exitError || !strings.Contains(stderr, "expected --from "+server.URL) {
		t.Errorf("import from another server: exit code %d, %s", code, stderr)
	}
}
