package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// source is the commit of a clone that a release is made of.
type source struct {
	root    string    // the folder of the clone
	version string    // without the letter v; set by the binary for a snapshot
	commit  string    // in full
	date    time.Time // of the commit
	notes   string    // the entry of CHANGELOG.md, with its heading
}

// versionForm is the form of the version of a release, as Go and packages order it. Go takes
// a version from 2 on only for a module whose path has it.
var versionForm = regexp.MustCompile(`^v[01]\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(alpha|beta|rc)\.[1-9]\d*)?$`)

// release returns the source of the release version. It fails if the work tree of the clone
// root differs from its commit, if the commit does not have the tag, or if the newest entry
// of CHANGELOG.md is not that of the version.
func release(root, version string) (*source, error) {
	if !versionForm.MatchString(version) {
		return nil, fmt.Errorf("version %q: expected a form such as v0.1.0 or v0.1.0-rc.1", version)
	}
	s, err := snapshot(root)
	if err != nil {
		return nil, err
	}
	changed, err := git(root, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if lines := strings.Split(changed, "\n"); changed != "" {
		return nil, fmt.Errorf("the tree differs from its commit in %d files, the first is %q: a release is made of a commit alone; commit or remove them, or use -snapshot", len(lines), strings.TrimSpace(lines[0]))
	}
	if err := s.tagged(version); err != nil {
		return nil, err
	}
	s.version = version[1:]
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	entries := entries(string(text))
	at := slices.IndexFunc(entries, func(e string) bool { return entryVersion(e) == version })
	switch {
	case at < 0:
		return nil, fmt.Errorf("CHANGELOG.md has no entry %q, its newest is %q: give the newest entry the heading %q before the tag", "## "+version, heading(entries), "## "+version)
	case at > 0:
		return nil, fmt.Errorf("CHANGELOG.md has %s as an earlier release than %q: expected a version that was not released yet", version, heading(entries))
	}
	s.notes = entries[0]
	return s, nil
}

// tagged fails if version is not a tag of the commit.
func (s *source) tagged(version string) error {
	tags, err := git(s.root, "tag", "--points-at", s.commit)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(tags), version) {
		return nil
	}
	if other, err := git(s.root, "rev-parse", "--verify", "--quiet", "refs/tags/"+version+"^{commit}"); err == nil {
		return fmt.Errorf("%s was released from the commit %s, and the tree is at %s: check out %s, or choose another version", version, other[:12], s.commit[:12], version)
	}
	return fmt.Errorf("the commit %s does not have the tag %s: make it with \"git tag -s %s\", or use -snapshot", s.commit[:12], version, version)
}

// snapshot returns the source of a build that is no release, of the work tree as it is. Its
// version is set later, from the binary.
func snapshot(root string) (*source, error) {
	out, err := git(root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	commit, seconds, _ := strings.Cut(out, " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("date of the commit %s: %w", commit, err)
	}
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	s := &source{root: root, commit: commit, date: time.Unix(n, 0).UTC()}
	if e := entries(string(text)); len(e) > 0 {
		s.notes = e[0]
	}
	return s, nil
}

// entries returns the entries of a changelog with their headings, the newest first.
func entries(text string) (out []string) {
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "## "):
			out = append(out, line)
		case len(out) > 0:
			out[len(out)-1] += line
		}
	}
	for i := range out {
		out[i] = strings.TrimSpace(out[i]) + "\n"
	}
	return out
}

// heading returns the heading of the newest entry, or a text that there is none.
func heading(entries []string) string {
	if len(entries) == 0 {
		return "none"
	}
	line, _, _ := strings.Cut(entries[0], "\n")
	return line
}

// entryVersion returns the version of an entry: the first word of its heading.
func entryVersion(entry string) string {
	words := strings.FieldsFunc(strings.TrimPrefix(heading([]string{entry}), "## "), func(r rune) bool { return r == ' ' || r == ':' || r == ',' })
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// git runs git in a folder and returns what it prints, without the last newline.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimRight(string(out), "\n"), err
}
