package onap_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap"
)

// ask sends a request to a door and returns the status and the body.
func ask(t testing.TB, router *door.Router, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	var p door.Params
	route, _ := router.Find(method, r.URL.EscapedPath(), &p)
	if route == nil {
		t.Errorf("no route %s %s", method, path)
		return 0, ""
	}
	route.Serve(w, r, p)
	return w.Code, w.Body.String()
}

// TestConcurrentDeployments deploys and undeploys two policies together while
// requests ask for both: a response has both or neither.
func TestConcurrentDeployments(t *testing.T) {
	t.Parallel()
	router, err := door.NewRouter(open(t, onap.Options{}).Routes)
	if err != nil {
		t.Fatal(err)
	}
	policy := func(name string) string {
		return fmt.Sprintf(`{%q:{"type":"onap.policies.monitoring.tcagen2","type_version":"1.0.0","version":"1.0.0"}}`, name)
	}
	if status, body := ask(t, router, http.MethodPost, "/policy/api/v1/policies", `{"topology_template":{"policies":[`+policy("one")+`,`+policy("two")+`]}}`); status != 201 {
		t.Fatal(status, body)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				status, body := ask(t, router, http.MethodPost, "/policy/pdpx/v1/decision", `{"action":"configure","resource":{"policy-type":"onap.policies.monitoring.tcagen2"}}`)
				if one, two := strings.Contains(body, `"one":`), strings.Contains(body, `"two":`); status != 200 || one != two {
					t.Errorf("half of a deployment: %d %s", status, body)
				}
			}
		})
	}
	const batch = `{"groups":[{"name":"defaultGroup","deploymentSubgroups":[{"pdpType":"xacml","action":%q,"policies":[{"name":"one"},{"name":"two"}]}]}]}`
	for i := range 40 {
		action, want := "POST", true
		if i%2 == 1 {
			action, want = "DELETE", false
		}
		if status, body := ask(t, router, http.MethodPost, "/policy/pap/v1/pdps/deployments/batch", fmt.Sprintf(batch, action)); status != 202 {
			t.Errorf("%d %s", status, body)
		}
		// A deployment is live when it is answered.
		if _, body := ask(t, router, http.MethodPost, "/policy/pdpx/v1/decision", `{"action":"configure","resource":{"policy-id":"two"}}`); strings.Contains(body, `"two":`) != want {
			t.Errorf("after %s: %s", action, body)
		}
	}
	close(done)
	readers.Wait()
}

// TestBatchOfOperations checks the bound on operations in one request.
func TestBatchOfOperations(t *testing.T) {
	t.Parallel()
	router, err := door.NewRouter(open(t, onap.Options{}).Routes)
	if err != nil {
		t.Fatal(err)
	}
	list := func(n int) string {
		const one = `{"actor":"a","operation":"o","target":"t","outcome":"Success","endtime":"2026-01-02T15:04:05Z"},`
		return "[" + strings.TrimSuffix(strings.Repeat(one, n), ",") + "]"
	}
	if status, body := ask(t, router, http.MethodPost, "/policy/pdpx/v1/operations", list(500)); status != 201 {
		t.Error(status, body)
	}
	if status, body := ask(t, router, http.MethodPost, "/policy/pdpx/v1/operations", list(501)); status != 400 || !strings.Contains(body, "expected at most 500") {
		t.Error(status, body)
	}
}

// FuzzRequests sends bodies of any form to the routes that read them. No request
// may fail inside of the server.
func FuzzRequests(f *testing.F) {
	paths := []string{"/policy/pdpx/v1/decision", "/policy/pdpx/v1/operations", "/policy/api/v1/policies", "/policy/api/v1/policytypes",
		"/policy/api/v1/nodetemplates", "/policy/pap/v1/pdps/policies", "/policy/pap/v1/pdps/groups/batch", "/policy/pap/v1/pdps/deployments/batch"}
	for _, seed := range []string{`{"action":"guard","resource":{"guard":{"vfCount":1}}}`, `{"action":"optimize","context":{"subscriberName":["a"]},"resource":{"scope":[{}]}}`,
		`{"action":"match","resource":{"a":{"b":[null]}},"currentTime":"10:00:00Z"}`, `{"policies":[{"policy-id":"x","policy-version":"1"}]}`,
		`{"groups":[{"name":"g","pdpSubgroups":[{"pdpType":"x","desiredInstanceCount":1,"supportedPolicyTypes":[{"name":"a.*","version":"1.0.0"}]}]}]}`,
		`{"groups":[{"name":"defaultGroup","deploymentSubgroups":[{"pdpType":"xacml","action":"PATCH","policies":[]}]}]}`, `[{"actor":"a"}]`, `{"topology_template":{"policies":[{"p":{}}]}}`} {
		for i := range paths {
			f.Add(i, seed)
		}
	}
	router, err := door.NewRouter(open(f, onap.Options{Report: func(err error) { f.Log(err) }}).Routes)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path int, body string) {
		status, answer := ask(t, router, http.MethodPost, paths[uint(path)%uint(len(paths))], body)
		if status >= 500 && status != http.StatusInsufficientStorage {
			t.Errorf("%d %s", status, answer)
		}
	})
}
