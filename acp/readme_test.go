package acp_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeCode compares the Go code of the README with the examples of this
// package, which compile and whose output is checked. The README's program has
// package main where the example has package acp_test.
func TestReadmeCode(t *testing.T) {
	t.Parallel()
	examples := string(must(os.ReadFile("example_test.go"))(t)) + string(must(os.ReadFile("example_batch_test.go"))(t))
	asExample := strings.NewReplacer("package main\n", "package acp_test\n", "func main() {", "func Example() {")
	readme := string(must(os.ReadFile("README.md"))(t))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d blocks of Go code, want 2", len(blocks))
	}
	for i, b := range blocks {
		if !strings.Contains(examples, asExample.Replace(b[1])) {
			t.Errorf("block %d of the README differs from the examples:\n%s", i+1, b[1])
		}
	}
}
