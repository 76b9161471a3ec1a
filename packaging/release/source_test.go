package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clone is a folder with a repository of git.
type clone struct {
	t   *testing.T
	dir string
}

// newClone returns a repository with one commit that has a changelog with an entry of
// v0.1.0, whose tag the commit has, and one of v0.0.9.
func newClone(t *testing.T) clone {
	t.Helper()
	c := clone{t, t.TempDir()}
	c.git("init", "-q")
	c.write("CHANGELOG.md", "# Changelog\n\nFor operators.\n\n## v0.1.0: the first\n\nWhat it has.\n\n### Formats\n\nOne.\n\n## v0.0.9\n\nNothing.\n")
	c.commit("v0.1.0")
	return c
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-11-28T12:00:00Z", "GIT_COMMITTER_DATE=2026-11-28T12:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c clone) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// commit commits all changes and gives the commit a tag.
func (c clone) commit(tag string) {
	c.t.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "release: "+tag)
	c.git("tag", tag)
}

// refused fails unless err has all the texts.
func refused(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, expected a refusal with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal %q lacks %q", err, text)
		}
	}
}

func TestRelease(t *testing.T) {
	c := newClone(t)
	s, err := release(c.dir, "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if want := "## v0.1.0: the first\n\nWhat it has.\n\n### Formats\n\nOne.\n"; s.notes != want || s.version != "0.1.0" || s.date.Year() != 2026 || s.commit != c.git("rev-parse", "HEAD") {
		t.Errorf("got %+v, expected the notes %q", s, want)
	}
}

// TestRefusedSources releases what is no release: each is refused with the reason.
func TestRefusedSources(t *testing.T) {
	t.Run("version", func(t *testing.T) {
		for _, version := range []string{"0.1.0", "v0.1", "v0.1.0-wip", "v00.1.0", "v0.1.0+dirty", "v2.0.0", "latest", "v0.1.0 "} {
			_, err := release(newClone(t).dir, version)
			refused(t, err, version, "expected a form such as v0.1.0")
		}
	})
	t.Run("changed tree", func(t *testing.T) {
		c := newClone(t)
		c.write("CHANGELOG.md", "other")
		_, err := release(c.dir, "v0.1.0")
		refused(t, err, "differs from its commit in 1 files", "CHANGELOG.md")
	})
	t.Run("new file", func(t *testing.T) {
		c := newClone(t)
		c.write("main.go", "package main")
		_, err := release(c.dir, "v0.1.0")
		refused(t, err, "differs from its commit", "main.go")
	})
	t.Run("no tag", func(t *testing.T) {
		_, err := release(newClone(t).dir, "v0.2.0")
		refused(t, err, "does not have the tag v0.2.0", "git tag")
	})
	t.Run("tag of another commit", func(t *testing.T) {
		c := newClone(t)
		was := c.git("rev-parse", "HEAD")
		c.write("main.go", "package main")
		c.commit("v0.1.1")
		_, err := release(c.dir, "v0.1.0")
		refused(t, err, "v0.1.0 was released from the commit "+was[:12])
	})
	t.Run("no entry", func(t *testing.T) {
		c := newClone(t)
		c.git("tag", "v0.2.0")
		_, err := release(c.dir, "v0.2.0")
		refused(t, err, "no entry", "v0.2.0", "## v0.1.0: the first")
	})
	t.Run("entry of an earlier release", func(t *testing.T) {
		c := newClone(t)
		c.git("tag", "v0.0.9")
		_, err := release(c.dir, "v0.0.9")
		refused(t, err, "v0.0.9 as an earlier release than", "v0.1.0")
	})
	t.Run("no repository", func(t *testing.T) {
		_, err := release(t.TempDir(), "v0.1.0")
		refused(t, err, "not a git repository")
	})
}

// TestRefusedRuns runs the program with what it cannot do: each is refused before a build.
func TestRefusedRuns(t *testing.T) {
	c := newClone(t)
	attempt := func(args ...string) error { return run(context.Background(), c.dir, args, io.Discard) }
	t.Setenv(keyVariable, "")
	refused(t, attempt("-version", "v0.1.0"), keyVariable+" is not set", "-unsigned")
	t.Setenv(keyVariable, filepath.Join(c.dir, "absent"))
	refused(t, attempt("-version", "v0.1.0"), keyVariable, "absent")
	t.Setenv(keyVariable, filepath.Join(c.dir, "CHANGELOG.md"))
	refused(t, attempt("-version", "v0.1.0"), "invalid private key")
	refused(t, attempt("-version", "v0.1.0", "-snapshot"), "expected one of -version")
	refused(t, attempt(), "expected one of -version")
	refused(t, attempt("-snapshot", "linux"), "linux")
	refused(t, attempt("-snapshot", "-targets", "linux/amd64,plan9/amd64"), "plan9/amd64", "expected some of", "windows/amd64")
	refused(t, attempt("-snapshot", "-image", "dev", "-targets", "linux/amd64"), "-targets")

	out := t.TempDir()
	for _, name := range []string{"ostiary-dev-image-amd64.tar", "ostiary-0.1.0-linux-amd64.tar.gz"} {
		if err := os.WriteFile(filepath.Join(out, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, attempt("-version", "v0.1.0", "-unsigned", "-out", out), "v0.1.0 is already in", out, "ostiary-0.1.0-linux-amd64.tar.gz")
	c.write("CHANGELOG.md", "## v0.1.1\n")
	c.commit("v0.1.1")
	refused(t, attempt("-version", "v0.1.1", "-unsigned", "-out", out), "is not empty", "ostiary-0.1.0-linux-amd64.tar.gz")
}
