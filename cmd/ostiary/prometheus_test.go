package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// watched are three nodes without a database and a server with TLS and keys, which a Prometheus
// scrapes as docs/operate/monitor.md has it.
type watched struct {
	*nodes
	secure     *process
	client     *http.Client // trusts secure
	key        string       // of secure, for requests
	prometheus string       // its URL
}

// TestPrometheus lets a real Prometheus scrape nodes and a server with TLS and a key for metrics,
// and evaluate the rules and the board that are in examples/production. While all is well, no rule
// fails, no alert fires, and each panel has series, or its reason to have none. Then faults are
// injected, and their alerts fire, with shorter times; repaired, they end.
func TestPrometheus(t *testing.T) {
	if os.Getenv("TEST_PROMETHEUS") == "" {
		t.Skip("Prometheus is part of make conformance (TEST_PROMETHEUS=1)")
	}
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("needs prometheus of Debian: %v", err)
		}
	}
	const production, rules = "../../examples/production/", "../../examples/production/alerts.yml"
	tool(t, "check", "rules", rules)
	tool(t, "check", "config", production+"prometheus.yml")
	tool(t, "test", "rules", "../../internal/workshop/rules/testdata/alerts.test.yml")

	w := &watched{nodes: startNodesOn(t, "", 3)}
	w.prepare(w.holder())
	w.startSecure()
	w.run("backup", "--data", w.folder(w.all[0]), w.file("backup0"))
	w.run("backup", "--data", w.folder(w.secure), w.file("backup9"))
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	w.startPrometheus(string(text))
	w.traffic(60)
	w.well()
	w.panels(production + "grafana.json")

	// The times of the alerts, and of what they look at, are short from here on.
	w.reload(shorter(string(text)))
	w.faults()
}

// tool runs promtool.
func tool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// shorter returns rules with short times.
func shorter(rules string) string {
	rules = regexp.MustCompile(`(?m)^( +)for: .*$`).ReplaceAllString(rules, "${1}for: 1s")
	return regexp.MustCompile(`\[\d+m\]`).ReplaceAllString(rules, "[10s]")
}

// startSecure starts the server with TLS, and keys for requests and for the scrape.
func (w *watched) startSecure() {
	w.Helper()
	authority := issuers.NewAuthority(w.T, "authority")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	if err := os.WriteFile(w.file("authority.pem"), authority.PEM, 0o600); err != nil {
		w.Fatal(err)
	}
	issue := func(life time.Duration) {
		issuers.WriteCertificate(w.T, w.dir, "server", authority.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(life) }))
	}
	issue(90 * 24 * time.Hour)
	w.secure = &process{number: 9}
	folder := w.folder(w.secure)
	w.run("store", "create", "secure", "--data", folder)
	w.run("key", "create", "prometheus", "--stores", "*", "--rights", "read", "--doors", "metrics", "--expires", "never", "--out", w.file("metrics.key"), "--data", folder)
	w.run("key", "create", "app", "--stores", "*", "--rights", "admin", "--expires", "never", "--out", w.file("app.key"), "--data", folder)
	key, err := os.ReadFile(w.file("app.key"))
	if err != nil {
		w.Fatal(err)
	}
	w.key = strings.TrimSpace(string(key))
	w.launchSecure()
	w.Cleanup(func() {
		_ = w.secure.cmd.Process.Kill()
		<-w.secure.ended
		if w.Failed() {
			w.Logf("the server with TLS:\n%.4000s", w.secure.stderr.String())
		}
	})
}

// launchSecure starts the server with TLS, and waits until it answers.
func (w *watched) launchSecure() {
	w.Helper()
	metrics := "127.0.0.1:0"
	if w.secure.metrics != "" { // Prometheus keeps the address
		metrics = w.again(w.secure)
	}
	w.launchAs(w.secure, "--tls-cert", w.file("server.pem"), "--tls-key", w.file("server.key"), "--metrics-tls", "--metrics", metrics)
	w.secure.http = "https" + strings.TrimPrefix(w.secure.http, "http")
	w.eventually("the server with TLS answers", func() bool {
		status, _ := w.send("GET", "/readyz", w.key, "")
		return status == http.StatusOK
	})
}

// again returns the address for metrics that a process had, once no connection uses its port: the
// system may have given it to one since the process has ended.
func (w *watched) again(p *process) (address string) {
	w.Helper()
	address = strings.TrimPrefix(p.metrics, "http://")
	w.eventually("the port for metrics is free: "+address, func() bool {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return false
		}
		return listener.Close() == nil
	})
	return address
}

// send sends a request to the server with TLS, and returns its status and its answer.
func (w *watched) send(method, path, key, body string) (int, string) {
	w.Helper()
	r, err := http.NewRequest(method, w.secure.http+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := w.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// startPrometheus starts Prometheus with rules, and waits until it is ready.
func (w *watched) startPrometheus(rules string) {
	w.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	host := func(p *process) string { return strings.TrimPrefix(p.metrics, "http://") }
	var targets []string
	for _, p := range w.all {
		targets = append(targets, `"`+host(p)+`"`)
	}
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: ostiary
    static_configs: [{targets: [%s]}]
  - job_name: secure
    scheme: https
    authorization: {credentials_file: metrics.key}
    tls_config: {ca_file: authority.pem}
    static_configs: [{targets: ["%s"]}]
`, strings.Join(targets, ", "), host(w.secure))
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yml": rules} {
		if err := os.WriteFile(w.file(name), []byte(text), 0o600); err != nil {
			w.Fatal(err)
		}
	}
	w.prometheus = "http://" + address
	cmd := exec.Command("prometheus", "--config.file="+w.file("prometheus.yml"), "--storage.tsdb.path="+w.file("tsdb"),
		"--web.listen-address="+address, "--web.enable-lifecycle", "--log.level=warn")
	var log lockedBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.Failed() {
			w.Logf("Prometheus:\n%.4000s", log.String())
		}
	})
	w.eventually("Prometheus is ready", func() bool {
		resp, err := http.Get(w.prometheus + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// reload gives Prometheus other rules.
func (w *watched) reload(rules string) {
	w.Helper()
	if err := os.WriteFile(w.file("alerts.yml"), []byte(rules), 0o600); err != nil {
		w.Fatal(err)
	}
	resp, err := http.Post(w.prometheus+"/-/reload", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.Fatalf("Prometheus does not read the rules: %v %v", resp, err)
	}
	resp.Body.Close()
}

// api reads an answer of Prometheus. It fails with the text of an error.
func (w *watched) api(path string, data any) {
	w.Helper()
	resp, err := http.Get(w.prometheus + "/api/v1/" + path)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
		w.Fatalf("Prometheus, %s: %v %s", path, err, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		w.Fatal(err)
	}
}

// query returns the labels of the series of an expression.
func (w *watched) query(expr string) (series []map[string]string) {
	w.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	w.api("query?query="+url.QueryEscape(expr), &data)
	for _, one := range data.Result {
		series = append(series, one.Metric)
	}
	return series
}

// firing returns the names of the alerts that fire.
func (w *watched) firing() (names []string) {
	w.Helper()
	for _, labels := range w.query(`ALERTS{alertstate="firing"}`) {
		names = append(names, labels["alertname"])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// traffic sends requests of several classes to the nodes until Prometheus has had scrapes of it.
func (w *watched) traffic(n int) {
	w.Helper()
	for i := range n {
		p := w.all[i%len(w.all)]
		if err := w.write(p, i); err != nil {
			w.Logf("write %d: %v", i, err)
		}
		if _, err := w.check(p, i); err != nil {
			w.Logf("check %d: %v", i, err)
		}
		_ = p.post("/stores/"+w.store+"/list-objects", map[string]string{"user": "user:anne", "relation": "viewer", "type": "document"}, nil)
		time.Sleep(100 * time.Millisecond) // over several scrapes
	}
}

// well checks that all rules are evaluated without an error, and that no alert fires.
func (w *watched) well() {
	w.Helper()
	type rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	var data rules
	w.eventually("each rule was evaluated, and no alert fires", func() bool {
		data = rules{}
		w.api("rules", &data)
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				if r.Health == "err" {
					w.Fatalf("the rule %s fails: %s", r.Name, r.LastError)
				}
				if r.Health != "ok" {
					return false
				}
			}
		}
		return len(data.Groups) > 0 && len(w.query("up == 1")) == 4 && len(w.firing()) == 0
	})
	if n := len(data.Groups[0].Rules); n < 20 {
		w.Errorf("Prometheus has %d rules, expected at least 20", n)
	}
	if names := w.query(`max_over_time(ALERTS{alertstate="firing"}[1h])`); len(names) > 0 {
		w.Errorf("alerts have fired although all is well: %v", names)
	}
}

// panels asks for each series of the board. One without the note "Empty if" must have a result,
// as soon as Prometheus has scraped it twice.
func (w *watched) panels(board string) {
	w.Helper()
	text, err := os.ReadFile(board)
	if err != nil {
		w.Fatal(err)
	}
	var b struct {
		Panels []struct {
			Type, Title, Description string
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &b); err != nil {
		w.Fatal(err)
	}
	asked := 0
	chosen := strings.NewReplacer("$job", "ostiary", "$instance", ".*", "$__rate_interval", "30s")
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			if asked++; strings.HasPrefix(p.Description, "Empty if: ") {
				w.query(chosen.Replace(target.Expr))
				continue
			}
			w.eventually(fmt.Sprintf("the panel %q has series: %s", p.Title, target.Expr), func() bool {
				if len(w.query(chosen.Replace(target.Expr))) > 0 {
					return true
				}
				w.traffic(20)
				return false
			})
		}
	}
	if asked < 40 {
		w.Errorf("the board asks for %d series, expected at least 40", asked)
	}
}

// fault expects that alerts fire after a fault, and that those that end it are over after its
// repair. both are called again and again meanwhile.
func (w *watched) fault(what string, cause, repair func(), alerts ...string) {
	w.Helper()
	begun := time.Now()
	w.eventually(fmt.Sprintf("%s: %v fire", what, alerts), func() bool {
		cause()
		now := w.firing()
		return !slices.ContainsFunc(alerts, func(name string) bool { return !slices.Contains(now, name) })
	})
	fired := time.Since(begun)
	w.eventually(fmt.Sprintf("%s, repaired: %v are over", what, alerts), func() bool {
		repair()
		now := w.firing()
		return !slices.ContainsFunc(alerts, func(name string) bool { return slices.Contains(now, name) })
	})
	w.Logf("%s: %v after %v, over after %v", what, alerts, fired.Round(time.Second), (time.Since(begun) - fired).Round(time.Second))
}

// once returns a function that calls f at its first call.
func once(f func()) func() {
	called := false
	return func() {
		if !called {
			called = true
			f()
		}
	}
}

// faults injects faults one after another.
func (w *watched) faults() {
	w.Helper()
	pass := func() {}
	holder := w.holder()
	follower := w.all[(holder.number+1)%len(w.all)]
	w.fault("a follower is killed", once(func() { _ = follower.cmd.Process.Kill(); <-follower.ended }), once(func() {
		w.launchAs(follower, "--nodes-listen", "127.0.0.1:0", "--cluster", "--metrics", w.again(follower))
	}), "OstiaryDown", "OstiaryFollowers")

	holder = w.holder() // it keeps its role, and has no lease
	signal := func(s syscall.Signal) {
		for _, p := range w.all {
			if p != holder {
				_ = p.cmd.Process.Signal(s)
			}
		}
	}
	w.fault("the holder is cut off, and there is no majority", once(func() { signal(syscall.SIGSTOP) }), once(func() { signal(syscall.SIGCONT) }), "OstiaryNodeCutOff", "OstiaryWriters")

	w.fault("logins fail", func() { w.repeat("GET", "/stores", "wrong", "") }, pass, "OstiaryFailedLogins")
	_, text := w.send("GET", "/stores", w.key, "")
	id := regexp.MustCompile(`"id":"([0-9A-Z]+)"`).FindStringSubmatch(text)
	if id == nil {
		w.Fatalf("no store in %s", text)
	}
	if status, answer := w.send("POST", "/ostiary/v1/stores/"+id[1]+"/schemas", w.key, `{"dialect":"openfga-dsl","source":"model\n  schema 1.1\ntype user\ntype doc\n  relations\n    define viewer: [user]\n"}`); status/100 != 2 {
		w.Fatalf("%d %s", status, answer)
	}
	w.fault("questions do not fit to the model", func() {
		w.repeat("POST", "/ostiary/v1/stores/"+id[1]+"/check", w.key, `{"subject":"user:ed","relation":"nothing","object":"doc:1"}`)
	}, pass, "OstiaryUndecided")
	large := string(bytes.Repeat([]byte("x"), 5<<20))
	w.fault("requests are too large", func() { w.repeat("POST", "/ostiary/v1/stores/"+id[1]+"/check", w.key, large) }, pass, "OstiaryRefusals")

	w.restart(func() { // a backup of the day before yesterday, and a certificate of five days
		old := fmt.Sprintf(`{"made":%q}`, time.Now().Add(-48*time.Hour).UTC().Format(time.RFC3339))
		if err := os.WriteFile(filepath.Join(w.folder(w.secure), "BACKUP"), []byte(old), 0o600); err != nil {
			w.Fatal(err)
		}
	})
	w.fault("the backup is old", pass, once(func() { w.run("backup", "--data", w.folder(w.secure), w.file("backup9")) }), "OstiaryBackupOld")
	w.fault("a key expires soon", once(func() {
		w.send("POST", "/ostiary/v1/keys", w.key, fmt.Sprintf(`{"name":"short","stores":["*"],"rights":["read"],"expires":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	}), once(func() { w.send("DELETE", "/ostiary/v1/keys/short", w.key, "") }), "OstiaryKeyExpires")
}

// repeat sends several requests to the server with TLS.
func (w *watched) repeat(method, path, key, body string) {
	w.Helper()
	for range 5 {
		w.send(method, path, key, body)
	}
}

// restart stops the server with TLS, calls change, and starts it again.
func (w *watched) restart(change func()) {
	w.Helper()
	_ = w.secure.cmd.Process.Signal(syscall.SIGTERM)
	<-w.secure.ended
	change()
	w.launchSecure()
}
