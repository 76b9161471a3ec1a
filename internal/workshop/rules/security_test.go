package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTests matches tests that docs/security.md names with their package in
// parentheses: "`TestA`, `TestB` with `a.script` (server)".
var namedTests = regexp.MustCompile("((?:`(?:Test|Fuzz)\\w+`(?: with `[^`]*`(?: and `[^`]*`)?)?(?:, | and )?)+) \\(([a-z/]+)[),;]")

// testName matches the name of a test.
var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")

// TestSecurityNamesTests checks that every test that docs/security.md names exists, in
// the package that the page names with it or in one below.
func TestSecurityNamesTests(t *testing.T) {
	t.Parallel()
	root := "../../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]string{} // of each test
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		folder, _ := filepath.Rel(root, filepath.Dir(path))
		for _, m := range function.FindAllSubmatch(source, -1) {
			packages[string(m[1])] = append(packages[string(m[1])], filepath.ToSlash(folder)+"/")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range testName.FindAllSubmatch(text, -1) {
		name := string(m[1])
		if names[name] = true; packages[name] == nil {
			t.Errorf("docs/security.md names %s, which does not exist", name)
		}
	}
	if len(names) < 30 {
		t.Errorf("docs/security.md names %d tests, expected at least 30", len(names))
	}
	placed := 0
	for _, m := range namedTests.FindAllSubmatch(text, -1) {
		folder := string(m[2])
		for _, name := range testName.FindAllSubmatch(m[1], -1) {
			placed++
			if in := packages[string(name[1])]; !slices.ContainsFunc(in, func(p string) bool { return strings.HasPrefix(p, folder+"/") }) {
				t.Errorf("docs/security.md names %s of %s, and it is in %s", name[1], folder, strings.Join(in, ", "))
			}
		}
	}
	if placed < 100 {
		t.Errorf("docs/security.md names %d tests with their package, expected at least 100", placed)
	}
}
