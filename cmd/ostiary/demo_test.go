package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// closed stands for no signal: the output is closed.
const closed = syscall.Signal(0)

// TestDemoInterrupted interrupts the demo at its first line and while its server runs, and
// closes its output: it ends with the exit code of an error, with the reason, and
// leaves no folder behind. A signal that comes after its end is sent to another one.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line   string
		signal syscall.Signal
		reason string
	}{
		{"A folder", syscall.SIGINT, "interrupted"}, {"serving http ", syscall.SIGTERM, "interrupted"}, {"A folder", closed, "broken pipe"}, {"serving http ", closed, "broken pipe"},
	} {
		for attempt := 1; !interrupted(t, c.line, c.signal, c.reason, attempt == 20); attempt++ {
		}
	}
}

// interrupted plays the demo until it prints a line, and then sends it a signal, or closes its
// output for closed. It returns false if that came after the end of the demo, unless it is the last attempt.
func interrupted(t *testing.T, at string, signal syscall.Signal, reason string, last bool) bool {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable() // under the name ostiary, the test program is the command; see TestMain
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "ostiary"))
	}
	temporary := filepath.Join(dir, "tmp")
	if err == nil {
		err = os.Mkdir(temporary, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "ostiary"), "demo")
	cmd.Env = []string{"TMPDIR=" + temporary}
	var notes bytes.Buffer
	cmd.Stderr = &notes
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), at) {
	}
	if signal == closed {
		err = out.Close()
	} else {
		err = cmd.Process.Signal(signal)
		_, _ = io.Copy(io.Discard, out)
	}
	_ = cmd.Wait() // its exit code is checked
	left, leftErr := os.ReadDir(temporary)
	text := notes.String()
	code := cmd.ProcessState.ExitCode()
	if !last && signal != closed && code <= 0 && len(left) == 0 {
		return false
	}
	if code != 2 || !strings.Contains(text, reason+"\n") || len(left) > 0 || err != nil || leftErr != nil {
		t.Errorf("%v at %q: exit code %d, left %v, %v, %v; it prints\n%s", signal, at, code, left, err, leftErr, text)
	}
	return true
}
