package main

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/sharedlog/memorylog"
)

// TestOneNode starts a node with nothing but a log and a folder. It serves; a second node
// is refused while it runs, whether that one has certificates or not, and the error names
// the node that runs and what it lacks. With certificates it starts again on its folder.
func TestOneNode(t *testing.T) {
	t.Parallel()
	server, err := memorylog.New().Serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	c := &nodes{T: t, dir: t.TempDir(), log: "workshop://" + server.Address(), server: server, plain: true}
	c.run("node", "certificate", "--folder", c.file("certificates"), "127.0.0.1")
	p := &process{}
	c.start(p)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	c.prepare(p)
	if err := c.write(p, 1); err != nil {
		t.Fatal(err)
	}
	c.shows(p, 1)
	id := p.ready().Node.Node
	refused := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		args = append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "off", "--metrics", "off", "--log", c.log, "--data", c.file("another")}, args...)
		out, err := exec.CommandContext(ctx, "ostiary", args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "node "+id+" reported to the log") || !strings.Contains(string(out), "start all nodes with these settings") {
			t.Errorf("%v: error %v, want the name of the node that runs: %s", args, err, out)
		}
	}
	linked := c.links()
	refused()
	refused(linked...)
	if err := c.write(p, 2); err != nil {
		t.Errorf("the first node, after another one was refused: %v", err)
	}
	if list := c.run("node", "list", "--log", c.log); strings.Count(list, "\n") != 2 {
		t.Errorf("the refused nodes are still registered:\n%s", list)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	c.plain = false
	c.start(p)
	c.shows(p, 2)
}
