package acp

import (
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// policy reads the policy's root mapping, in either dialect.
func (r *policyReader) policy(root *yaml.Node) {
	if r.p.Dialect == DialectAuto {
		r.p.Dialect = dialectOf(root)
	}
	p, spec := r.p, ""
	var resources *yaml.Node
	fields := map[string]func(*yaml.Node){
		"name":        r.textTo(&p.Name, "name"),
		"description": r.textTo(&p.Description, "description"),
		"meta":        r.meta,
		"actor":       r.actor,
		"resources":   func(n *yaml.Node) { resources = n },
	}
	if p.Dialect == DialectMap {
		fields["doc"] = fields["description"]
		fields["attributes"] = r.meta
	} else {
		fields["spec"] = r.textTo(&spec, "spec")
	}
	p.Actor.Name = actorName
	r.fields(root, "the policy", fields)
	r.specification(root, spec)
	if p.Name == "" {
		r.fail(root, ErrMissing, "the policy has no name")
	}
	switch {
	case resources == nil:
	case p.Dialect == DialectMap:
		r.mappedResources(resources)
	default:
		r.items(resources, "resources", r.listedResource)
	}
}

// specification sets the policy's specification from the text's own, and from the
// one that the caller requires.
func (r *policyReader) specification(root *yaml.Node, own string) {
	p := r.p
	if p.Specification = specNone; strings.EqualFold(strings.TrimSpace(own), specDefra) {
		p.Specification = specDefra
	} else if own != "" && !strings.EqualFold(own, specNone) {
		r.warn(root.Line, root.Column, "unknown specification %q is treated as %q", own, specNone)
	}
	switch r.required {
	case "":
	case specDefra:
		p.Specification = specDefra
	case specNone:
		if p.Specification != specNone {
			r.fail(root, ErrSpecification, "the policy has %q, expected %q", p.Specification, specNone)
		}
	default:
		r.fail(nil, ErrSpecification, "unknown specification %q: expected %q or %q", r.required, specNone, specDefra)
	}
}

// dialectOf returns the map dialect if the policy's resources are a mapping, else
// the list dialect.
func dialectOf(root *yaml.Node) Dialect {
	if root.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(root.Content); i += 2 {
			if root.Content[i].Value == "resources" && root.Content[i+1].Kind == yaml.MappingNode {
				return DialectMap
			}
		}
	}
	return DialectList
}

func (r *policyReader) meta(n *yaml.Node) {
	r.entries(n, "meta", func(key, value *yaml.Node) {
		if r.p.Meta == nil {
			r.p.Meta = map[string]string{}
		}
		r.p.Meta[key.Value] = r.text(value, "an entry of meta")
	})
}

func (r *policyReader) actor(n *yaml.Node) {
	a := &r.p.Actor
	fields := map[string]func(*yaml.Node){
		"relations": func(n *yaml.Node) {
			if r.p.Dialect == DialectMap {
				r.mappedRelations(n, &a.Relations)
			} else {
				r.listedRelations(n, &a.Relations)
			}
		},
		"doc": r.textTo(&a.Doc, "doc"),
	}
	if r.p.Dialect == DialectMap {
		fields["name"] = func(n *yaml.Node) {
			if name := r.text(n, "the actor's name"); name != "" {
				a.Name = name
				r.name(n, name, "actor", resourceBytesMax)
			}
		}
	}
	r.fields(n, "actor", fields)
}

// listedResource reads a resource of the list dialect.
func (r *policyReader) listedResource(n *yaml.Node) {
	var res Resource
	at := n
	r.fields(n, "a resource", map[string]func(*yaml.Node){
		"name":        func(n *yaml.Node) { res.Name, at = r.text(n, "name"), n },
		"description": r.textTo(&res.Description, "description"),
		"specs":       func(*yaml.Node) {}, // read by the original, but not used
		"relations":   func(n *yaml.Node) { r.listedRelations(n, &res.Relations) },
		"permissions": func(n *yaml.Node) {
			r.items(n, "permissions", func(n *yaml.Node) {
				var p Permission
				at := n
				r.fields(n, "a permission", map[string]func(*yaml.Node){
					"name": func(n *yaml.Node) { p.Name, at = r.text(n, "name"), n },
					"doc":  r.textTo(&p.Doc, "doc"),
					"expr": r.expressionTo(&p),
				})
				r.addPermission(&res, p, at)
			})
		},
	})
	r.addResource(res, at)
}

func (r *policyReader) listedRelations(n *yaml.Node, to *[]Relation) {
	r.items(n, "relations", func(n *yaml.Node) {
		var x Relation
		at := n
		fields := r.relationFields(&x)
		fields["name"] = func(n *yaml.Node) { x.Name, at = r.text(n, "name"), n }
		r.fields(n, "a relation", fields)
		r.addRelation(to, x, at)
	})
}

// mappedResources reads the resources of the map dialect, in order of name.
func (r *policyReader) mappedResources(n *yaml.Node) {
	r.entries(n, "resources", func(key, n *yaml.Node) {
		res := Resource{Name: key.Value}
		r.fields(n, "a resource", map[string]func(*yaml.Node){
			"doc":       r.textTo(&res.Description, "doc"),
			"relations": func(n *yaml.Node) { r.mappedRelations(n, &res.Relations) },
			"permissions": func(n *yaml.Node) {
				r.entries(n, "permissions", func(key, n *yaml.Node) {
					p := Permission{Name: key.Value}
					r.fields(n, "a permission", map[string]func(*yaml.Node){
						"doc":  r.textTo(&p.Doc, "doc"),
						"expr": r.expressionTo(&p),
					})
					r.addPermission(&res, p, key)
				})
			},
		})
		if res.relation(ownerRelation) == nil {
			r.fail(key, ErrMissing, "resource %q has no relation owner", res.Name)
		}
		r.addResource(res, key)
	})
	slices.SortFunc(r.p.Resources, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
}

func (r *policyReader) mappedRelations(n *yaml.Node, to *[]Relation) {
	r.entries(n, "relations", func(key, n *yaml.Node) {
		x := Relation{Name: key.Value}
		r.fields(n, "a relation", r.relationFields(&x))
		r.addRelation(to, x, key)
	})
}

func (r *policyReader) relationFields(x *Relation) map[string]func(*yaml.Node) {
	return map[string]func(*yaml.Node){
		"doc":     r.textTo(&x.Doc, "doc"),
		"manages": r.textsTo(&x.Manages, "manages"),
		"types":   r.subjectTypes(&x.Types),
	}
}

func (r *policyReader) addResource(res Resource, at *yaml.Node) {
	switch {
	case res.Name == r.p.Actor.Name || res.Name == actorName:
		r.fail(at, ErrReserved, "a resource cannot be named %q", res.Name)
	case r.p.resource(res.Name) != nil:
		r.fail(at, ErrDuplicate, "resource %q is defined twice", res.Name)
	case res.Name != "" && !r.name(at, res.Name, "resource", resourceBytesMax):
	default:
		r.p.Resources = append(r.p.Resources, res)
	}
}

func (r *policyReader) addRelation(to *[]Relation, x Relation, at *yaml.Node) {
	x.line, x.column = at.Line, at.Column
	switch {
	case !r.name(at, x.Name, "relation", NameBytesMax):
	case x.Name == ownerRelation && r.p.Dialect == DialectList:
		r.fail(at, ErrReserved, "the relation owner exists in every resource and cannot be defined")
	case slices.ContainsFunc(*to, func(y Relation) bool { return y.Name == x.Name }):
		r.fail(at, ErrDuplicate, "relation %q is defined twice", x.Name)
	default:
		*to = append(*to, x)
	}
}

func (r *policyReader) addPermission(res *Resource, p Permission, at *yaml.Node) {
	if !r.name(at, p.Name, "permission", NameBytesMax) {
		return
	}
	if res.permission(p.Name) != nil {
		r.fail(at, ErrDuplicate, "permission %q is defined twice", p.Name)
		return
	}
	if p.Name == ownerRelation {
		r.fail(at, ErrReserved, "a permission cannot be named owner")
		return
	}
	r.parse(&p, at)
	res.Permissions = append(res.Permissions, p)
}

// name checks the syntax of a name and reports whether it is valid. A name cannot
// contain characters that separate names in a store or mark the engine's own.
func (r *policyReader) name(at *yaml.Node, name, what string, bytesMax int) bool {
	switch {
	case name == "":
		r.fail(at, ErrMissing, "a %s has no name", what)
	case len(name) > bytesMax:
		r.fail(at, ErrName, "the name of a %s has %d bytes, expected at most %d", what, len(name), bytesMax)
	case strings.ContainsAny(name, ":#@/*~>") || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f || c == 0xfffd }):
		r.fail(at, ErrName, "%s %q: a name cannot contain a blank, a control character or any of :#@/*~>", what, name)
	default:
		return true
	}
	return false
}
