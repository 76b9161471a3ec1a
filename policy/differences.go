package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ostiary/ostiary/policy/status"
	"github.com/ostiary/ostiary/policy/value"
)

// Differences returns how two responses differ, as texts for people; none if they
// are equal. It compares the decisions, the status codes, the obligations, the
// advice, the repeated attributes and the ids of policies. The order of results
// matters, and no other order does. Messages and details of a status do not
// matter, and an Indeterminate equals one of another kind.
func Differences(want, got []Result) []string {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%d results, expected %d", len(got), len(want))}
	}
	var out []string
	for i := range want {
		prefix := ""
		if len(want) > 1 {
			prefix = fmt.Sprintf("result %d: ", i+1)
		}
		for _, text := range want[i].differences(&got[i]) {
			out = append(out, prefix+text)
		}
	}
	return out
}

// differences returns how got differs from r.
func (r *Result) differences(got *Result) (out []string) {
	if a, b := r.Decision.String(), got.Decision.String(); a != b {
		out = append(out, fmt.Sprintf("decision %s, expected %s", b, a))
	}
	if a, b := codeOf(r.Status), codeOf(got.Status); a != b {
		out = append(out, fmt.Sprintf("status code %s, expected %s", b, a))
	}
	for _, part := range [...]struct {
		name      string
		want, got []string
	}{
		{"obligation", dutyLines(r.Obligations), dutyLines(got.Obligations)},
		{"advice", dutyLines(r.Advice), dutyLines(got.Advice)},
		{"attribute", attributeLines(r.Categories), attributeLines(got.Categories)},
		{"policy id", policyLines(r.Policies), policyLines(got.Policies)},
	} {
		out = append(out, multisetDifferences(part.name, part.want, part.got)...)
	}
	return out
}

// multisetDifferences returns the lines that only one of two lists has.
func multisetDifferences(name string, want, got []string) (out []string) {
	slices.Sort(want)
	slices.Sort(got)
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0] < got[0]:
			out, want = append(out, "missing "+name+" "+want[0]), want[1:]
		case len(want) == 0 || got[0] < want[0]:
			out, got = append(out, "unexpected "+name+" "+got[0]), got[1:]
		default:
			want, got = want[1:], got[1:]
		}
	}
	return out
}

// codeOf returns the code of a status, where nil is OK.
func codeOf(s *status.Error) status.Code {
	if s == nil {
		return status.OK
	}
	return s.Code
}

// dutyLines returns a line for each duty, with its arguments in a fixed order.
func dutyLines(duties []Duty) []string {
	out := make([]string, len(duties))
	for i, d := range duties {
		lines := make([]string, len(d.Arguments))
		for j, a := range d.Arguments {
			lines[j] = attributeLine(a.Category, a.ID, a.Issuer, a.Value)
		}
		slices.Sort(lines)
		out[i] = strconv.Quote(d.ID) + " (" + strings.Join(lines, ", ") + ")"
	}
	return out
}

// attributeLine returns an attribute with its value. category and issuer may be "".
func attributeLine(category, id, issuer string, v value.Value) string {
	text := fmt.Sprintf("%q = %q:%s", id, v.Text(), v.Type())
	if category != "" {
		text += fmt.Sprintf(" of %q", category)
	}
	if issuer != "" {
		text += fmt.Sprintf(" issued by %q", issuer)
	}
	return text
}

// attributeLines returns a line for each value of each attribute.
func attributeLines(categories []Category) (out []string) {
	for _, c := range categories {
		for _, a := range c.Attributes {
			for _, v := range a.Values {
				out = append(out, attributeLine(c.Name, a.ID, a.Issuer, v))
			}
		}
	}
	return out
}

// policyLines returns a line for each policy.
func policyLines(policies []PolicyVersion) []string {
	out := make([]string, len(policies))
	for i, p := range policies {
		kind := "policy"
		if p.Set {
			kind = "policy set"
		}
		out[i] = kind + " " + strconv.Quote(p.ID) + " " + strconv.Quote(p.Version)
	}
	return out
}

// String returns the decision as a response shows it: "Permit", "Deny",
// "NotApplicable" or "Indeterminate".
func (d Decision) String() string {
	switch d {
	case Permitted:
		return "Permit"
	case Denied:
		return "Deny"
	case NotApplicable:
		return "NotApplicable"
	}
	return "Indeterminate"
}
