package audit_test

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/internal/trail/audit"
)

// session opens the log of a folder, adds n records and closes it. It returns the heads that
// the log has reported, as text.
func session(t *testing.T, folder string, key ed25519.PrivateKey, n int) (heads []string) {
	t.Helper()
	o := audit.Options{Key: key, Required: true, Head: func(h audit.Head) { heads = append(heads, h.String()) }}
	l, err := audit.OpenFolder(folder, audit.Rotation{Files: 3}, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := l.Append(record(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return heads
}

// against verifies a folder with heads, with both programs, which must agree. It returns
// the findings.
func against(t *testing.T, public, folder string, heads []string) string {
	t.Helper()
	data, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	key, err := audit.ParsePublic(data)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(heads, "\n")
	got, err := audit.Verify(names(t, folder), audit.VerifyOptions{Keys: []ed25519.PublicKey{key}, Heads: audit.Heads(text)})
	if err != nil {
		t.Fatal(err)
	}
	python(t, func(t *testing.T, python string) {
		file := filepath.Join(t.TempDir(), "heads")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python, append([]string{"../../../examples/audit/verify.py", "--key", public, "--against", file}, names(t, folder)...)...).CombinedOutput()
		if (err == nil) != (len(got.Findings) == 0) {
			t.Errorf("the Go program finds %v, and the Python program %s", got.Findings, out)
		}
	})
	return fmt.Sprintln(got.Findings)
}

// TestHeads changes the files of a log while it is closed, and opens it again. Without heads
// nothing is found, unless the oldest file is removed; with those from before, each change
// is found.
func TestHeads(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	for what, c := range map[string]struct {
		change        func(t *testing.T, folder, old string)
		without, with string
	}{
		"nothing":         {func(*testing.T, string, string) {}, "[]", "[]"},
		"the newest file": {func(t *testing.T, folder, _ string) { remove(t, names(t, folder)[1]) }, "[]", "record 5 is not that of the signed head"},
		"all files":       {func(t *testing.T, folder, _ string) { remove(t, names(t, folder)...) }, "[]", "but the files are of the log"},
		"an old copy": {func(t *testing.T, folder, old string) {
			remove(t, folder)
			if err := os.CopyFS(folder, os.DirFS(old)); err != nil {
				t.Fatal(err)
			}
		}, "[]", "record 5 is not that of the signed head"},
		"the oldest file": {func(t *testing.T, folder, _ string) { remove(t, names(t, folder)[0]) }, "the node kept the files from record 1 on", "record 1 was signed as the head of the log"},
		"the end": {func(t *testing.T, folder, _ string) {
			name := names(t, folder)[1]
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(data), "\n")
			if err := os.WriteFile(name, []byte(strings.Join(lines[:2], "")), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "[]", "record 11 was signed as its head: the end is missing"},
	} {
		t.Run(what, func(t *testing.T) {
			folder, old := t.TempDir(), filepath.Join(t.TempDir(), "old")
			heads := session(t, folder, key, 2)
			if err := os.CopyFS(old, os.DirFS(folder)); err != nil {
				t.Fatal(err)
			}
			heads = append(heads, session(t, folder, key, 5)...)
			if len(heads) != 4 || against(t, public, folder, heads) != "[]\n" {
				t.Fatalf("the heads of an unchanged log are %q", heads)
			}
			c.change(t, folder, old)
			after := session(t, folder, key, 1)
			if found := against(t, public, folder, after); !strings.Contains(found, c.without) {
				t.Errorf("without heads from before: %s, want %s", found, c.without)
			}
			if found := against(t, public, folder, heads); !strings.Contains(found, c.with) {
				t.Errorf("with heads: %s, want %s", found, c.with)
			}
		})
	}
}

// TestHeadsOfRemovedFiles continues a log until it has removed its first files itself: their
// heads are no finding.
func TestHeadsOfRemovedFiles(t *testing.T) {
	t.Parallel()
	key, public := newKey(t)
	folder := t.TempDir()
	var heads []string
	for range 5 {
		heads = append(heads, session(t, folder, key, 1)...)
	}
	if n := len(names(t, folder)); n != 3 {
		t.Fatalf("%d files, want 3", n)
	}
	if found := against(t, public, folder, heads); found != "[]\n" {
		t.Error(found)
	}
	other := session(t, t.TempDir(), key, 1)
	forged := strings.Replace(heads[9], "/15/", "/16/", 1)
	if forged == heads[9] {
		t.Fatalf("the last head is %s", forged)
	}
	for what, c := range map[string]struct {
		heads []string
		want  string
	}{
		"of another log":        {slices.Concat(heads, other), "but the files are of the log"},
		"forged, besides valid": {append(slices.Clone(heads), forged), "[]"},
		"only forged":           {[]string{forged}, "no head has a valid signature"},
	} {
		if found := against(t, public, folder, c.heads); !strings.Contains(found, c.want) {
			t.Errorf("%s: %s, want %s", what, found, c.want)
		}
	}
}

// TestHeadEachHour keeps a log open for three hours. It reports its head at the begin, each
// hour, and at the end.
func TestHeadEachHour(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var numbers []uint64
		l, err := audit.OpenFolder(folder, audit.Rotation{}, audit.Options{Key: key, Head: func(h audit.Head) { numbers = append(numbers, h.Number) }})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if err := l.Append(record(i)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour + time.Minute)
		}
		time.Sleep(time.Hour)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		// A record and the signed one that follows it, twice; nothing in the third hour.
		if want := []uint64{1, 3, 5, 5, 6}; !slices.Equal(numbers, want) {
			t.Errorf("the heads are those of the records %v, want %v", numbers, want)
		}
	})
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}
