package rules

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FilesMax is how many files of ours a Check may pass through.
const FilesMax = 15

// asks is how many more Checks one run asks than the other. What a write does
// may differ from run to run by a few steps (hashes have random seeds), by fewer
// than these.
const asks = 100

// TestACheckInFewFiles measures by coverage counts: what each of many identical
// Checks executes again is what a Check executes. ARCHITECTURE.md follows the
// same files.
func TestACheckInFewFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a binary with coverage")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "onecheck")
	goTool(t, nil, "build", "-cover", "-covermode=count", "-coverpkg="+module+"/...", "-o", binary, "./internal/rules/onecheck")
	once, often := counts(t, binary, dir, "1"), counts(t, binary, dir, strconv.Itoa(1+asks))
	seen := map[string]bool{}
	for block, n := range often {
		if n >= once[block]+asks {
			file, _, _ := strings.Cut(strings.TrimPrefix(block, module+"/"), ":")
			if !strings.HasPrefix(file, "internal/rules/") {
				seen[file] = true
			}
		}
	}
	var files []string
	for f := range seen {
		files = append(files, f)
	}
	slices.Sort(files)
	if len(files) > FilesMax || len(files) < 3 {
		t.Errorf("a Check passes %d files, at most %d are allowed: %s", len(files), FilesMax, strings.Join(files, " "))
	}
	t.Logf("a Check passes %d files: %s", len(files), strings.Join(files, " "))
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.Contains(string(page), "`"+f+"`") {
			t.Errorf("ARCHITECTURE.md does not follow a Check through %s", f)
		}
	}
}

// counts runs the binary and returns how often each block was executed.
func counts(t *testing.T, binary, dir, n string) map[string]int {
	t.Helper()
	data := filepath.Join(dir, "data"+n)
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, []string{"GOCOVERDIR=" + data}, binary, n)
	profile := filepath.Join(dir, "profile"+n)
	goTool(t, nil, "tool", "covdata", "textfmt", "-i="+data, "-o="+profile)
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 3 {
			out[f[0]], _ = strconv.Atoi(f[2])
		}
	}
	return out
}
