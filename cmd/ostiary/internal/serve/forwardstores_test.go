package serve

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// storeCall is a request that creates, changes or deletes a store.
type storeCall struct {
	method, path, body string
}

// storeID is what a response has as the id of a store.
var storeID = regexp.MustCompile(`"id": ?"(\w{26})"`)

// lossy makes a node lose the next request that it passes on, or the response, and then
// calls between, if that is not nil, before it sends the request again.
type lossy struct {
	lost    bool // the request, or the response
	request bool // lose the request
	moves   bool // another node becomes the holder
	between func()
}

// lose attaches l to a node.
func (n *testNode) lose(l *lossy) {
	n.fault = func(sent bool) error {
		if l.lost || sent == l.request {
			return nil
		}
		l.lost = true
		if l.between != nil {
			l.between()
		}
		if holder, _ := n.all.at(); l.moves {
			n.all.lead(2 - holder) // from 0 to 2 and back
		}
		return errors.New("the connection broke")
	}
}

// sendCall sends a request, over gRPC if its protocol has the call and that is wanted,
// and returns the status and the body.
func (n *testNode) sendCall(c storeCall, overGRPC bool) (status, body string) {
	n.t.Helper()
	if method := rpcOf(writingRoute{method: c.method, path: c.path}); overGRPC && method != nil {
		status, body, _ = strings.Cut(n.call(method, c.path, []byte(c.body)), " ")
		return status, body
	}
	response, text := n.send("walker-key", c.method, c.path, []byte(c.body), nil)
	return fmt.Sprint(response.StatusCode), text
}

// TestLostResponseOfStores loses requests that create, change or delete a store, or their
// responses. The node sends them again, to the same holder or to the next one. Each is
// answered as without a loss, and has its effect once.
func TestLostResponseOfStores(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		l, overGRPC := lossy{request: n&1 != 0, moves: n&2 != 0}, n&4 != 0
		t.Run(fmt.Sprintf("request lost %v, holder moves %v, gRPC %v", l.request, l.moves, overGRPC), func(t *testing.T) {
			t.Parallel()
			loseStores(t, l, overGRPC)
		})
	}
}

func loseStores(t *testing.T, loss lossy, overGRPC bool) {
	all, direct := openNodes(t, 3, nil), openNodes(t, 1, nil).nodes[0]
	n := all.nodes[1]
	for _, n := range []*testNode{n, direct} {
		n.sendCall(storeCall{"POST", "/v1/tenants/list", "{}"}, false) // makes the default tenant
	}
	var id, wantID string
	for _, c := range []storeCall{
		{"POST", "/stores", `{"name":"one"}`},
		{"PATCH", "/stores/ID", `{"name":"two"}`},
		{"DELETE", "/stores/ID", ""},
		{"POST", "/ostiary/v1/stores", `{"name":"one","aliases":{"authzen":"a"}}`},
		{"PATCH", "/ostiary/v1/stores/ID", `{"name":"two","aliases":{"authzen":"b"}}`},
		{"DELETE", "/ostiary/v1/stores/ID", ""},
		{"POST", "/ostiary/v1/stores", `{"id":"` + storeOfWalk + `","name":"one"}`},
		{"PATCH", "/ostiary/v1/stores/ID", `{"aliases":{"native":"c"}}`},
		{"DELETE", "/ostiary/v1/stores/c", ""},
		{"DELETE", "/stores/ID", ""}, // of a store that is gone
		{"DELETE", "/ostiary/v1/stores/ID", ""},
		{"POST", "/v1/tenants/create", `{"id":"t9","name":"nine"}`},
		{"DELETE", "/v1/tenants/t9", ""},
		{"DELETE", "/v1/tenants/t9", ""},
		{"POST", "/xacml/v3/domains", `{"name":"d","alias":"d"}`},
	} {
		l, with := loss, func(id string) storeCall {
			c := c
			c.path = strings.Replace(c.path, "ID", id, 1)
			return c
		}
		n.lose(&l)
		before := all.catalog()
		status, text := n.sendCall(with(id), overGRPC)
		if !l.lost {
			t.Errorf("%s %s: nothing was lost", c.method, c.path)
		}
		wantStatus, wantText := direct.sendCall(with(wantID), overGRPC)
		if status != wantStatus || varying.ReplaceAllString(text, "*") != varying.ReplaceAllString(wantText, "*") {
			t.Errorf("%s %s: %s %s\nwithout a loss: %s %s", c.method, c.path, status, text, wantStatus, wantText)
		}
		if found := storeID.FindStringSubmatch(text); found != nil {
			id = found[1]
		}
		if found := storeID.FindStringSubmatch(wantText); found != nil {
			wantID = found[1]
		}
		n.shows()
		after := all.catalog()
		switch {
		case status[0] != '2' && status != "OK" || c.method == "PATCH":
		case c.method == "POST":
			before++
			if found := storeID.FindStringSubmatch(text); found != nil {
				if status, text := n.sendCall(storeCall{"GET", "/ostiary/v1/stores/" + id, ""}, false); status != "200" {
					t.Errorf("%s %s: store %s: %s %s", c.method, c.path, id, status, text)
				}
			}
		case c.method == "DELETE":
			before = direct.stores()
		}
		if after != before {
			t.Errorf("%s %s: %d stores, want %d", c.method, c.path, after, before)
		}
	}
}

// catalog returns the number of stores that the holder has.
func (all *testNodes) catalog() int {
	holder, _ := all.at()
	return all.nodes[holder].stores()
}

func (n *testNode) stores() int {
	n.t.Helper()
	count, err := n.driver.CountStores(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	return count
}

// TestLostResponseThenAnother loses the request or the response of one client, and lets
// another client change the same store before the request is sent again. What the first
// one has done is not done again, and where that is not known, the answer is that.
func TestLostResponseThenAnother(t *testing.T) {
	t.Parallel()
	const write = `{"add":[{"subject":"user:anne","relation":"viewer","object":"doc:1"}]}`
	const native = "/ostiary/v1/stores/" + storeOfWalk
	for _, c := range []struct {
		what           string
		requestLost    bool
		lost, another  storeCall
		status, answer string
		shows          storeCall // and what it answers after that
		shown          string
	}{
		{"the new store is renamed", false, storeCall{"POST", "/ostiary/v1/stores", `{"name":"new","aliases":{"native":"new"}}`}, storeCall{"PATCH", "/ostiary/v1/stores/new", `{"name":"newer"}`},
			"201", `"newer"`, storeCall{"GET", "/ostiary/v1/stores/new", ""}, `"newer"`},
		{"the new store is deleted", false, storeCall{"POST", "/ostiary/v1/stores", `{"name":"new","aliases":{"native":"new"}}`}, storeCall{"DELETE", "/ostiary/v1/stores/new", ""},
			"201", `"new"`, storeCall{"GET", "/ostiary/v1/stores/new", ""}, "no_store"},
		{"the alias is taken", true, storeCall{"POST", "/ostiary/v1/stores", `{"name":"new","aliases":{"native":"new"}}`}, storeCall{"POST", "/ostiary/v1/stores", `{"name":"other","aliases":{"native":"new"}}`},
			"409", "store_exists", storeCall{"GET", "/ostiary/v1/stores/new", ""}, `"other"`},
		{"the name is changed", false, storeCall{"PATCH", native, `{"name":"two"}`}, storeCall{"PATCH", native, `{"name":"three"}`}, "500", "uncertain", storeCall{"GET", native, ""}, `"three"`},
		{"the name is changed before", true, storeCall{"PATCH", native, `{"name":"two"}`}, storeCall{"PATCH", native, `{"name":"three"}`}, "500", "uncertain", storeCall{"GET", native, ""}, `"three"`},
		{"the same name is given", true, storeCall{"PATCH", native, `{"name":"two"}`}, storeCall{"PATCH", native, `{"name":"two"}`}, "200", `"two"`, storeCall{"GET", native, ""}, `"two"`},
		{"the store is renamed and deleted", false, storeCall{"PATCH", native, `{"name":"two"}`}, storeCall{"DELETE", native, ""}, "500", "uncertain", storeCall{"GET", native, ""}, "no_store"},
		{"the store is deleted before it is renamed", true, storeCall{"PATCH", native, `{"name":"two"}`}, storeCall{"DELETE", native, ""}, "404", "no_store", storeCall{"GET", native, ""}, "no_store"},
		{"the store is deleted and created", false, storeCall{"DELETE", native, ""}, storeCall{"POST", "/ostiary/v1/stores", `{"id":"` + storeOfWalk + `","name":"again"}`}, "500", "uncertain", storeCall{"GET", native, ""}, `"again"`},
		{"the tenant is deleted and created", false, storeCall{"DELETE", "/v1/tenants/t8", ""}, storeCall{"POST", "/v1/tenants/create", `{"id":"t8","name":"again"}`}, "500", "ERROR_CODE", storeCall{"POST", "/v1/tenants/list", "{}"}, `"again"`},
		{"the store is written to and deleted", false, storeCall{"POST", native + "/write", write}, storeCall{"DELETE", native, ""}, "500", "uncertain", storeCall{"GET", native, ""}, "no_store"},
		{"the store is deleted before it is written to", true, storeCall{"POST", native + "/write", write}, storeCall{"DELETE", native, ""}, "404", "no_store", storeCall{"GET", native, ""}, "no_store"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			all := openNodes(t, 3, nil)
			n := all.nodes[1]
			for _, c := range []storeCall{
				{"POST", "/ostiary/v1/stores", `{"id":"` + storeOfWalk + `","name":"one"}`},
				{"POST", native + "/schemas", `{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"}`},
				{"POST", "/v1/tenants/create", `{"id":"t8","name":"eight"}`},
			} {
				if status, text := n.sendCall(c, false); status[0] != '2' {
					t.Fatal(status, text)
				}
			}
			l := lossy{request: c.requestLost, moves: true, between: func() {
				if status, text := all.nodes[0].sendCall(c.another, false); status[0] != '2' {
					t.Error("the other client: ", status, text)
				}
			}}
			n.lose(&l)
			status, text := n.sendCall(c.lost, false)
			if status != c.status || !strings.Contains(text, c.answer) || !l.lost {
				t.Errorf("%s %s, want %s with %s", status, text, c.status, c.answer)
			}
			n.shows()
			if _, text := n.sendCall(c.shows, false); !strings.Contains(text, c.shown) {
				t.Errorf("then %s, want %s", text, c.shown)
			}
		})
	}
}
