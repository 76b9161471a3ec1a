package acp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// Bounds of policies.
const (
	// PolicyBytesMax is the longest policy text, in bytes.
	PolicyBytesMax = 1 << 20
	// NameBytesMax is the longest name of a relation or permission, in bytes: the
	// engine's bound minus the prefix of derived relations.
	NameBytesMax = 49
	// resourceBytesMax is the longest name of a resource, in bytes.
	resourceBytesMax = 180
	// policyErrorsMax is the number of errors that are reported for one text.
	policyErrorsMax = 20
)

// ParsePolicy parses a policy in YAML or JSON. It fails with joined
// [*PolicyError] values, or with [ErrBound] if the text is too long.
func ParsePolicy(text string, d Dialect) (*Policy, error) {
	p, err := parsePolicy(text, d, "")
	if err != nil {
		return nil, err
	}
	return p, nil
}

// parsePolicy is like [ParsePolicy] for a policy that must have a specification;
// see PolicySource.Specification. If it fails, it returns a policy that has only
// its dialect, which is DialectAuto if the text is not YAML.
func parsePolicy(text string, d Dialect, specification string) (*Policy, error) {
	r := &policyReader{p: &Policy{Dialect: d}, required: specification}
	if len(text) > PolicyBytesMax {
		return r.p, fmt.Errorf("%w: the policy has %d bytes, PolicyBytesMax is %d", ErrBound, len(text), PolicyBytesMax)
	}
	root, err := r.document(text)
	if err == nil {
		r.policy(root)
		if len(r.errs) == 0 {
			r.check()
		}
	} else {
		r.errs = append(r.errs, err)
	}
	if len(r.errs) > 0 {
		return &Policy{Dialect: r.p.Dialect}, errors.Join(r.errs...)
	}
	return r.p, nil
}

// policyReader parses one text and collects its errors.
type policyReader struct {
	p    *Policy
	errs []error
	// required is the specification that the policy must have, or "".
	required string
}

func (r *policyReader) fail(n *yaml.Node, kind error, format string, args ...any) {
	e := &PolicyError{Kind: kind, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	r.failAt(e)
}

func (r *policyReader) failAt(e *PolicyError) {
	if len(r.errs) < policyErrorsMax {
		r.errs = append(r.errs, e)
	}
}

func (r *policyReader) warn(line, column int, format string, args ...any) {
	if len(r.p.Warnings) < policyErrorsMax {
		r.p.Warnings = append(r.p.Warnings, &PolicyError{line, column, ErrInvalidPolicy, fmt.Sprintf(format, args...)})
	}
}

// yamlPlace matches an error of the YAML package that names a line.
var yamlPlace = regexp.MustCompile(`line (\d+): (.*)`)

// document returns the root node of a text, which must hold exactly one document.
func (r *policyReader) document(text string) (*yaml.Node, error) {
	root, err := decodeYAML(text)
	if err != nil && json.Valid([]byte(text)) {
		// YAML forbids tabs in places where JSON allows them.
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(text)) == nil {
			root, err = decodeYAML(compact.String())
		}
	}
	if err != nil {
		e := &PolicyError{Kind: ErrSyntax, Text: strings.TrimPrefix(err.Error(), "yaml: ")}
		if m := yamlPlace.FindStringSubmatch(e.Text); m != nil {
			e.Line, _ = strconv.Atoi(m[1])
			e.Column, e.Text = 1, m[2]
		}
		return nil, e
	}
	return root, nil
}

func decodeYAML(text string) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil || len(doc.Content) == 0 {
		return nil, fmt.Errorf("no policy: %w", errorOr(err, errors.New("empty document")))
	}
	if err := dec.Decode(&more); err == nil {
		return nil, fmt.Errorf("line %d: expected one document, found a second", more.Line)
	}
	return doc.Content[0], nil
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// fields calls the function of each field of a mapping. A repeated field is an
// error. An unknown field is an error in the list dialect, a warning in the map
// dialect.
func (r *policyReader) fields(n *yaml.Node, what string, known map[string]func(*yaml.Node)) {
	r.entries(n, what, func(key, value *yaml.Node) {
		f, ok := known[key.Value]
		switch {
		case ok:
			f(value)
		case r.p.Dialect == DialectMap:
			r.warn(key.Line, key.Column, "%s has no field %q, which is ignored", what, key.Value)
		default:
			r.fail(key, ErrField, "%s has no field %q", what, key.Value)
		}
	})
}

// entries calls f for each entry of a mapping, in the order of the text. Null
// counts as an empty mapping.
func (r *policyReader) entries(n *yaml.Node, what string, f func(key, value *yaml.Node)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fail(n, ErrSyntax, "%s: expected a mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(key, ErrSyntax, "%s: expected a text as name", what)
		case seen[key.Value]:
			r.fail(key, ErrField, "%s: %q is defined twice", what, key.Value)
		default:
			seen[key.Value] = true
			f(key, value)
		}
	}
}

// items calls f for each item of a list. Null counts as an empty list.
func (r *policyReader) items(n *yaml.Node, what string, f func(*yaml.Node)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, ErrSyntax, "%s: expected a list", what)
		return
	}
	for _, item := range n.Content {
		f(item)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// text returns a scalar's text, "" for null.
func (r *policyReader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode {
		r.fail(n, ErrSyntax, "%s: expected a text", what)
		return ""
	}
	if isNull(n) {
		return ""
	}
	return n.Value
}

func (r *policyReader) textTo(to *string, what string) func(*yaml.Node) {
	return func(n *yaml.Node) { *to = r.text(n, what) }
}

func (r *policyReader) textsTo(to *[]string, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.items(n, what, func(item *yaml.Node) { *to = append(*to, r.text(item, what)) })
	}
}

// subjectTypes reads a relation's types.
func (r *policyReader) subjectTypes(to *[]SubjectType) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.items(n, "types", func(item *yaml.Node) {
			resource, relation, set := strings.Cut(r.text(item, "a type"), "->")
			resource, relation = strings.TrimSpace(resource), strings.TrimSpace(relation)
			if set && relation == "" {
				r.fail(item, ErrSyntax, "expected a relation after ->")
				return
			}
			*to = append(*to, SubjectType{resource, relation})
		})
	}
}

// expressionTo reads a permission's expression.
func (r *policyReader) expressionTo(p *Permission) func(*yaml.Node) {
	return func(n *yaml.Node) {
		p.Expression = r.text(n, "expr")
		p.line, p.column = n.Line, n.Column
		if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			p.column++
		}
	}
}

// parse parses a permission's expression, which may be absent.
func (r *policyReader) parse(p *Permission, at *yaml.Node) {
	if p.line == 0 {
		p.line, p.column = at.Line, at.Column
	}
	e, wrong := parseExpression(p.Expression, r.p.Dialect)
	if wrong != nil {
		r.failAt(&PolicyError{p.line, p.column + wrong.at, ErrExpression, fmt.Sprintf("permission %q: %s", p.Name, wrong.text)})
		e = &expression{}
	}
	p.parsed = e
}
