package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/workshop/bench/servers"
)

const clusterFiles = "../../examples/cluster/"

// checkServe requires that the words after "serve" are flags that it has, with values that
// they take, and returns the value of one flag.
func checkServe(t *testing.T, words []string, flag string) string {
	t.Helper()
	cmd, rest, err := root(&cli.App{Lookup: func(string) (string, bool) { return "", false }}).Find(words)
	if err == nil && cmd.Name() != "serve" {
		t.Errorf("%q is no command serve", words)
	}
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err != nil || len(cmd.Flags().Args()) > 0 {
		t.Fatalf("%q: %v, unexpected words %q", words, err, cmd.Flags().Args())
	}
	if f := cmd.Flags().Lookup(flag); f != nil {
		return f.Value.String()
	}
	t.Errorf("serve has no flag --%s", flag)
	return ""
}

// TestComposeFile checks the compose file of examples/cluster: its commands, its
// variables, its volumes, and that its proxy reaches what is served.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(clusterFiles + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image, Command       string
			Environment, Volumes []string
			DependsOn            []string `yaml:"depends_on"`
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	proxy, err := os.ReadFile(clusterFiles + "compose-haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for name, s := range compose.Services {
		for _, other := range s.DependsOn {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("%s depends on %q, which is no service", name, other)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			_, named := compose.Volumes[from]
			if _, err := os.Stat(clusterFiles + from); !named && (err != nil || !strings.HasPrefix(from, "./")) {
				t.Errorf("%s: volume %q is neither named nor a file", name, v)
			}
		}
		if s.Image != "ostiary" {
			continue
		}
		nodes++
		words := strings.Fields(s.Command)
		if at := checkServe(t, words, "nodes-address"); at != name+":8082" {
			t.Errorf("%s has --nodes-address %s", name, at)
		}
		if at := checkServe(t, words, "http"); !strings.Contains(string(proxy), "server "+name+" "+name+strings.TrimPrefix(at, "0.0.0.0")+"\n") {
			t.Errorf("the proxy does not have %s, which listens on %s", name, at)
		}
		if checkServe(t, words, "cluster") != "true" {
			t.Errorf("%s has no --cluster", name)
		}
		for _, variable := range s.Environment {
			variable, _, _ = strings.Cut(variable, "=")
			checkServe(t, words, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "OSTIARY_")), "_", "-"))
		}
	}
	if nodes != 3 {
		t.Errorf("%d nodes", nodes)
	}
}

// TestSystemdUnit checks the unit of examples/cluster and its file of settings.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(clusterFiles + "systemd/ostiary.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindSubmatch(text)
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	words := strings.Fields(string(start[2]))
	if file := checkServe(t, words, "config"); filepath.Base(file) != "serve.yaml" {
		t.Errorf("the unit has --config %s", file)
	}
	settings, err := os.ReadFile(clusterFiles + "systemd/serve.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var flags map[string]string
	if err := yaml.Unmarshal(settings, &flags); err != nil {
		t.Fatal(err)
	}
	for name, value := range flags {
		if have := checkServe(t, append(words, "--"+name, value), name); have != value {
			t.Errorf("--%s %s becomes %s", name, value, have)
		}
	}
	verify, err := servers.Find("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	ostiary, err := exec.LookPath("ostiary") // it must be there
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(t.TempDir(), "ostiary.service")
	if err := os.WriteFile(unit, []byte(strings.ReplaceAll(string(text), string(start[1]), ostiary)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(verify, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), unit) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
