package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// shaky is a world over a driver whose operations fail, with nothing in memory. Its
// schemas are at revisions 1 and 4.
type shaky struct {
	*world
	tokens []authz.Token // by revision
	infos  []authz.SchemaInfo
	cursor string // after the first change between revisions 2 and 5
}

func (x *shaky) difference(cursor string) authz.DifferenceRequest {
	return authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "doc", Relation: "viewer", SubjectType: "user"},
		From: authz.AtRevision(2), To: authz.AtRevision(5), Limit: 1, Cursor: cursor, Context: expr.Values{"ip": "home"}}
}

func newShaky(t *testing.T, d *failing.Driver) *shaky {
	t.Helper()
	x := &shaky{world: newWorldOn(t, d, 1, authz.Bounds{PastViews: 1}), tokens: make([]authz.Token, 1)}
	note := func() { x.tokens = append(x.tokens, x.timeline.Token(x.timeline.Loaded().Head)) }
	current, _ := x.timeline.Loaded().CurrentSchema("")
	note()
	x.write(authz.WriteRequest{Add: tuples(t, "doc:1#viewer@group:1#member", "doc:2#viewer@group:1#member", "group:1#member@user:u1")})
	note()
	x.write(authz.WriteRequest{Add: tuples(t, "group:1#member@group:2#member", "group:2#member@user:u2 with near")})
	note()
	second := model()
	second.Types[3].Relations = append(second.Types[3].Relations, second.Types[3].Relations[6])
	second.Types[3].Relations[7].Name = "staff2"
	x.infos = []authz.SchemaInfo{current, x.writeSchema(second)}
	note()
	x.write(authz.WriteRequest{Add: tuples(t, "folder:1#viewer@user:u0", "doc:1#parent@folder:1"), Remove: []rel.Key{tuples(t, "group:1#member@user:u1")[0].Key()}})
	note()
	r := x.difference("")
	x.cursor = must(x.comparer.Difference(t.Context(), &r))(t).Next
	info := must(d.Store(t.Context(), x.timeline.ID))(t)
	x.runtime.Close()
	x.open(d, info, authz.Bounds{PastViews: 1})
	return x
}

func (x *shaky) differenceText(r authz.DifferenceRequest) (string, error) {
	page, err := x.comparer.Difference(context.Background(), &r)
	return fmt.Sprintf("%v %v %v %v", outcomes(&r.PermissionSelector, page.Changes), page.UnknownCount, page.Next == "", page.Checked), err
}

func (x *shaky) whatIfText(r authz.WhatIfRequest) (string, error) {
	for _, s := range users {
		q := authz.CheckRequest{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: s}}
		q.SchemaID = x.infos[0].ID
		r.Questions = append(r.Questions, q)
		q.SchemaID = ""
		r.Questions = append(r.Questions, q)
	}
	got, err := x.comparer.WhatIf(context.Background(), &r)
	out := fmt.Sprint(got.Gained, got.Lost, got.Other, got.Partial)
	for _, item := range got.Items {
		err = cmp.Or(err, item.Before.Err, item.After.Err)
		out += fmt.Sprint(" ", item.Before.Decision, item.After.Decision)
	}
	return out, err
}

// TestStorageFails makes each operation of the driver fail in turn, in each call. See
// failing.Each for what must hold.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	changes := authz.WriteRequest{Add: tuples(t, "doc:1#viewer@user:nobody"), RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: "group"}}},
		SetAttributes: []rel.Attribute{{Object: rel.Object{Type: "doc", ID: "2"}, Name: "open", Value: "true"}}}
	for name, call := range map[string]func(x *shaky) (string, error){
		"difference": func(x *shaky) (string, error) { return x.differenceText(x.difference("")) },
		"next page":  func(x *shaky) (string, error) { return x.differenceText(x.difference(x.cursor)) },
		"difference to the newest": func(x *shaky) (string, error) {
			r := x.difference("")
			r.To, r.Limit = authz.Consistency{}, 10
			return x.differenceText(r)
		},
		"difference of tokens": func(x *shaky) (string, error) {
			r := x.difference("")
			r.From, r.To = authz.AtExactly(x.tokens[2]), authz.AtExactly(x.tokens[3])
			return x.differenceText(r)
		},
		"difference under one schema": func(x *shaky) (string, error) {
			r := x.difference("")
			r.SchemaID, r.Limit = x.infos[0].ID, 10
			return x.differenceText(r)
		},
		"what if": func(x *shaky) (string, error) { return x.whatIfText(authz.WhatIfRequest{Changes: changes}) },
		"what if with a model": func(x *shaky) (string, error) {
			return x.whatIfText(authz.WhatIfRequest{Changes: changes, Model: model()})
		},
		"what if with a stored schema": func(x *shaky) (string, error) {
			return x.whatIfText(authz.WhatIfRequest{Changes: changes, SchemaID: x.infos[0].ID})
		},
		"what if in the past": func(x *shaky) (string, error) {
			return x.whatIfText(authz.WhatIfRequest{Changes: changes, Consistency: authz.AtRevision(2)})
		},
		"entitlements": func(x *shaky) (string, error) {
			r := authz.EntitlementsRequest{Subject: rel.Subject{Type: "user", ID: "u2"}, Objects: []rel.Object{{Type: "doc", ID: "1"}, {Type: "group", ID: "2"}}}
			r.Consistency = authz.AtRevision(3)
			got, err := x.comparer.Entitlements(context.Background(), &r)
			for i := range got.Objects {
				err = errors.Join(err, got.Objects[i].Err)
			}
			return fmt.Sprint(got.Objects), err
		},
		"watch": func(x *shaky) (string, error) {
			for u, err := range x.comparer.WatchPermission(context.Background(), &authz.WatchPermissionRequest{PermissionSelector: first, After: x.tokens[2]}) {
				return fmt.Sprint(outcomes(&first, u.Changes), u.UnknownCount, u.Revision), err
			}
			return "", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failing.Each(t, func(t *testing.T, d *failing.Driver) failing.Scenario {
				x := newShaky(t, d)
				return failing.Scenario{Call: func() (string, error) { return call(x) }, Optional: []failing.Operation{failing.CloseState}}
			})
		})
	}
}
