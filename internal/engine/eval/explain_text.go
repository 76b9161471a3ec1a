package eval

import (
	"slices"
	"strings"

	"github.com/ostiary/ostiary/schema"
)

// relationText returns a relation's name; for a hidden one its rewrite.
func (b *Binding) relationText(id schema.RelationID) string {
	if r := &b.s.Relations[id]; !r.Hidden {
		return r.Name
	}
	return "(" + b.text(b.s.Relations[id].Expr) + ")"
}

// text returns a rewrite in the syntax of the schema's documentation.
func (b *Binding) text(e *schema.Expr) string {
	if e == nil {
		return ""
	}
	join := func(word string) string {
		parts := make([]string, len(e.Children))
		for i, ch := range e.Children {
			if parts[i] = b.text(ch); len(ch.Children) > 0 {
				parts[i] = "(" + parts[i] + ")"
			}
		}
		return strings.Join(parts, word)
	}
	switch e.Op {
	case schema.OpDirect:
		return "[" + strings.Join(slices.Collect(restrictionTexts(b.s, e.Direct)), ", ") + "]"
	case schema.OpComputed:
		return b.relationText(e.Relation)
	case schema.OpArrow:
		return b.relationText(e.Via[0].Target) + " from " + b.relationText(e.Relation)
	case schema.OpUnion:
		return join(" or ")
	case schema.OpIntersection:
		return join(" and ")
	case schema.OpExclusion:
		return join(" but not ")
	case schema.OpAttribute:
		return e.Attribute
	case schema.OpRule:
		return b.ruleText(e.Rule)
	}
	return ""
}

func (b *Binding) ruleText(r *schema.Rule) string {
	args := make([]string, len(r.Args))
	for i, a := range r.Args {
		if args[i] = a.Attribute; a.Attribute == "" {
			args[i] = "context." + a.Context
		}
	}
	return r.Condition.Definition.Name + "(" + strings.Join(args, ", ") + ")"
}
