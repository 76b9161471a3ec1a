package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/cmd/ostiary/internal/backups"
)

// TestBackupKilled kills backups of a server that is written to at later and later times, and then
// restores in the same way. After each kill the folder of the backup has a whole backup or none,
// and the new data folder is whole or does not exist. What is restored has the rows of the backup, and each
// write that was acknowledged before the last backup began.
func TestBackupKilled(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 0)
	p := &process{number: 0}
	c.all = append(c.all, p)
	c.launchAs(p)
	c.prepare(p)
	n := 0
	write := func() {
		t.Helper()
		if n++; n%10 == 0 { // stores come and go meanwhile
			var store struct{ ID string }
			if err := p.post("/stores", map[string]string{"name": "more"}, &store); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.write(p, n); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		write()
	}
	to, data := c.file("to"), c.folder(p)
	killed := 0
	// attempt runs a command, and returns false if it was killed before its end.
	attempt := func(wait time.Duration, args ...string) bool {
		t.Helper()
		cmd := exec.Command("ostiary", args...)
		out, err := runFor(t, cmd, wait)
		if err != nil && cmd.ProcessState.Exited() {
			t.Fatalf("ostiary %v: %v: %s", args, err, out)
		}
		if err != nil {
			killed++
		}
		return err == nil
	}
	for round := range 2 {
		for wait := 5 * time.Millisecond; !attempt(wait, "backup", to, "--data", data, "--rate", "100KiB"); wait = wait * 4 / 3 {
			write()
			if _, err := os.Stat(filepath.Join(to, "MANIFEST")); err == nil {
				c.run("verify", to)
			} else if round > 0 {
				t.Fatal("the backup that was there is gone")
			} else {
				c.fails(nil, "verify", to)
			}
		}
	}
	acknowledged := n
	c.run("backup", to, "--data", data)
	nothingLeft(t, filepath.Join(data, "backup-*"))
	c.kill(p)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	late := false
	for wait := 5 * time.Millisecond; !attempt(wait, "restore", to, "--data", data); wait = wait * 6 / 5 {
		if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
			late = true // after its last step
			break
		}
	}
	if !late {
		nothingLeft(t, data+".restore-*")
	}
	if a, b := rowsOf(c, "verify", to), rowsOf(c, "verify", "--data", data); a != b {
		t.Errorf("the rows are %s, those of the backup %s", b, a)
	}
	if t.Logf("killed %d times", killed); killed < 20 {
		t.Errorf("the commands were killed %d times, expected 20 at least", killed)
	}
	c.launchAs(p)
	for i := range acknowledged {
		c.shows(p, i+1)
	}
}

// nothingLeft requires that no folder of a command is left that has a file: one that was killed before
// it had its first one, SERVER, under that name, may be.
func nothingLeft(t *testing.T, pattern string) {
	t.Helper()
	left, _ := filepath.Glob(filepath.Join(pattern, "*"))
	if left = slices.DeleteFunc(left, func(path string) bool { return filepath.Base(path) == cli.HolderName+".new" }); len(left) > 0 {
		t.Errorf("the commands left %v", left)
	}
}

// rowsOf returns the hash of all rows that a command prints.
func rowsOf(c *nodes, args ...string) string {
	c.Helper()
	var out struct{ Rows string }
	if err := json.Unmarshal([]byte(c.run(append(args, "--json")...)), &out); err != nil || out.Rows == "" {
		c.Fatalf("%v: %+v, %v", args, out, err)
	}
	return out.Rows
}

// TestBackupOfNodes is a drill: each node of a cluster is backed up while clients write and stores
// come and go; then everything is lost, and what one backup restores becomes a new cluster. It has
// each write that was acknowledged before that backup began, and answers the same. A token of what
// came after is refused.
func TestBackupOfNodes(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 3, "--request-timeout", "60s")
	c.prepare(c.all[0])
	var clients sync.WaitGroup
	stop := make(chan struct{})
	acknowledged := make([]int, len(c.all))
	for i, p := range c.all {
		clients.Go(func() {
			for n := i; ; n += len(c.all) {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.write(p, n); err != nil {
					t.Errorf("node %d: %v", p.number, err)
					return
				}
				acknowledged[i] = n
				if n%50 == 0 {
					if err := p.post("/stores", map[string]string{"name": "more"}, nil); err != nil {
						t.Errorf("node %d: %v", p.number, err)
						return
					}
				}
			}
		})
	}
	drilled := func(p *process, all []drillRequest) string {
		answers, err := sendDrill(p.http, "", all)
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	drilled(c.all[1], drillWrites)
	answers := drilled(c.all[1], drillQuestions)
	time.Sleep(300 * time.Millisecond)
	for i, p := range c.all {
		to := c.file(fmt.Sprint("to", i))
		c.run("backup", to, "--data", c.folder(p))
		c.run("verify", to)
	}
	close(stop)
	clients.Wait()
	rows := rowsOf(c, "verify", "--data", c.folder(c.all[0]))
	for _, p := range c.all[1:] {
		c.eventually("the nodes have the same rows", func() bool { return rowsOf(c, "verify", "--data", c.folder(p)) == rows })
	}
	last := c.all[2]
	to := c.file("last")
	c.run("backup", to, "--data", c.folder(last))
	if got := rowsOf(c, "verify", to); got != rows {
		t.Errorf("the backup has the rows %s, expected %s", got, rows)
	}
	if found, _ := filepath.Glob(filepath.Join(to, "files", "*")); len(found) == 0 {
		t.Error("the backup has no files")
	}
	// A command that is not the owner's reaches nothing, and a name leads nowhere else.
	for _, folder := range []string{"", "..", "backup-1/../..", "cluster", "pebble", "/tmp/backup-1", "backup-1"} {
		err := cli.Control(t.Context(), c.folder(last), backups.CheckpointCommand, backups.CheckpointOptions{Folder: folder}, &struct{}{})
		if err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("a checkpoint into %q: %v", folder, err)
		}
	}
	if info, err := os.Stat(cli.ControlPath(c.folder(last))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	drilled(last, drillChanges)
	later := 1_000_000
	token := nativeWrite(c, last, later)
	for _, p := range c.all {
		c.kill(p)
		if err := os.RemoveAll(c.folder(p)); err != nil {
			t.Fatal(err)
		}
	}
	next := &process{number: 0}
	c.all = []*process{next}
	c.run("restore", to, "--data", c.folder(next))
	if got := rowsOf(c, "verify", "--data", c.folder(next)); got != rows {
		t.Errorf("restored the rows %s, expected %s", got, rows)
	}
	c.launchAs(next, "--request-timeout", "5s") // alone
	checks(c, next, acknowledged, later)
	if got := drilled(next, drillQuestions); got != answers {
		t.Errorf("the doors answer after the restore:\n%s\nexpected:\n%s", got, answers)
	}
	refuses(c, next, token, "future")
	c.kill(next)
	c.run("migrate", c.folder(next), "cluster:"+c.folder(next))
	c.start(next)
	checks(c, next, acknowledged, later)
	if got := drilled(next, drillQuestions); got != answers {
		t.Errorf("the doors answer as the first node of a cluster:\n%s\nexpected:\n%s", got, answers)
	}
	for n := range 20 { // its revisions are used again, by other entries
		if err := c.write(next, 2_000_000+n); err != nil {
			t.Fatal(err)
		}
	}
	refuses(c, next, token, "token")
	second := &process{number: 1}
	c.all = append(c.all, second)
	c.start(second)
	c.shows(second, 2_000_000)
}

// nativeWrite writes a tuple through the native door, and returns the token of its revision.
func nativeWrite(c *nodes, p *process, n int) string {
	c.Helper()
	var made struct{ Token string }
	tuple := map[string]string{"object": fmt.Sprintf("document:%d", n), "relation": "viewer", "subject": "user:anne"}
	if err := p.post("/ostiary/v1/stores/"+c.store+"/write", map[string]any{"add": []any{tuple}}, &made); err != nil || made.Token == "" {
		c.Fatalf("a write: token %q, error %v", made.Token, err)
	}
	return made.Token
}

// checks asks for the writes that were acknowledged, and for the later one that was lost.
func checks(c *nodes, p *process, acknowledged []int, later int) {
	c.Helper()
	for i, last := range acknowledged {
		for n := i; n <= last; n += len(acknowledged) * 7 {
			c.shows(p, n)
		}
		c.shows(p, last)
	}
	if allowed, err := c.check(p, later); err != nil || allowed {
		c.Errorf("the write after the backup: allowed %t, error %v", allowed, err)
	}
}

// refuses requires that a token of what came after the backup is refused with a code.
func refuses(c *nodes, p *process, token, code string) {
	c.Helper()
	response, err := http.Post(p.http+"/ostiary/v1/stores/"+c.store+"/check", "application/json",
		strings.NewReader(fmt.Sprintf(`{"object":"document:1","relation":"viewer","subject":"user:anne","at":{"at_least":%q}}`, token)))
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode/100 == 2 || !strings.Contains(string(text), `"code":"`+code+`"`) {
		c.Errorf("a token of what came after the backup: %s: %s, expected the code %s", response.Status, text, code)
	}
}
