package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// production has the files for a server in production.
const production = "../../../examples/production/"

// metric matches the name of a metric of the server.
var metric = regexp.MustCompile(`\bostiary_[a-z_]+[a-z]\b`)

// scrape is a file for Prometheus.
type scrape struct {
	Rules  []string `yaml:"rule_files"`
	Global struct {
		Interval string `yaml:"scrape_interval"`
	}
	Jobs []struct {
		Name          string `yaml:"job_name"`
		Scheme        string
		Authorization struct {
			Key string `yaml:"credentials_file"`
		}
		TLS struct {
			CA string `yaml:"ca_file"`
		} `yaml:"tls_config"`
		Static []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
}

// target returns the name of the only job of a file for Prometheus, and its only address.
func (s scrape) target(t *testing.T) (job, address string) {
	t.Helper()
	if len(s.Jobs) != 1 || len(s.Jobs[0].Static) != 1 || len(s.Jobs[0].Static[0].Targets) != 1 {
		t.Fatalf("%+v: expected one job with one target", s)
	}
	return s.Jobs[0].Name, s.Jobs[0].Static[0].Targets[0]
}

// TestScrapeFile checks that the file for Prometheus scrapes the default address of the
// metrics and reads rules about its job, and that the job in docs/operate/monitor.md, for
// another machine, has the same name, TLS and a key.
func TestScrapeFile(t *testing.T) {
	t.Parallel()
	var file, remote scrape
	readYAML(t, readText(t, production+"prometheus.yml"), &file)
	job, address := file.target(t)
	if !strings.Contains(readText(t, "../../../docs/operate/configure.md"), "| `--metrics` | `"+address+"` |") {
		t.Errorf("prometheus.yml scrapes %q, which is not the default of --metrics", address)
	}
	if !slices.Equal(file.Rules, []string{"alerts.yml"}) || !strings.Contains(readText(t, production+"alerts.yml"), `up{job="`+job+`"}`) {
		t.Errorf("prometheus.yml has the rules %q and the job %q, expected alerts.yml, which asks whether this job is up", file.Rules, job)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(readText(t, "../../../docs/operate/monitor.md"))
	if block == nil {
		t.Fatal("docs/operate/monitor.md has no job for another machine")
	}
	readYAML(t, block[1], &remote)
	if name, at := remote.target(t); name != job || !strings.HasSuffix(at, address[strings.LastIndex(address, ":"):]) ||
		remote.Jobs[0].Scheme != "https" || remote.Jobs[0].Authorization.Key == "" || remote.Jobs[0].TLS.CA == "" {
		t.Errorf("docs/operate/monitor.md: %+v, expected the job %q with TLS and a key, at the port of %s", remote, job, address)
	}
}

// TestMetricsDescribed checks that the pages for operators describe each metric of the server,
// and no other.
func TestMetricsDescribed(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for _, page := range []string{"operate/monitor.md", "cluster.md", "audit.md", "keystone.md"} {
		for _, name := range metric.FindAllString(readText(t, "../../../docs/"+page), -1) {
			described[name] = true
		}
	}
	listed := metricsOf(t)
	for name := range described {
		if !listed[name] {
			t.Errorf("the pages describe the metric %s, which the server does not have", name)
		}
	}
	for name := range listed {
		if !described[name] {
			t.Errorf("no page describes the metric %s of the server", name)
		}
	}
}

// TestOnCallMessages checks that the messages on the pages for operators are in the program. A
// message is what a page marks as code, if it has several words and is no command.
func TestOnCallMessages(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	handwritten(t, func(_ string, text []byte) { code.Write(text) })
	found := 0
	for _, page := range []string{"monitor.md", "on-call.md"} {
		for _, span := range regexp.MustCompile("`([a-z]+ [a-z][^`]*)`").FindAllStringSubmatch(readText(t, "../../../docs/operate/"+page), -1) {
			if strings.HasPrefix(span[1], "ostiary ") || strings.HasPrefix(span[1], "systemctl ") {
				continue
			}
			found++
			if !strings.Contains(code.String(), span[1]) {
				t.Errorf("docs/operate/%s: the code has no message %q", page, span[1])
			}
		}
	}
	if found < 12 {
		t.Errorf("found %d messages, expected at least 12", found)
	}
}

// metricsOf returns the names of the metrics of the server, as the tests of its packages list
// them.
func metricsOf(t *testing.T) map[string]bool {
	t.Helper()
	listed := map[string]bool{"ostiary_build_info": true}
	for _, file := range []string{"../../../server/testdata/metrics.txt", "../../../cmd/ostiary/internal/serve/testdata/metrics.txt"} {
		for line := range strings.Lines(readText(t, file)) {
			name, _, _ := strings.Cut(line, "{")
			listed[name] = true
		}
	}
	return listed
}

// TestSizeFigures checks that each measured figure of docs/operate/size.md, in bold, is on
// the page of benchmarks that its row names.
func TestSizeFigures(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile(`(?m)^\| [^|]+ \| \*\*([^*]+)\*\*[^|]* \| \[[^\]]+\]\(\.\./benchmarks/([a-z]+\.md)[^)]*\) \|$`).
		FindAllStringSubmatch(readText(t, "../../../docs/operate/size.md"), -1)
	if len(rows) < 10 {
		t.Errorf("docs/operate/size.md has %d figures, expected at least 10", len(rows))
	}
	for _, row := range rows {
		page := strings.ReplaceAll(readText(t, "../../../docs/benchmarks/"+row[2]), "*", "")
		number, _, _ := strings.Cut(row[1], " MiB") // some tables have the unit in their head
		if !strings.Contains(page, row[1]) && !strings.Contains(page, number) {
			t.Errorf("docs/operate/size.md: %q is not in docs/benchmarks/%s", row[1], row[2])
		}
	}
}

// TestAuthTokenFile checks the options for a service of OpenStack: with each of them
// conformance/keystone asks the server through keystonemiddleware.
func TestAuthTokenFile(t *testing.T) {
	t.Parallel()
	text := readText(t, production+"keystone_authtoken.conf")
	_, section, ok := strings.Cut(text, "\n[keystone_authtoken]\n")
	if !ok {
		t.Fatal("keystone_authtoken.conf has no section [keystone_authtoken]")
	}
	options := map[string]string{}
	for line := range strings.Lines(section) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			t.Errorf("keystone_authtoken.conf: %q is no option with a value", line)
		}
		options[name] = value
	}
	for name, value := range map[string]string{"auth_type": "password", "project_name": "service", "user_domain_id": "default", "project_domain_id": "default"} {
		if options[name] != value {
			t.Errorf("keystone_authtoken.conf: %s is %q, expected %q", name, options[name], value)
		}
	}
	if options["auth_url"] == "" || options["auth_url"] != options["www_authenticate_uri"] {
		t.Errorf("keystone_authtoken.conf: auth_url is %q and www_authenticate_uri %q, expected the same URL", options["auth_url"], options["www_authenticate_uri"])
	}
	if page := readText(t, "../../../docs/keystone.md"); !strings.Contains(page, "openstack user create --password PASSWORD --project "+options["project_name"]+" "+options["username"]+"\n") {
		t.Errorf("docs/keystone.md does not make the user %q of keystone_authtoken.conf", options["username"])
	}
	if !strings.Contains(readText(t, "../../../conformance/keystone/middleware.py"), "keystone_authtoken.conf") {
		t.Error("conformance/keystone/middleware.py does not read keystone_authtoken.conf")
	}
}

// readYAML reads a text in YAML, and fails for a member that into has no field for.
func readYAML(t *testing.T, text string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// readText returns the text of a file.
func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
