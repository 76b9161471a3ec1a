package overnoop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/rel"
)

// model is the shape of a 3-hop check: a document in a folder that a group may
// view.
const model = `model
  schema 1.1
type user
type group
  relations
    define member: [user]
type folder
  relations
    define viewer: [group#member]
type document
  relations
    define parent: [folder]
    define owner: [user]
    define viewer: owner or viewer from parent
`

const (
	documents = 4_000
	groups    = 100
	asked     = 512 // different questions
	perTurn   = 5_000
)

func object(typ string, i int) rel.Object { return rel.Object{Type: typ, ID: fmt.Sprint(i)} }

// world is documents × (member, parent, owner), and a group a folder.
func world(yield func(rel.Tuple) bool) {
	tuple := func(o rel.Object, relation string, s rel.Subject) bool {
		return yield(rel.Tuple{Object: o, Relation: relation, Subject: s})
	}
	for i := range documents {
		user := object("user", i).AsSubject()
		if !tuple(object("group", i%groups), "member", user) ||
			!tuple(object("document", i), "parent", object("folder", i%groups).AsSubject()) ||
			!tuple(object("document", i), "owner", user) {
			return
		}
	}
	for i := range groups {
		if !tuple(object("folder", i), "viewer", rel.Subject{Type: "group", ID: fmt.Sprint(i), Relation: "member"}) {
			return
		}
	}
}

// questions ask in turn for users who see a document through its folder, and
// for such as do not.
func questions() (out []bench.Request) {
	for i := range asked {
		document := i * 7 % documents
		user, allowed := (document+groups)%documents, true
		if i%2 == 1 {
			user, allowed = (document+1)%documents, false
		}
		out = append(out, bench.Request{Check: &bench.Check{Object: object("document", document), Relation: "viewer",
			Subject: object("user", user).AsSubject(), Allowed: allowed}})
	}
	return out
}

// competitor is a server with its prepared questions.
type competitor struct {
	name        string
	ask         bench.Send
	pid         int
	nanos, rate []float64 // a request, and a second; of each turn
}

// TestChecks asks 3-hop checks in short turns, ours and the no-op after each
// other, so that what disturbs the machine disturbs all of them. OSTIARY_PAIRS sets the turns
// (default 2), OSTIARY_CLIENTS the clients (8).
func TestChecks(t *testing.T) {
	turns, clients := int(number(t, "OSTIARY_PAIRS", 2)), int(number(t, "OSTIARY_CLIENTS", 8))
	ours, keyed := servers.Ours(t), keyedServer(t)
	http, withKey, rpc := httpSide(t, ours, "ostiary", ""), httpSide(t, keyed, "ostiary, keys", secret), grpcSide(t, ours)
	for _, s := range []bench.Side{http, withKey, rpc} {
		if err := s.Target.Setup(t.Context(), model, world, func(int) {}); err != nil {
			t.Fatal(err)
		}
	}
	race(t, turns, clients, []bench.Side{floorSide(t, http.Target.(*bench.HTTP)), http, withKey})
	race(t, turns, clients, []bench.Side{nothingSide(t, false), nothingSide(t, true), rpc})
}

// race lets the sides take turns, each beginning as often as the others, and
// compares them with the first.
func race(t *testing.T, turns, clients int, sides []bench.Side) {
	t.Helper()
	var all []*competitor
	for _, s := range sides {
		c := &competitor{name: s.Target.Door() + " " + s.Peer, ask: inTurn(t, s.Target), pid: s.PID}
		all = append(all, c)
	}
	for turn := range turns + 1 {
		for i := range all {
			c := all[(i+turn)%len(all)]
			c.turn(t, clients)
			if turn == 0 { // the first warms up
				c.nanos, c.rate = nil, nil
			}
		}
	}
	base := all[0]
	for _, c := range all {
		line := fmt.Sprintf("%-20s %s /s  %s", c.name, spread(c.rate, "%.0f"), spread(c.nanos, "%.0f ns"))
		if c != base {
			line += fmt.Sprintf("  rate × %s, over the no-op %s (× %s)", spread(by(c.rate, base.rate), "%.2f"),
				spread(over(c.nanos, base.nanos), "%+.0f ns"), spread(by(c.nanos, base.nanos), "%.2f"))
		}
		t.Log(line)
	}
}

func (c *competitor) turn(t *testing.T, clients int) {
	t.Helper()
	before, err := processorTime(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	result, err := bench.Load{Clients: clients, Requests: perTurn, Duration: -1}.Run(t.Context(), c.ask)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Failures) > 0 {
		t.Fatalf("%s: %v: %v", c.name, result.Failures, result.FirstFailure)
	}
	after, err := processorTime(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	c.nanos = append(c.nanos, (after-before)/float64(result.N))
	c.rate = append(c.rate, float64(result.N)/result.Elapsed.Seconds())
}

// by and over compare turns.
func by(v, base []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] / base[i]
	}
	return out
}

func over(v, base []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i] - base[i]
	}
	return out
}

// processorTime is what a process's threads have used, in nanoseconds: finer
// than the hundredths of a second in /proc/PID/stat, so that turns can be short.
func processorTime(pid int) (nanos float64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseFloat(first, 64)
		if err != nil {
			return 0, err
		}
		nanos += n
	}
	return nanos, nil
}

func inTurn(t *testing.T, target bench.Target) bench.Send {
	t.Helper()
	var prepared []bench.Prepared
	for _, q := range questions() {
		p, err := target.Prepare(q)
		if err != nil {
			t.Fatal(err)
		}
		prepared = append(prepared, p)
	}
	return func(ctx context.Context, client, i int) error { return prepared[i%len(prepared)].Send(ctx, client) }
}
