package served

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
)

// installWait bounds an installation, flowWait a flow.
const (
	installWait = 5 * time.Minute
	flowWait    = time.Minute
)

// run runs a program in a folder and returns what it printed.
func run(t *testing.T, wait time.Duration, dir, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// need installs programs that are missing, and skips the test if it cannot.
func need(t *testing.T, programs ...string) {
	t.Helper()
	install := exec.Command("bash", append([]string{"../../../internal/workshop/bench/servers/install.sh"}, programs...)...)
	if out, err := install.Output(); err != nil {
		t.Skip(strings.TrimSpace(string(out)))
	}
}

// install prepares a folder of .work once for the given files. If the packages
// cannot be downloaded, it skips the test with the reason.
func install(t *testing.T, registry, name string, files []string, prepare func(dir string) (string, error)) string {
	t.Helper()
	defer servers.Lock(t, name)()
	dir := filepath.Join(servers.Work(t), name)
	var want []byte
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, b...)
	}
	stamp := filepath.Join(dir, "installed")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, want) {
		return dir
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := prepare(dir); err != nil {
		t.Skipf("needs the packages of %s of %s, which cannot be installed: %v\n%s", filepath.Base(files[0]), registry, err, out[max(0, len(out)-2000):])
	}
	if err := os.WriteFile(stamp, want, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// venv installs Python packages into a virtual environment of its own.
func venv(t *testing.T, name, requirements string, more ...string) string {
	t.Helper()
	need(t, "python3")
	return install(t, "PyPI", name, []string{requirements}, func(dir string) (string, error) {
		if out, err := run(t, installWait, dir, "python3", "-m", "venv", "venv"); err != nil {
			return out, err
		}
		args := append([]string{"install", "-q", "--disable-pip-version-check", "-r", "requirements.txt"}, more...)
		return run(t, installWait, dir, filepath.Join("venv", "bin", "pip"), args...)
	})
}

// flow runs an SDK's script, which prints "ok" at its end.
func flow(t *testing.T, dir, program, script string) {
	t.Helper()
	model, err := filepath.Abs("testdata/model.json")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, flowWait, dir, program, script, server(t).URL(""), model)
	if err != nil || strings.TrimSpace(out) != "ok" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestJavaScriptSDK plays the flow with the official JavaScript SDK.
func TestJavaScriptSDK(t *testing.T) {
	t.Parallel()
	need(t, "node", "npm")
	files := []string{"testdata/js/package.json", "testdata/js/package-lock.json"}
	dir := install(t, "npm", "js", files, func(dir string) (string, error) {
		return run(t, installWait, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	})
	script, err := os.ReadFile("testdata/js/flow.mjs")
	if err != nil {
		t.Fatal(err)
	}
	// A script finds its packages in its own folder.
	if err := os.WriteFile(filepath.Join(dir, "flow.mjs"), script, 0o644); err != nil {
		t.Fatal(err)
	}
	flow(t, dir, "node", "flow.mjs")
}

// TestPythonSDK plays the flow with the official Python SDK.
func TestPythonSDK(t *testing.T) {
	t.Parallel()
	dir := venv(t, "python", "testdata/python/requirements.txt")
	script, err := filepath.Abs("testdata/python/flow.py")
	if err != nil {
		t.Fatal(err)
	}
	flow(t, dir, filepath.Join(dir, "venv", "bin", "python"), script)
}

// TestCLI plays the flow with the fga command line.
func TestCLI(t *testing.T) {
	t.Parallel()
	dir := venv(t, "cli", "testdata/cli/requirements.txt", "--no-deps", "--require-hashes")
	f := &cliFlow{T: t, program: filepath.Join(dir, "venv", "bin", "fga"), url: server(t).URL("")}
	model, err := filepath.Abs("testdata/model.json")
	if err != nil {
		t.Fatal(err)
	}
	f.store = field(f.expect(`"name":"cli flow"`, "store", "create", "--name", "cli flow"), "id")
	f.expect(f.store, "store", "list")
	f.expect(`"name":"cli flow"`, "store", "get", "--store-id", f.store)
	f.model = field(f.expect("authorization_model_id", "model", "write", "--store-id", f.store, "--file", model, "--format", "json"), "authorization_model_id")
	f.expect("define viewer: ([user, user with in_hours] or owner or viewer from parent) but not blocked", "model", "get", "--store-id", f.store, "--model-id", f.model, "--format", "fga")
	f.expect(f.model, "model", "list", "--store-id", f.store)

	f.tuple("successful", "write", "user:anne", "member", "group:eng")
	f.tuple("successful", "write", "group:eng#member", "viewer", "folder:plans")
	f.tuple("successful", "write", "folder:plans", "parent", "document:roadmap")
	f.tuple("successful", "write", "user:bob", "owner", "document:roadmap")
	f.tuple("successful", "write", "user:carl", "viewer", "document:roadmap", "--condition-name", "in_hours", "--condition-context", `{"from":9,"until":17}`)
	f.tuple(`"user":"user:carl"`, "read", "--user", "user:carl", "--object", "document:")
	f.tuple(`"operation":"TUPLE_OPERATION_WRITE"`, "changes", "--type", "document")

	f.query(`"allowed":true`, "check", "user:anne", "viewer", "document:roadmap")
	f.query(`"allowed":false`, "check", "user:eve", "viewer", "document:roadmap")
	f.query(`"allowed":true`, "check", "user:eve", "viewer", "document:roadmap", "--contextual-tuple", "user:eve member group:eng")
	f.query(`"allowed":true`, "check", "user:carl", "viewer", "document:roadmap", "--context", `{"hour":10}`)
	f.query(`"allowed":false`, "check", "user:carl", "viewer", "document:roadmap", "--context", `{"hour":20}`)
	f.query(`["document:roadmap"]`, "list-objects", "user:anne", "viewer", "document")
	f.query(`"id":"bob"`, "list-users", "--object", "document:roadmap", "--relation", "viewer", "--user-filter", "user", "--context", `{"hour":10}`)
	f.query(`["owner","viewer"]`, "list-relations", "user:bob", "document:roadmap", "--relation", "owner", "--relation", "viewer", "--relation", "blocked")
	f.query(`"name":"document:roadmap#viewer"`, "expand", "viewer", "document:roadmap")

	f.refuses("write_failed_due_to_invalid_input", "tuple", "write", "--store-id", f.store, "user:anne", "member", "group:eng")
	f.refuses("validation_error", "query", "check", "--store-id", f.store, "user:a", "nonsense", "document:roadmap")
	f.tuple("", "delete", "user:anne", "member", "group:eng")
	f.query(`"allowed":false`, "check", "user:anne", "viewer", "document:roadmap")
	f.expect("", "store", "delete", "--store-id", f.store, "--force")
	f.refuses("store_id_not_found", "store", "get", "--store-id", f.store)
}

type cliFlow struct {
	*testing.T
	program, url, store, model string
}

// expect runs fga with args. The test fails if fga fails or if its output does
// not contain want. expect returns the output without the blanks after colons and
// commas.
func (f *cliFlow) expect(want string, args ...string) string {
	f.Helper()
	out, err := f.run(args)
	if err != nil || !strings.Contains(out, want) {
		f.Fatalf("fga %s: %v\n%s\nwant %s", strings.Join(args, " "), err, out, want)
	}
	return out
}

// refuses runs fga with args. The test fails unless fga fails and its output
// contains want.
func (f *cliFlow) refuses(want string, args ...string) {
	f.Helper()
	if out, err := f.run(args); err == nil || !strings.Contains(out, want) {
		f.Errorf("fga %s: %v\n%s\nwant %s", strings.Join(args, " "), err, out, want)
	}
}

func (f *cliFlow) run(args []string) (string, error) {
	f.Helper()
	out, err := run(f.T, flowWait, f.TempDir(), f.program, append(args, "--api-url", f.url)...)
	return compact(out), err
}

// compact removes the indentation of JSON, so that outputs can be compared.
func compact(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line))
		if !strings.ContainsAny(line, `{}[]",`) {
			b.WriteByte('\n')
		}
	}
	return strings.NewReplacer(`": `, `":`, `, "`, `,"`).Replace(b.String())
}

func (f *cliFlow) tuple(want string, args ...string) {
	f.Helper()
	f.expect(want, append([]string{"tuple", args[0], "--store-id", f.store}, args[1:]...)...)
}

func (f *cliFlow) query(want string, args ...string) {
	f.Helper()
	f.expect(want, append([]string{"query", args[0], "--store-id", f.store}, args[1:]...)...)
}

// field finds the first field of a name in JSON.
func field(text, name string) string {
	_, rest, _ := strings.Cut(text, fmt.Sprintf("%q:\"", name))
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
