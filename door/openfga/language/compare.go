package language

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// sameMeaning reports whether two models are equal. It ignores modules and
// files, and the position of "this" in a union or intersection, because the
// DSL always puts it first.
func sameMeaning(a, b *schema.Model) bool { return describe(a) == describe(b) }

// describe prints a model unambiguously, for sameMeaning.
func describe(m *schema.Model) string {
	var b strings.Builder
	for _, t := range m.Types {
		fmt.Fprintf(&b, "type %q\n", t.Name)
		relations := slices.Clone(t.Relations)
		slices.SortFunc(relations, func(x, y schema.RelationDef) int { return strings.Compare(x.Name, y.Name) })
		for _, r := range relations {
			fmt.Fprintf(&b, " %q %q ", r.Name, r.Subjects)
			describeRewrite(&b, &r.Rewrite)
			b.WriteByte('\n')
		}
	}
	conditions := slices.Clone(m.Conditions)
	slices.SortFunc(conditions, func(x, y expr.Definition) int { return strings.Compare(x.Name, y.Name) })
	for _, c := range conditions {
		params := slices.Clone(c.Params)
		slices.SortFunc(params, func(x, y expr.Param) int { return strings.Compare(x.Name, y.Name) })
		fmt.Fprintf(&b, "condition %q %q", c.Name, c.Source)
		for _, p := range params {
			fmt.Fprintf(&b, " %q %s", p.Name, p.Type)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func describeRewrite(b *strings.Builder, r *schema.Rewrite) {
	fmt.Fprintf(b, "(%s %q", r.Op, r.Relation)
	operands := slices.Clone(r.Children)
	if r.Op == schema.OpUnion || r.Op == schema.OpIntersection {
		slices.SortStableFunc(operands, func(x, y schema.Rewrite) int { return directFirst(x) - directFirst(y) })
	}
	for i := range operands {
		describeRewrite(b, &operands[i])
	}
	b.WriteByte(')')
}

func directFirst(r schema.Rewrite) int {
	if r.Op == schema.OpDirect {
		return 0
	}
	return 1
}
