package language

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// printDSL prints a model in the DSL: types in their order, relations in order
// of name, conditions in order of module, file and name. It fails for a rewrite
// or a parameter that the DSL cannot express.
func printDSL(m *model) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "model\n  schema %s\n", m.version)
	for _, t := range m.types {
		fmt.Fprintf(&b, "\ntype %s\n", t.name)
		for i, name := range slices.Sorted(maps.Keys(t.relations)) {
			if i == 0 {
				b.WriteString("  relations\n")
			}
			text, err := printRelation(t, name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "    define %s: %s\n", name, text)
		}
	}
	for _, c := range slices.SortedFunc(maps.Values(m.conditions), byModule) {
		parameters, err := printParameters(c)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\ncondition %s(%s) {\n  %s\n}\n", c.name, parameters, c.expression)
	}
	return b.String(), nil
}

// byModule orders conditions without a module first, then by module, file and
// name.
func byModule(a, b *condition) int {
	module := func(c *condition) (module, file string) {
		if c.metadata == nil {
			return "", ""
		}
		return c.metadata.module, c.metadata.source.name()
	}
	aModule, aFile := module(a)
	bModule, bFile := module(b)
	if aModule == "" && bModule == "" {
		return cmp.Compare(a.name, b.name)
	}
	return cmp.Or(cmp.Compare(aModule, bModule), cmp.Compare(aFile, bFile), cmp.Compare(a.name, b.name))
}

func printRelation(t *typeDefinition, name string) (string, error) {
	p := rewritePrinter{subjects: t.metadata.relations[name].subjects}
	u := t.relations[name]
	text := p.rewrite(u)
	if p.direct == 0 || p.direct == 1 && directLeads(u) {
		return text, nil
	}
	return "", &Error{Kind: ErrInexpressible, Text: clip(fmt.Sprintf(
		"the '%s' relation definition under the '%s' type is not supported by the OpenFGA DSL syntax yet", name, t.name))}
}

// directLeads reports whether the direct part of a rewrite can be printed first,
// because the DSL allows it only there. In a union or intersection, the printer
// may move it to the front.
func directLeads(u *userset) bool {
	switch {
	case u.op == thisUserset:
		return true
	case len(u.children) == 0:
		return false
	case u.op != difference && slices.ContainsFunc(u.children, isDirect):
		return true
	}
	return directLeads(u.children[0])
}

func isDirect(u *userset) bool { return u.op == thisUserset }

// rewritePrinter prints the rewrite of one relation.
type rewritePrinter struct {
	subjects []*relationReference
	direct   int // direct parts printed so far
}

func (p *rewritePrinter) rewrite(u *userset) string {
	switch u.op {
	case thisUserset:
		p.direct++
		return p.restrictions()
	case computedUserset:
		return u.computed.relation
	case tupleToUserset:
		return u.computed.relation + " from " + u.tupleset.relation
	}
	children := u.children
	if i := slices.IndexFunc(children, isDirect); i > 0 && u.op != difference {
		children = slices.Insert(slices.Delete(slices.Clone(children), i, i+1), 0, children[i])
	}
	texts := make([]string, len(children))
	for i, child := range children {
		if texts[i] = p.rewrite(child); len(child.children) > 0 {
			texts[i] = "(" + texts[i] + ")"
		}
	}
	return strings.Join(texts, [...]string{union: " or ", intersection: " and ", difference: " but not "}[u.op])
}

func (p *rewritePrinter) restrictions() string {
	texts := make([]string, len(p.subjects))
	for i, s := range p.subjects {
		texts[i] = s.typ
		switch s.kind {
		case wildcardReference:
			texts[i] += ":*"
		case usersetReference:
			texts[i] += "#" + s.relation
		}
		if s.condition != "" {
			texts[i] += " with " + s.condition
		}
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// printParameters prints a condition's parameters in order of name.
func printParameters(c *condition) (string, error) {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(c.parameters)) {
		p := c.parameters[name]
		kind, ok := parameterKind(p.kind)
		if !ok {
			return "", inexpressible("", "", "a part that is broken")
		}
		text := name + ": " + kind.String()
		if len(p.generics) > 0 {
			inner, ok := parameterKind(p.generics[0].kind)
			if !ok {
				return "", inexpressible("", "", "a part that is broken")
			}
			text += "<" + inner.String() + ">"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", "), nil
}
