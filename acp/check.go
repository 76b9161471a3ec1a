package acp

import "slices"

// check holds the parts of a policy against each other.
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
					r.fail(nil, ErrSpecification, "resource %q needs a permission %q", res.Name, need)
				}
			}
		}
	}
	if len(r.errs) == 0 {
		r.warnCycles()
	}
}

// checkNames holds relations and permissions of a resource against each other,
// and what relations manage.
func (r *policyReader) checkNames(res *Resource) {
	for i := range res.Permissions {
		p := &res.Permissions[i]
		if x := res.relation(p.Name); x != nil {
			r.failAt(&PolicyError{p.line, p.column, ErrDuplicate, "permission " + quoted(p.Name) + " has a relation's name"})
		}
	}
	for i := range res.Relations {
		x := &res.Relations[i]
		for _, m := range x.Manages {
			if res.relation(m) == nil && !(m == ownerRelation && r.p.Dialect == DialectList) {
				r.failAt(&PolicyError{x.line, x.column, ErrUndefined,
					"relation " + quoted(x.Name) + " manages " + quoted(m) + ", which is no relation of resource " + quoted(res.Name)})
			}
		}
		if len(x.Types) == 0 && x.Name != ownerRelation {
			r.warn(x.line, x.column, "relation %q has no types: it accepts nothing", x.Name)
		}
	}
}

func quoted(s string) string { return `"` + s + `"` }

// checkTypes looks up what the types of relations name.
func (r *policyReader) checkTypes(relations []Relation) {
	for i := range relations {
		x := &relations[i]
		for j, t := range x.Types {
			wrong := func(kind error, text string) {
				r.failAt(&PolicyError{x.line, x.column, kind, "relation " + quoted(x.Name) + ", type " + quoted(t.String()) + ": " + text})
			}
			if slices.Contains(x.Types[:j], t) {
				wrong(ErrDuplicate, "it is there twice")
				continue
			}
			if t.Resource == r.p.Actor.Name {
				if t.Relation != "" && !slices.ContainsFunc(r.p.Actor.Relations, func(y Relation) bool { return y.Name == t.Relation }) {
					wrong(ErrUndefined, "actors have no such relation")
				}
				continue
			}
			res := r.p.resource(t.Resource)
			if res == nil {
				wrong(ErrUndefined, "there is no such resource")
			} else if t.Relation != "" && !res.has(t.Relation, r.p.Dialect) {
				wrong(ErrUndefined, "the resource has no such relation")
			}
		}
	}
}

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
			wrong(ErrUndefined, "is no relation or permission of resource "+quoted(res.Name))
			return
		}
		if e.op == exprArrow && !r.p.leads(res, e) {
			r.warn(p.line, p.column+e.column, "permission %q: %s leads nowhere: nothing that %q relates has a %q",
				p.Name, e, e.name, e.target)
		}
	})
}

// leads says whether an arrow can lead to any object with its target.
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

// warnCycles tells of permissions that depend on themselves.
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

// reaches says whether a permission leads to a name of the same resource
// through expressions alone.
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
