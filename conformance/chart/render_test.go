// Package chart tests the Helm chart of packaging/chart.
package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// render returns the manifests of the chart with some values, as Helm makes them.
func render(values map[string]any) (string, error) {
	c, err := loader.Load("../../packaging/chart")
	if err != nil {
		return "", err
	}
	release := chartutil.ReleaseOptions{Name: "door", Namespace: "auth", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	made, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var names []string
	for name := range made {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		if text := strings.TrimSpace(made[name]); text != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&out, "---\n# %s\n%s\n", strings.TrimPrefix(name, "ostiary/"), text)
		}
	}
	return out.String(), nil
}

// readValues returns the values of a file of testdata.
func readValues(t *testing.T, path string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValuesFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestManifests compares the manifests of each set of values with a golden file, which
// OSTIARY_REWRITE=1 writes, and checks that their parts fit each other. A test of
// cmd/ostiary checks the commands in the golden files.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("testdata/*.values.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %d sets of values, expected 5", err, len(files))
	}
	for _, file := range files {
		values := readValues(t, file)
		made, err := render(values)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		golden := strings.TrimSuffix(file, ".values.yaml") + ".manifests.yaml"
		if os.Getenv("OSTIARY_REWRITE") == "1" {
			if err := os.WriteFile(golden, []byte(made), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if made != string(want) {
			t.Errorf("%s: the manifests differ from %s: run with OSTIARY_REWRITE=1, and look at the difference", file, golden)
		}
		checkParts(t, file, made)
	}
}
