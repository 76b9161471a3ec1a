package access

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/internal/tool/quote"
)

// fileRulesMax is the largest number of rules of a file.
const fileRulesMax = 10_000

// FileRule is a rule of a policy file.
type FileRule struct {
	Name  string // name of the rule
	Check string // text of the rule
	Line  int    // line of the name, from 1
}

// ParseFile reads a policy file of oslo.policy, in YAML or JSON: an object of rules
// by name. A rule is a text, or in the older form a list of alternatives, each of
// which is a text or a list of texts that must all hold. ParseFile fails if a name
// is there twice; the error names the line.
func ParseFile(text []byte) ([]FileRule, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("malformed policy file: %w", err)
	}
	if document.Kind == 0 || len(document.Content) == 1 && document.Content[0].Tag == "!!null" {
		return nil, nil // an empty file, or one with comments only
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: expected an object of rules by name", root.Line)
	}
	if n := len(root.Content) / 2; n > fileRulesMax {
		return nil, fmt.Errorf("%d rules: at most %d are allowed (FileRulesMax)", n, fileRulesMax)
	}
	var rules []FileRule
	seen := map[string]bool{}
	for i := 0; i < len(root.Content); i += 2 {
		name := root.Content[i]
		if name.Kind != yaml.ScalarNode || name.Value == "" || seen[name.Value] {
			return nil, fmt.Errorf("line %d: invalid name %.64q: expected a name that is not empty and occurs once", name.Line, name.Value)
		}
		seen[name.Value] = true
		check, ok := fileCheck(root.Content[i+1])
		if !ok {
			return nil, fmt.Errorf("line %d: rule %.64q: expected a text, or a list of alternatives", name.Line, name.Value)
		}
		rules = append(rules, FileRule{name.Value, check, name.Line})
	}
	return rules, nil
}

// fileCheck returns the text of a rule. A rule without a value is refused, because
// it would allow everything.
func fileCheck(n *yaml.Node) (string, bool) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, n.Tag == "!!str"
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return "", false
	}
	var alternatives []string
	for _, a := range n.Content {
		all := []*yaml.Node{a}
		if a.Kind == yaml.SequenceNode {
			all = a.Content
		}
		var texts []string
		for _, x := range all {
			if x.Kind != yaml.ScalarNode || x.Tag != "!!str" || strings.TrimSpace(x.Value) == "" {
				return "", false
			}
			texts = append(texts, "("+x.Value+")")
		}
		if len(texts) == 0 {
			return "", false
		}
		alternatives = append(alternatives, "("+strings.Join(texts, " and ")+")")
	}
	return strings.Join(alternatives, " or "), true
}

// Override is like Policy.with, for the rules of a file. Its errors name the
// line. warnings are about rules that have no effect, because no operation has
// their name and no rule refers to them, about rules that ask for an attribute that
// no token or no operation has, and about empty rules, which allow everything. A rule is
// refused if it holds because of an attribute that its operation does not have.
func (p *Policy) Override(rules []FileRule) (out *Policy, warnings []string, err error) {
	out = &Policy{rules: make(map[string]rule, len(p.rules)+len(rules))}
	for name, r := range p.rules {
		out.rules[name] = r
	}
	for _, r := range rules {
		c, err := parse(r.Check)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: rule %.64q: %w", r.Line, r.Name, err)
		}
		out.rules[r.Name] = rule{c, p.rules[r.Name].scopes}
	}
	for _, r := range rules {
		if err := out.resolve(r.Name, nil); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", r.Line, err)
		}
	}
	lines := map[string]int{}
	for _, r := range rules {
		lines[r.Name] = r.Line
	}
	reported := map[string]bool{}
	for _, operation := range p.operations() {
		if !strings.HasPrefix(operation, "identity:") {
			continue
		}
		for _, m := range out.missing(operation) {
			line, own := lines[m.rule]
			switch text := fmt.Sprintf("line %d: rule %.64q: %s", line, m.rule, m.what); {
			case !own:
			case m.negated:
				return nil, nil, fmt.Errorf("%s, so its negation would always hold", text)
			case m.rule == operation && !reported[text]: // a rule that others refer to is for operations with the attribute
				reported[text] = true
				warnings = append(warnings, text+", so this check never holds")
			}
		}
	}
	used := out.used()
	for _, r := range rules {
		if _, known := p.rules[r.Name]; !known && !used[r.Name] {
			warnings = append(warnings, fmt.Sprintf("line %d: rule %.64q has no effect: no operation has this name%s", r.Line, r.Name, p.suggest(r.Name)))
		}
		warnings = append(warnings, p.doubts(r, out.rules[r.Name].check)...)
	}
	return out, warnings, nil
}

// doubts returns warnings about a rule that is valid and probably a mistake. p has
// the default rules.
func (p *Policy) doubts(r FileRule, c check) (warnings []string) {
	if p.rules[r.Name].check != constant(true) && c == constant(true) && strings.TrimSpace(r.Check) == "" {
		warnings = append(warnings, fmt.Sprintf("line %d: rule %.64q is empty, so it allows everything: write @ if this is intended", r.Line, r.Name))
	}
	for _, kind := range unknownKinds(c) {
		hint := ""
		if known := quote.Nearest(kind, slices.Values(kinds)); known != "" {
			hint = fmt.Sprintf("; did you mean %q?", known)
		}
		warnings = append(warnings, fmt.Sprintf("line %d: rule %.64q: a check of %.64q never holds: no token has this attribute%s", r.Line, r.Name, kind, hint))
	}
	return warnings
}

// kinds are the kinds of checks that a rule can have, for suggestions.
var kinds = []string{"rule", "role", "user_id", "user_domain_id", "project_id", "project_domain_id", "domain_id", "trust_id", "system_scope", "is_admin_project"}

// unknownKinds returns the attributes of a check that no token has. It leaves out
// is_admin, which files for Keystone have: its token of administrators has no place
// here.
func unknownKinds(c check) (names []string) {
	switch c := c.(type) {
	case not:
		return unknownKinds(c.of)
	case all:
		for _, x := range c {
			names = append(names, unknownKinds(x)...)
		}
	case some:
		for _, x := range c {
			names = append(names, unknownKinds(x)...)
		}
	case compares:
		_, known := (&Credentials{}).value(c.kind)
		if _, literal := literalOf(c.kind); !known && !literal && c.kind != "is_admin" {
			return []string{c.kind}
		}
	}
	return names
}

// used returns the names of the rules that other rules refer to.
func (p *Policy) used() map[string]bool {
	used := map[string]bool{}
	for _, r := range p.rules {
		for _, name := range references(r.check) {
			used[name] = true
		}
	}
	return used
}

// suggest returns the end of a warning with the known name that is closest.
func (p *Policy) suggest(name string) string {
	if known := quote.Nearest(name, slices.Values(p.operations())); known != "" {
		return fmt.Sprintf("; did you mean %q?", known)
	}
	return ""
}
