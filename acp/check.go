package acp

import "slices"

// check verifies that the names in a policy refer to each other correctly.
func (r *policyReader) check() {
	r.checkTypes(r.p.Actor.Relations)
	for i := range r.p.Resources {
		res := &r.p.Resources[i]
		r.checkNames(res)
		r.checkTypes(res.Relations)
		for j := range res.Permissions {
			r.checkExpression(res, &res.Permissions[j])
		}
		if r.p.Specification == specDefra {
			for _, need := range [...]string{"read", "write"} {
				if res.permission(need) == nil {
					r.fail(nil, ErrSpecification, "resource %q has no permission %q: the defra specification requires read and write", res.Name, need)
				}
			}
		}
	}
	if len(r.errs) == 0 {
		r.warnCycles()
	}
}

// checkNames verifies that no permission has a relation's name, and that every
// managed relation exists.
func (r *policyReader) checkNames(res *Resource) {
	for i := range res.Permissions {
		p := &res.Permissions[i]
		if x := res.relation(p.Name); x != nil {
			r.failAt(&PolicyError{p.line, p.column, ErrDuplicate, "permission " + quoted(p.Name) + " has the same name as a relation"})
		}
	}
	for i := range res.Relations {
		x := &res.Relations[i]
		for _, m := range x.Manages {
			if res.relation(m) == nil && !(m == ownerRelation && r.p.Dialect == DialectList) {
				r.failAt(&PolicyError{x.line, x.column, ErrUndefined,
					"relation " + quoted(x.Name) + " manages " + quoted(m) + ", which is not a relation of resource " + quoted(res.Name)})
			}
		}
		if len(x.Types) == 0 && x.Name != ownerRelation {
			r.warn(x.line, x.column, "relation %q has no types: it accepts nothing", x.Name)
		}
	}
}

func quoted(s string) string { return `"` + s + `"` }

// checkTypes verifies that the types of relations exist.
func (r *policyReader) checkTypes(relations []Relation) {
	for i := range relations {
		x := &relations[i]
		for j, t := range x.Types {
			wrong := func(kind error, text string) {
				r.failAt(&PolicyError{x.line, x.column, kind, "relation " + quoted(x.Name) + ", type " + quoted(t.String()) + ": " + text})
			}
			if slices.Contains(x.Types[:j], t) {
				wrong(ErrDuplicate, "listed twice")
				continue
			}
			if t.Resource == r.p.Actor.Name {
				if t.Relation != "" && !slices.ContainsFunc(r.p.Actor.Relations, func(y Relation) bool { return y.Name == t.Relation }) {
					wrong(ErrUndefined, "the actor has no such relation")
				}
				continue
			}
			res := r.p.resource(t.Resource)
			if res == nil {
				wrong(ErrUndefined, "no such resource")
			} else if t.Relation != "" && !res.has(t.Relation, r.p.Dialect) {
				wrong(ErrUndefined, "no such relation in the resource")
			}
		}
	}
}

// checkExpression verifies that the names in a permission's expression exist, and
// warns of arrows that grant nothing.
func (r *policyReader) checkExpression(res *Resource, p *Permission) {
	p.parsed.walk(func(e *expression) {
		wrong := func(kind error, text string) {
			r.failAt(&PolicyError{p.line, p.column + e.column, kind, "permission " + quoted(p.Name) + ": " + quoted(e.name) + " " + text})
		}
		if e.name == ownerRelation && r.p.Dialect == DialectList {
			wrong(ErrReserved, "is part of every permission already")
			return
		}
		if !res.has(e.name, r.p.Dialect) {
			wrong(ErrUndefined, "is not a relation or permission of resource "+quoted(res.Name))
			return
		}
		if e.op == exprArrow && !r.p.leads(res, e) {
			r.warn(p.line, p.column+e.column, "permission %q: %s grants nothing: no type of relation %q has a %q",
				p.Name, e, e.name, e.target)
		}
	})
}

// leads reports whether an arrow can reach an object that has its target.
func (p *Policy) leads(res *Resource, e *expression) bool {
	x := res.relation(e.name)
	return x != nil && slices.ContainsFunc(x.Types, func(t SubjectType) bool {
		if t.Resource == p.Actor.Name {
			return slices.ContainsFunc(p.Actor.Relations, func(y Relation) bool { return y.Name == e.target })
		}
		to := p.resource(t.Resource)
		return to != nil && to.has(e.target, p.Dialect)
	})
}

// warnCycles warns of permissions that depend on themselves.
func (r *policyReader) warnCycles() {
	for i := range r.p.Resources {
		res := &r.p.Resources[i]
		for j := range res.Permissions {
			p := &res.Permissions[j]
			if res.reaches(p, p.Name, map[string]bool{}) {
				r.warn(p.line, p.column, "permission %q depends on itself", p.Name)
			}
		}
	}
}

// reaches reports whether a permission's expression refers to a name of the same
// resource, directly or through other permissions. seen holds the permissions
// that were visited.
func (res *Resource) reaches(p *Permission, name string, seen map[string]bool) bool {
	found := false
	p.parsed.walk(func(e *expression) {
		if found || e.op != exprName {
			return
		}
		if e.name == name {
			found = true
			return
		}
		if next := res.permission(e.name); next != nil && !seen[e.name] {
			seen[e.name] = true
			found = res.reaches(next, name, seen)
		}
	})
	return found
}
