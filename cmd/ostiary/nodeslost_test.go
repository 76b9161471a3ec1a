package main

import (
	"strings"
	"testing"
)

// TestQuorumLost loses two of three nodes. The commands that need a majority name the nodes
// that answer, those that do not, and what to do. They are what they were once a second node
// runs again.
func TestQuorumLost(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, "", 3)
	first, second, third := c.all[0], c.all[1], c.all[2]
	ids := []string{c.id(first), c.id(second), c.id(third)}
	before := c.run("node", "settings", "--data", c.folder(third))
	c.kill(first)
	c.kill(second)
	commands := [][]string{
		{"list"}, {"settings"}, {"settings", "--holder-lease", "3s"}, {"token"}, {"remove", ids[0], "--force"}, {"rotate-authority"}, {"rotate-authority", "--without-away"}, {"upgrade"},
	}
	want := []string{"node " + ids[2] + " at ", " answers", "node " + ids[0] + " at ", "node " + ids[1] + " at ", " does not answer", "connection refused", "start the nodes that do not answer", "ostiary node recover"}
	for _, command := range commands {
		args := append([]string{"node"}, command...)
		out := c.fails(want, append(args, "--data", c.folder(third))...)
		if strings.Contains(out, "took too long") {
			t.Errorf("ostiary %s waits: %s", strings.Join(args, " "), out)
		}
	}
	c.start(second)
	if after := c.run("node", "settings", "--data", c.folder(third)); after != before {
		t.Errorf("the settings are %s, want %s", after, before)
	}
	if list := c.list(second); !strings.Contains(list, ids[0]) {
		t.Errorf("the node that was not removed is not listed: %s", list)
	}
}
