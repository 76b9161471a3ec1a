package eval

import (
	"encoding/json"
	"fmt"
	"strings"
)

// String returns the tree in indented lines.
func (t *Tree) String() string {
	var sb strings.Builder
	t.write(&sb, 0)
	if t.Bound != "" {
		fmt.Fprintf(&sb, "bound reached: %s\n", t.Bound)
	}
	return sb.String()
}

func (t *Tree) write(sb *strings.Builder, depth int) {
	pad := strings.Repeat("  ", depth)
	line := string(t.Kind) + " " + t.Rewrite
	switch t.Kind {
	case TreeRelation:
		line = t.Object.String() + "#" + t.Relation
	case TreeAttribute, TreeRule:
		line += " is " + t.Decision.String()
		if t.Reasons != nil {
			line += " (" + t.Reasons.String() + ")"
		}
	}
	switch {
	case t.Seen:
		line += " (see elsewhere)"
	case t.Cut:
		line += " …"
	}
	sb.WriteString(pad + line + "\n")
	for i := range t.Leaves {
		l := &t.Leaves[i]
		sb.WriteString(pad + "  - " + l.Tuple.String())
		if l.Tuple.Condition != "" {
			sb.WriteString(" (" + l.Decision.String() + ")")
		}
		sb.WriteByte('\n')
		if l.Tree != nil {
			l.Tree.write(sb, depth+2)
		}
	}
	for _, ch := range t.Children {
		ch.write(sb, depth+1)
	}
}

// MarshalJSON returns the tree with names and values as text, without members
// that are not set.
func (t *Tree) MarshalJSON() ([]byte, error) {
	type leaf struct {
		Tuple  string `json:"tuple"`
		Result string `json:"result"`
		Tree   *Tree  `json:"tree,omitempty"`
	}
	out := struct {
		Kind     TreeKind     `json:"kind"`
		Object   string       `json:"object"`
		Relation string       `json:"relation,omitempty"`
		Target   string       `json:"target,omitempty"`
		Rewrite  string       `json:"rewrite,omitempty"`
		Result   string       `json:"result,omitempty"`
		Reasons  *reasonsJSON `json:"reasons,omitempty"`
		Leaves   []leaf       `json:"leaves,omitempty"`
		Children []*Tree      `json:"children,omitempty"`
		Seen     bool         `json:"seen,omitempty"`
		Cut      bool         `json:"cut,omitempty"`
		Bound    string       `json:"bound,omitempty"`
	}{
		Kind: t.Kind, Object: t.Object.String(), Relation: t.Relation, Target: t.Target, Rewrite: t.Rewrite,
		Reasons: t.Reasons.json(), Children: t.Children, Seen: t.Seen, Cut: t.Cut, Bound: t.Bound,
	}
	if t.Kind == TreeAttribute || t.Kind == TreeRule {
		out.Result = t.Decision.String()
	}
	for i := range t.Leaves {
		l := &t.Leaves[i]
		out.Leaves = append(out.Leaves, leaf{l.Tuple.String(), l.Decision.String(), l.Tree})
	}
	return json.Marshal(out)
}

// reasonsJSON is the JSON form of Reasons.
type reasonsJSON struct {
	Missing []string `json:"missing,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Cycle   bool     `json:"cycle,omitempty"`
	Bound   string   `json:"bound,omitempty"`
}

func (r *Reasons) json() *reasonsJSON {
	if r == nil {
		return nil
	}
	out := &reasonsJSON{Missing: r.Missing, Cycle: r.Cycle, Bound: r.Bound}
	for _, e := range r.Errors {
		out.Errors = append(out.Errors, e.Error())
	}
	return out
}
