package authzen_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
	"github.com/ostiary/ostiary/policy"
)

// TestPolicyScripts plays the scripts of requests that the policies of a domain
// answer, also with bounds that they reach.
func TestPolicyScripts(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]domain.Options{
		"policies":   {},
		"duties":     {Bounds: policy.Bounds{Duties: 4}},
		"candidates": {Candidates: 2},
	} {
		doortest.Run(t, "testdata/policies/"+name+".http", func(t testing.TB) *door.Door {
			return openPolicies(t, readFile(t, "testdata/policies/policies.txt"), o).door
		})
	}
}

// openPolicies opens a world whose store is a policy domain with the root of a
// file. The domain may ask a store with the model and the tuples of the file.
func openPolicies(t testing.TB, archive *txtar.Archive, o domain.Options) *world {
	t.Helper()
	ctx := context.Background()
	w := open(t, archive)
	registry, err := domain.NewRegistry(w.engine, o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := registry.Default(ctx, w.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == "root.txt" {
			if _, err := d.Change(ctx, domain.Change{Root: &domain.Source{Language: domain.Text, Text: f.Data}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	relations := w.store
	w.store = d.Store()
	if err := w.engine.UpdateStore(ctx, relations.ID(), replace("relations", map[string]string{authzen.Name: "relations"})); err != nil {
		t.Fatal(err)
	}
	if w.door, err = authzen.New(w.engine, authzen.Options{Store: w.store.ID().String(), Domains: registry}); err != nil {
		t.Fatal(err)
	}
	if w.router, err = door.NewRouter(w.door.Routes); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPolicyErrors checks that an error of any call that policies answer is an error
// response, never a denial, an empty list or a part of one.
func TestPolicyErrors(t *testing.T) {
	t.Parallel()
	w := openPolicies(t, readFile(t, "testdata/policies/policies.txt"), domain.Options{})
	const subject, action, resource = `"subject":{"type":"user","id":"anne"}`, `"action":{"name":"read"}`, `"resource":{"type":"document","id":"plan"}`
	calls := map[string]string{
		"evaluation":      `{` + subject + `,` + action + `,` + resource + `}`,
		"evaluations":     `{` + subject + `,` + action + `,"evaluations":[{` + resource + `},{` + resource + `}]}`,
		"search/subject":  `{"subject":{"type":"user"},` + action + `,` + resource + `}`,
		"search/resource": `{` + subject + `,` + action + `,"resource":{"type":"document"}}`,
		"search/action":   `{` + subject + `,` + resource + `}`,
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	check := func(ctx context.Context, status int) {
		t.Helper()
		for name, body := range calls {
			r := httptest.NewRequestWithContext(ctx, "POST", "/access/v1/"+name, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r)
			if rec.Code != status || strings.HasPrefix(rec.Body.String(), "{") != (status == http.StatusOK) {
				t.Errorf("%s: %d %.200s, want %d", name, rec.Code, rec.Body, status)
			}
		}
	}
	check(context.Background(), http.StatusOK)
	check(canceled, http.StatusServiceUnavailable)
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
	check(context.Background(), http.StatusServiceUnavailable)
}

// TestConfiguration checks the base URL of the metadata document, and that the
// identifier of a request returns.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	w := open(t, readFile(t, "testdata/certification.txt"))
	get := func(url string) (base string) {
		t.Helper()
		r := httptest.NewRequest("GET", url, nil)
		r.Header["X-Request-Id"] = []string{"one", "two"}
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		if got := rec.Header()["X-Request-Id"]; len(got) != 1 || got[0] != "one" {
			t.Errorf("X-Request-Id %q, want the first one", got)
		}
		var out map[string]string
		if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		base = out["policy_decision_point"]
		for member, path := range map[string]string{
			"access_evaluation_endpoint": "/access/v1/evaluation", "access_evaluations_endpoint": "/access/v1/evaluations",
			"search_subject_endpoint": "/access/v1/search/subject", "search_resource_endpoint": "/access/v1/search/resource",
			"search_action_endpoint": "/access/v1/search/action",
		} {
			if out[member] != base+path {
				t.Errorf("%s %q, want %q", member, out[member], base+path)
			}
		}
		return base
	}
	const path = "/.well-known/authzen-configuration"
	for url, want := range map[string]string{
		"http://pdp.example.com" + path:              "http://pdp.example.com",
		"https://pdp.example.com" + path:             "https://pdp.example.com",
		"http://pdp.example.com:81" + path:           "http://pdp.example.com:81",
		"http://a" + path + "/authzen/a%20store%3F1": "http://a/authzen/a%20store%3F1",
	} {
		if got := get(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	w.router = routerOf(t, w.engine, authzen.Options{URL: "https://public.example.com/a"})
	if got := get("http://inside" + path); got != "https://public.example.com/a" {
		t.Errorf("with the URL of the options: %q", got)
	}
}
