package language

import "strings"

// String formats the schema. Parse reads the result back. Comments are lost.
func (s *Schema) String() string {
	var b strings.Builder
	for i, e := range s.Entities {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("entity " + e.Name + " {")
		for j := range e.Statements {
			b.WriteString("\n    " + e.Statements[j].String())
		}
		if len(e.Statements) > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("}\n")
	}
	for _, r := range s.Rules {
		b.WriteString("\nrule " + r.Name + "(")
		for i, p := range r.Params {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(p.Name + " " + string(p.Type))
		}
		b.WriteString(") {\n" + r.Body + "\n}\n")
	}
	return b.String()
}

// String formats the statement.
func (s *Statement) String() string {
	head := s.Kind.String() + " " + s.Name
	switch s.Kind {
	case Relation:
		for _, t := range s.Types {
			head += " " + t.String()
		}
	case Attribute:
		head += " " + string(s.Type)
	case Permission:
		head += " = " + s.Expr.String()
	}
	return head
}

// String formats the type reference.
func (t TypeRef) String() string {
	if t.Relation == "" {
		return "@" + t.Entity
	}
	return "@" + t.Entity + "#" + t.Relation
}

// String formats the expression with as few parentheses as possible.
func (e *Expr) String() string {
	var b strings.Builder
	e.print(&b)
	return b.String()
}

func (e *Expr) print(b *strings.Builder) {
	switch {
	case e.Op != Leaf:
		e.Left.print(b)
		b.WriteString(" " + e.Op.String() + " ")
		if e.Right.Op == Leaf {
			e.Right.print(b)
			return
		}
		b.WriteByte('(')
		e.Right.print(b)
		b.WriteByte(')')
	case e.Args != nil:
		b.WriteString(e.Path[0] + "(" + strings.Join(e.Args, ", ") + ")")
	default:
		b.WriteString(strings.Join(e.Path, "."))
	}
}
