//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is a package whose code is changed.
type pkg struct {
	// room is its folder, relative to the root of the repository.
	room string
	// dir is the path of its folder.
	dir string
	// files are the names of its files in this build, without tests.
	files []string
}

// otherTests lists the packages whose tests also test a room. They run if the
// tests of the room itself pass. A line applies to the folders below its room
// too.
const otherTests = `
.: internal/workshop/enginetest
rel: storage internal/workshop/enginetest door/native
expr: expr/cel internal/engine/eval internal/workshop/enginetest
expr/cel: internal/engine/eval internal/workshop/enginetest
schema: internal/engine/eval door/openfga/language
internal/engine/graph: internal/engine/eval
internal/engine/eval: internal/workshop/oracle
storage: storage/memory storage/kv internal/workshop/enginetest
storage/kv: storage/memory storage/pebble
storage/storagetest: storage/memory storage/kv
internal: internal/workshop/enginetest door/native
internal/tool/jsonread: door/native door/openfga door/permify
internal/engine/admit: internal/workshop/enginetest door/native acp
internal/engine/compare: internal/workshop/enginetest internal/engine/eval door/native
internal/engine/document: internal/workshop/enginetest door/native
internal/tool/xmlread: policy/content policy/message policy/language
internal/tool/quote: internal/tool/xmlread policy/value door/openfga/language door/native cmd/ostiary
internal/workshop/testrun:
policy: internal/workshop/oracle/policies
policy/content: policy
policy/status: policy/message policy
policy/value: policy/function policy
policy/function: policy
policy/internal/literal: policy/message policy/language
internal/engine/domain: door/xacml
policy/language: internal/engine/domain
policy/message: door/xacml
policy/internal/pattern: policy/function
identity: door/keystone
internal/identity: door/keystone
door: cmd/ostiary/internal/serve cmd/ostiary
door/onap/internal/tosca: door/onap/internal/catalog door/onap
door/onap/internal/catalog: door/onap
door/onap/internal/pdp: door/onap
door/openfga/language: door/openfga
door/openfga/internal/wire: door/openfga
door/permify/language: door/permify
acp: cmd/ostiary
server: cmd/ostiary cmd/ostiary/internal/serve
`

// tests returns the packages whose tests test p, its own first.
func (p pkg) tests() []string {
	all := []string{"./" + p.room}
	best, others := "", ""
	for line := range strings.Lines(strings.TrimSpace(otherTests)) {
		room, list, _ := strings.Cut(line, ":")
		if (p.room == room || strings.HasPrefix(p.room, room+"/")) && len(room) > len(best) {
			best, others = room, list
		}
	}
	for _, other := range strings.Fields(others) {
		all = append(all, "./"+other)
	}
	return all
}

// load returns the packages that patterns match, or those that differ from base
// if there are no patterns.
func load(root, base string, patterns []string) ([]pkg, error) {
	if len(patterns) == 0 {
		changed, err := changedFolders(root, base)
		if err != nil || len(changed) == 0 {
			return nil, err
		}
		patterns = changed
	}
	args := append([]string{"list", "-e", "-f", "{{.Dir}}\t{{range .GoFiles}}{{.}} {{end}}"}, patterns...)
	text, err := output(root, "go", args...)
	if err != nil {
		return nil, err
	}
	var all []pkg
	for line := range strings.Lines(text) {
		dir, files, _ := strings.Cut(line, "\t")
		room, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		if p := (pkg{filepath.ToSlash(room), dir, strings.Fields(files)}); len(p.files) > 0 {
			all = append(all, p)
		}
	}
	return all, nil
}

// changedFolders returns the folders with Go files, tests excluded, that differ
// from the revision base.
func changedFolders(root, base string) ([]string, error) {
	text, err := output(root, "git", "diff", "--name-only", "--diff-filter=d", "--merge-base", base)
	if err != nil {
		return nil, err
	}
	var folders []string
	for file := range strings.Lines(text) {
		file = strings.TrimSpace(file)
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "conformance/") && !strings.HasPrefix(file, "packaging/") {
			folders = append(folders, "./"+path.Dir(file))
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// output runs a command in a folder and returns its output without the newline
// at its end.
func output(dir, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	var failure bytes.Buffer
	c.Dir, c.Stderr = dir, &failure
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, failure.Bytes())
	}
	return strings.TrimRight(string(out), "\n"), nil
}
