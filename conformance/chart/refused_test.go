package chart

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chartutil"
)

// TestRefused requires that values which contradict each other are refused, with a text that
// names what is wrong.
func TestRefused(t *testing.T) {
	one, nodes := readValues(t, "testdata/one.values.yaml"), readValues(t, "testdata/nodes.values.yaml")
	for _, c := range []struct {
		base map[string]any
		set  string // path=value, in YAML
		want string
	}{
		{one, `auth.keysSecret.name=""`, "auth.keysSecret.name is empty: no server starts without keys"},
		{one, `settings={auth: none}`, "settings.auth: the server always asks for keys"},
		{one, `settings={auth-anonymous: true}`, "settings.auth-anonymous: the server always asks for keys"},
		{one, `shape=raft`, `shape: "raft": nodes that keep the log themselves do not run in Kubernetes: a join token serves one node`},
		{one, `shape=cluster`, `shape: "cluster": nodes that keep the log themselves do not run in Kubernetes`},
		{one, `settings={cluster: true}`, "settings.cluster: nodes that keep the log themselves do not run in Kubernetes"},
		{one, `settings={join: ostiary-join-1}`, "settings.join: nodes that keep the log themselves do not run in Kubernetes"},
		{one, `shape=two`, `shape: "two", expected one (one node with a volume) or nodes`},
		{one, `shape=""`, `shape: "", expected one (one node with a volume) or nodes`},
		{one, `replicas=3`, "replicas: 3 with shape: one"},
		{one, `replicas=0`, "replicas"},
		{one, `database.urlSecret.name=log`, `database.urlSecret.name: "log" with shape: one`},
		{one, `nodes.tlsSecret=certificates`, `nodes.tlsSecret: "certificates" with shape: one`},
		{one, `settings={log: "postgres://db/ostiary"}`, "settings.log: the chart sets --log itself: use database.urlSecret"},
		{one, `settings={http: "0.0.0.0:80"}`, "settings.http: the chart sets --http itself"},
		{one, `settings={Access-Log: true}`, "Access-Log"},
		{one, `tls.clientCASecret=clients`, `tls.clientCASecret: "clients" without tls.secret`},
		{one, `tls.clientRequired=true`, "tls.clientRequired without tls.clientCASecret"},
		{one, `tls={secret: tls, clientCASecret: clients, clientRequired: true}; metrics.enabled=false`, "tls.clientRequired with metrics.enabled: false"},
		{one, `metrics={enabled: false, serviceMonitor: {enabled: true}}`, "metrics.serviceMonitor.enabled with metrics.enabled: false"},
		{one, `metrics.serviceMonitor.enabled=true; networkPolicy.metrics=[]`, "metrics.serviceMonitor.enabled with an empty networkPolicy.metrics"},
		{one, `resources={limits: {memory: 1.5Gi}}`, `resources.limits.memory: "1.5Gi", expected a whole number with Mi or Gi`},
		{one, `resources={limits: {memory: lots}}`, `resources.limits.memory: "lots", expected a whole number with Mi or Gi`},
		{one, `persistance={size: 1Gi}`, "persistance"},
		{one, `persistence.size=8`, "persistence"},
		{one, `podLabels={app.kubernetes.io/name: door}`, "podLabels"},
		{one, `stop.stopSeconds=0`, "stopSeconds"},
		{one, `antiAffinity=maybe`, "antiAffinity"},
		{nodes, `database.urlSecret.name=""`, "database.urlSecret.name is empty with shape: nodes"},
		{nodes, `nodes.tlsSecret=""`, "nodes.tlsSecret is empty with shape: nodes"},
		{nodes, `secretKey.secret.name=""`, "secretKey.secret.name is empty with shape: nodes: all nodes need the same key"},
		{nodes, `persistence.existingClaim=old`, `persistence.existingClaim: "old" with shape: nodes`},
		{nodes, `replicas=2; podDisruptionBudget.maxUnavailable=2`, "podDisruptionBudget.maxUnavailable: 2 of 2 replicas"},
	} {
		values := c.base
		for change := range strings.SplitSeq(c.set, "; ") {
			values = with(t, values, change)
		}
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.set, err, c.want)
		}
	}
}

// with returns a copy of values with a change PATH=VALUE.
func with(t *testing.T, values map[string]any, change string) map[string]any {
	t.Helper()
	path, text, _ := strings.Cut(change, "=")
	top, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := chartutil.ReadValues(top)
	if err != nil {
		t.Fatal(err)
	}
	value, err := chartutil.ReadValues([]byte("value: " + text))
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]any(copied)
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[name] = next
		}
		at = next
	}
	at[names[len(names)-1]] = value["value"]
	return copied
}
