package acp

import (
	"context"
	"errors"
	"slices"
	"testing"

	core "github.com/sourcenetwork/acp_core/pkg/types"

	"github.com/ostiary/ostiary/acp"
)

// selector translates a filter for the original.
func selector(f acp.RelationshipFilter) *core.RelationshipSelector {
	o := &core.ObjectSelector{Selector: &core.ObjectSelector_Wildcard{Wildcard: &core.WildcardSelector{}}}
	switch {
	case f.ID != "":
		o.Selector = &core.ObjectSelector_Object{Object: &core.Object{Resource: f.Resource, Id: f.ID}}
	case f.Resource != "":
		o.Selector = &core.ObjectSelector_ResourcePredicate{ResourcePredicate: f.Resource}
	}
	r := &core.RelationSelector{Selector: &core.RelationSelector_Wildcard{Wildcard: &core.WildcardSelector{}}}
	if f.Relation != "" {
		r.Selector = &core.RelationSelector_Relation{Relation: f.Relation}
	}
	s := &core.SubjectSelector{Selector: &core.SubjectSelector_Wildcard{Wildcard: &core.WildcardSelector{}}}
	if f.Subject != (acp.Subject{}) {
		s.Selector = &core.SubjectSelector_Subject{Subject: subject(f.Subject)}
	}
	return &core.RelationshipSelector{ObjectSelector: o, RelationSelector: r, SubjectSelector: s}
}

// TestFilters compares which filters are bad input, and what the others select.
// Ours refuses each filter that can select nothing. The original refuses some of
// them, with a kind that may be lost, and finds nothing for others. It also looks for
// the relation of a subject set among the resources, so it refuses every set.
func TestFilters(t *testing.T) {
	p := newPair(t)
	id := p.create("name: p\nresources:\n- name: d\n  relations: [{name: r, types: [actor, g->m, d]}]\n  permissions: [{name: read, expr: r}]\n- name: g\n  relations: [{name: m, types: [actor]}]\n", "none")
	ctx, err := as(actors[0])
	if err != nil {
		t.Fatal(err)
	}
	o := acp.Object{Policy: id, Resource: "d", ID: "a b"}
	_, err2 := p.theirs.e.RegisterObject(ctx, &core.RegisterObjectRequest{PolicyId: id, Object: object(o)})
	p.same("register", p.ours.Register(ctx, actors[0], o), err2)
	group := acp.Subject{Resource: "g", ID: "x y", Relation: "m"}
	for _, s := range []acp.Subject{acp.ActorSubject(actors[1]), acp.ActorSubject(acp.AllActors), group, {Resource: "d", ID: "2"}} {
		x := acp.Relationship{Object: o, Relation: "r", Subject: s}
		_, err := p.ours.SetRelationship(ctx, actors[0], x)
		_, err2 := p.theirs.e.SetRelationship(ctx, &core.SetRelationshipRequest{PolicyId: id, Relationship: relationship(x)})
		p.same("set "+x.String(), err, err2)
	}
	for _, f := range []acp.RelationshipFilter{
		{}, {Resource: "d"}, {Resource: "d", ID: "a b"}, {Resource: "d", ID: "9"}, {Relation: "r"}, {Relation: "owner"},
		{Resource: "d", Relation: "r"}, {Subject: acp.ActorSubject(actors[1])}, {Subject: acp.ActorSubject(acp.AllActors)}, {Subject: group},
		{Subject: acp.Subject{Resource: "d", ID: "2"}}, {Resource: "d", ID: "a b", Relation: "r", Subject: group},
		{Resource: "none"}, {Resource: "none", ID: "1"}, {Resource: "d", Relation: "none"}, {Resource: "d", Relation: "read"}, {Relation: "none"},
		{Resource: "d", ID: "a b", Relation: "none"}, {Subject: acp.ActorSubject("nodid")}, {Subject: acp.Subject{Resource: "none", ID: "1"}},
		{Subject: acp.Subject{Resource: "g", ID: "1", Relation: "none"}},
	} {
		var ours, theirs []string
		var err error
		for x, e := range p.ours.FilterRelationships(context.Background(), id, f) {
			if err = e; err == nil {
				ours = append(ours, x.String())
			}
		}
		r, err2 := p.theirs.e.FilterRelationships(context.Background(), &core.FilterRelationshipsRequest{PolicyId: id, Selector: selector(f)})
		for _, x := range r.GetRecords() {
			theirs = append(theirs, ourRelationship(id, x.Relationship).String())
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		switch kind := theirKind(err2); {
		case errors.Is(err, acp.ErrInput) && len(theirs) == 0:
		case f.Subject.Relation != "" && kind == "UNKNOWN" && err == nil:
		case !slices.Contains(ourKinds(err), kind) || !slices.Equal(ours, theirs):
			t.Errorf("filter %+v: ours %q %v %v, theirs %q %s %v", f, ours, ourKinds(err), err, theirs, kind, err2)
		}
	}
}

// ourRelationship translates a relationship of the original.
func ourRelationship(policy string, x *core.Relationship) acp.Relationship {
	out := acp.Relationship{Object: acp.Object{Policy: policy, Resource: x.Object.Resource, ID: x.Object.Id}, Relation: x.Relation}
	switch s := x.Subject.Subject.(type) {
	case *core.Subject_Actor:
		out.Subject.Actor = s.Actor.Id
	case *core.Subject_AllActors:
		out.Subject.Actor = acp.AllActors
	case *core.Subject_ActorSet:
		out.Subject = acp.Subject{Resource: s.ActorSet.Object.Resource, ID: s.ActorSet.Object.Id, Relation: s.ActorSet.Relation}
	case *core.Subject_Object:
		out.Subject = acp.Subject{Resource: s.Object.Resource, ID: s.Object.Id}
	}
	return out
}
