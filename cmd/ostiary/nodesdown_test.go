package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/workshop/databases"
)

// TestNodesDatabaseDown stops the database. Reads that need it and writes fail with 503
// and their kinds, and reads of the copy, by the id or by the alias of the store, are
// answered. When the database is back, so are the nodes.
func TestNodesDatabaseDown(t *testing.T) {
	t.Parallel()
	database := databases.PostgreSQL(t)
	c := startNodesOn(t, database.Database(), 2, "--request-timeout", "3s")
	c.prepare(c.all[0])
	if err := c.write(c.all[0], 1); err != nil {
		t.Fatal(err)
	}
	if err := c.all[1].post("/ostiary/v1/stores", json.RawMessage(`{"name":"named","aliases":{"native":"named"}}`), nil); err != nil {
		t.Fatal(err)
	}
	if err := c.all[1].post("/ostiary/v1/stores/named/schemas", json.RawMessage(`{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype document\n  relations\n    define viewer: [user]\n"}`), nil); err != nil {
		t.Fatal(err)
	}
	question := func(at string) json.RawMessage {
		return json.RawMessage(`{"object":"document:1","relation":"viewer","subject":"user:anne"` + at + `}`)
	}
	const minimize, full = `,"at":{"minimize_latency":true}`, `,"at":{"fully_consistent":true}`
	requests := []struct {
		name, path string
		body       any
		want       string // what the error contains; "" means an answer
	}{
		{"fully consistent, by alias", "/ostiary/v1/stores/named/check", question(full), "no_lease"},
		{"default, by alias", "/ostiary/v1/stores/named/check", question(""), "no_lease"},
		{"minimal latency, by alias", "/ostiary/v1/stores/named/check", question(minimize), ""},
		{"minimal latency, OpenFGA", "/stores/" + c.store + "/check", map[string]any{"tuple_key": tupleOf(1), "consistency": "MINIMIZE_LATENCY"}, ""},
		{"higher consistency, OpenFGA", "/stores/" + c.store + "/check", map[string]any{"tuple_key": tupleOf(1), "consistency": "HIGHER_CONSISTENCY"}, "503"},
		{"a write", "/ostiary/v1/stores/named/write", json.RawMessage(`{"add":[{"object":"document:1","relation":"viewer","subject":"user:anne"}]}`), "no_holder"},
	}
	for _, p := range c.all {
		for _, r := range requests[:5] {
			if err := p.post(r.path, r.body, nil); err != nil {
				t.Fatalf("node %d: %s: %v", p.number, r.name, err)
			}
		}
	}
	database.Stop()
	for _, p := range c.all {
		c.eventually("the leases are over", func() bool { return p.ready().Node.ReadLeaseMillis == 0 && p.ready().Node.Failure != "" })
	}
	for _, p := range c.all {
		c.eventually("the outcomes of writes that have begun do not matter any more", func() bool {
			err := p.post(requests[5].path, requests[5].body, nil)
			return err != nil && !strings.Contains(err.Error(), "uncertain")
		})
		for _, r := range requests {
			err := p.post(r.path, r.body, nil)
			switch {
			case r.want == "" && err != nil:
				t.Errorf("node %d: %s: %v", p.number, r.name, err)
			case r.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "503") || !strings.Contains(err.Error(), r.want)):
				t.Errorf("node %d: %s: %v, want 503 with %s", p.number, r.name, err, r.want)
			}
		}
	}
	database.Start()
	for _, p := range c.all {
		c.eventually("the node is ready", func() bool { return p.ready().Status == "SERVING" })
		for _, r := range requests {
			if err := p.post(r.path, r.body, nil); err != nil && !strings.Contains(err.Error(), "409") {
				t.Errorf("node %d, after the database was down: %s: %v", p.number, r.name, err)
			}
		}
	}
}

// TestNodesForeign starts a node whose certificate is of another authority: it is not
// ready, and says why. The others are not disturbed.
func TestNodesForeign(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 1)
	c.prepare(c.all[0])
	c.run("node", "certificate", "--folder", c.file("other"), "127.0.0.1")
	other := *c
	other.plain = true
	p := &process{number: 9}
	c.all = append(c.all, p)
	other.launch(p, "--nodes-listen", "127.0.0.1:0", "--nodes-ca", c.file("other/ca.crt"),
		"--nodes-certificate", c.file("other/127.0.0.1.crt"), "--nodes-key", c.file("other/127.0.0.1.key"))
	c.eventually("the node knows why", func() bool { return strings.Contains(p.ready().Node.Failure, "certificate") })
	if r := p.ready(); r.Status == "SERVING" {
		t.Errorf("a node that cannot follow is ready: %+v", r)
	}
	if err := c.write(c.all[0], 1); err != nil {
		t.Error(err)
	}
}

// TestNodesPreferred gives the second node the role by its flag, and lists its zone.
func TestNodesPreferred(t *testing.T) {
	t.Parallel()
	c := startNodesOn(t, databases.PostgreSQL(t).Database(), 1)
	c.prepare(c.all[0])
	c.flags = []string{"--zone", "north 1", "--prefer-holder"}
	p := &process{number: 1}
	c.all = append(c.all, p)
	c.start(p)
	c.eventually("the preferred node writes", func() bool { return p.ready().Node.Role == "holder" })
	for n, from := range c.all {
		if err := c.write(from, n); err != nil {
			t.Error(err)
		}
	}
	if list := c.run("node", "list", "--log", c.log); !strings.Contains(list, "north 1 (preferred)") {
		t.Errorf("node list: %s", list)
	}
	if out := c.run("node", "upgrade", "--log", c.log); out != "the nodes use version 1 already\n" {
		t.Errorf("node upgrade: %s", out)
	}
}
