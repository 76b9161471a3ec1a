package native

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestKinds compares the errors of requests that the engine does not see with
// testdata/kinds.txt. Package door tests those of the engine.
func TestKinds(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for _, r := range []*door.Refusal{{Reason: door.TooLarge, Bound: "BodyBytes", Limit: 7}, {Reason: door.ShuttingDown}} {
		p := describe(r)
		fmt.Fprintf(&table, "refusal: %d %s: %s", p.status, p.Code, p.Message)
		if p.Bound != nil {
			fmt.Fprintf(&table, " (%s %d)", p.Bound.Name, p.Bound.Max)
		}
		table.WriteString("\n")
	}
	p := describe(errors.New("the cause"))
	fmt.Fprintf(&table, "other: %d %s: %s\n", p.status, p.Code, p.Message)
	golden.Equal(t, "testdata/kinds.txt", table.String())
}
