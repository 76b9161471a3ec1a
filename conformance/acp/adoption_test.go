package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cosmos/gogoproto/types"
	"github.com/sourcenetwork/acp_core/pkg/auth"
	core "github.com/sourcenetwork/acp_core/pkg/types"

	"github.com/ostiary/ostiary/acp"
)

// pair is an engine of ours and one of acp_core with the same policies.
type pair struct {
	t      *testing.T
	ours   *acp.Engine
	theirs *original
}

func newPair(t *testing.T) *pair {
	t.Helper()
	theirs, err := newOriginal()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := acp.Open(context.Background(), acp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return &pair{t, ours, theirs}
}

// same fails the test unless both succeeded, or both failed with a kind in common.
func (p *pair) same(what string, err, err2 error) {
	p.t.Helper()
	if kind := theirKind(err2); !slices.Contains(ourKinds(err), kind) {
		p.t.Errorf("%s: ours %v %v, theirs %s: %v", what, ourKinds(err), err, kind, err2)
	}
}

// create creates a policy as the first actor in both. It returns the id, or "" if
// both refuse it.
func (p *pair) create(text, specification string) string {
	p.t.Helper()
	ctx, _ := as(actors[0])
	rec, err := p.ours.CreatePolicy(ctx, actors[0], acp.PolicySource{Text: text, Specification: specification})
	required := map[string]core.PolicySpecificationType{"none": core.PolicySpecificationType_NO_SPEC, "defra": core.PolicySpecificationType_DEFRA_SPEC}
	r, err2 := p.theirs.e.CreatePolicyWithSpecification(ctx, &core.CreatePolicyWithSpecificationRequest{Policy: text,
		MarshalType: core.PolicyMarshalingType_YAML, RequiredSpec: required[specification]})
	p.same("create with "+specification+"\n"+text, err, err2)
	if err != nil || err2 != nil {
		return ""
	}
	if rec.ID != r.Record.Policy.Id {
		p.t.Errorf("ours has the id %s, theirs %s", rec.ID, r.Record.Policy.Id)
	}
	for _, res := range r.Record.Policy.Resources {
		for _, x := range res.Permissions {
			if got, err := rec.EffectiveExpression(res.Name, x.Name); err != nil || got != x.EffectiveExpression {
				p.t.Errorf("effective expression of %s.%s = %q: ours %q %v, theirs %q", res.Name, x.Name, x.Expression, got, err, x.EffectiveExpression)
			}
		}
	}
	return rec.ID
}

// TestSpecifications creates policies with a required specification and compares
// what is accepted and the effective expressions.
func TestSpecifications(t *testing.T) {
	p := newPair(t)
	body := "name: p\nresources:\n- name: d\n  relations: [{name: r, types: [actor, d]}, {name: s, types: [actor]}]\n  permissions:\n"
	for _, expr := range []string{"", "r", "r + s", "r + s + r", "(r + s) - r", "r - s & (r + s)", "r->read + s", "  r  +s ", "()", "(r)"} {
		text := body + "  - {name: read, expr: '" + expr + "'}\n  - {name: write, expr: 's'}\n"
		for _, spec := range []string{"", "spec: defra\n", "spec: none\n", "spec: other\n"} {
			for _, required := range []string{"none", "defra"} {
				p.create(spec+text, required)
			}
		}
	}
	p.create("name: p\nresources: [{name: d}]\n", "defra")
	p.create("name: p\nresources: [{name: d}]\n", "none")
}

// TestKinds compares the kinds of errors of calls that name things which the policy
// lacks, and of registrations with special ids and times.
func TestKinds(t *testing.T) {
	p := newPair(t)
	id := p.create("name: p\nresources:\n- name: d\n  relations: [{name: r, types: [actor, d->r]}]\n  permissions: [{name: read, expr: r}]\n", "none")
	ctx, err := as(actors[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"1", "a b", "a#b", "*", "a:b", "%", "", "é", "\ufffd"} {
		o := acp.Object{Policy: id, Resource: "d", ID: s}
		_, err2 := p.theirs.e.RegisterObject(ctx, &core.RegisterObjectRequest{PolicyId: id, Object: object(o)})
		err := p.ours.Register(ctx, actors[0], o)
		p.same(fmt.Sprintf("register %q", s), err, err2)
		if err != nil {
			continue
		}
		for _, actor := range actors {
			ours, err := p.ours.Check(ctx, actor, "read", o)
			theirs, err2 := p.theirs.check(actor, "read", o)
			if p.same(fmt.Sprintf("check %q", s), err, err2); ours != theirs {
				t.Errorf("check %q of %s: ours %v, theirs %v", s, actor, ours, theirs)
			}
		}
	}
	o := acp.Object{Policy: id, Resource: "d", ID: "1"}
	for _, x := range []acp.Relationship{
		{Object: o, Relation: "none", Subject: acp.ActorSubject(actors[1])},
		{Object: o, Relation: "read", Subject: acp.ActorSubject(actors[1])},
		{Object: acp.Object{Policy: id, Resource: "none", ID: "1"}, Relation: "r", Subject: acp.ActorSubject(actors[1])},
		{Object: acp.Object{Policy: id, Resource: "d", ID: "9"}, Relation: "r", Subject: acp.ActorSubject(actors[1])},
	} {
		_, err := p.ours.SetRelationship(ctx, actors[0], x)
		_, err2 := p.theirs.e.SetRelationship(ctx, &core.SetRelationshipRequest{PolicyId: id, Relationship: relationship(x)})
		p.same("set "+x.String(), err, err2)
		_, err = p.ours.DeleteRelationship(ctx, actors[0], x)
		_, err2 = p.theirs.e.DeleteRelationship(ctx, &core.DeleteRelationshipRequest{PolicyId: id, Relationship: relationship(x)})
		p.same("delete "+x.String(), err, err2)
	}
	root := auth.InjectPrincipal(context.Background(), core.RootPrincipal())
	for name, at := range map[string]time.Time{"yesterday": time.Now().Add(-24 * time.Hour), "zero": {}, "tomorrow": time.Now().Add(24 * time.Hour)} {
		for _, s := range []string{"1", "none"} {
			o := acp.Object{Policy: id, Resource: "d", ID: s}
			stamp := &types.Timestamp{Seconds: at.Unix()}
			if at.IsZero() {
				stamp = nil
			}
			_, err2 := p.theirs.e.AmendRegistration(root, &core.AmendRegistrationRequest{PolicyId: id, Object: object(o),
				NewOwner: &core.Actor{Id: actors[1]}, NewCreationTs: stamp})
			err := p.ours.Root().AmendRegistration(ctx, o, actors[1], at)
			if name == "tomorrow" && s == "1" {
				// The original accepts it. Ours refuses: an owner since tomorrow is not the owner today.
				if !errors.Is(err, acp.ErrInvalidTime) || err2 != nil {
					t.Errorf("amend to tomorrow: ours %v, theirs %v, want a refusal of ours only", err, err2)
				}
				continue
			}
			p.same("amend "+s+" to "+name, err, err2)
		}
	}
}

// TestRoot creates, edits and deletes policies as the root.
func TestRoot(t *testing.T) {
	p := newPair(t)
	const text = "name: p\nresources: [{name: d}]\n"
	ctx, root := context.Background(), auth.InjectPrincipal(context.Background(), core.RootPrincipal())
	rec, err := p.ours.Root().CreatePolicy(ctx, acp.PolicySource{Text: text})
	r, err2 := p.theirs.e.CreatePolicy(root, &core.CreatePolicyRequest{Policy: text, MarshalType: core.PolicyMarshalingType_YAML})
	p.same("create", err, err2)
	if err != nil || err2 != nil {
		return
	}
	if rec.ID != r.Record.Policy.Id {
		t.Errorf("ours has the id %s, theirs %s", rec.ID, r.Record.Policy.Id)
	}
	theirs := p.create(text, "none")
	for _, id := range []string{rec.ID, theirs} {
		_, err = p.ours.Root().EditPolicy(ctx, id, acp.PolicySource{Text: text})
		_, err2 = p.theirs.e.EditPolicy(root, &core.EditPolicyRequest{PolicyId: id, Policy: text, MarshalType: core.PolicyMarshalingType_YAML})
		p.same("edit", err, err2)
		asActor, _ := as(actors[1])
		_, err = p.ours.EditPolicy(ctx, actors[1], id, acp.PolicySource{Text: text})
		_, err2 = p.theirs.e.EditPolicy(asActor, &core.EditPolicyRequest{PolicyId: id, Policy: text, MarshalType: core.PolicyMarshalingType_YAML})
		p.same("edit by another", err, err2)
	}
	for _, id := range []string{rec.ID, theirs} {
		_, err2 = p.theirs.e.DeletePolicy(root, &core.DeletePolicyRequest{Id: id})
		p.same("delete", p.ours.Root().DeletePolicy(ctx, id), err2)
	}
}
