package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// target is a system that the program is built for.
type target struct{ system, processor string }

func (t target) String() string { return t.system + "/" + t.processor }

// exe returns the name of the program on the system.
func (t target) exe() string {
	if t.system == "windows" {
		return "ostiary.exe"
	}
	return "ostiary"
}

// targets are the systems of a release.
var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// parseTargets returns the targets of a list such as "linux/amd64,darwin/arm64"; an empty
// list means all.
func parseTargets(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var out []target
	for word := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.String() == word })
		if i < 0 {
			return nil, fmt.Errorf("-targets %q: unknown target %q: expected some of %v", list, word, targets)
		}
		if !slices.Contains(out, targets[i]) {
			out = append(out, targets[i])
		}
	}
	return out, nil
}

// host is the system that this program runs on.
func host() target { return target{runtime.GOOS, runtime.GOARCH} }

// built is a program that was built.
type built struct {
	target
	path    string
	version string   // as Go has stored it: a version, or one with the commit in it
	modules []string // PATH@VERSION of each module inside
}

// build compiles the program for a target into the folder dir. The same commit and version
// of Go make the same bytes, in whatever folder the clone is.
func build(root, dir string, t target) (*built, error) {
	b := &built{target: t, path: filepath.Join(dir, t.system+"-"+t.processor, t.exe())}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.path, "./cmd/ostiary")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+t.system, "GOARCH="+t.processor, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building for %s: %w\n%s", t, err, bytes.TrimSpace(out))
	}
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	b.version = info.Main.Version
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.modules = append(b.modules, m.Path+"@"+m.Version)
	}
	return b, nil
}
