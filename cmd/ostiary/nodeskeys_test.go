package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startKeyNodes starts three processes with a secret key and a deployment of Identity,
// which a node that does not write bootstraps.
func startKeyNodes(t *testing.T, log func() string) *nodes {
	t.Helper()
	key := filepath.Join(t.TempDir(), "secret.key")
	if err := os.WriteFile(key, []byte("AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--secret-key-file", key, "--keystone-password-hash-rounds", "4"}
	var c *nodes
	if log == nil {
		c = startNodes(t, 3, flags...)
	} else {
		c = startNodesOn(t, log(), 3, flags...)
	}
	c.run("keystone", "bootstrap", "--bootstrap-password", "secret", "--data", c.folder(c.other(c.holder())))
	for _, p := range c.all {
		if _, err := os.Stat(c.folder(p) + ".fernet"); err == nil {
			t.Errorf("node %d has a folder of keys", p.number)
		}
	}
	return c
}

// other returns a node that runs, other than one.
func (c *nodes) other(than *process) *process {
	for _, p := range c.all {
		if p != than && p.alive() {
			return p
		}
	}
	c.Fatal("no other node runs")
	return nil
}

// login logs in to the Identity API of a node, and returns a token.
func (p *process) login() (string, error) {
	body := `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}}}}`
	response, err := http.Post(p.http+"/v3/auth/tokens", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("login: %s: %s", response.Status, text)
	}
	return response.Header.Get("X-Subject-Token"), err
}

// validate validates a token with itself.
func (p *process) validate(token string) error {
	r, err := http.NewRequest(http.MethodGet, p.http+"/v3/auth/tokens", nil)
	if err != nil {
		return err
	}
	r.Header.Set("X-Auth-Token", token)
	r.Header.Set("X-Subject-Token", token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("validation: %s: %.200s", response.Status, text)
	}
	return err
}

// mustLogin returns a token of a node.
func (c *nodes) mustLogin(p *process) string {
	c.Helper()
	token, err := p.login()
	if err != nil {
		c.Fatalf("node %d: %v", p.number, err)
	}
	return token
}

// valid requires that all nodes that run accept tokens.
func (c *nodes) valid(what string, tokens ...string) {
	c.Helper()
	for i, token := range tokens {
		for _, p := range c.all {
			if !p.alive() {
				continue
			}
			if err := p.validate(token); err != nil {
				c.Errorf("%s: token %d at node %d: %v", what, i, p.number, err)
			}
		}
	}
}

// rotate rotates the keys of tokens through a node, and returns the number of the primary
// key. No key is removed.
func (c *nodes) rotate(through *process, flags ...string) int {
	c.Helper()
	out := c.run(append([]string{"keystone", "rotate", "--json", "--max-active-keys", "50", "--wait", "50s", "--data", c.folder(through)}, flags...)...)
	var done struct{ Primary int }
	if err := json.Unmarshal([]byte(out), &done); err != nil {
		c.Fatalf("rotate prints %s", out)
	}
	return done.Primary
}

// refusesRotation requires that a rotation fails with an error that contains texts.
func (c *nodes) refusesRotation(through *process, texts ...string) {
	c.Helper()
	c.fails(texts, "keystone", "rotate", "--wait", "0s", "--data", c.folder(through))
}

// underLoad calls f while clients log in at each node and validate the tokens at all of
// them. No request may fail.
func (c *nodes) underLoad(f func()) {
	c.Helper()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, p := range c.all {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					c.Logf("node %d: %d logins, each validated at all nodes", p.number, n)
					return
				case <-time.After(2 * clientPause): // an iteration has four requests
				}
				token, err := p.login()
				for _, at := range c.all {
					if err == nil {
						err = at.validate(token)
					}
					if err != nil {
						c.Errorf("login at node %d, then node %d: %v", p.number, at.number, err)
						return
					}
				}
			}
		})
	}
	f()
	close(stop)
	clients.Wait()
}

// TestNodesRotateKeys rotates the keys of tokens that are in the system store, through each
// node and under load. A token stays valid at all nodes, also at one that was stopped or
// paused meanwhile. A rotation waits for nodes that lack the staged key, or names them.
func TestNodesRotateKeys(t *testing.T) {
	t.Parallel()
	t.Run("RAM", func(t *testing.T) {
		t.Parallel()
		testRotateKeys(startKeyNodes(t, nil))
	})
	t.Run("Raft", func(t *testing.T) {
		t.Parallel()
		testRotateKeys(startKeyNodes(t, func() string { return "" }))
	})
}

func testRotateKeys(c *nodes) {
	t := c.T
	t.Helper()
	first := c.mustLogin(c.all[0])
	c.valid("before a rotation", first)
	primary := 1
	c.underLoad(func() {
		for _, through := range c.all {
			if primary++; c.rotate(through) != primary {
				t.Errorf("the primary key is not %d", primary)
			}
			c.valid("while the keys are rotated", first)
		}
	})

	// A node that is stopped has the key that is staged now, and lacks the next one.
	third := c.other(c.holder())
	id := c.id(third)
	if err := third.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-third.ended
	through := c.other(third)
	primary++
	if got := c.rotate(through); got != primary {
		t.Errorf("the primary key is %d, want %d", got, primary)
	}
	c.refusesRotation(through, "the staged key cannot become the primary one", id, "does not run")
	meanwhile := c.mustLogin(through)
	primary++
	if got := c.rotate(through, "--force"); got != primary {
		t.Errorf("the primary key is %d, want %d", got, primary)
	}
	tokens := []string{first, meanwhile, c.mustLogin(through)}
	c.start(third)
	tokens = append(tokens, c.mustLogin(third))
	c.valid("after a node has come back", tokens...)

	// A node that hangs lacks the staged key, too. The rotation waits until it goes on.
	paused := c.other(c.holder())
	primary++
	c.rotate(c.other(paused))
	c.eventually("all nodes have reported the staged key", func() bool {
		return !strings.Contains(c.run("keystone", "keys", "list", "--data", c.folder(paused)), "is not known to have arrived")
	})
	if err := paused.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := sync.OnceFunc(func() { _ = paused.cmd.Process.Signal(syscall.SIGCONT) })
	defer resume()
	primary++
	c.rotate(c.other(paused))
	c.refusesRotation(c.other(paused), "the staged key cannot become the primary one", "at 127.0.0.1:")
	time.AfterFunc(time.Second, resume)
	primary++
	if got := c.rotate(c.other(paused)); got != primary {
		t.Errorf("the primary key is %d, want %d", got, primary)
	}
	c.valid("after a node has hung", append(tokens, c.mustLogin(c.other(paused)), c.mustLogin(paused))...)
	for _, p := range c.all {
		if keys := c.run("keystone", "keys", "list", "--data", c.folder(p)); strings.Count(keys, "\ntokens ") != primary+1 || strings.Count(keys, "\nreceipts ") != 2 {
			t.Errorf("node %d lists\n%s", p.number, keys)
		}
	}
}
