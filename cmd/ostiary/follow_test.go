package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/cmd/internal/cli"
)

// until is a writer that ends a context once the output contains text.
type until struct {
	out  bytes.Buffer
	text string
	end  context.CancelFunc
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.out.Write(p)
	if strings.Contains(u.out.String(), u.text) {
		u.end()
	}
	return n, err
}

// TestFollow checks that changes --follow prints the log, waits, and exits with 0
// when it is interrupted.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	model, tuples := filepath.Join(dir, "m.fga"), filepath.Join(dir, "t.csv")
	for name, text := range map[string]string{
		model:  "model\n  schema 1.1\ntype user\n  relations\n    define friend: [user]\n",
		tuples: "user_type,user_id,relation,object_type,object_id\nuser,a,friend,user,b\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	out := &until{text: "+ tuple user:b#friend@user:a\n", end: end}
	var errs bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: out, Err: &errs, Lookup: func(string) (string, bool) { return "", false }}
	if code := run(ctx, a, []string{"changes", "--follow", "--from", "2", "--data", "memory", "--model", model, "--tuples", tuples}); code != cli.ExitOK || errs.Len() > 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out.out.String(), errs.String())
	}
}

// steps is a writer that calls the next of its functions in a goroutine each time
// the output contains the text once more.
type steps struct {
	text string
	do   []func()
	done sync.WaitGroup
}

func (s *steps) Write(p []byte) (int, error) {
	for range bytes.Count(p, []byte(s.text)) {
		if len(s.do) > 0 {
			s.done.Go(s.do[0])
			s.do = s.do[1:]
		}
	}
	return len(p), nil
}

// TestStreamsEnd checks that commands that follow a server end with an error and
// the token to continue from when the server stops.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"changes", "--follow", "--from", "2"}, {"watch", "user", "friend", "user", "--object", "user:b"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			url, srv := startMemory(t)
			target := []string{"--server", url}
			model := filepath.Join(t.TempDir(), "m.fga")
			if err := os.WriteFile(model, []byte("model\n  schema 1.1\ntype user\n  relations\n    define friend: [user]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			do := func(args ...string) string {
				code, out, errs := runOn(t, target, args...)
				if code != cli.ExitOK {
					t.Errorf("%q: exit code %d\n%s", args, code, errs)
				}
				return out
			}
			do("store", "create", "s")
			do("schema", "write", model)
			if args[0] == "watch" {
				_, out, _ := runOn(t, target, "changes", "--json")
				var entry struct{ Token string }
				if err := json.NewDecoder(strings.NewReader(out)).Decode(&entry); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--from", entry.Token)
			}
			do("tuple", "write", "user:a", "friend", "user:b")
			// The second change arrives over the stream, which the stop then ends.
			out := &steps{text: "user:b", do: []func(){func() { do("tuple", "write", "user:c", "friend", "user:b") }, func() { srv.Stop() }}}
			var errs bytes.Buffer
			a := &cli.App{In: strings.NewReader(""), Out: out, Err: &errs, Lookup: func(string) (string, bool) { return "", false }}
			code := run(context.Background(), a, append(args, target...))
			out.done.Wait()
			if want := regexp.MustCompile(`(?m)^ostiary: the server ended the stream: it stops, or no longer accepts the key; to continue, run the command again with --from o1\S+$`); code != cli.ExitError || !want.MatchString(errs.String()) {
				t.Errorf("exit code %d\n%s", code, errs.String())
			}
		})
	}
}

// broken is a closed standard output.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestBrokenPipe checks that a result that cannot be written is an error, and
// never exit code 0.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	a := &cli.App{In: strings.NewReader(""), Out: broken{}, Err: &errs, Lookup: func(string) (string, bool) { return "", false }}
	if code := run(context.Background(), a, []string{"version"}); code != cli.ExitError || !strings.Contains(errs.String(), "closed pipe") {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
}
