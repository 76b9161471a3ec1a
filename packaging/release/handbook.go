package main

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// handbookFolders have the files that a user without a clone gets, and handbookKinds are the
// ends of their names.
var (
	handbookFolders = []string{"README.md", "docs", "examples/demo", "examples/production", "packaging/compose"}
	handbookKinds   = []string{".md", ".svg", ".png", ".fga", ".yaml", ".yml", ".conf", ".cfg"}
)

// handbook returns README, the pages, and the files that the pages use: the same paths as in
// the clone. A link to a file of the clone that is not among them leads to the project's
// site.
func handbook(s *source) ([]file, error) {
	tracked, err := git(s.root, append([]string{"ls-files", "--"}, handbookFolders...)...)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for name := range strings.SplitSeq(tracked, "\n") {
		if !slices.Contains(handbookKinds, path.Ext(name)) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return nil, err
		}
		texts[name] = string(data)
	}
	has := func(target string) bool {
		for name := range texts {
			if name == target || strings.HasPrefix(name, target+"/") {
				return true
			}
		}
		return false
	}
	var out []file
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		if path.Ext(name) == ".md" {
			text = s.linked(text, path.Dir(name), has)
		}
		out = append(out, file{name: name, mode: 0o644, data: []byte(text)})
	}
	return out, nil
}

// site is where the files of a commit are.
const site = "https://github.com/ostiary/ostiary/blob/"

var link = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)

// linked returns a page of the folder dir of the clone. A link to a file of the clone that
// has reports as missing leads to the project's site.
func (s *source) linked(text, dir string, has func(target string) bool) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		target := path.Join(dir, parts[1])
		if has(target) {
			return found
		}
		if _, err := os.Stat(filepath.Join(s.root, target)); err != nil {
			return found // the address of another site, or no link
		}
		return "](" + site + s.commit + "/" + target + parts[2] + ")"
	})
}

// releaseNotes returns the entry of CHANGELOG.md with links that lead to the project's site.
func (s *source) releaseNotes() []byte {
	return []byte(s.linked(s.notes, ".", func(string) bool { return false }))
}
