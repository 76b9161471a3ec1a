package policies

import (
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/policy"
	"github.com/ostiary/ostiary/policy/status"
)

// Names are the names of the decisions with the extended Indeterminate, by
// decision.
var Names = [...]string{
	policy.NotApplicable: "NotApplicable", policy.Permitted: "Permit", policy.Denied: "Deny", policy.Indeterminate: "Indeterminate",
	policy.IndeterminateP: "Indeterminate{P}", policy.IndeterminateD: "Indeterminate{D}", policy.IndeterminateDP: "Indeterminate{DP}",
}

// Coverage counts what the worlds have shown. It must not be used concurrently.
type Coverage struct {
	Worlds    int                 // worlds that were tried
	Policies  int                 // policy sets that were compared, counting each change
	Decisions [len(Names)]int     // results by decision
	Codes     map[status.Code]int // results by status code
	Duties    int                 // results with obligations or advice
	Included  int                 // results with repeated attributes
	Listed    int                 // results with policy ids
	Multiple  int                 // requests with several results
	Narrowed  int                 // decisions of narrowed plans
	Wide      int                 // worlds with an index
}

// add counts the results of a request.
func (c *Coverage) add(results []policy.Result) {
	if c.Codes == nil {
		c.Codes = map[status.Code]int{}
	}
	if len(results) > 1 {
		c.Multiple++
	}
	for _, r := range results {
		c.Decisions[r.Decision]++
		if r.Status != nil {
			c.Codes[r.Status.Code]++
		}
		c.Duties += min(1, len(r.Obligations)+len(r.Advice))
		c.Included += min(1, len(r.Categories))
		c.Listed += min(1, len(r.Policies))
	}
}

// Add adds the counts of other.
func (c *Coverage) Add(other *Coverage) {
	c.Worlds, c.Policies, c.Wide = c.Worlds+other.Worlds, c.Policies+other.Policies, c.Wide+other.Wide
	c.Duties, c.Included, c.Listed = c.Duties+other.Duties, c.Included+other.Included, c.Listed+other.Listed
	c.Multiple, c.Narrowed = c.Multiple+other.Multiple, c.Narrowed+other.Narrowed
	for d, n := range other.Decisions {
		c.Decisions[d] += n
	}
	if c.Codes == nil {
		c.Codes = map[status.Code]int{}
	}
	for code, n := range other.Codes {
		c.Codes[code] += n
	}
}

// String returns the counts as a text of several lines.
func (c *Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d worlds, %d of them wide; %d policy sets; %d decisions of narrowed plans\n", c.Worlds, c.Wide, c.Policies, c.Narrowed)
	for d, n := range c.Decisions {
		fmt.Fprintf(&b, "%s %d  ", Names[d], n)
	}
	fmt.Fprintf(&b, "\n")
	for _, code := range codes() {
		fmt.Fprintf(&b, "%s %d  ", code[strings.LastIndex(string(code), ":")+1:], c.Codes[code])
	}
	fmt.Fprintf(&b, "\nwith duties %d  with attributes %d  with policy ids %d  multiple %d", c.Duties, c.Included, c.Listed, c.Multiple)
	return b.String()
}

// Holes returns what the worlds have not shown often enough.
func (c *Coverage) Holes() (out []string) {
	least := c.Worlds / 100
	for d, n := range c.Decisions {
		if n < least && policy.Decision(d) != policy.Indeterminate {
			out = append(out, "decision "+Names[d])
		}
	}
	for _, code := range codes() {
		if c.Codes[code] < least {
			out = append(out, "status "+string(code))
		}
	}
	for _, part := range []struct {
		name  string
		count int
	}{{"duties", c.Duties}, {"attributes", c.Included}, {"policy ids", c.Listed}, {"multiple decisions", c.Multiple}, {"narrowed plans", c.Narrowed}, {"wide worlds", c.Wide}} {
		if part.count < least {
			out = append(out, part.name)
		}
	}
	return out
}

// codes returns the codes of errors.
func codes() []status.Code {
	return []status.Code{status.MissingAttribute, status.ProcessingError, status.SyntaxError}
}
