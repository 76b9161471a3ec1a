package policy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/policy/status"
)

// decisionNames are the names of the decisions in scripts.
var decisionNames = [...]string{NotApplicable: "NotApplicable", Permitted: "Permit", Denied: "Deny",
	Indeterminate: "I", IndeterminateP: "I{P}", IndeterminateD: "I{D}", IndeterminateDP: "I{DP}"}

func parseDecision(t *testing.T, name string) Decision {
	t.Helper()
	i := slices.Index(decisionNames[:], strings.TrimSpace(name))
	if i < 0 {
		t.Fatalf("unknown decision %q", name)
	}
	return Decision(i)
}

// combiningTable is a section of testdata/combining.txt.
type combiningTable struct {
	ids   []string
	ends  []Decision
	lines []combiningLine
}

type combiningLine struct {
	all    [][]Decision // each must be among the children
	result Decision
	by     Decision // the decision of the child whose status counts; NotApplicable if none
}

func readCombining(t *testing.T) []combiningTable {
	t.Helper()
	text, err := os.ReadFile("testdata/combining.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []combiningTable
	for section := range strings.SplitSeq(string(text), "\n\n") {
		var table combiningTable
		for line := range strings.Lines(section) {
			line = strings.TrimSpace(line)
			word, rest, _ := strings.Cut(line, " ")
			switch {
			case line == "" || line[0] == '#':
			case word == "algorithm":
				table.ids = append(table.ids, rest)
			case word == "ends":
				for name := range strings.FieldsSeq(rest) {
					table.ends = append(table.ends, parseDecision(t, name))
				}
			default:
				table.lines = append(table.lines, parseCombiningLine(t, line))
			}
		}
		if table.ids != nil {
			out = append(out, table)
		}
	}
	return out
}

func parseCombiningLine(t *testing.T, line string) combiningLine {
	t.Helper()
	left, right, ok := strings.Cut(line, " => ")
	if !ok {
		t.Fatalf("line %q has no =>", line)
	}
	var out combiningLine
	if left != "otherwise" {
		for part := range strings.SplitSeq(left, "&") {
			var any []Decision
			for name := range strings.SplitSeq(part, "|") {
				any = append(any, parseDecision(t, name))
			}
			out.all = append(out.all, any)
		}
	}
	result, by, hasBy := strings.Cut(right, " by ")
	out.result = parseDecision(t, result)
	if hasBy {
		out.by = parseDecision(t, by)
	}
	return out
}

// fits reports whether the line is for the decisions of the children.
func (l combiningLine) fits(children []Decision) bool {
	for _, any := range l.all {
		if !slices.ContainsFunc(children, func(d Decision) bool { return slices.Contains(any, d) }) {
			return false
		}
	}
	return true
}

// expect returns the decision, the number of the child whose status counts (-1
// if none), and the numbers of the children whose obligations are returned.
func (table combiningTable) expect(children []Decision) (Decision, int, []int) {
	for i, d := range children {
		if slices.Contains(table.ends, d) {
			children = children[:i+1]
			break
		}
	}
	line := table.lines[slices.IndexFunc(table.lines, func(l combiningLine) bool { return l.fits(children) })]
	cause := -1
	if line.by != NotApplicable {
		cause = slices.IndexFunc(children, func(d Decision) bool {
			return d == line.by || line.by == Indeterminate && d > Indeterminate
		})
	}
	var duties []int
	for i, d := range children {
		if d == line.result && (d == Permitted || d == Denied) {
			duties = append(duties, i)
		}
	}
	if line.result == Indeterminate {
		return IndeterminateDP, cause, duties
	}
	return line.result, cause, duties
}

// ruleWith returns rule i with a decision that a rule can have. An error has the
// name of the rule, and so has its obligation.
func ruleWith(i int, d Decision) Rule {
	effect := Permit
	if d == Denied || d == IndeterminateD {
		effect = Deny
	}
	r := Rule{ID: "child-" + itoa(i), Effect: effect, Obligations: []Obligation{
		{ID: "child-" + itoa(i), On: Permit}, {ID: "child-" + itoa(i), On: Deny}}}
	switch d {
	case NotApplicable:
		r.Target = Target{equals(attribute(CategorySubject, "absent", false), "x")}
	case IndeterminateP, IndeterminateD:
		r.Target = Target{equals(attribute(CategorySubject, "child-"+itoa(i), true), "x")}
	}
	return r
}

// policyWith returns policy i with any decision.
func policyWith(i int, d Decision) *Policy {
	p := &Policy{Header: Header{ID: "child-" + itoa(i), Version: "1", Algorithm: AlgorithmRulesDenyOverrides}}
	if d != IndeterminateDP {
		p.Rules = []Rule{ruleWith(i, d)}
		return p
	}
	p.Rules = []Rule{ruleWith(i, IndeterminateD), ruleWith(i, IndeterminateP)}
	p.Rules[1].ID = "other"
	return p
}

// combined returns a tree with the children, and whether they are rules.
func combined(id string, children []Decision) Element {
	if slices.Contains(AlgorithmIDs(true), id) {
		p := &Policy{Header: Header{ID: "parent", Version: "1", Algorithm: id}}
		for i, d := range children {
			p.Rules = append(p.Rules, ruleWith(i, d))
		}
		return p
	}
	s := &PolicySet{Header: Header{ID: "parent", Version: "1", Algorithm: id}}
	for i, d := range children {
		s.Children = append(s.Children, policyWith(i, d))
	}
	return s
}

// sequences calls f with each sequence of up to length decisions.
func sequences(length int, rules bool, f func([]Decision)) {
	from := []Decision{NotApplicable, Permitted, Denied, IndeterminateP, IndeterminateD}
	if !rules {
		from = append(from, IndeterminateDP)
	}
	var extend func(have []Decision)
	extend = func(have []Decision) {
		f(have)
		if len(have) == length {
			return
		}
		for _, d := range from {
			extend(append(have[:len(have):len(have)], d))
		}
	}
	extend(nil)
}

func TestCombining(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{AlgorithmOnlyOneApplicable: true, AlgorithmOnPermitApplySecond: true} // their own tests
	for _, table := range readCombining(t) {
		for _, id := range table.ids {
			seen[id] = true
			rules := slices.Contains(AlgorithmIDs(true), id)
			sequences(4, rules, func(children []Decision) { checkCombining(t, table, id, children) })
		}
	}
	for _, id := range append(AlgorithmIDs(true), AlgorithmIDs(false)...) {
		if !seen[id] {
			t.Errorf("testdata/combining.txt has no table for %s", id)
		}
	}
}

func checkCombining(t *testing.T, table combiningTable, id string, children []Decision) {
	t.Helper()
	decision, cause, duties := table.expect(children)
	got := compiled(t, combined(id, children)).Decide(t.Context(), request(), Options{})[0]
	if got.Decision != decision {
		t.Errorf("%s of %v: %s, expected %s", id, names(children), decisionNames[got.Decision], decisionNames[decision])
		return
	}
	checkCause(t, fmt.Sprint(id, names(children)), got, cause)
	var found []int
	for _, d := range got.Obligations {
		var n int
		fmt.Sscanf(d.ID, "child-%d", &n)
		found = append(found, n)
	}
	if !slices.Equal(found, duties) {
		t.Errorf("%s of %v: obligations of children %v, expected %v", id, names(children), found, duties)
	}
}

// checkCause checks that a result has the status of a child, or none.
func checkCause(t *testing.T, of string, got Result, cause int) {
	t.Helper()
	switch {
	case cause < 0 && got.Status != nil:
		t.Errorf("%s: status %v, expected none", of, got.Status)
	case cause >= 0 && (got.Status == nil || got.Status.Code != status.MissingAttribute || got.Status.Missing[0].ID != "child-"+itoa(cause)):
		t.Errorf("%s: status %v, expected that of child %d", of, got.Status, cause)
	}
}

func names(children []Decision) []string {
	out := []string{}
	for _, d := range children {
		out = append(out, decisionNames[d])
	}
	return out
}

// TestOnPermitApplySecond follows the additional combining algorithms profile:
// the value of the second member if the first permits, that of the third, if
// there is one, if the first does not apply, denies or is I{D}.
func TestOnPermitApplySecond(t *testing.T) {
	t.Parallel()
	sequences(3, false, func(children []Decision) {
		p, err := Compile(t.Context(), combined(AlgorithmOnPermitApplySecond, children), nil, CompileOptions{})
		if len(children) < 2 {
			if err == nil {
				t.Errorf("%d members are accepted", len(children))
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		chosen := -1
		switch children[0] {
		case Permitted:
			chosen = 1
		case NotApplicable, Denied, IndeterminateD:
			if len(children) == 3 {
				chosen = 2
			}
		default:
			chosen = 0
		}
		want, cause := NotApplicable, -1
		if chosen >= 0 {
			want = children[chosen]
			if want > Indeterminate {
				cause = chosen
			}
			if chosen == 0 {
				want = IndeterminateDP
			}
		}
		got := p.Decide(t.Context(), request(), Options{})[0]
		if got.Decision != want {
			t.Errorf("%v: %s, expected %s", names(children), decisionNames[got.Decision], decisionNames[want])
		}
		checkCause(t, fmt.Sprint(names(children)), got, cause)
	})
}

// TestOnlyOneApplicable varies targets instead of decisions: the value of the
// only member whose target matches.
func TestOnlyOneApplicable(t *testing.T) {
	t.Parallel()
	for _, inert := range []int{0, indexMin} { // with and without an index
		for a := range 3 {
			for b := range 3 {
				for c := range 3 {
					checkOnlyOne(t, []outcome{outcome(a), outcome(b), outcome(c)}, inert)
				}
			}
		}
	}
}

func checkOnlyOne(t *testing.T, targets []outcome, inert int) {
	t.Helper()
	s := &PolicySet{Header: Header{ID: "parent", Version: "1", Algorithm: AlgorithmOnlyOneApplicable}}
	for i, o := range targets {
		p := policyWith(i, Denied)
		p.Target = Target{equals(attribute(CategoryResource, "r", false), []string{"other", "this", "this"}[o])}
		if o == failed {
			p.Target = append(p.Target, equals(attribute(CategorySubject, "child-"+itoa(i), true), "x"))
		}
		s.Children = append(s.Children, p)
	}
	for i := range inert {
		p := policyWith(100+i, Permitted)
		p.Target = Target{equals(attribute(CategoryResource, "r", false), "inert")}
		s.Children = append(s.Children, p)
	}
	got := compiled(t, s).Decide(t.Context(), request(CategoryResource, "r", "this"), Options{})[0]
	matches := 0
	for i, o := range targets {
		switch {
		case o == failed:
			if got.Decision != IndeterminateDP {
				t.Errorf("targets %v: %s", targets, decisionNames[got.Decision])
			}
			checkCause(t, fmt.Sprint(targets), got, i)
			return
		case o == matched:
			if matches++; matches == 2 {
				if got.Decision != IndeterminateDP || got.Status.Code != status.ProcessingError {
					t.Errorf("targets %v: %+v", targets, got)
				}
				return
			}
		}
	}
	if want := []Decision{NotApplicable, Denied}[matches]; got.Decision != want {
		t.Errorf("targets %v: %s, expected %s", targets, decisionNames[got.Decision], decisionNames[want])
	}
}
