package serve

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/wait"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
)

// oneWrite is a request of each door that makes a store, or something else that needs
// nothing before it.
var oneWrite = []writingRoute{
	{"openfga", "POST", "/stores", m{"name": "one"}},
	{"native", "POST", "/ostiary/v1/stores", m{"name": "one"}},
	{"permify", "POST", "/v1/tenants/create", m{"id": "t9", "name": "nine"}},
	{"xacml", "POST", "/xacml/v3/domains", m{"name": "d", "alias": "d"}},
	{"onap-api", "POST", "/policy/api/v1/policytypes", m{"tosca_definitions_version": "tosca_simple_yaml_1_1_0", "policy_types": m{"onap.policies.Test": m{"derived_from": "tosca.policies.Root", "version": "1.0.0"}}}},
	{"onap-pap", "DELETE", "/policy/pap/v1/pdps/groups/g", nil},
	{"onap-pdp", "POST", "/policy/pdpx/v1/operations", m{"closedLoopName": "l", "actor": "a", "operation": "o", "target": "t", "outcome": "Success", "endtime": "2026-03-04T10:00:00Z"}},
	{"keystone", "POST", "/v3/projects", m{"project": m{"name": "p"}}},
}

// write sends one of oneWrite to a node.
func (n *testNode) write(r writingRoute) (*http.Response, string) {
	n.t.Helper()
	req := r.request(n.everyDoor, "")
	body := make([]byte, req.ContentLength)
	_, _ = req.Body.Read(body)
	key := "walker-key"
	if r.door == "keystone" {
		key = ""
	}
	return n.send(key, r.method, req.URL.RequestURI(), body, req.Header)
}

// bootstrapAll makes a deployment of the Identity API that all nodes show.
func (all *testNodes) bootstrapAll() {
	all.t.Helper()
	all.nodes[0].bootstrap()
	for _, n := range all.nodes {
		n.shows()
		n.identity, n.user = all.nodes[0].identity, all.nodes[0].user
	}
}

// TestNoHolder sends a write to each door of a node while no node is the holder. After
// the time of a request, each answers 503 with Retry-After in the form of its protocol,
// and reads go on.
func TestNoHolder(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, func(f *DoorFlags, o *server.Options) {
		o.RequestTimeout = 200 * time.Millisecond
		f.keystone.RequestTimeout = o.RequestTimeout
	})
	all.bootstrapAll()
	all.lead(-1)
	n := all.nodes[1]
	// On a busy machine the time of a request may end before it asks for the holder.
	inTime := func(what string, ask func() (*http.Response, string)) (response *http.Response, text string) {
		wait.Until(t, what+" is answered in time", func() bool {
			response, text = ask()
			return response.StatusCode != http.StatusGatewayTimeout
		})
		return response, text
	}
	for _, r := range oneWrite {
		response, text := inTime("a write of "+r.door, func() (*http.Response, string) { return n.write(r) })
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" || !strings.Contains(text, "no node takes writes at the moment") {
			t.Errorf("%s: %d %q %s", r.door, response.StatusCode, response.Header.Get("Retry-After"), text)
		}
		if method := rpcOf(r); method != nil {
			text := ""
			wait.Until(t, string(method.FullName())+" is answered in time", func() bool {
				text = n.call(method, r.path, []byte(`{"name":"one","id":"t9"}`))
				return !strings.HasPrefix(text, "DeadlineExceeded ")
			})
			if !strings.HasPrefix(text, "Unavailable no node takes writes at the moment") {
				t.Errorf("%s: %s", method.FullName(), text)
			}
		}
	}
	for _, r := range []struct {
		key, path string
		header    http.Header
	}{{"walker-key", "/stores", nil}, {"", "/v3/users", http.Header{"X-Auth-Token": {n.identity}}}} {
		response, text := inTime("a read of "+r.path, func() (*http.Response, string) { return n.send(r.key, "GET", r.path, nil, r.header) })
		if response.StatusCode != http.StatusOK {
			t.Errorf("a read of %s: %d %s", r.path, response.StatusCode, text)
		}
	}
}

// TestWritesWaitForHolder sends writes while no node is the holder, to the node that
// becomes it and to another one. They succeed once there is one.
func TestWritesWaitForHolder(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	all.lead(-1)
	results := make(chan string, 2)
	for _, n := range all.nodes {
		go func() {
			response, text := n.write(oneWrite[0])
			results <- fmt.Sprint(response.StatusCode, " ", text)
		}()
	}
	for all.nodes[0].waiting.Load()+all.nodes[1].waiting.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	all.lead(1)
	for range 2 {
		if got := <-results; !strings.HasPrefix(got, "201 ") {
			t.Error(got)
		}
	}
}

// TestHolderMoves lets the holder change while requests are on their way: the node to
// which they are sent has given up the role, or the node that serves them itself is
// refused by the log. Each of them is served by the next holder, once.
func TestHolderMoves(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 3, nil)
	all.bootstrapAll()
	n := all.nodes[1]
	for i, r := range oneWrite {
		// The holder gives up the role after node 1 has chosen it.
		all.lead(0)
		moved := false
		n.fault = func(sent bool) error {
			if !moved {
				moved = true
				all.lead(2)
			}
			return nil
		}
		before := all.nodes[2].served.Load()
		if response, text := n.write(r); response.StatusCode/100 != 2 && !strings.Contains(r.path, "groups/g") {
			t.Errorf("%s: %d %s", r.door, response.StatusCode, text)
		}
		if got := all.nodes[2].served.Load() - before; got != 1 {
			t.Errorf("%s: the next holder got %d requests, want 1", r.door, got)
		}
		n.fault = nil
		// Node 1 takes itself for the holder until the log refuses its append.
		n.shows()
		n.believes.Store(true)
		before = all.nodes[2].served.Load()
		again := oneWrite[(i+len(oneWrite)-1)%len(oneWrite)]
		again.in = rename(again.in)
		response, text := n.write(again)
		if response.StatusCode/100 != 2 && !strings.Contains(again.path, "groups/g") {
			t.Errorf("own %s: %d %s", again.door, response.StatusCode, text)
		}
		if got := all.nodes[2].served.Load() - before; got != 1 && !strings.Contains(again.path, "groups/g") {
			t.Errorf("own %s: the holder got %d requests, want 1", again.door, got)
		}
		n.believes.Store(false)
		if method := rpcOf(r); method != nil {
			n.believes.Store(true)
			before = all.nodes[2].served.Load()
			text := n.call(method, r.path, fmt.Appendf(nil, `{"name":"name%d","id":"r%d"}`, i, i))
			if got := all.nodes[2].served.Load() - before; got != 1 || !strings.HasPrefix(text, "OK ") {
				t.Errorf("own %s: the holder got %d requests: %s", method.FullName(), got, text)
			}
			n.believes.Store(false)
		}
	}
}

// TestHolderMovesBetweenWrites lets the holder change after the first or the second append
// of a request that makes something which it needs, such as a default tenant. The next
// holder goes on with it, and the client sees nothing.
func TestHolderMovesBetweenWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		writingRoute
		after int // appends
	}{
		{writingRoute{"permify", "POST", "/v1/tenants/t1/schemas/write", m{"schema": "entity user {}"}}, 1},
		{writingRoute{"permify", "POST", "/v1/tenants/create", m{"id": "t9", "name": "nine"}}, 1},
		{writingRoute{"permify", "DELETE", "/v1/tenants/t1", m{}}, 1},
		{writingRoute{"permify", "DELETE", "/v1/tenants/t1", m{}}, 2},
		{writingRoute{"xacml", "POST", "/xacml/v3/pdp", m{"Request": m{}}}, 1},
		{writingRoute{"xacml", "DELETE", "/xacml/v3/policies/p", nil}, 1},
		{writingRoute{"xacml", "POST", "/xacml/v3/domains", m{"name": "d", "alias": "d"}}, 1},
		{oneWrite[4], 1},
	} {
		for via := range 2 {
			all := openNodes(t, 3, nil)
			n, before := all.nodes[0], 0
			n.appends = func() {
				if before++; before == c.after+1 {
					all.lead(2)
				}
			}
			response, text := all.nodes[via].write(c.writingRoute)
			if response.StatusCode >= 500 {
				t.Errorf("%s %s through node %d, moved after %d: %d %s", c.method, c.path, via, c.after, response.StatusCode, text)
			}
			if holder, _ := all.at(); holder != 2 {
				t.Errorf("%s %s made %d appends, want more than %d", c.method, c.path, before, c.after)
			}
			direct, want := openNodes(t, 1, nil).nodes[0].write(c.writingRoute)
			if response.StatusCode != direct.StatusCode {
				t.Errorf("%s %s through node %d, moved after %d: %d %s\nwithout a change of the holder: %d %s", c.method, c.path, via, c.after, response.StatusCode, text, direct.StatusCode, want)
			}
		}
	}
}

// rename returns a request that makes something else than in.
func rename(in any) any {
	fields, ok := in.(m)
	if !ok {
		return in
	}
	out := m{}
	for name, value := range fields {
		switch name {
		case "id":
			value = fmt.Sprint(value, "2")
		case "alias":
			value = fmt.Sprint(value, "2")
		case "project":
			value = m{"name": "p2"}
		case "policy_types":
			value = m{"onap.policies.Test2": m{"derived_from": "tosca.policies.Root", "version": "1.0.0"}}
		}
		out[name] = value
	}
	return out
}

// TestForwardedHasBegun requires that a hand-over would wait for a forwarded request while
// it writes, and no longer than that.
func TestForwardedHasBegun(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	holder, n := all.nodes[0], all.nodes[1]
	var appends, missed atomic.Int64
	holder.appends = func() {
		appends.Add(1)
		if holder.begun.Load() == 0 {
			missed.Add(1)
		}
	}
	n.write(oneWrite[0])
	n.call(rpcOf(oneWrite[0]), oneWrite[0].path, []byte(`{"name":"two"}`))
	if appends.Load() != 2 || missed.Load() != 0 {
		t.Errorf("%d of %d appends were made when no request had begun", missed.Load(), appends.Load())
	}
	wait.Until(t, "the requests have ended", func() bool { return holder.begun.Load() == 0 })
}

// TestForwardedKeyMustLive sends writes to a node that still accepts a key which the
// holder does not accept any more: the holder refuses, as the protocol does.
func TestForwardedKeyMustLive(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	if err := all.nodes[0].keys.Replace([]server.Key{{Name: "other", Secret: "other-key"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range oneWrite {
		if r.door == "keystone" {
			continue
		}
		response, text := all.nodes[1].write(r)
		if direct, want := all.nodes[0].write(r); response.StatusCode != http.StatusUnauthorized || varying.ReplaceAllString(text, "*") != varying.ReplaceAllString(want, "*") ||
			!slices.Equal(response.Header["Www-Authenticate"], direct.Header["Www-Authenticate"]) {
			t.Errorf("%s: %d %s %q, want %s %q", r.door, response.StatusCode, text, response.Header["Www-Authenticate"], want, direct.Header["Www-Authenticate"])
		}
		if method := rpcOf(r); method != nil {
			if text, want := all.nodes[1].call(method, r.path, []byte("{}")), all.nodes[0].call(method, r.path, []byte("{}")); text != want {
				t.Errorf("%s: %s, want %s", method.FullName(), text, want)
			}
		}
	}
	if response, text := all.nodes[1].send("other-key", "POST", "/stores", []byte(`{"name":"one"}`), nil); response.StatusCode != http.StatusCreated {
		t.Errorf("another key: %d %s", response.StatusCode, text)
	}
}

// TestForwardedIsLogged compares what both nodes log about a forwarded request: the same
// id, the same caller, and the address of the client.
func TestForwardedIsLogged(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	all.bootstrapAll()
	for _, r := range []writingRoute{oneWrite[0], oneWrite[7]} {
		response, _ := all.nodes[1].write(r)
		id := "id=" + response.Header.Get("X-Request-Id")
		var lines [2]string
		for i, n := range all.nodes {
			for line := range strings.Lines(n.logged()) {
				if strings.Contains(line, id) {
					lines[i] += line[strings.Index(line, "door="):]
				}
			}
			fields := strings.Fields(lines[i])
			lines[i] = strings.Join(slices.DeleteFunc(fields, func(s string) bool { return strings.HasPrefix(s, "duration_ms") }), " ")
		}
		if lines[0] == "" || lines[0] != lines[1] || strings.Contains(lines[0], "anonymous") {
			t.Errorf("the holder logs %q\nthe other node  %q", lines[0], lines[1])
		}
	}
}

// TestImportThroughAnotherNode imports many tuples through a node that is not the holder.
// The body is longer than any buffer on the way.
func TestImportThroughAnotherNode(t *testing.T) {
	t.Parallel()
	all := openNodes(t, 2, nil)
	n := all.nodes[1]
	n.send("walker-key", "POST", "/ostiary/v1/stores", []byte(`{"id":"`+storeOfWalk+`","name":"one"}`), nil)
	path := "/ostiary/v1/stores/" + storeOfWalk
	n.send("walker-key", "POST", path+"/schemas", []byte(`{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"}`), nil)
	const tuples = 60_000
	var body strings.Builder
	for i := range tuples {
		fmt.Fprintf(&body, `{"tuple":{"subject":"user:u%d","relation":"viewer","object":"doc:1"}}`+"\n", i)
	}
	fmt.Fprintf(&body, `{"end":{"tuples":%d,"attributes":0}}`+"\n", tuples)
	response, text := n.send("walker-key", "POST", path+"/import", []byte(body.String()), http.Header{"Content-Type": {"application/x-ndjson"}})
	if response.StatusCode != http.StatusOK || !strings.Contains(text, fmt.Sprint(tuples)) {
		t.Fatalf("%d %.300s", response.StatusCode, text)
	}
	if got := all.nodes[0].served.Load(); got != 3 {
		t.Errorf("%d requests were forwarded, want 3", got)
	}
	known := map[storage.StoreID]storage.Revision{}
	for _, o := range all.nodes[0].entriesSince(known) {
		if o.Caller != "walker" || o.Request.Node != n.driver.Node() {
			t.Errorf("an entry has the origin %+v", o)
		}
	}
	_, text = n.send("walker-key", "POST", path+"/check", []byte(`{"subject":"user:u59999","relation":"viewer","object":"doc:1"}`), nil)
	if !strings.Contains(text, "true") {
		t.Errorf("a check on the node after the import: %s", text)
	}
}

// TestLostResponse loses the response of the holder to requests that it has served. The
// node sends them again, to the same holder or to the next one, or is that itself. What was
// written is found in the log and is not written twice; where the response cannot be made
// again, the answer is that the outcome is not known.
func TestLostResponse(t *testing.T) {
	t.Parallel()
	for next := range 3 {
		for _, overGRPC := range []bool{false, true} {
			t.Run(fmt.Sprintf("node %d is the next holder, gRPC %v", next, overGRPC), func(t *testing.T) {
				t.Parallel()
				loseResponses(t, next, overGRPC)
			})
		}
	}
}

func loseResponses(t *testing.T, next int, overGRPC bool) {
	all := openNodes(t, 3, nil)
	all.bootstrapAll()
	n := all.nodes[1]
	n.id = n.everyDoorStore()
	var lost atomic.Bool
	n.fault = func(sent bool) error {
		if !sent || !lost.CompareAndSwap(false, true) {
			return nil
		}
		if next != 0 {
			all.lead(next)
		}
		return errors.New("the connection broke")
	}
	known := map[storage.StoreID]storage.Revision{}
	n.shows()
	n.entriesSince(known)
	var schema string
	for _, r := range writingRoutes(n.everyDoor) {
		method := rpcOf(r)
		if r.door != "openfga" && r.door != "native" && r.door != "permify" && r.door != "keystone" || overGRPC && method == nil {
			continue
		}
		stream := strings.HasSuffix(r.path, "/import") // cannot be sent again
		lost.Store(stream)
		if holder, _ := all.at(); holder != 0 {
			all.lead(0)
		}
		req := r.request(n.everyDoor, schema)
		body := make([]byte, req.ContentLength)
		_, _ = req.Body.Read(body)
		key := "walker-key"
		if r.door == "keystone" {
			key = ""
		}
		var text string
		if overGRPC {
			text = n.call(method, req.URL.Path, body)
			if found := regexp.MustCompile(`"authorization_?[mM]odel_?[iI]d":"(\w+)"`).FindStringSubmatch(text); found != nil {
				schema = found[1]
			}
		} else {
			var response *http.Response
			response, text = n.send(key, r.method, req.URL.RequestURI(), body, req.Header)
			schema = schemaOf(r.path, []byte(text), schema)
			text = fmt.Sprint(response.StatusCode, " ", text)
		}
		n.shows()
		if origins := n.entriesSince(known); len(origins) != 1 {
			t.Errorf("%s %s: %d entries, want one: %.200s", r.method, r.path, len(origins), text)
		}
		if !lost.Load() {
			t.Errorf("%s %s: no response was lost", r.method, r.path)
		}
		ok, unknown := strings.HasPrefix(text, "20") || strings.HasPrefix(text, "OK "), strings.HasPrefix(text, "500 ") || strings.HasPrefix(text, "Internal ")
		// Adding and removing tuples, and new schemas, have a response that the log gives.
		if simple := strings.Contains(r.path, "/write") && !strings.Contains(r.path, "bundle") || strings.Contains(r.path, "/authorization-models"); !ok && (simple || !unknown) {
			t.Errorf("%s %s: %.200s", r.method, r.path, text)
		}
	}
}

// everyDoorStore makes an OpenFGA store and returns its id.
func (n *testNode) everyDoorStore() string {
	_, text := n.send("walker-key", "POST", "/stores", []byte(`{"name":"one"}`), nil)
	id := text[strings.Index(text, `"id":"`)+6:]
	return id[:26]
}
