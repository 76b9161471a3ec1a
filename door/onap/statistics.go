package onap

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/pdp"
	"github.com/ostiary/ostiary/policy"
)

// The decisions that statistics count, and their names in metrics.
const (
	permits = iota
	denials
	indeterminate
	notApplicable
	decisionKinds
)

var decisionNames = [decisionKinds]string{"permit", "deny", "indeterminant", "not_applicable"}

// statistics counts what the PDP did since the start of the program.
type statistics struct {
	// decisions are the counts by the number of the application.
	decisions []([decisionKinds]atomic.Int64)
	// names are the names of the applications.
	names  []string
	errors atomic.Int64
	// deployments are the counts of successful and failed deployments, and of
	// successful and failed undeployments.
	deployments [4]atomic.Int64
}

func newStatistics() *statistics {
	names := pdp.Applications()
	return &statistics{decisions: make([][decisionKinds]atomic.Int64, len(names)), names: names}
}

// kindOf returns what statistics count a decision as.
func kindOf(d policy.Decision) int {
	switch d {
	case policy.Permitted:
		return permits
	case policy.Denied:
		return denials
	case policy.NotApplicable:
		return notApplicable
	}
	return indeterminate
}

// count counts an answer.
func (s *statistics) count(a *pdp.Answer) {
	if !a.Decided {
		s.errors.Add(1)
		return
	}
	s.countDecision(a.Application, a.Decision)
}

// countDecision counts a decision of an application.
func (s *statistics) countDecision(application string, d policy.Decision) {
	for i := range s.names {
		if s.names[i] == application {
			s.decisions[i][kindOf(d)].Add(1)
		}
	}
}

// deployed counts n deployments that succeeded or failed together.
func (s *statistics) deployed(n int, err error) { s.countDeployments(0, n, err) }

// undeployed counts n undeployments that succeeded or failed together.
func (s *statistics) undeployed(n int, err error) { s.countDeployments(2, n, err) }

func (s *statistics) countDeployments(first, n int, err error) {
	if err != nil {
		first++
	}
	s.deployments[first].Add(int64(n))
}

// statisticsReport answers with the counts.
func (c *call) statisticsReport() error {
	w, err := c.catalog.World(c.Context())
	if err != nil {
		return err
	}
	out := c.statistics.appendReport(make([]byte, 0, 2048), w)
	return c.answerText(out)
}

// appendReport appends the report as JSON.
func (s *statistics) appendReport(out []byte, w *catalog.World) []byte {
	number := func(name string, n int64) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":`...)
		out = strconv.AppendInt(out, n, 10)
	}
	var total [decisionKinds]int64
	for i := range s.decisions {
		for k := range total {
			total[k] += s.decisions[i][k].Load()
		}
	}
	out = append(out, '{')
	number("code", http.StatusOK)
	number("totalPolicyTypesCount", int64(typesCount(w)))
	number("totalPoliciesCount", int64(len(w.Deployed())))
	number("totalErrorCount", s.errors.Load())
	for k, name := range [decisionKinds]string{"permitDecisionsCount", "denyDecisionsCount", "indeterminantDecisionsCount", "notApplicableDecisionsCount"} {
		number(name, total[k])
	}
	for k, name := range [4]string{"deploySuccessCount", "deployFailureCount", "undeploySuccessCount", "undeployFailureCount"} {
		number(name, s.deployments[k].Load())
	}
	out = append(out, `,"applicationMetrics":{`...)
	for i, application := range s.names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), application...), `":{`...)
		for k, name := range decisionNames {
			number(name+"_decisions_count", s.decisions[i][k].Load())
		}
		out = append(out, '}')
	}
	return append(out, "}}"...)
}

// typesCount returns the number of types that the PDP of this program supports.
func typesCount(w *catalog.World) int {
	g := w.Group(catalog.DefaultGroup)
	if g == nil {
		return 0
	}
	for i := range g.Subgroups {
		if g.Subgroups[i].Type == catalog.XACML {
			return len(g.Subgroups[i].Supported)
		}
	}
	return 0
}

// serveMetrics answers with the counts in the text format of Prometheus, version
// 0.0.4.
func (s *service) serveMetrics(w http.ResponseWriter, r *http.Request, _ door.Params) {
	setHeaders(w, r)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintf(w, "# HELP pdpx_policy_decisions_total Decisions by application and status.\n# TYPE pdpx_policy_decisions_total counter\n")
	for i, application := range s.statistics.names {
		for k, name := range decisionNames {
			fmt.Fprintf(w, "pdpx_policy_decisions_total{application=%q,status=%q} %d\n", application, name, s.statistics.decisions[i][k].Load())
		}
	}
	fmt.Fprintf(w, "# HELP pdpx_policy_deployments_total Deployments and undeployments by status.\n# TYPE pdpx_policy_deployments_total counter\n")
	for k, labels := range [4]string{`operation="deploy",status="success"`, `operation="deploy",status="failure"`,
		`operation="undeploy",status="success"`, `operation="undeploy",status="failure"`} {
		fmt.Fprintf(w, "pdpx_policy_deployments_total{%s} %d\n", labels, s.statistics.deployments[k].Load())
	}
}
