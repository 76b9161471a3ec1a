package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// projects returns a model with the shape of a typical application: a project has
// 54 relations, one for each permission, and most of them also follow from a role.
func projects() *schema.Model {
	who := []schema.SubjectType{{Type: "identity"}, {Type: "group", Relation: "member"}}
	role := func(name string, also ...schema.Rewrite) schema.RelationDef {
		return schema.RelationDef{Name: name, Subjects: who, Rewrite: schema.Union(append([]schema.Rewrite{schema.Direct()}, also...)...)}
	}
	server := schema.TypeDef{Name: "server", Relations: []schema.RelationDef{role("admin", schema.Computed("admin_of_all")), role("admin_of_all")}}
	project := schema.TypeDef{Name: "project", Relations: []schema.RelationDef{
		{Name: "server", Subjects: []schema.SubjectType{{Type: "server"}}, Rewrite: schema.Direct()},
		role("operator", schema.Arrow("server", "admin")),
		role("viewer", schema.Computed("operator")),
	}}
	for i := range 17 {
		edit, view := fmt.Sprint("can_edit_", i), fmt.Sprint("can_view_", i)
		project.Relations = append(project.Relations, role(edit, schema.Computed("operator")),
			role(view, schema.Computed(edit), schema.Computed("viewer")),
			role(fmt.Sprint("can_delete_", i), schema.Computed(edit)))
	}
	return &schema.Model{Types: []schema.TypeDef{{Name: "identity"},
		{Name: "group", Relations: []schema.RelationDef{{Name: "member", Subjects: who[:1], Rewrite: schema.Direct()}}}, server, project}}
}

// entitled creates ten projects and gives bob one role in each. It returns a
// request for all of them.
func entitled(t testing.TB, s *ostiary.Store) authz.EntitlementsRequest {
	t.Helper()
	r := authz.EntitlementsRequest{Subject: rel.Subject{Type: "identity", ID: "bob"}}
	w := authz.WriteRequest{Add: tups(t, "group:staff#member@identity:bob", "server:one#admin@identity:root")}
	for i := range 10 {
		p := rel.Object{Type: "project", ID: fmt.Sprint("p", i)}
		r.Objects = append(r.Objects, p)
		w.Add = append(w.Add, tup(t, p.String()+"#server@server:one"), tup(t, fmt.Sprintf("%s#can_edit_%d@group:staff#member", p, i)))
	}
	must(s.Write(context.Background(), w))(t)
	return r
}

func TestEntitlements(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{}), projects())
	r := entitled(t, s)
	r.Objects = append(r.Objects, rel.Object{Type: "nothing", ID: "x"}, rel.Object{Type: "group", ID: "staff"})
	got := must(s.Entitlements(ctx, r))(t)
	if want := []string{"can_edit_3", "can_view_3", "can_delete_3"}; !slices.Equal(got.Objects[3].Relations, want) {
		t.Errorf("got %v, want the relations %v", got.Objects[3], want)
	}
	wantKind(t, got.Objects[10].Err, authz.ErrNoType)
	if !slices.Equal(got.Objects[11].Relations, []string{"member"}) || got.Revision != 2 {
		t.Errorf("got %v at revision %d, want member at revision 2", got.Objects[11], got.Revision)
	}
	r.Tuples = tups(t, "project:p3#operator@identity:bob")
	if n := len(must(s.Entitlements(ctx, r))(t).Objects[3].Relations); n != 53 {
		t.Errorf("an operator has %d relations, want 53", n)
	}
	r.Relations, r.Tuples = []string{"operator", "none"}, nil
	wantKind(t, must(s.Entitlements(ctx, r))(t).Objects[0].Err, authz.ErrNoRelation)
	r.Consistency = authz.AtRevision(1)
	if got := must(s.Entitlements(ctx, r))(t); got.Revision != 1 {
		t.Errorf("answered at revision %d, want 1", got.Revision)
	}
	r.Consistency = authz.AtRevision(3)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := s.Entitlements(ended, r)
	wantKind(t, err, authz.ErrFuture)
}

// TestEntitlementsAsChecks holds entitlements against checks one by one, with
// conditions, contextual tuples and permissions.
func TestEntitlementsAsChecks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	model := documents()
	model.Conditions = []expr.Definition{{Name: "near", Params: []expr.Param{{Name: "ip", Type: expr.Type{Kind: expr.String}}}, Source: `ip == "home"`}}
	document := &model.Types[3]
	document.Relations[1].Subjects = append(document.Relations[1].Subjects, schema.SubjectType{Type: "user", Condition: "near"})
	document.Relations = append(document.Relations, schema.RelationDef{Name: "reader", Rewrite: schema.Computed("viewer")})
	s := newStore(t, newEngine(t, ostiary.Options{Conditions: cel.New(cel.Options{})}), model)
	must(s.Write(ctx, authz.WriteRequest{Add: tups(t, "document:1#owner@user:u0 with near", "document:2#viewer@user:*",
		"document:3#parent@folder:f", "folder:f#viewer@group:g#member", "group:g#member@user:u1")}))(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r := authz.EntitlementsRequest{Subject: rel.Subject{Type: "user", ID: fmt.Sprint("u", rng.IntN(3))}, Permissions: rng.IntN(2) == 0}
		for range 1 + rng.IntN(4) {
			r.Objects = append(r.Objects, rel.Object{Type: "document", ID: fmt.Sprint(rng.IntN(4))})
		}
		if rng.IntN(2) == 0 {
			r.Tuples = tups(t, "group:g#member@user:u2", "document:3#owner@user:u0")
		}
		if rng.IntN(2) == 0 {
			r.Context = expr.Values{"ip": []string{"home", "away"}[rng.IntN(2)]}
		}
		names := []string{"parent", "owner", "viewer", "reader"}
		if r.Permissions {
			names = names[3:]
		}
		got := must(s.Entitlements(ctx, r))(t)
		for i, o := range got.Objects {
			var yes, open []string
			for _, n := range names {
				c := must(s.Check(ctx, authz.CheckRequest{Object: r.Objects[i], Relation: n, Subject: r.Subject, QueryOptions: r.QueryOptions}))(t)
				switch c.Decision {
				case expr.True:
					yes = append(yes, n)
				case expr.Unknown:
					open = append(open, n+c.Reasons.String())
				}
			}
			var unknown []string
			for _, u := range o.Unknown {
				unknown = append(unknown, u.Relation+u.Reasons.String())
			}
			if !slices.Equal(o.Relations, yes) || !slices.Equal(unknown, open) || o.Err != nil {
				t.Fatalf("request %+v: got %v, unknown %v; single checks give %v, unknown %v", r, o.Relations, unknown, yes, open)
			}
		}
	}
}

func TestEntitlementsBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := newStore(t, newEngine(t, ostiary.Options{Bounds: authz.Bounds{BatchItems: 540}}), projects())
	r := entitled(t, s)
	if got := must(s.Entitlements(ctx, r))(t); len(got.Objects) != 10 {
		t.Errorf("got %d objects, want 10", len(got.Objects))
	}
	r.Objects = append(r.Objects, rel.Object{Type: "group", ID: "staff"})
	_, err := s.Entitlements(ctx, r)
	wantKind(t, err, authz.ErrBound)
	r.Objects, r.Relations = r.Objects[:10], make([]string, 55)
	_, err = s.Entitlements(ctx, r)
	wantKind(t, err, authz.ErrBound)
}

// BenchmarkEntitlements asks about 10 projects × 54 relations: in one call, and as
// a batch of checks.
func BenchmarkEntitlements(b *testing.B) {
	ctx := context.Background()
	s := newStore(b, newEngine(b, ostiary.Options{}), projects())
	r := entitled(b, s)
	b.Run("one call", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if got, err := s.Entitlements(ctx, r); err != nil || len(got.Objects[3].Relations) != 3 {
				b.Fatal(got, err)
			}
		}
	})
	b.Run("batch", func(b *testing.B) {
		var names []string
		for _, rd := range projects().Types[3].Relations {
			names = append(names, rd.Name)
		}
		var requests []authz.CheckRequest
		for _, o := range r.Objects {
			for _, name := range names {
				requests = append(requests, authz.CheckRequest{Object: o, Relation: name, Subject: r.Subject})
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.CheckBatch(ctx, requests, authz.Consistency{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
