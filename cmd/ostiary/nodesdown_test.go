package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/ostiary/ostiary/internal/workshop/databases"
)

// TestNodesDatabaseDown stops the database. Reads that need it and writes fail with 503
// and their kinds, and reads of the copy, by the id or by the alias of the store, are
// answered. When the database is back, so are the nodes.
func TestNodesDatabaseDown(t *testing.T) {
	t.Parallel()
	database := databases.PostgreSQL(t)
	c := startNodesOn(t, database.Database(), 2, "--request-timeout", "8s")
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
	// answers makes a request again while the database does not answer in time, as on a busy machine.
	answers := func(p *process, path string, body any) (err error) {
		c.eventually("the database answers", func() bool {
			err = p.post(path, body, nil)
			return err == nil || !strings.HasPrefix(err.Error(), "503")
		})
		return err
	}
	for _, p := range c.all {
		for _, r := range requests[:5] {
			if err := answers(p, r.path, r.body); err != nil {
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
			if err := answers(p, r.path, r.body); err != nil && !strings.Contains(err.Error(), "409") {
				t.Errorf("node %d, after the database was down: %s: %v", p.number, r.name, err)
			}
		}
	}
}

// TestNodesStale reads through nodes without a database, with --stale-reads: the answers
// are marked, over HTTP and over gRPC, and those with a lease are not.
func TestNodesStale(t *testing.T) {
	t.Parallel()
	database := databases.PostgreSQL(t)
	c := startNodesOn(t, database.Database(), 1, "--stale-reads", "--grpc", "127.0.0.1:0")
	c.prepare(c.all[0])
	if err := c.write(c.all[0], 1); err != nil {
		t.Fatal(err)
	}
	p := c.all[0]
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	marks := func() string {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"tuple_key": tupleOf(1)})
		response, err := http.Post(p.http+"/stores/"+c.store+"/check", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var trailer metadata.MD
		_, err = openfgav1.NewOpenFGAServiceClient(conn).Check(t.Context(), &openfgav1.CheckRequest{StoreId: c.store,
			TupleKey: &openfgav1.CheckRequestTupleKey{User: "user:anne", Relation: "viewer", Object: "document:1"}}, grpc.Trailer(&trailer))
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("checks: %s, error %v", response.Status, err)
		}
		return response.Header.Get("Ostiary-Stale") + strings.Join(trailer.Get("ostiary-stale"), ",")
	}
	c.eventually("answers with a lease have no mark", func() bool { return marks() == "" })
	database.Stop()
	c.eventually("the lease is over", func() bool { return p.ready().Node.ReadLeaseMillis == 0 })
	// What remains of a lease is shown in whole milliseconds.
	c.eventually("stale answers have both marks", func() bool { return marks() == "truetrue" })
	database.Start()
	c.eventually("the node has a lease", func() bool { return p.ready().Node.ReadLeaseMillis > 0 })
	c.eventually("answers have no mark", func() bool { return marks() == "" })
}

// TestNodesForeign starts a node with a certificate of another authority. It is not
// ready, and its readiness has the reason. The others are not disturbed.
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
