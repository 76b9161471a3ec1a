package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCutShort runs a package whose test outlives the timeout: the test that was
// running is named and counted, and so is the reason.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n",
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestEnds(t *testing.T) {}\n\n" +
			"func TestHangs(t *testing.T) { t.Log(\"waiting for nothing\"); select {} }\n",
		"b.go": "package a\n\nimport \"time\"\n\n// Tick keeps a timer, so that the runtime sees no deadlock.\nvar Tick = time.NewTicker(time.Millisecond)\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "testrun")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var out bytes.Buffer
	run := exec.Command(program, "-C", dir, "-timeout", "1s", "./...")
	run.Stdout, run.Stderr = &out, &out
	if err := run.Run(); err == nil {
		t.Error("testrun succeeded, expected a failure")
	}
	summary := out.String()[strings.LastIndex(out.String(), "failed tests:"):]
	for _, want := range []string{"example TestHangs", "timeout", "1 passed, 1 failed, 0 skipped"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
}
