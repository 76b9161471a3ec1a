package eval

import (
	"strconv"

	"github.com/ostiary/ostiary/schema"
)

// hiddenRelation identifies a hidden relation of a type by its rewrite.
type hiddenRelation struct {
	typ     schema.TypeID
	rewrite string
}

// first returns the hidden relation that has the same rewrite on the same type
// and was found first. So an expression that several arrows contain is one
// relation in a tree, and has one name. It returns id for other relations.
func (x *expander) first(id schema.RelationID) schema.RelationID {
	r := &x.q.b.s.Relations[id]
	if !r.Hidden {
		return id
	}
	if same, ok := x.firsts[id]; ok {
		return same
	}
	if x.hidden == nil {
		x.hidden, x.firsts = map[hiddenRelation]schema.RelationID{}, map[schema.RelationID]schema.RelationID{}
	}
	key := hiddenRelation{r.Type, string(appendRewrite(nil, x.q.b.s, r.Expr))}
	same, ok := x.hidden[key]
	if !ok {
		same, x.hidden[key] = id, id
	}
	x.firsts[id] = same
	return same
}

// appendRewrite appends text that is equal for rewrites with equal meaning on a
// type, and for no others. Hidden relations appear by their rewrites, others by
// their numbers.
func appendRewrite(out []byte, s *schema.Schema, e *schema.Expr) []byte {
	target := func(out []byte, id schema.RelationID) []byte {
		if r := &s.Relations[id]; r.Hidden {
			return appendRewrite(out, s, r.Expr)
		}
		return strconv.AppendInt(append(out, '#'), int64(id), 10)
	}
	out = append(strconv.AppendInt(out, int64(e.Op), 10), '(')
	switch e.Op {
	case schema.OpComputed, schema.OpArrow:
		out = target(out, e.Relation)
	case schema.OpAttribute:
		out = strconv.AppendQuote(out, e.Attribute)
	case schema.OpRule:
		out = strconv.AppendQuote(out, e.Rule.Condition.Definition.Name)
		for _, a := range e.Rule.Args {
			out = strconv.AppendQuote(strconv.AppendQuote(out, a.Attribute), a.Context)
		}
	}
	for i := range e.Via {
		out = target(strconv.AppendInt(append(out, '@'), int64(e.Via[i].Kind), 10), e.Via[i].Target)
	}
	for _, ch := range e.Children {
		out = appendRewrite(append(out, ','), s, ch)
	}
	return append(out, ')')
}
