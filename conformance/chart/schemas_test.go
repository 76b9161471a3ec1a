package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSchemas validates the manifests against the schemas of Kubernetes: those of the first
// version that the chart allows, and of the newest one that kubernetes-validate has.
func TestSchemas(t *testing.T) {
	validate := ".work/venv/bin/kubernetes-validate"
	if _, err := os.Stat(validate); err != nil {
		t.Skip("needs kubernetes-validate of PyPI, which run.sh installs")
	}
	check := func(text string, flags ...string) (string, error) {
		file := filepath.Join(t.TempDir(), "manifests.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(validate, append(flags, "--strict", file)...).CombinedOutput()
		return string(out), err
	}
	if out, err := check("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: some}}"); err == nil {
		t.Errorf("a number of replicas that is a text is accepted: %s", out)
	}
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, no values", err)
	}
	for _, file := range files {
		made, err := render(readValues(t, file))
		if err != nil {
			t.Fatal(err)
		}
		var known strings.Builder // Kubernetes has no schema of a ServiceMonitor
		for _, part := range strings.SplitAfter(made, "\n---\n") {
			if !strings.Contains(part, "\nkind: ServiceMonitor\n") {
				known.WriteString(part)
			}
		}
		for _, version := range [][]string{{"-k", "1.30"}, nil} {
			if out, err := check(strings.TrimSuffix(known.String(), "---\n"), version...); err != nil {
				t.Errorf("%s: Kubernetes %q: %v\n%s", file, version, err, out)
			}
		}
	}
}
