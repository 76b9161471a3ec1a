package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

const composeFiles = "../../packaging/compose/"

// composeImage is the image of the project in the compose files. "make image" makes it.
const composeImage = "${OSTIARY_IMAGE:-ostiary:dev}"

// composeService is a service of a compose file.
type composeService struct {
	Image, Command              string
	Environment, Volumes, Ports []string
	ReadOnly                    bool `yaml:"read_only"`
	Healthcheck                 struct{ Test []string }
	DependsOn                   yaml.Node `yaml:"depends_on"`
}

// TestComposeFile checks the compose files: their commands, variables, volumes and ports,
// the commands at their tops, that no server starts open, and that the proxy of three nodes
// reaches what is served.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	proxy, err := os.ReadFile(composeFiles + "haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]int{"one.yaml": 1, "three.yaml": 3, "postgres.yaml": 1} {
		text, err := os.ReadFile(composeFiles + file)
		if err != nil {
			t.Fatal(err)
		}
		var compose struct {
			Services map[string]*composeService
			Volumes  map[string]any
		}
		if err := yaml.Unmarshal(text, &compose); err != nil {
			t.Fatal(err)
		}
		made := checkComposeTop(t, file, string(text))
		nodes := 0
		for name, s := range compose.Services {
			for _, other := range s.DependsOn.Content {
				if s.DependsOn.Kind == yaml.SequenceNode && compose.Services[other.Value] == nil {
					t.Errorf("%s: %s depends on %q, which is no service", file, name, other.Value)
				}
			}
			for _, v := range s.Volumes {
				from, _, _ := strings.Cut(v, ":")
				_, named := compose.Volumes[from]
				if _, err := os.Stat(composeFiles + from); !named && (err != nil || !strings.HasPrefix(from, "./")) {
					t.Errorf("%s: %s: volume %q is neither named nor a file", file, name, v)
				}
			}
			for _, p := range s.Ports {
				if !strings.HasPrefix(p, "127.0.0.1:") {
					t.Errorf("%s: %s: other machines reach port %s, which has no TLS", file, name, p)
				}
			}
			if s.Image != composeImage {
				continue
			}
			nodes++
			checkComposeNode(t, file+": "+name, s, made)
			if file != "three.yaml" {
				continue
			}
			words := strings.Fields(s.Command)
			if at := checkServe(t, words, "nodes-address"); at != name+":8082" {
				t.Errorf("%s has --nodes-address %s", name, at)
			}
			if !strings.Contains(string(proxy), "server "+name+" "+name+":8080\n") {
				t.Errorf("the proxy does not have %s", name)
			}
			if checkServe(t, words, "cluster") != "true" {
				t.Errorf("%s has no --cluster", name)
			}
			// Without a token, a new folder would begin a cluster of its own.
			if join := fmt.Sprintf("OSTIARY_JOIN=${JOIN%s:-none}", name[len("node"):]); name != "node1" && !slices.Contains(s.Environment, join) {
				t.Errorf("%s has the variables %q, expected %s", name, s.Environment, join)
			}
		}
		if nodes != want {
			t.Errorf("%s: %d nodes, expected %d", file, nodes, want)
		}
	}
}

// checkComposeNode checks a service that is a server. made reports whether a command at the
// top of the file makes a key on the folder.
func checkComposeNode(t *testing.T, name string, s *composeService, made bool) {
	t.Helper()
	words := strings.Fields(s.Command)
	if auth := checkServe(t, words, "auth"); auth != "keys" {
		t.Errorf("%s has --auth %q, expected keys", name, auth)
	}
	if !s.ReadOnly || !slices.Contains(s.Volumes, "data:/data") && !strings.HasSuffix(s.Volumes[0], ":/data") {
		t.Errorf("%s: read-only: %t, volumes %q; expected a read-only root and a volume at /data", name, s.ReadOnly, s.Volumes)
	}
	if test := s.Healthcheck.Test; !slices.Equal(test, []string{"CMD", "/ostiary", "health"}) {
		t.Errorf("%s has the health check %q", name, test)
	}
	keys := made
	for _, variable := range s.Environment {
		variable, value, _ := strings.Cut(variable, "=")
		if variable == "OSTIARY_AUTH_KEYS" {
			keys = strings.HasPrefix(value, "${OSTIARY_AUTH_KEYS:?") // it does not start without them
			continue
		}
		checkServe(t, words, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "OSTIARY_")), "_", "-"))
	}
	if !keys {
		t.Errorf("%s: no command at the top makes a key, and it starts without one", name)
	}
}

// checkComposeTop checks the commands at the top of a compose file, and reports whether one
// makes a key.
func checkComposeTop(t *testing.T, file, text string) (made bool) {
	t.Helper()
	top, _, _ := strings.Cut(text, "\nservices:")
	for _, c := range regexp.MustCompile(`docker compose -f (\S+)`).FindAllStringSubmatch(top, -1) {
		if c[1] != file {
			t.Errorf("%s: a command at the top has the file %s", file, c[1])
		}
	}
	if !strings.Contains(top, "up -d --wait") {
		t.Errorf("%s: no command at the top starts it", file)
	}
	for _, c := range regexp.MustCompile(`-T \w+ (?:/ostiary )?((?:key|node) [^>)\n]+)`).FindAllStringSubmatch(top, -1) {
		words := strings.Fields(strings.ReplaceAll(c[1], "'", ""))
		cmd, rest, err := root(&cli.App{Lookup: func(string) (string, bool) { return "", false }}).Find(words)
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || !cmd.Runnable() {
			t.Errorf("%s: %q: %v", file, c[1], err)
		}
		made = made || cmd.CommandPath() == "ostiary key create"
	}
	return made
}

// TestSystemdUnit checks the unit of the packages, the settings that are installed with it, and
// those of a node.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	const files = "../../packaging/files/"
	text, err := os.ReadFile(files + "ostiary.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindSubmatch(text)
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	words := strings.Fields(string(start[2]))
	if file := checkServe(t, words, "config"); filepath.Base(file) != "ostiary.yaml" {
		t.Errorf("the unit has --config %s", file)
	}
	for _, file := range []string{files + "ostiary.yaml", clusterFiles + "node.yaml"} {
		settings, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var flags map[string]string
		if err := yaml.Unmarshal(settings, &flags); err != nil || len(flags) == 0 {
			t.Fatalf("%s: %v, %d settings", file, err, len(flags))
		}
		for name, value := range flags {
			if have := checkServe(t, append(words, "--"+name+"="+value), name); have != value {
				t.Errorf("%s: --%s %s becomes %s", file, name, value, have)
			}
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
	// In tenths: 20 is the goal.
	if out, err := exec.Command(verify, "security", "--offline=yes", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// TestChart requires that serve accepts the commands in the manifests of the Helm chart, and
// that none starts open.
func TestChart(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../conformance/chart/testdata/*.manifests.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %d files of manifests, expected 5", err, len(files))
	}
	for _, file := range files {
		text, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer text.Close()
		started := 0
		for from := yaml.NewDecoder(text); ; {
			var m struct {
				Spec struct {
					Template struct {
						Spec struct{ Containers []struct{ Args []string } }
					}
				}
			}
			if err := from.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, c := range m.Spec.Template.Spec.Containers {
				started++
				if auth := checkServe(t, c.Args, "auth"); auth != "keys" {
					t.Errorf("%s: --auth %q, expected keys", file, auth)
				}
			}
		}
		if started != 1 {
			t.Errorf("%s: %d containers, expected 1", file, started)
		}
	}
}
