package acp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/acp"
)

// world makes random policies and operations. Resources, ids and relations are
// of different letters, so that the original's keys do not collide.
type world struct {
	rnd       *rand.Rand
	resources []resource
}

type resource struct {
	name        string
	relations   []relation
	permissions []string
	text        string
}

type relation struct {
	name  string
	types []acp.SubjectType
}

var actors = []string{
	"did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
	"did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw",
	"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
}

func (w *world) one(n int) bool { return w.rnd.IntN(n) == 0 }

func pick[T any](w *world, list []T) T { return list[w.rnd.IntN(len(list))] }

// policy makes a policy's text.
func (w *world) policy() string {
	names := []string{"doc", "dir", "grp"}[:1+w.rnd.IntN(3)]
	for i, n := range names {
		r := resource{name: n}
		for j := range 1 + w.rnd.IntN(4) {
			r.relations = append(r.relations, relation{name: fmt.Sprintf("%c%c", 'a'+byte(j), 'v'+byte(i))})
		}
		for j := range w.rnd.IntN(5) {
			r.permissions = append(r.permissions, fmt.Sprintf("p%c%c", 'a'+byte(j), 'v'+byte(i)))
		}
		w.resources = append(w.resources, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name: w%d\nresources:\n", w.rnd.IntN(1000))
	for i := range w.resources {
		r := &w.resources[i]
		fmt.Fprintf(&b, "- name: %s\n  relations:\n", r.name)
		for j := range r.relations {
			w.relation(&b, r, &r.relations[j])
		}
		if len(r.permissions) > 0 {
			b.WriteString("  permissions:\n")
		}
		for j, p := range r.permissions {
			fmt.Fprintf(&b, "  - name: %s\n    expr: %s\n", p, w.expression(r, j, 0))
		}
	}
	return b.String()
}

func (w *world) relation(b *strings.Builder, r *resource, x *relation) {
	fmt.Fprintf(b, "  - name: %s\n    types: [", x.name)
	add := func(t acp.SubjectType) {
		if !slices.Contains(x.types, t) {
			x.types = append(x.types, t)
		}
	}
	if !w.one(4) {
		add(acp.SubjectType{Resource: "actor"})
	}
	for range w.rnd.IntN(3) {
		to := pick(w, w.resources)
		switch {
		case w.one(2):
			add(acp.SubjectType{Resource: to.name})
		case len(to.permissions) > 0 && w.one(3):
			add(acp.SubjectType{Resource: to.name, Relation: pick(w, to.permissions)})
		default:
			add(acp.SubjectType{Resource: to.name, Relation: pick(w, to.relations).name})
		}
	}
	var texts []string
	for _, t := range x.types {
		texts = append(texts, t.String())
	}
	fmt.Fprintf(b, "%s]\n", strings.Join(texts, ", "))
	if w.one(3) {
		fmt.Fprintf(b, "    manages: [%s]\n", pick(w, r.relations).name)
	}
}

// expression makes the expression of the n-th permission; one in twelve names
// goes to any permission, so that there are cycles.
func (w *world) expression(r *resource, n, depth int) string {
	var b strings.Builder
	for i := range 1 + w.rnd.IntN(3) {
		if i > 0 {
			b.WriteString(pick(w, []string{" + ", " + ", " - ", " & "}))
		}
		switch {
		case depth < 2 && w.one(5):
			b.WriteString("(" + w.expression(r, n, depth+1) + ")")
		case w.one(4):
			to := pick(w, w.resources)
			target := "owner"
			if all := append(slices.Clone(to.permissions), pick(w, to.relations).name); !w.one(5) {
				target = pick(w, all)
			}
			b.WriteString(pick(w, r.relations).name + "->" + target)
		case n > 0 && w.one(3):
			b.WriteString(r.permissions[w.rnd.IntN(n)])
		case len(r.permissions) > 0 && w.one(12):
			b.WriteString(pick(w, r.permissions))
		default:
			b.WriteString(pick(w, r.relations).name)
		}
	}
	return b.String()
}

func (w *world) object(policy string) (acp.Object, *resource) {
	r := &w.resources[w.rnd.IntN(len(w.resources))]
	return acp.Object{Policy: policy, Resource: r.name, ID: fmt.Sprint(1 + w.rnd.IntN(3))}, r
}

// relationship makes one that the policy mostly admits.
func (w *world) relationship(policy string) acp.Relationship {
	o, r := w.object(policy)
	x := pick(w, r.relations)
	out := acp.Relationship{Object: o, Relation: x.name}
	if len(x.types) == 0 || w.one(10) {
		out.Subject = acp.ActorSubject(pick(w, actors))
		return out
	}
	t := pick(w, x.types)
	switch {
	case t.Resource == "actor" && w.one(5):
		out.Subject = acp.ActorSubject(acp.AllActors)
	case t.Resource == "actor":
		out.Subject = acp.ActorSubject(pick(w, actors))
	default:
		out.Subject = acp.Subject{Resource: t.Resource, ID: fmt.Sprint(1 + w.rnd.IntN(3)), Relation: t.Relation}
	}
	return out
}
