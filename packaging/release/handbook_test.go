package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHandbook makes the pages of a clone: links inside of them stay, links to other files of
// the clone lead to the project's site, and all else stays as it is.
func TestHandbook(t *testing.T) {
	c := newClone(t)
	for _, dir := range []string{"docs/operate", "examples/production", "packaging/compose"} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	page := "[a](../start.md#one), [b](../../examples/production), [c](../../CHANGELOG.md#two), [d](https://example.com/x), [e](#here), `m[k](v)`, [f](../figures.tar)\n"
	c.write("README.md", "[one](docs/operate)")
	c.write("docs/start.md", "start")
	c.write("docs/figures.tar", "no text")
	c.write("docs/operate/install.md", page)
	c.write("examples/production/alerts.yml", "[x](../../CHANGELOG.md)")
	c.write("other.md", "other")
	c.commit("v0.1.1")
	c.write("docs/draft.md", "not tracked")
	s, err := snapshot(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := handbook(s)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	texts := map[string]string{}
	for _, f := range got {
		names, texts[f.name] = append(names, f.name), string(f.data)
	}
	if want := "README.md docs/operate/install.md docs/start.md examples/production/alerts.yml"; strings.Join(names, " ") != want {
		t.Errorf("the pages are %v, expected %s", names, want)
	}
	away := func(name string) string { return site + s.commit + "/" + name }
	want := strings.NewReplacer("../../CHANGELOG.md#two", away("CHANGELOG.md#two"), "../figures.tar", away("docs/figures.tar")).Replace(page)
	if text := texts["docs/operate/install.md"]; text != want {
		t.Errorf("the page is\n%s\nexpected\n%s", text, want)
	}
	if text := texts["README.md"]; text != "[one](docs/operate)" {
		t.Errorf("README is %s", text)
	}
	if text := texts["examples/production/alerts.yml"]; text != "[x](../../CHANGELOG.md)" {
		t.Errorf("a file that is no page is changed: %s", text)
	}
}

// TestChartVersions sets the versions of a chart.
func TestChartVersions(t *testing.T) {
	got, err := chartVersions([]byte("version: 0.1.0\nappVersion: 0.1.0\nkubeVersion: \">=1\"\n"), "0.2.0-rc.1+dirty")
	if want := "version: 0.2.0-rc.1+dirty\nappVersion: 0.2.0-rc.1-dirty\nkubeVersion: \">=1\"\n"; err != nil || string(got) != want {
		t.Errorf("%v, got\n%s\nexpected\n%s", err, got, want)
	}
	_, err = chartVersions([]byte("version: 0.1.0\n"), "0.2.0")
	refused(t, err, "0 lines with appVersion, expected one")
}
