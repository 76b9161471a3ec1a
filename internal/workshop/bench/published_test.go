package bench_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// TestPublished compares all figures that the package quotes with a file, a line
// each. A figure that a change alters is a line that changes. OSTIARY_REWRITE=1
// writes it.
func TestPublished(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for _, x := range []struct {
		name    string
		records []bench.Record
	}{
		{"acp", bench.ACPPublished()}, {"keystone", bench.KeystonePublished()}, {"lxd", bench.LXDPublished()},
		{"onap", bench.ONAPPublished()}, {"permify", bench.PermifyPublished()}, {"xacml", bench.XACMLQuoted()},
	} {
		for _, r := range x.records {
			if r.Kind != bench.Quoted || r.Source == "" {
				t.Errorf("%s: %+v is not quoted from a source", x.name, r)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "%s %s\n", x.name, line)
		}
	}
	for _, w := range bench.RallySeven() {
		fmt.Fprintf(&got, "rally %+v\n", w)
	}
	golden.Equal(t, "testdata/published.txt", got.String())
}
