package faults

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ostiary/ostiary"

// The folders of faults, and the number of faults that were seeded first in each.
// There may be more, never fewer.
const (
	engineFaults    = "."
	engineFaultsMin = 38
	policyFaults    = "policies"
	policyFaultsMin = 31
	doorFaults      = "doors"
	doorFaultsMin   = 110
	nodeFaults      = "nodes"
	nodeFaultsMin   = 20
)

func load(t *testing.T, dir string, atLeast int) (root string, all []Fault) {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	if all, err = Load(dir); err != nil {
		t.Fatal(err)
	}
	if len(all) < atLeast {
		t.Errorf("%s: %d faults, expected at least %d", dir, len(all), atLeast)
	}
	return root, all
}

// selected returns the faults that OSTIARY_FAULTS names: "all", or a pattern such
// as "openfga-*".
// It skips the test if the variable is not set, because catching a fault takes
// seconds to minutes.
func selected(t *testing.T, all []Fault) []Fault {
	t.Helper()
	only := os.Getenv("OSTIARY_FAULTS")
	if only == "" {
		t.Skip("set OSTIARY_FAULTS to \"all\" or to a pattern of names")
	}
	return slices.DeleteFunc(all, func(f Fault) bool {
		found, err := path.Match(only, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		return only != "all" && !found
	})
}

// TestPatchesCompile applies every patch and checks the types of the packages
// that it changes. A change of the code that breaks a patch fails here. It does not
// show that the fault is caught: TestCaught and TestCaughtByScripts do.
func TestPatchesCompile(t *testing.T) {
	t.Parallel()
	root, all := load(t, engineFaults, engineFaultsMin)
	_, policies := load(t, policyFaults, policyFaultsMin)
	_, doors := load(t, doorFaults, doorFaultsMin)
	_, nodes := load(t, nodeFaults, nodeFaultsMin)
	all = slices.Concat(all, policies, doors, nodes)
	var packages []string
	for _, f := range all {
		for _, e := range f.Edits {
			packages = append(packages, "./"+path.Dir(e.File))
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", exports(t, root, packages))
	for _, f := range all {
		patched, err := f.Apply(root)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		checked := map[string]bool{}
		for file := range patched {
			if dir := path.Dir(file); !checked[dir] {
				checked[dir] = true
				if err := typeCheck(fset, imports, root, dir, patched); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
		}
	}
}

// exports returns a function that opens the export data of a package that one
// of packages imports.
func exports(t *testing.T, root string, packages []string) importer.Lookup {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, packages...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[name] = file
	}
	return func(name string) (io.ReadCloser, error) {
		if files[name] == "" {
			return nil, fmt.Errorf("no export data of %s", name)
		}
		return os.Open(files[name])
	}
}

// typeCheck checks the types of the package in a folder, with some files
// replaced by patched ones.
func typeCheck(fset *token.FileSet, imports types.Importer, root, dir string, patched map[string]string) error {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, name := range names {
		ours, err := build.Default.MatchFile(filepath.Dir(name), filepath.Base(name))
		if err != nil {
			return err
		}
		if !ours || strings.HasSuffix(name, "_test.go") {
			continue
		}
		var source any // nil: the parser reads the file
		if text, ok := patched[path.Join(dir, filepath.Base(name))]; ok {
			source = text
		}
		file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: imports}
	_, err = config.Check(path.Join(module, dir), fset, files, nil)
	return err
}

// TestCaught compiles the oracle's tests with each fault of the engine in turn and
// hunts for a random world that breaks a law. The same world must keep the law
// without the fault.
func TestCaught(t *testing.T) {
	testCaught(t, "internal/workshop/oracle", engineFaults, engineFaultsMin, worldsMax)
}

// TestCaughtByPolicies is TestCaught for the faults of package policy, which the
// laws of internal/workshop/oracle/policies must catch.
func TestCaughtByPolicies(t *testing.T) {
	testCaught(t, "internal/workshop/oracle/policies", policyFaults, policyFaultsMin, worldsMax)
}

// TestCaughtBySimulation is TestCaught for the faults of what several nodes need, which
// the runs of internal/workshop/sim must catch. A world is a run there.
func TestCaughtBySimulation(t *testing.T) {
	testCaught(t, "internal/workshop/sim", nodeFaults, nodeFaultsMin, runsMax)
}

// testCaught hunts for each fault of a folder with the laws of an oracle, in atMost
// worlds.
func testCaught(t *testing.T, oracle, dir string, atLeast, atMost int) {
	root, all := load(t, dir, atLeast)
	if all = selected(t, all); len(all) == 0 {
		return
	}
	sound := hunter(t, root, oracle, "")
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) {
			overlay, err := f.Overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			found := hunter(t, root, oracle, overlay).hunt(t, atMost, 1)
			if found == nil {
				t.Fatalf("not caught by %d worlds: %s", atMost, f.Mistake)
			}
			t.Logf("caught by world %d of at most %d: %s", found.worlds, atMost, found.law)
			if other := sound.hunt(t, 1, found.seed); other != nil {
				t.Errorf("world %d breaks law %q without the fault too", other.seed, other.law)
			}
		})
	}
}

// worldsMax and runsMax bound the worlds, and the runs of several nodes, that the hunt
// for one fault tries.
const (
	worldsMax = 20_000
	runsMax   = 2_000
)

// hunters are the compiled tests of an oracle.
type hunters struct {
	binary string // path of the compiled tests
	dir    string // folder of their source
}

// hunter compiles the tests of an oracle. overlay is the path of an overlay, or ""
// for none.
func hunter(t *testing.T, root, oracle, overlay string) hunters {
	t.Helper()
	h := hunters{filepath.Join(t.TempDir(), "oracle.test"), filepath.Join(root, filepath.FromSlash(oracle))}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", h.binary, "./"+oracle)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return h
}

// caught is a world that breaks a law.
type caught struct {
	seed   uint64
	worlds int // that were tried, this one included
	law    string
}

// hunt runs the oracle's TestHunt and returns what it caught, or nil.
func (h hunters) hunt(t *testing.T, worlds int, seed uint64) *caught {
	t.Helper()
	run := exec.Command(h.binary, "-test.run=^TestHunt$", "-test.v", "-test.timeout=30m")
	run.Dir = h.dir
	run.Env = append(os.Environ(), fmt.Sprintf("OSTIARY_HUNT=%d", worlds), fmt.Sprintf("OSTIARY_SEED=%d", seed))
	out, err := run.CombinedOutput()
	_, line, found := bytes.Cut(out, []byte("caught: "))
	if !found {
		if err != nil {
			t.Fatalf("hunt: %v\n%s", err, out)
		}
		return nil
	}
	c := &caught{}
	if _, err := fmt.Sscanf(string(line), "seed %d, worlds %d, law %q", &c.seed, &c.worlds, &c.law); err != nil {
		t.Fatalf("hunt: %v\n%s", err, out)
	}
	return c
}

// TestCaughtByScripts runs the tests of each door, the server, acp or identity with
// each fault of that package in turn. They must fail, and pass without a fault.
func TestCaughtByScripts(t *testing.T) {
	root, all := load(t, doorFaults, doorFaultsMin)
	sound := map[string]bool{}
	for _, f := range selected(t, all) {
		t.Run(f.Name, func(t *testing.T) {
			tests := "./" + path.Dir(f.Edits[0].File)
			if !sound[tests] {
				sound[tests] = true
				if failed, out := runTests(t, root, "", tests); failed != "" {
					t.Fatalf("%s fails without a fault:\n%s", tests, out)
				}
			}
			overlay, err := f.Overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			failed, _ := runTests(t, root, overlay, tests)
			if failed == "" || failed == tooLong {
				t.Fatalf("not caught by %s: %s: %s", tests, f.Mistake, failed)
			}
			t.Logf("caught by %s of %s", failed, tests)
		})
	}
}

// timeout is how long the tests of a package may take; a busy machine needs long. Tests that
// take longer fail with tooLong, which no fault is caught by.
const (
	timeout = "15m"
	tooLong = "test timed out after 15m0s"
)

// failedTest matches the last part of a failed test's path in the output of go
// test: the innermost test is printed last.
var failedTest = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^panic: (.*)`)

// runTests runs the tests of a package up to the first failure. It returns the
// name of the failed test, or "" if all pass, and the output. It fails if the
// package does not compile.
func runTests(t *testing.T, root, overlay, tests string) (failed, out string) {
	t.Helper()
	run := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", "-timeout", timeout, tests)
	run.Dir = root
	text, err := run.CombinedOutput()
	switch {
	case err == nil:
		return "", string(text)
	case bytes.Contains(text, []byte(" failed]\n")): // [build failed] or [setup failed]
		t.Fatalf("%v\n%s", err, text)
	}
	names := failedTest.FindAllStringSubmatch(string(text), -1)
	if len(names) == 0 {
		return "an unknown test", string(text)
	}
	last := names[len(names)-1]
	return last[1] + last[2], string(text)
}
