package rules

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares text with a file of testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is meant: go test ./internal/rules -rewrite\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}

// goTool runs the go command at the module's root.
func goTool(t *testing.T, env []string, args ...string) string {
	t.Helper()
	return run(t, env, "go", args...)
}

// run runs a command at the module's root and returns what it printed.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, e.Stderr)
		}
		t.Fatal(err)
	}
	return string(out)
}

// TestLibraryDependencies: who embeds the library gets these packages besides
// the standard library's inner ones, and no network, SQL or protobuf.
func TestLibraryDependencies(t *testing.T) {
	dependencies(t, "library-deps.txt", ".", "./storage/memory", "./storage/kv")
}

// TestACPDependencies: likewise who embeds acp.
func TestACPDependencies(t *testing.T) {
	dependencies(t, "acp-deps.txt", "./acp", "./storage/memory", "./storage/kv")
}

// dependencies compares what is not the standard library's with a golden list.
func dependencies(t *testing.T, file string, packages ...string) {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", "{{if .Standard}}std {{end}}{{.ImportPath}}"}, packages...)
	var foreign []string
	for line := range strings.Lines(goTool(t, nil, args...)) {
		line = strings.TrimSpace(line)
		path := strings.TrimPrefix(line, "std ")
		for _, no := range []string{"net", "net/http", "database/sql", "google.golang.org/grpc", "google.golang.org/protobuf", "github.com/antlr4-go", "crypto/tls"} {
			if path == no || strings.HasPrefix(path, no+"/") && no != "net" {
				t.Errorf("%v pulls in %s", packages, path)
			}
		}
		if !strings.HasPrefix(line, "std ") {
			foreign = append(foreign, path)
		}
	}
	slices.Sort(foreign)
	golden(t, file, strings.Join(foreign, "\n")+"\n")
}
