package rules

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link matches the target of a link that leads to a file of the repository.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks checks that each link between pages leads to a file or folder that
// exists, and that its fragment is a heading of that page.
func TestLinks(t *testing.T) {
	links := 0
	pages(t, func(page string) {
		for _, found := range link.FindAllStringSubmatch(prose(t, page), -1) {
			target, err := url.Parse(found[1])
			if err != nil {
				t.Errorf("%s: link %q: %v", page, found[1], err)
				continue
			}
			if target.IsAbs() {
				continue
			}
			links++
			file := page
			if target.Path != "" {
				file = filepath.Join(filepath.Dir(page), filepath.FromSlash(target.Path))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: link %q: there is no such file", page, found[1])
			} else if target.Fragment != "" && !headings(t, file)[target.Fragment] {
				t.Errorf("%s: link %q: %s has no such heading", page, found[1], file)
			}
		}
	})
	if links < 100 {
		t.Errorf("found %d links between pages, expected at least 100", links)
	}
}

// TestIndexOfPages checks that docs/README.md and llms.txt link every page of docs and
// docs/operate.
func TestIndexOfPages(t *testing.T) {
	const docs = "../../../docs"
	index, short := prose(t, docs+"/README.md"), prose(t, "../../../llms.txt")
	files, err := filepath.Glob(docs + "/*.md")
	more, errMore := filepath.Glob(docs + "/operate/*.md")
	if err := errors.Join(err, errMore); err != nil || len(files) < 10 || len(more) < 8 {
		t.Fatalf("found %d pages in docs and %d in docs/operate, %v", len(files), len(more), err)
	}
	for _, file := range append(files, more...) {
		name, err := filepath.Rel(docs, file)
		if err != nil {
			t.Fatal(err)
		}
		if name = filepath.ToSlash(name); name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
		if name != "README.md" && !strings.Contains(short, "](docs/"+name+")") {
			t.Errorf("llms.txt has no link to docs/%s", name)
		}
	}
}

// TestOneGuide checks that a door has no page beside its guide in docs.
func TestOneGuide(t *testing.T) {
	pages(t, func(page string) {
		if rel, _ := filepath.Rel("../../..", page); strings.HasPrefix(filepath.ToSlash(rel), "door/") {
			t.Errorf("%s: the guide of a door is a page of docs", page)
		}
	})
}

// pages calls f with each page of the repository, and with llms.txt.
func pages(t *testing.T, f func(page string)) {
	t.Helper()
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "testdata" || name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) == ".md" || name == "llms.txt" {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// code matches the blocks of a page and the code in its lines.
var code = regexp.MustCompile("(?s)```.*?\n *```|`[^`\n]*`")

// prose returns a page without its blocks and without code in its lines. The text of
// a link stays.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return code.ReplaceAllString(string(text), "")
}

// headings returns the fragments of a page's headings, as GitHub makes them.
func headings(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	text = regexp.MustCompile("(?s)```.*?\n *```").ReplaceAll(text, nil)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(string(heading[1])), "")
		out[strings.ReplaceAll(name, " ", "-")] = true
	}
	return out
}
