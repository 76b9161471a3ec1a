package rules

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	// CheckFilesMax is how many of the project's files a Check may execute.
	CheckFilesMax = 15
	// WriteFilesMax is the same for a Write, but counts only the files of the root
	// and of internal without its graph and evaluator: a Write also executes many of
	// those, and of rel, schema and storage.
	WriteFilesMax = 18
)

// repeats is how many more calls one run makes than the other. The setup of a
// run may differ in a few steps, because hashes have random seeds, but in fewer
// than these.
const repeats = 100

// TestACheckInFewFiles and TestAWriteInFewFiles measure by coverage counts which
// files a call executes: those that many identical calls execute as often again.
// ARCHITECTURE.md must follow the call through the same files.
func TestACheckInFewFiles(t *testing.T) {
	followed(t, "check", "### A check\n", CheckFilesMax, func(file string) bool {
		return !strings.HasPrefix(file, "internal/workshop/rules/")
	})
}

// TestAWriteInFewFiles is described at TestACheckInFewFiles.
func TestAWriteInFewFiles(t *testing.T) {
	followed(t, "write", "### A write on one node\n", WriteFilesMax, func(file string) bool {
		internal := strings.HasPrefix(file, "internal/") && !strings.HasPrefix(file, "internal/workshop/rules/") && !strings.HasPrefix(file, "internal/tool/btree/") &&
			!strings.HasPrefix(file, "internal/engine/eval/") && !strings.HasPrefix(file, "internal/engine/graph/")
		return internal || !strings.Contains(file, "/")
	})
}

// followed checks that a call executes at most limit of the files that counted
// selects, and that the section of ARCHITECTURE.md with the heading names each of
// them.
func followed(t *testing.T, call, heading string, limit int, counted func(file string) bool) {
	if testing.Short() {
		t.Skip("builds a binary with coverage")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "onecheck")
	goTool(t, nil, "build", "-cover", "-covermode=count", "-coverpkg="+module+"/...", "-o", binary, "./internal/workshop/rules/onecheck")
	files := executed(counts(t, binary, dir, call, 1), counts(t, binary, dir, call, 1+repeats))
	files = slices.DeleteFunc(files, func(file string) bool { return !counted(file) })
	if len(files) > limit || len(files) < 3 {
		t.Errorf("a %s executes %d files, at most %d are allowed: %s", call, len(files), limit, strings.Join(files, " "))
	}
	t.Logf("a %s executes %d files: %s", call, len(files), strings.Join(files, " "))
	named := walked(t, walk(t, heading))
	for _, f := range files {
		if !slices.Contains(named, f) {
			t.Errorf("ARCHITECTURE.md: the section %q does not name %s", heading, f)
		}
	}
}

// executed returns the files of which a run with repeats more calls executes a
// block at least that much more often, sorted.
func executed(once, often map[string]int) []string {
	seen := map[string]bool{}
	for block, n := range often {
		if n >= once[block]+repeats {
			file, _, _ := strings.Cut(strings.TrimPrefix(block, module+"/"), ":")
			seen[file] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// counts runs a call the given number of times, and returns how often each block
// of code was executed.
func counts(t *testing.T, binary, dir, call string, times int) map[string]int {
	t.Helper()
	n := strconv.Itoa(times)
	data := filepath.Join(dir, "data"+n)
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, []string{"GOCOVERDIR=" + data}, binary, call, n)
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

// TestTheRootIsSmall keeps the root package a face: few files, and few methods
// on its Store.
func TestTheRootIsSmall(t *testing.T) {
	const filesMax, methodsMax = 15, 52
	files, methods := 0, 0
	sources(t, func(room, file string) {
		if room != "." || strings.HasSuffix(file, "_test.go") {
			return
		}
		files++
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		methods += strings.Count(string(text), "\nfunc (s *Store) ")
	})
	if files > filesMax || methods > methodsMax {
		t.Errorf("the root package has %d files and Store %d methods: at most %d and %d are allowed", files, methods, filesMax, methodsMax)
	}
}
