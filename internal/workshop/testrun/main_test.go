package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runner makes a package with a file of tests in a folder. It returns a function that runs
// testrun there, and returns what it printed.
func runner(t *testing.T, dir, tests string) func(args ...string) (string, error) {
	t.Helper()
	for name, text := range map[string]string{
		"go.mod":    "module example\n\ngo 1.26\n",
		"a_test.go": tests,
		"b.go":      "package a\n\nimport \"time\"\n\n// Tick keeps a timer, so that the runtime sees no deadlock.\nvar Tick = time.NewTicker(time.Millisecond)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "testrun")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return func(args ...string) (string, error) {
		out, err := exec.Command(program, append([]string{"-C", dir}, args...)...).CombinedOutput()
		return string(out), err
	}
}

// TestCutShort runs packages whose tests do not all end, because one outlives the timeout or
// the process panics: the tests that were running and waiting are named and counted, and so is
// the reason.
func TestCutShort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last string // the body of the test that ends all of them
		want []string
	}{
		"timeout": {"t.Log(\"waiting for nothing\"); select {}", []string{"panic: test timed out after 1s", "example: 2 tests did not end", ": TestHangs, TestWaits\n", "2 failed, 0 skipped"}},
		"panic":   {"go func() { panic(\"out of step\") }(); select {}", []string{"panic: out of step", "TestWaits", "2 failed, 0 skipped"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := runner(t, t.TempDir(), "package a\n\nimport \"testing\"\n\nfunc TestEnds(t *testing.T) {}\n\nfunc TestWaits(t *testing.T) { t.Parallel() }\n\n"+
				"func TestHangs(t *testing.T) { "+c.last+" }\n")
			out, err := run("-timeout", "1s", "./...")
			if err == nil {
				t.Error("testrun succeeded, expected a failure")
			}
			summary := out[strings.LastIndex(out, "failed tests:"):]
			for _, want := range c.want {
				if !strings.Contains(summary, want) {
					t.Errorf("the summary lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestSkipped runs tests that need packages: the summary names the packages and how to get
// them, -note and -noted run exactly these tests again, and with -complete they fail.
func TestSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := runner(t, dir, `package a

import (
	"os"
	"testing"
)

func need(t *testing.T) {
	if _, err := os.Stat("installed"); err != nil {
		t.Log("a line before")
		t.Skip("needs galera-4 of Debian: libgalera_smm.so is not installed")
	}
}

func TestEnds(t *testing.T) {}
func TestWhole(t *testing.T) { need(t) }
func TestOther(t *testing.T) { t.Skip("no reason of a registry") }
func TestPart(t *testing.T) {
	t.Run("some ([odd|name", need)
	t.Run("one", func(t *testing.T) { t.Skip("needs x of npm") })
	t.Run("ends", TestEnds)
}
`)
	note := filepath.Join(t.TempDir(), "note")
	const needs = "tests that need a package which is not installed: "
	for _, c := range []struct {
		install bool
		args    []string
		fails   bool
		want    []string
	}{
		{false, []string{"-note", note, "-count=1", "./..."}, false, []string{
			"skip example: a_test.go:17: no reason of a registry (TestOther)",
			"needs galera-4 of Debian: libgalera_smm.so is not installed (TestWhole, TestPart/some_([odd|name)",
			needs + "galera-4 of Debian (2), x of npm (1); \"make test-servers\" installs",
			"\n3 passed, 0 failed, 4 skipped\n"}},
		{false, []string{"-complete", "-count=1", "./..."}, true, []string{
			"failed tests:\nexample TestWhole was skipped, although a registry has what it needs: a_test.go:",
			needs, "\n3 passed, 3 failed, 1 skipped\n"}},
		{true, []string{"-noted", note, "-count=1"}, false, []string{
			needs + "x of npm (1);", "\n3 passed, 0 failed, 1 skipped\n"}}, // TestPart is one of them
	} {
		if c.install {
			if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err := run(c.args...)
		if (err != nil) != c.fails {
			t.Errorf("%q: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%q: the output lacks %q:\n%s", c.args, want, out)
			}
		}
	}
}
