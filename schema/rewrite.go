package schema

import (
	"slices"
	"strconv"
)

// rewrites compiles the restrictions of all relations, and then the rewrites: an
// arrow needs the restrictions of its first relation.
func (c *compilation) rewrites() {
	c.each(func(r *Relation) { c.restrictions(r) })
	if len(c.errs) > 0 {
		return
	}
	c.each(func(r *Relation) {
		id := r.ID // r is not valid after compile, which may append hidden relations
		e := c.compile(&c.def.Rewrite, id, &c.s.Types[r.Type])
		c.s.Relations[id].Expr = e
	})
}

// each calls f for every relation of the model. Errors that f adds mention the
// relation.
func (c *compilation) each(f func(*Relation)) {
	for i := range c.m.Types {
		c.typ = &c.m.Types[i]
		t := &c.s.Types[i]
		for j := range c.typ.Relations {
			c.def = &c.typ.Relations[j]
			if f(&c.s.Relations[t.relations[c.def.Name]]); c.stopped || len(c.errs) >= ErrorsMax {
				return
			}
		}
		c.def = nil
	}
	c.typ = nil
}

// holdsDirect reports whether r contains OpDirect.
func holdsDirect(r *Rewrite) bool {
	return r.Op == OpDirect || slices.ContainsFunc(r.Children, func(ch Rewrite) bool { return holdsDirect(&ch) })
}

// restrictions compiles the type restrictions of r.
func (c *compilation) restrictions(r *Relation) {
	direct := holdsDirect(&c.def.Rewrite)
	if direct != (len(c.def.Subjects) > 0) {
		if direct {
			c.fail(ReasonRestrictions, "the relation is assignable but has no type restrictions")
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
			c.fail(ReasonDuplicate, "type restriction %s is defined twice", st)
		}
	}
}

// String returns the restriction as OpenFGA writes it, for example
// "group#member with condition".
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

// subjectKind returns the kind that st admits and, for a userset, its relation.
// It returns false after it added an error.
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

// compile compiles the rewrite r of relation id for objects of type t.
func (c *compilation) compile(r *Rewrite, id RelationID, t *Type) *Expr {
	e := &Expr{Op: r.Op, Relation: None}
	if !c.step(1) {
		return e
	}
	switch r.Op {
	case OpDirect:
		c.step(len(c.s.Relations[id].Restrictions))
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
			e.Children = append(e.Children, c.compile(&r.Children[i], id, t))
		}
	case OpAttribute:
		if typ, ok := t.Attributes[r.Attribute]; !ok || typ.String() != "bool" {
			c.fail(ReasonUndefinedAttribute, "type %[2]q has no bool attribute %[1]q", r.Attribute, t.Name)
		}
		e.Attribute = r.Attribute
	case OpRule:
		c.rule(e, r, t)
	default:
		c.fail(ReasonRewrite, "unknown operator %d", r.Op)
	}
	return e
}

// operands returns the number of operands that an operator has; -1 means one or
// more.
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

// operandsText is operands as a text.
func operandsText(n int) string {
	if n < 0 {
		return "one or more"
	}
	return strconv.Itoa(n)
}

// arrow compiles the arrow r of type t into e.
func (c *compilation) arrow(e *Expr, r *Rewrite, t *Type) {
	first, ok := t.relations[r.Relation]
	if !ok {
		c.fail(ReasonUndefinedRelation, "the arrow's first relation %q is not defined on type %q", r.Relation, t.Name)
		return
	}
	e.Relation = first
	from := &c.s.Relations[first]
	if len(from.Restrictions) == 0 {
		c.fail(ReasonTupleset, "%q is the first relation of an arrow, but it cannot have tuples", r.Relation)
		return
	}
	if c.m.Options.StrictTuplesets && !c.plainTupleset(from) {
		c.fail(ReasonTupleset, "%q is the first relation of an arrow, so it must be direct only and admit plain types only", r.Relation)
		return
	}
	if holdsDirect(&r.Children[0]) {
		c.fail(ReasonRewrite, "an expression under an arrow cannot be direct")
		return
	}
	if !c.step(len(from.Restrictions)) {
		return
	}
	related := slices.Clone(from.Restrictions) // from is not valid after c.target, which may append relations
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
		c.fail(ReasonUndefinedRelation, "none of the types that %q admits has the relation under the arrow (%s)", r.Relation, r.Children[0].Relation)
	}
}

// plainTupleset reports whether a relation is OpDirect alone and admits plain
// subjects only.
func (c *compilation) plainTupleset(r *Relation) bool {
	for _, x := range r.Restrictions {
		if k := c.s.Kinds[x.Kind]; k.Wildcard || k.Relation != "" {
			return false
		}
	}
	return c.defs[r.ID].Rewrite.Op == OpDirect
}

// target returns the relation that represents an arrow's child on a type:
// the relation that a computed child names, or a hidden relation for any other
// expression. It returns false if the type has no such relation.
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
		c.fail(ReasonBound, "more than %d relations, including one for each expression under an arrow", RelationsMax)
		return None, false
	}
	c.hidden[key] = id
	c.s.Relations = append(c.s.Relations, Relation{ID: id, Type: t.ID, Hidden: true, Kind: None,
		Name: "(" + c.def.Name + "/" + strconv.Itoa(int(id)) + ")"})
	e := c.compile(&body, id, t)
	c.s.Relations[id].Expr = e
	return id, true
}

// prune returns r without the parts that are always false on a type, because the
// type lacks a relation that they read. It returns false if all of r is always
// false. has reports whether the type has a relation.
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

// rule compiles the rule r of type t into e.
func (c *compilation) rule(e *Expr, r *Rewrite, t *Type) {
	if r.Rule == nil {
		c.fail(ReasonRewrite, "a rule must name a condition")
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
			c.fail(ReasonRewrite, "argument %q of rule %q must name either an attribute or a context key", a.Param, r.Rule.Name)
		}
	}
	e.Rule = &Rule{Condition: cond, Args: r.Rule.Args}
}
