package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// walkOutput is a writer that ends a command once it has printed a number of
// lines.
type walkOutput struct {
	mu     sync.Mutex
	text   bytes.Buffer
	lines  int
	enough context.CancelFunc
}

func (u *walkOutput) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.text.Write(p)
	if u.lines > 0 && bytes.Count(u.text.Bytes(), []byte("\n")) >= u.lines {
		u.enough()
	}
	return len(p), nil
}

// TestWalk runs the commands of docs/why.md and compares their output. In the page,
// "…" matches any text, and TOKEN matches a token that later commands use.
func TestWalk(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	model := regexp.MustCompile("(?s)```fga\n(.*?)```").FindSubmatch(page)
	if err := os.WriteFile(filepath.Join(dir, "model.fga"), model[1], 0o600); err != nil {
		t.Fatal(err)
	}
	token, commands := "", 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllSubmatch(page, -1) {
		for _, part := range strings.Split("\n"+string(block[1]), "\n$ ostiary ")[1:] {
			line, want, _ := strings.Cut(part, "\n")
			want = strings.TrimRight(want, "\n")
			args := words(strings.ReplaceAll(line, "TOKEN", token))
			for i, a := range args {
				if a == "model.fga" {
					args[i] = filepath.Join(dir, a)
				}
			}
			got := strings.TrimRight(runUntil(t, append(args, "--data", filepath.Join(dir, "data")), strings.Count(want, "\n")+1), "\n")
			pattern := regexp.QuoteMeta(want)
			pattern = strings.ReplaceAll(strings.ReplaceAll(pattern, "…", ".*"), "TOKEN", "(o1[^\"]*)")
			found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(got)
			if found == nil {
				t.Fatalf("ostiary %s\nprints\n%s\ndocs/why.md has\n%s", line, got, want)
			}
			if len(found) > 1 {
				token = found[1]
			}
			commands++
		}
	}
	if commands < 15 {
		t.Errorf("docs/why.md has %d commands, expected at least 15", commands)
	}
}

// words splits a command line at blanks outside of quotes.
func words(line string) (out []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// runUntil runs a command. It interrupts a watch after so many lines of output.
func runUntil(t *testing.T, args []string, lines int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := &walkOutput{enough: cancel}
	if args[0] == "watch" {
		out.lines = lines
	}
	var stderr bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: out, Err: &stderr, Lookup: func(string) (string, bool) { return "", false }}
	if code := run(ctx, a, args); code == cli.ExitError {
		t.Fatalf("ostiary %s: %s", strings.Join(args, " "), stderr.String())
	}
	return out.text.String()
}
