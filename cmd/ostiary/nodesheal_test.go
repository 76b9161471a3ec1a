package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestNodesHeal restores the database of a log from a backup, as an operator does. The
// node does not start on it; ostiary node heal gives the log what the folder of the node
// has, and refuses all other cases.
func TestNodesHeal(t *testing.T) {
	t.Parallel()
	server := databases.PostgreSQL(t)
	c := startNodesOn(t, server.Database(), 1)
	p := c.all[0]
	c.prepare(p)
	stop := func() {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-p.ended
	}
	write := func(n int) {
		t.Helper()
		if err := c.write(p, n); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	heal := []string{"node", "heal", "--log", c.log, "--data", c.folder(p)}
	c.fails([]string{"--log"}, "node", "heal", "--data", c.folder(p))
	stop()
	name := c.log[strings.LastIndexByte(c.log, '/')+1:]
	server.Exec("create database backup template " + name)
	if out := c.run(heal...); !strings.Contains(out, "the log has lost nothing") {
		t.Errorf("a log that has lost nothing: %s", out)
	}
	c.start(p)
	write(2)
	write(3)
	stop()
	restore := func() {
		t.Helper()
		server.Exec("drop database " + name + " with (force)")
		server.Exec("create database " + name + " template backup")
	}

	// Another node that starts on the restored log without the folder writes something
	// else: the log is kept.
	restore()
	other := &process{number: 1}
	c.all = append(c.all, other)
	c.start(other)
	if err := c.write(other, 9); err != nil {
		t.Fatal(err)
	}
	if err := other.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-other.ended
	c.fails([]string{"which the copy does not have", "Something else was written to the log", "move " + c.folder(p) + " away", "ostiary node lost"}, heal...)
	// The loss can be accepted: it is listed, also while the other node runs.
	lost := []string{"node", "lost", "--log", c.log, "--data", c.folder(p)}
	c.fails([]string{"--log"}, "node", "lost", "--data", c.folder(p))
	c.fails([]string{"belongs to cluster"}, "node", "lost", "--log", c.log, "--data", c.file("fresh"))
	c.start(other)
	text := c.run(lost...)
	for _, want := range []string{"store nodes (" + c.store + ") has lost revisions 3 to 4", "add tuple document:2#viewer@user:anne", "add tuple document:3#viewer@user:anne",
		"revision 3 ", "revision 4 ", "lost: 2 writes of 1 store. To accept that, move " + c.folder(p) + " away"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in what is lost: %s", want, text)
		}
	}
	if strings.Contains(text, "document:1#") || strings.Contains(text, "document:9#") {
		t.Errorf("what is not lost is listed: %s", text)
	}
	if text := c.run(append(lost, "--json")...); strings.Count(text, "\n") != 3 || !strings.Contains(text, `"common":2,"head":4`) {
		t.Errorf("lost: %s", text)
	}
	if err := other.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-other.ended
	if text := c.run("node", "lost", "--log", c.log, "--data", c.folder(other)); !strings.Contains(text, "the log has everything that the folder has") {
		t.Errorf("nothing is lost of the other folder: %s", text)
	}

	restore()
	c.fails([]string{"history"}, append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--data", c.folder(p), "--log", c.log}, c.links()...)...)
	c.fails([]string{"is empty"}, "node", "heal", "--log", c.log, "--data", c.file("empty"))
	var out struct{ Had, Has, Secrets int }
	if text := c.run(append(heal, "--json", "--force")...); json.Unmarshal([]byte(text), &out) != nil || out.Has < out.Had+2 {
		t.Errorf("healed: %s", text)
	}
	c.start(p)
	for n := 1; n <= 3; n++ {
		c.shows(p, n)
	}
	write(4)
	c.shows(p, 4)
	if allowed, err := c.check(p, 9); err != nil || allowed {
		t.Errorf("a write of the log that was given up: allowed %v, error %v", allowed, err)
	}
}
