package eval

import (
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

func (b *Binding) kindText(k schema.KindID) string {
	switch kind := b.s.Kinds[k]; {
	case kind.Wildcard:
		return kind.Type + ":*"
	case kind.Relation != "":
		return kind.Type + "#" + kind.Relation
	default:
		return kind.Type
	}
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
		parts := make([]string, len(e.Direct))
		for i := range e.Direct {
			parts[i] = b.kindText(e.Direct[i].Kind)
		}
		return "[" + strings.Join(parts, ", ") + "]"
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
