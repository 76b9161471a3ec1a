package golden

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// described matches the text of a description of a metric.
var described = regexp.MustCompile(`^Desc\{fqName: "([a-z0-9_]+)", help: "(.*)", (?:unit: "", )?constLabels: \{\}, variableLabels: \{([a-z,]*)\}\}$`)

// Metrics compares the file name with the metrics that collectors describe: a line for each, with
// its labels and its help.
func Metrics(t testing.TB, name string, collectors ...prometheus.Collector) {
	t.Helper()
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		for _, c := range collectors {
			c.Describe(all)
		}
	}()
	var lines []string
	for d := range all {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("the description %s has another form than %s", d, described)
		}
		lines = append(lines, m[1]+"{"+m[3]+"} "+m[2]+"\n")
	}
	slices.Sort(lines)
	Equal(t, name, strings.Join(lines, ""))
}
