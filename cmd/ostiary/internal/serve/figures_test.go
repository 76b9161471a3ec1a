package serve

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/cmd/ostiary/internal/protocols"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// metrics returns the lines of the server's metrics that match a pattern.
func (x *recordingServer) metrics(pattern string) string {
	x.t.Helper()
	resp, err := http.Get(x.scrape + "/metrics")
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return strings.Join(regexp.MustCompile("(?m)^"+pattern+"$").FindAllString(string(text), -1), "\n")
}

// TestDecisionsByDoor sends a question through each door, under a model that allows it and under
// one that denies it. The metrics count each decision once, for its door and its result, and
// have a duration of its class.
func TestDecisionsByDoor(t *testing.T) {
	t.Parallel()
	for name := range (&recordingWorld{recordingServer: &recordingServer{t: t}}).recordedCalls(t.Context(), "") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := startRecording(t)
			w := x.newWorld()
			door, _, _ := strings.Cut(name, " ")
			w.recordedCalls(t.Context(), "")[name]()
			w.write("writer and banned")
			w.recordedCalls(t.Context(), "")[name]()
			w.recordedCalls(t.Context(), "")[name]()
			want := `ostiary_decisions_total{door="` + door + `",result="allowed"} 1` + "\n" + `ostiary_decisions_total{door="` + door + `",result="denied"} 2`
			if got := x.metrics(`ostiary_decisions_total.*`); got != want {
				t.Errorf("the metrics are\n%s\nexpected\n%s", got, want)
			}
			class := "check"
			if door == "xacml" {
				class = "policy"
			}
			if got := x.metrics(`ostiary_class_duration_seconds_count\{class="` + class + `"\} .*`); !strings.HasSuffix(got, " 3") {
				t.Errorf("the durations of the class are %q, expected 3", got)
			}
		})
	}
}

// TestOtherDecisions counts what is no question about relations: questions that cannot be asked,
// policies that do not apply, and the rules of Identity.
func TestOtherDecisions(t *testing.T) {
	t.Parallel()
	x := startRecording(t)
	w := x.newWorld()
	bad := func(path string, in string) {
		t.Helper()
		resp, err := http.Post(x.http+path, "application/json", strings.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	bad("/ostiary/v1/stores/"+w.store+"/check", `{"subject":"user:ed","relation":"nothing","object":"doc:1"}`)
	bad("/policy/pdpx/v1/decision", `{"ONAPName":"Policy","ONAPComponent":"c","ONAPInstance":"i","action":"optimize","resource":{}}`)
	if _, err := protocols.BootstrapIdentity(t.Context(), x.engine, identity.BootstrapOptions{Password: "secret"}, settings.Deployment{Rounds: password.RoundsMin}); err != nil {
		t.Fatal(err)
	}
	login := `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}}}}`
	resp, err := http.Post(x.http+"/v3/auth/tokens", "application/json", strings.NewReader(login))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	r, _ := http.NewRequest("GET", x.http+"/v3/users", nil)
	r.Header.Set("X-Auth-Token", resp.Header.Get("X-Subject-Token"))
	if resp, text := fetch(t, r); resp.StatusCode != http.StatusForbidden {
		t.Fatalf("%d %s, expected that an unscoped token lists no users", resp.StatusCode, text)
	}
	const want = `ostiary_decisions_total{door="keystone",result="denied"} 1
ostiary_decisions_total{door="native",result="error"} 1
ostiary_decisions_total{door="onap-pdp",result="unknown"} 1`
	if got := x.metrics(`ostiary_decisions_total.*`); got != want {
		t.Errorf("the metrics are\n%s\nexpected\n%s", got, want)
	}
	for _, line := range []string{`ostiary_class_duration_seconds_count\{class="login"\} 1`, `ostiary_class_duration_seconds_count\{class="policy"\} 1`,
		`ostiary_writes_waiting 0`, `ostiary_turns_waiting 0`} {
		if x.metrics(line) == "" {
			t.Errorf("the metrics have no %s:\n%s", line, x.metrics("ostiary.*(waiting|_count).*"))
		}
	}
}

// TestMetricsList lists the metrics that the program adds to those of the server, which the pages
// for operators describe.
func TestMetricsList(t *testing.T) {
	t.Parallel()
	golden.Metrics(t, "testdata/metrics.txt", newFolderFigures(nil), newDiskFigures(nil), newBackupFigures(nil), newKeyFigures(nil, nil), newNodeFigures(nil),
		newAuditFigures(nil), newDecisionFigures(nil), newNotificationFigures(nil))
}
