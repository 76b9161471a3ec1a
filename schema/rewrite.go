package schema

import "slices"

// rewrites compiles each relation's restrictions, then each rewrite: an arrow
// needs the restrictions of the relation it starts from.
func (c *compilation) rewrites() {
	c.each(func(r *Relation) { c.restrictions(r) })
	if len(c.errs) > 0 {
		return
	}
	c.each(func(r *Relation) {
		id := r.ID // compiling may append hidden relations and move r
		e := c.compile(&c.def.Rewrite, id, c.typ, &c.s.Types[r.Type])
		c.s.Relations[id].Expr = e
	})
}

// each calls f for every relation of the model, with its place set for
// errors.
func (c *compilation) each(f func(*Relation)) {
	for i := range c.m.Types {
		c.typ = &c.m.Types[i]
		t := &c.s.Types[i]
		for j := range c.typ.Relations {
			c.def = &c.typ.Relations[j]
			f(&c.s.Relations[t.relations[c.def.Name]])
		}
		c.def = nil
	}
	c.typ = nil
}

func holdsDirect(r *Rewrite) bool {
	return r.Op == OpDirect || slices.ContainsFunc(r.Children, func(ch Rewrite) bool { return holdsDirect(&ch) })
}

func (c *compilation) restrictions(r *Relation) {
	direct := holdsDirect(&c.def.Rewrite)
	if direct != (len(c.def.Subjects) > 0) {
		if direct {
			c.fail(ReasonRestrictions, "assignable, but without type restrictions")
		} else {
			c.fail(ReasonRestrictions, "type restrictions on a relation that is not assignable")
		}
		return
	}
	for _, st := range c.def.Subjects {
		k, target, ok := c.subjectKind(st)
		if !ok {
			continue
		}
		i := slices.IndexFunc(r.Restrictions, func(x Restriction) bool { return x.Kind == k })
		if i < 0 {
			i = len(r.Restrictions)
			r.Restrictions = append(r.Restrictions, Restriction{Kind: k, Relation: target})
		}
		x := &r.Restrictions[i]
		switch {
		case st.Condition == "" && !x.Bare:
			x.Bare = true
		case st.Condition != "" && !slices.Contains(x.Conditions, st.Condition):
			x.Conditions = append(x.Conditions, st.Condition)
		default:
			c.fail(ReasonDuplicate, "type restriction %s is there twice", st)
		}
	}
}

func (st SubjectType) String() string {
	s := st.Type
	if st.Relation != "" {
		s += "#" + st.Relation
	}
	if st.Wildcard {
		s += ":*"
	}
	if st.Condition != "" {
		s += " with " + st.Condition
	}
	return s
}

func (c *compilation) subjectKind(st SubjectType) (KindID, RelationID, bool) {
	tid, ok := c.s.types[c.full(st.Type)]
	if !ok {
		c.fail(ReasonUndefinedType, "type %q in the type restriction %s is not defined", st.Type, st)
		return None, None, false
	}
	if _, ok := c.s.Conditions[st.Condition]; st.Condition != "" && !ok {
		c.fail(ReasonUndefinedCondition, "condition %q in the type restriction %s is not defined", st.Condition, st)
		return None, None, false
	}
	t := &c.s.Types[tid]
	switch {
	case st.Wildcard && st.Relation != "":
		c.fail(ReasonRestrictions, "type restriction %s is a wildcard with a relation", st)
		return None, None, false
	case st.Wildcard:
		return t.Wildcard, None, true
	case st.Relation == "":
		return t.Plain, None, true
	}
	rid, ok := t.relations[st.Relation]
	if !ok {
		c.fail(ReasonUndefinedRelation, "relation %q in the type restriction %s is not defined", st.Relation, st)
		return None, None, false
	}
	return c.s.Relations[rid].Kind, rid, true
}

// compile translates a rewrite of relation id, read on type t. holder is the
// model's type that the relation's definition stands in.
func (c *compilation) compile(r *Rewrite, id RelationID, holder *TypeDef, t *Type) *Expr {
	e := &Expr{Op: r.Op, Relation: None}
	switch r.Op {
	case OpDirect:
		e.Relation, e.Direct = id, c.s.Relations[id].Restrictions
	case OpComputed:
		target, ok := t.relations[r.Relation]
		if !ok {
			c.fail(ReasonUndefinedRelation, "relation %q is not defined on type %q", r.Relation, t.Name)
			return e
		}
		e.Relation = target
	case OpArrow:
		c.arrow(e, r, t)
	case OpUnion, OpIntersection, OpExclusion:
		for i := range r.Children {
			e.Children = append(e.Children, c.compile(&r.Children[i], id, holder, t))
		}
	case OpAttribute:
		if typ, ok := t.Attributes[r.Attribute]; !ok || typ.String() != "bool" {
			c.fail(ReasonUndefinedAttribute, "attribute %q is not a bool of type %q", r.Attribute, t.Name)
		}
		e.Attribute = r.Attribute
	case OpRule:
		c.rule(e, r, t)
	default:
		c.fail(ReasonRewrite, "unknown operator %d", r.Op)
	}
	return e
}

// operands is how many operands an operator has; -1 is one or more.
func operands(o Op) int {
	switch o {
	case OpUnion, OpIntersection:
		return -1
	case OpExclusion:
		return 2
	case OpArrow:
		return 1
	}
	return 0
}

func (c *compilation) arrow(e *Expr, r *Rewrite, t *Type) {
	first, ok := t.relations[r.Relation]
	if !ok {
		c.fail(ReasonUndefinedRelation, "relation %q before an arrow is not defined on type %q", r.Relation, t.Name)
		return
	}
	e.Relation = first
	from := &c.s.Relations[first]
	if len(from.Restrictions) == 0 {
		c.fail(ReasonTupleset, "%q stands before an arrow and holds no tuples", r.Relation)
		return
	}
	if c.m.Options.StrictTuplesets && !c.plainTupleset(t, r.Relation) {
		c.fail(ReasonTupleset, "%q stands before an arrow and is not direct alone, of plain types", r.Relation)
		return
	}
	if holdsDirect(&r.Children[0]) {
		c.fail(ReasonRewrite, "direct under an arrow")
		return
	}
	related := slices.Clone(from.Restrictions) // hidden relations move the slice
	for _, x := range related {
		k := c.s.Kinds[x.Kind]
		if k.Wildcard && !c.m.Options.StarIsOrdinary {
			continue // a wildcard is not an object
		}
		if target, ok := c.target(&r.Children[0], k.Type); ok {
			e.Via = append(e.Via, Via{x, target})
		}
	}
	if len(e.Via) == 0 && len(c.errs) == 0 {
		c.fail(ReasonUndefinedRelation, "no type that %q relates has what stands under the arrow (%s)", r.Relation, r.Children[0].Relation)
	}
}

// plainTupleset says whether the relation's rewrite is direct alone and names
// plain types only.
func (c *compilation) plainTupleset(t *Type, relation string) bool {
	for i := range c.m.Types {
		if c.full(c.m.Types[i].Name) != t.Name {
			continue
		}
		for _, d := range c.m.Types[i].Relations {
			if d.Name == relation {
				return d.Rewrite.Op == OpDirect &&
					!slices.ContainsFunc(d.Subjects, func(s SubjectType) bool { return s.Wildcard || s.Relation != "" })
			}
		}
	}
	return false
}

// target returns the relation of a type that an arrow's child means there:
// the computed one itself, or a hidden relation for any other expression.
func (c *compilation) target(child *Rewrite, typ string) (RelationID, bool) {
	t := &c.s.Types[c.s.types[typ]]
	if child.Op == OpComputed {
		id, ok := t.relations[child.Relation]
		return id, ok
	}
	key := hiddenKey{child, t.ID}
	if id, ok := c.hidden[key]; ok {
		return id, id != None
	}
	body, ok := prune(child, func(relation string) bool { _, ok := t.relations[relation]; return ok })
	if !ok {
		c.hidden[key] = None
		return None, false
	}
	id := RelationID(len(c.s.Relations))
	if id >= RelationsMax {
		c.fail(ReasonBound, "more than %d relations, with the expressions under arrows", RelationsMax)
		return None, false
	}
	c.hidden[key] = id
	c.s.Relations = append(c.s.Relations, Relation{ID: id, Type: t.ID, Hidden: true, Kind: None,
		Name: "(" + c.def.Name + "/" + itoa(int(id)) + ")"})
	e := c.compile(&body, id, c.typ, t)
	c.s.Relations[id].Expr = e
	return id, true
}

func itoa(n int) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// prune removes from an expression what can only be false on a type, because
// the type lacks a relation that it reads. The result is false as a whole
// where it returns false.
func prune(r *Rewrite, has func(relation string) bool) (Rewrite, bool) {
	out := *r
	switch r.Op {
	case OpComputed, OpArrow:
		return out, has(r.Relation)
	case OpUnion:
		out.Children = nil
		for i := range r.Children {
			if ch, ok := prune(&r.Children[i], has); ok {
				out.Children = append(out.Children, ch)
			}
		}
		return out, len(out.Children) > 0
	case OpIntersection:
		out.Children = nil
		for i := range r.Children {
			ch, ok := prune(&r.Children[i], has)
			if !ok {
				return out, false
			}
			out.Children = append(out.Children, ch)
		}
		return out, true
	case OpExclusion:
		base, ok := prune(&r.Children[0], has)
		if !ok {
			return out, false
		}
		sub, ok := prune(&r.Children[1], has)
		if !ok {
			return base, true
		}
		out.Children = []Rewrite{base, sub}
	}
	return out, true
}

func (c *compilation) rule(e *Expr, r *Rewrite, t *Type) {
	if r.Rule == nil {
		c.fail(ReasonRewrite, "rule without a call")
		return
	}
	cond, ok := c.s.Conditions[r.Rule.Name]
	if !ok {
		c.fail(ReasonUndefinedCondition, "rule %q is not defined", r.Rule.Name)
		return
	}
	for _, a := range r.Rule.Args {
		if !slices.ContainsFunc(cond.Definition.Params, paramNamed(a.Param)) {
			c.fail(ReasonCondition, "rule %q has no parameter %q", r.Rule.Name, a.Param)
		}
		if _, ok := t.Attributes[a.Attribute]; a.Attribute != "" && !ok {
			c.fail(ReasonUndefinedAttribute, "attribute %q is not defined on type %q", a.Attribute, t.Name)
		}
		if (a.Attribute == "") == (a.Context == "") {
			c.fail(ReasonRewrite, "argument %q of rule %q is not one of attribute and context", a.Param, r.Rule.Name)
		}
	}
	e.Rule = &Rule{Condition: cond, Args: r.Rule.Args}
}
