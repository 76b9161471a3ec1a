package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// sbom writes the list of the modules in the programs, in the form of CycloneDX, to the
// folder dir, and returns its name. It is made of the programs, not of go.mod: it has what
// is linked. Each component has the list of systems, unless its module is in all programs.
func sbom(s *source, programs []*built, dir string) (string, error) {
	name := "ostiary-" + s.version + ".cdx.json"
	var all map[string]any
	var components, dependencies []any
	systems := map[string][]string{}
	for _, b := range programs {
		bom, err := bomOf(s, b)
		if err != nil {
			return "", err
		}
		if all == nil {
			all = bom
		}
		for _, c := range list(bom["components"]) {
			ref := text(c, "bom-ref")
			if systems[ref] == nil {
				components = append(components, c)
			}
			systems[ref] = append(systems[ref], b.String())
		}
		for _, d := range list(bom["dependencies"]) {
			dependencies = join(dependencies, d)
		}
	}
	for _, c := range components {
		if in := systems[text(c, "bom-ref")]; len(in) < len(programs) {
			c := c.(map[string]any)
			c["properties"] = append(list(c["properties"]), map[string]any{"name": "ostiary:systems", "value": strings.Join(in, ",")})
		}
	}
	slices.SortFunc(components, func(a, b any) int { return strings.Compare(text(a, "bom-ref"), text(b, "bom-ref")) })
	all["components"], all["dependencies"] = components, dependencies
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(dir, name), append(data, '\n'), 0o644)
}

// bomOf returns the list of the modules in a program.
func bomOf(s *source, b *built) (map[string]any, error) {
	cmd := exec.Command("go", "tool", "cyclonedx-gomod", "bin", "-json", "-noserial", "-notimestamp", "-std", "-version", "v"+s.version, b.path)
	cmd.Dir = filepath.Join(s.root, "packaging")
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("modules of the program for %s: %w\n%s", b, err, bytes.TrimSpace(errs.Bytes()))
	}
	var bom map[string]any
	if err := json.Unmarshal(out, &bom); err != nil {
		return nil, err
	}
	return bom, nil
}

// join adds what an entry of dependencies has to that of the same component.
func join(all []any, d any) []any {
	i := slices.IndexFunc(all, func(e any) bool { return text(e, "ref") == text(d, "ref") })
	if i < 0 {
		return append(all, d)
	}
	into := all[i].(map[string]any)
	for _, on := range list(d.(map[string]any)["dependsOn"]) {
		if have := list(into["dependsOn"]); !slices.Contains(have, on) {
			into["dependsOn"] = append(have, on)
		}
	}
	return all
}

// list returns a value of JSON that is a list, and none if it is absent.
func list(v any) []any {
	out, _ := v.([]any)
	return out
}

// text returns a text in an object of JSON, or "" if it is absent.
func text(v any, key string) string {
	object, _ := v.(map[string]any)
	out, _ := object[key].(string)
	return out
}
