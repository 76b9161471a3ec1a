package permify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	k6Time = 5 * time.Minute
	k6IDs  = 2_000 // users, and contents
)

// underLoad runs a shortened form of the published load with k6. No request may
// fail. How many requests k6 could start depends on the machine, so the test
// only logs it. OSTIARY_K6 names a k6 binary to use instead of building one.
func underLoad(t *testing.T, server addresses) {
	k6 := buildK6(t)
	a := api{t, "http://" + server.http + "/v1/tenants/"}
	version := a.fill("k6")
	for _, c := range []struct{ name, sleep, seconds, peak, vus string }{
		{"as published", "1", "15", "1000", "1000"},
		{"without its sleep", "0", "10", "2000", "100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			summary := filepath.Join(t.TempDir(), "summary.json")
			ctx, stop := context.WithTimeout(t.Context(), k6Time)
			defer stop()
			cmd := exec.CommandContext(ctx, k6, "run", "--quiet", "--no-usage-report", "--summary-export", summary,
				"-e", "URL="+a.base+"k6/permissions/check", "-e", "SCHEMA_VERSION="+version, "-e", fmt.Sprintf("IDS=%d", k6IDs),
				"-e", "SLEEP="+c.sleep, "-e", "SECONDS="+c.seconds, "-e", "PEAK="+c.peak, "-e", "VUS="+c.vus, "load.js")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			checkSummary(t, summary)
		})
	}
}

// checkSummary checks what k6 measured.
func checkSummary(t *testing.T, name string) {
	t.Helper()
	var s struct {
		Metrics struct {
			Checks struct{ Passes, Fails int }
			Failed struct{ Value float64 } `json:"http_req_failed"`
			Reqs   struct{ Count int }     `json:"http_reqs"`
			Lost   struct{ Count int }     `json:"dropped_iterations"`
			Took   map[string]float64      `json:"http_req_duration"`
		}
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := s.Metrics
	if m.Reqs.Count == 0 || m.Checks.Fails > 0 || m.Failed.Value > 0 || m.Checks.Passes != 2*m.Reqs.Count {
		t.Errorf("%+v", m)
	}
	t.Logf("%d requests, %d iterations not started, median %.2f ms, p(95) %.2f, p(99) %.2f",
		m.Reqs.Count, m.Lost.Count, m.Took["med"], m.Took["p(95)"], m.Took["p(99)"])
}

// buildK6 builds k6 from the module in k6/.
func buildK6(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("OSTIARY_K6"); path != "" {
		return path
	}
	binary := filepath.Join(work(t, "k6"), "k6")
	if _, err := os.Stat(binary); err != nil {
		install(t, "k6", "the Go module proxy", "go", "build", "-o", binary, "go.k6.io/k6")
	}
	return binary
}

// api calls a running server.
type api struct {
	t    *testing.T
	base string
}

// fill creates a tenant with the published test's schema and a smaller form of
// its data. It returns the schema's version.
func (a *api) fill(tenant string) string {
	a.t.Helper()
	a.post("create", map[string]any{"id": tenant, "name": tenant})
	version, _ := a.post(tenant+"/schemas/write", map[string]any{"schema": k6Schema})["schema_version"].(string)
	var tuples, attributes []any
	flush := func() {
		a.post(tenant+"/data/write", map[string]any{"metadata": map[string]any{}, "tuples": tuples, "attributes": attributes})
		tuples, attributes = nil, nil
	}
	rng := rand.New(rand.NewPCG(1, k6IDs))
	of := func(typ string, id int) map[string]any { return map[string]any{"type": typ, "id": fmt.Sprint(id)} }
	add := func(typ string, id int, relation string, user int) {
		tuples = append(tuples, map[string]any{"entity": of(typ, id), "relation": relation, "subject": of("user", user)})
	}
	for i := range k6IDs {
		add("user", i, "self", i)
		for range 5 {
			add("user", i, "follower", rng.IntN(k6IDs))
		}
		add("user", i, "blocked", rng.IntN(k6IDs))
		add("content", i, "owner", rng.IntN(k6IDs))
		if rng.IntN(3) == 0 {
			attributes = append(attributes, map[string]any{"entity": of("content", i), "attribute": "is_public",
				"value": map[string]any{"@type": "type.googleapis.com/base.v1.BooleanValue", "data": true}})
		}
		if len(tuples)+len(attributes) > 900 || i == k6IDs-1 {
			flush()
		}
	}
	return version
}

// post sends a request that must succeed.
func (a *api) post(path string, body any) map[string]any {
	a.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		a.t.Fatal(err)
	}
	res, err := http.Post(a.base+path, "application/json", bytes.NewReader(text))
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	response, err := io.ReadAll(res.Body)
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(response, &out)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: %d %s %v", path, res.StatusCode, response, err)
	}
	return out
}

// k6Schema has the same meaning as the published test's schema.
const k6Schema = `
entity user {
	relation self @user
	relation follower @user
	relation blocked @user
	attribute is_public boolean
	permission view = self or (is_public or follower) not blocked
}
entity content {
	relation owner @user
	attribute is_public boolean
	permission view = owner.self or (is_public or owner.follower) not owner.blocked
}
`
