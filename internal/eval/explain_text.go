package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/rel"
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

// String returns the explanation in indented lines.
func (x *Explanation) String() string {
	var sb strings.Builder
	word := map[expr.Tristate]string{expr.True: "allowed", expr.False: "denied", expr.Unknown: "undecided"}[x.Answer.Decision]
	fmt.Fprintf(&sb, "%s: %s %s %s\n", word, x.Question.Subject, x.Question.Relation, x.Question.Object)
	if x.Answer.Reasons != nil {
		fmt.Fprintf(&sb, "  %s\n", x.Answer.Reasons)
	}
	if x.Because != nil {
		x.Because.write(&sb, 1)
	}
	switch {
	case x.LeftOut == 1:
		sb.WriteString("  1 more step is left out\n")
	case x.LeftOut > 1:
		fmt.Fprintf(&sb, "  %d more steps are left out\n", x.LeftOut)
	}
	if x.Memberships != nil {
		fmt.Fprintf(&sb, "  %s is %s\n", x.Question.Subject, x.Memberships)
	}
	return sb.String()
}

// String returns the memberships in one line.
func (m *Memberships) String() string {
	line := "in nothing that could grant this"
	if len(m.In) > 0 {
		line = "only in " + joinSubjects(m.In)
	}
	if m.LeftOut > 0 {
		line += fmt.Sprintf(" and %d more", m.LeftOut)
	}
	if len(m.Expired) > 0 {
		line += "; if no tuple had expired, also in " + joinSubjects(m.Expired)
	}
	return line
}

func joinSubjects(list []rel.Subject) string {
	parts := make([]string, len(list))
	for i, sub := range list {
		parts[i] = sub.String()
	}
	return strings.Join(parts, ", ")
}

// write prints a step and the steps below it.
func (s *Step) write(sb *strings.Builder, depth int) {
	fmt.Fprintf(sb, "%s%s\n", strings.Repeat("  ", depth), s.line())
	for _, ch := range s.Steps {
		ch.write(sb, depth+1)
	}
}

var marks = [...]string{expr.False: "✗", expr.Unknown: "?", expr.True: "✓"}

// line returns a step alone as text.
func (s *Step) line() string {
	mark := marks[s.Decision] + " "
	on := s.Object.String() + "#" + s.Relation
	switch s.Kind {
	case StepTuple:
		return mark + s.tupleLine()
	case StepItself:
		return mark + on + " is a member of itself"
	case StepUnreachable:
		return mark + on + ": the schema has no path to this kind of subject"
	case StepSeen:
		return mark + on + ": as above"
	case StepRelation:
		return mark + on
	}
	line := mark + s.Rewrite
	if s.Kind == StepTuples || s.Kind == StepArrow {
		if s.Decision == expr.False {
			line += ": " + searchedText(s.Searched)
		}
	}
	if s.Reasons != nil {
		line += ": " + s.Reasons.String()
	}
	return line
}

func searchedText(found []Searched) string {
	if len(found) == 0 {
		return "no tuple"
	}
	var parts []string
	for _, f := range found {
		for _, sub := range f.First {
			parts = append(parts, sub.String())
		}
		if more := f.Count - len(f.First); more > 0 {
			parts = append(parts, fmt.Sprintf("%d more %s", more, f.Subjects))
		}
	}
	return "no match among " + strings.Join(parts, ", ")
}

func (s *Step) tupleLine() string {
	line := s.Tuple.String()
	if s.Expired {
		line += " (expired)"
	}
	if s.Refused {
		line += " (not admitted by the schema)"
	}
	if s.Condition != nil {
		line += " (" + s.Condition.String() + ")"
	}
	if s.Reasons != nil {
		line += " (" + s.Reasons.String() + ")"
	}
	if s.Written != nil {
		line += "  " + s.Written.String()
	}
	return line
}

// String returns the condition's name, value and parameters.
func (c *ConditionStep) String() string {
	line := c.Name + " is " + c.Decision.String()
	names := make([]string, 0, len(c.Values))
	for name := range c.Values {
		names = append(names, name)
	}
	slices.Sort(names)
	var parts []string
	for _, name := range names {
		parts = append(parts, name+"="+valueText(c.Values[name]))
	}
	for _, m := range c.Missing {
		parts = append(parts, m+" is missing")
	}
	if c.Err != nil {
		parts = append(parts, c.Err.Error())
	}
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}

func valueText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
