package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// endless is a file of tuples without an end, in JSON lines. It calls stop after
// 500 tuples.
type endless struct {
	n    int
	line string // the rest of the current line
	stop func()
}

func (e *endless) Read(p []byte) (int, error) {
	if e.line == "" {
		e.n++
		e.line = fmt.Sprintf(`{"user":"user:%d","relation":"viewer","object":"doc:1"}`+"\n", e.n)
	}
	if e.n == 5000 { // more than a client sends at once
		e.stop()
	}
	n := copy(p, e.line)
	e.line = e.line[n:]
	return n, nil
}

// The error of an import that the user interrupts names the interruption, the number
// of imported tuples, and how to continue.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		target     []string
		flags      []string
	}{
		{"folder", "ostiary: interrupted (imported before the error: ", []string{"--data", filepath.Join(t.TempDir(), "data")}, []string{"--entry", "100"}},
		{"server", "ostiary: interrupted (the number of imported tuples is unknown)\n", []string{"--server", serveMemory(t)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fillDocs(t, c.target)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var out, stderr bytes.Buffer
			a := &cli.App{In: &endless{stop: stop}, Out: &out, Err: &stderr, Lookup: func(string) (string, bool) { return "", false }}
			code := run(ctx, a, append(append([]string{"tuple", "import", "-", "--format", "jsonl"}, c.target...), c.flags...))
			if code != cli.ExitError || !strings.HasPrefix(stderr.String(), c.want) || !strings.HasSuffix(stderr.String(), "\nto import the rest, run the command again with --on-duplicate ignore\n") {
				t.Errorf("exit code %d, %q, want %q", code, stderr.String(), c.want)
			}
			if code, _, text := runOn(t, c.target, "tuple", "export", filepath.Join(t.TempDir(), "out.csv")); code != cli.ExitOK {
				t.Error(text)
			}
		})
	}
}

// fillDocs makes a store with a schema.
func fillDocs(t *testing.T, target []string) {
	t.Helper()
	model := filepath.Join(t.TempDir(), "model.fga")
	if err := os.WriteFile(model, []byte("model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"store", "create", "acme"}, {"schema", "write", model}} {
		if code, _, stderr := runOn(t, target, args...); code != cli.ExitOK {
			t.Fatal(stderr)
		}
	}
}

// The error of an import whose server ends in the middle has what is known.
func TestImportConnectionLost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/import"):
			io.CopyN(io.Discard, r.Body, 100)
			panic(http.ErrAbortHandler)
		case r.URL.Path == nativePrefix+"/stores":
			fmt.Fprintf(w, `{"stores":[{"id":%q,"name":"acme"}]}`, movedStore)
		default:
			fmt.Fprint(w, "{}")
		}
	}))
	defer server.Close()
	var stderr bytes.Buffer
	a := &cli.App{In: &endless{stop: func() {}}, Out: io.Discard, Err: &stderr, Lookup: func(string) (string, bool) { return "", false }}
	code := run(context.Background(), a, []string{"tuple", "import", "-", "--format", "jsonl", "--store", "acme", "--server", server.URL})
	text := stderr.String()
	if code != cli.ExitError || !strings.HasPrefix(text, "ostiary: the connection to "+server.URL+" was lost during the import: ") ||
		!strings.Contains(text, " (the number of imported tuples is unknown)\nto import the rest, run the command again with --on-duplicate ignore\n") || strings.Contains(text, "Post") {
		t.Errorf("exit code %d, %s", code, text)
	}
}
