package acp_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGuideCode compares the Go code of docs/acp.md with the examples of this
// package, which compile and whose output is checked. The page's program has
// package main where the example has package acp_test.
func TestGuideCode(t *testing.T) {
	t.Parallel()
	examples := string(must(os.ReadFile("example_test.go"))(t)) + string(must(os.ReadFile("example_batch_test.go"))(t))
	asExample := strings.NewReplacer("package main\n", "package acp_test\n", "func main() {", "func Example() {")
	guide := string(must(os.ReadFile("../docs/acp.md"))(t))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(guide, -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/acp.md has %d blocks of Go code, want 2", len(blocks))
	}
	for i, b := range blocks {
		if !strings.Contains(examples, asExample.Replace(b[1])) {
			t.Errorf("block %d of docs/acp.md differs from the examples:\n%s", i+1, b[1])
		}
	}
}
