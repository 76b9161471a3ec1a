package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	a := &app{in: strings.NewReader(""), out: out, err: &errs, lookup: func(string) (string, bool) { return "", false }}
	if code := a.run(ctx, []string{"changes", "--follow", "--from", "2", "--data", "memory", "--model", model, "--tuples", tuples}); code != exitOK || errs.Len() > 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out.out.String(), errs.String())
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
	a := &app{in: strings.NewReader(""), out: broken{}, err: &errs, lookup: func(string) (string, bool) { return "", false }}
	if code := a.run(context.Background(), []string{"version"}); code != exitError || !strings.Contains(errs.String(), "closed pipe") {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
}
