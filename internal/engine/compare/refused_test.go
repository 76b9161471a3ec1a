package compare

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage/memory"
)

// refusedWorld has the model at revision 1, two tuples at revision 2 and one at
// revision 3.
func refusedWorld(t *testing.T, b authz.Bounds) *world {
	t.Helper()
	w := newWorld(t, 1, b)
	w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u1", "doc:2#owner@user:u2")})
	w.write(authz.WriteRequest{Add: tuples(t, "doc:1#viewer@user:u2")})
	return w
}

// schemaID returns the id of the current schema.
func (w *world) schemaID() string {
	info, _ := w.timeline.Loaded().CurrentSchema("")
	return info.ID
}

// wantRefusal checks that an error ends with a text.
func wantRefusal(t *testing.T, err error, operation, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), "ostiary: "+operation+" in store ") || !strings.HasSuffix(err.Error(), ": "+want) {
		t.Errorf("got error %v, expected %s: %s", err, operation, want)
	}
}

// TestProposalsRefused makes what-if requests that are malformed or exceed a bound.
func TestProposalsRefused(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t, authz.Bounds{WhatIfQuestions: 2, WriteTuples: 2})
	only := func(field string) string {
		return "invalid request: the changes of a proposal set " + field + ", expected only tuples and attributes"
	}
	note := []authz.Document{{Kind: "note", Key: "n", Body: []byte("x")}}
	keys := []authz.DocumentKey{{Kind: "note", Key: "n"}}
	near := tuples(t, "doc:1#viewer@user:u1 with near")
	near[0].Context = `{"ip":1}`
	bare := &schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{{Name: "owner", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}}
	attribute := func(typ, name, value string) []rel.Attribute {
		return []rel.Attribute{{Object: rel.Object{Type: typ, ID: "1"}, Name: name, Value: value}}
	}
	for name, c := range map[string]struct {
		request authz.WhatIfRequest
		want    string
	}{
		"too many questions":              {authz.WhatIfRequest{Questions: make([]authz.CheckRequest, 3)}, "bound WhatIfQuestions exceeded: got 3, expected at most 2"},
		"too many tuples":                 {authz.WhatIfRequest{Changes: authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:a", "doc:1#owner@user:b", "doc:1#owner@user:c")}}, "bound WriteTuples exceeded: got 3, expected at most 2"},
		"a model and a schema":            {authz.WhatIfRequest{Model: model(), SchemaID: "x"}, "invalid request: a proposal has both a model and the id of a schema, expected at most one"},
		"documents":                       {authz.WhatIfRequest{Changes: authz.WriteRequest{Documents: note}}, only("Documents")},
		"removals of documents":           {authz.WhatIfRequest{Changes: authz.WriteRequest{RemoveDocuments: keys}}, only("RemoveDocuments")},
		"secrets":                         {authz.WhatIfRequest{Changes: authz.WriteRequest{Secrets: note}}, only("Secrets")},
		"removals of secrets":             {authz.WhatIfRequest{Changes: authz.WriteRequest{RemoveSecrets: keys}}, only("RemoveSecrets")},
		"schemas":                         {authz.WhatIfRequest{Changes: authz.WriteRequest{Schemas: []authz.SchemaSource{{Model: model()}}}}, only("Schemas")},
		"removals of schemas":             {authz.WhatIfRequest{Changes: authz.WriteRequest{RemoveSchemas: []string{"x"}}}, only("RemoveSchemas")},
		"preconditions":                   {authz.WhatIfRequest{Changes: authz.WriteRequest{Preconditions: make([]authz.Precondition, 1)}}, only("Preconditions")},
		"a revision of the write":         {authz.WhatIfRequest{Changes: authz.WriteRequest{After: "x"}}, only("After")},
		"a schema of the write":           {authz.WhatIfRequest{Changes: authz.WriteRequest{SchemaID: "x"}}, only("SchemaID")},
		"a future revision":               {authz.WhatIfRequest{Consistency: authz.AtExactly("x")}, `invalid token "x": expected text that begins with "o1."`},
		"an unknown schema":               {authz.WhatIfRequest{SchemaID: "none"}, `no such schema: "none"`},
		"a tuple without a relation":      {authz.WhatIfRequest{Changes: authz.WriteRequest{Add: tuples(t, "doc:1#ower@user:a")}}, `not admitted by the schema: doc:1#ower@user:a: type doc has no relation "ower" (did you mean "owner"?)`},
		"a tuple of no type":              {authz.WhatIfRequest{Changes: authz.WriteRequest{Add: tuples(t, "dock:1#owner@user:a")}}, `not admitted by the schema: dock:1#owner@user:a: the schema has no type "dock" (did you mean "doc"?)`},
		"a tuple that the model lacks":    {authz.WhatIfRequest{Model: bare, Changes: authz.WriteRequest{Add: tuples(t, "doc:1#viewer@user:a")}}, `not admitted by the schema: doc:1#viewer@user:a: type doc has no relation "viewer"`},
		"a context of another type":       {authz.WhatIfRequest{Changes: authz.WriteRequest{Add: near}}, `not admitted by the schema: doc:1#viewer@user:u1: parameter "ip" of condition near: 1 is not a string`},
		"an attribute of no type":         {authz.WhatIfRequest{Changes: authz.WriteRequest{SetAttributes: attribute("dock", "open", "true")}}, `type not in the schema: dock (did you mean "doc"?)`},
		"an unknown attribute":            {authz.WhatIfRequest{Changes: authz.WriteRequest{SetAttributes: attribute("doc", "opne", "true")}}, `not admitted by the schema: type doc has no attribute "opne"`},
		"an attribute of another type":    {authz.WhatIfRequest{Changes: authz.WriteRequest{SetAttributes: attribute("doc", "open", "3")}}, `not admitted by the schema: invalid value of attribute open of doc:1: expected bool`},
		"an attribute that a model lacks": {authz.WhatIfRequest{Model: bare, Changes: authz.WriteRequest{SetAttributes: attribute("doc", "open", "true")}}, `not admitted by the schema: type doc has no attribute "open"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.comparer.WhatIf(t.Context(), &c.request)
			wantRefusal(t, err, "what if", c.want)
		})
	}
}

// TestDifferencesRefused compares permissions that do not exist, or revisions that cannot be
// compared.
func TestDifferencesRefused(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t, authz.Bounds{PageItems: 10})
	w.setNow(w.now.Add(2 * time.Second)) // after revision 3
	from, to := authz.AtRevision(1), authz.AtRevision(3)
	with := func(change func(r *authz.DifferenceRequest)) authz.DifferenceRequest {
		r := authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "doc", Relation: "viewer", SubjectType: "user"}, From: from, To: to}
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		change func(r *authz.DifferenceRequest)
		want   string
	}{
		"an unknown type":                    {func(r *authz.DifferenceRequest) { r.ObjectType = "dock" }, `type not in the schema: dock (did you mean "doc"?)`},
		"an unknown type under a schema":     {func(r *authz.DifferenceRequest) { r.ObjectType, r.SchemaID = "dock", w.schemaID() }, `type not in the schema: dock (did you mean "doc"?)`},
		"an unknown relation":                {func(r *authz.DifferenceRequest) { r.Relation = "veiwer" }, `relation not in the schema: doc#veiwer (did you mean "viewer"?)`},
		"an unknown type of the subject":     {func(r *authz.DifferenceRequest) { r.SubjectType = "usr" }, `type not in the schema: usr (did you mean "user"?)`},
		"an unknown relation of the subject": {func(r *authz.DifferenceRequest) { r.SubjectType, r.SubjectRelation = "group", "membre" }, `relation not in the schema: group#membre (did you mean "member"?)`},
		"an unknown schema":                  {func(r *authz.DifferenceRequest) { r.SchemaID = "none" }, `no such schema: "none"`},
		"a malformed object":                 {func(r *authz.DifferenceRequest) { r.Objects = []string{"1", ""} }, "invalid name: empty id"},
		"a malformed subject":                {func(r *authz.DifferenceRequest) { r.Subjects = []string{"1", ""} }, "invalid name: empty id"},
		"a page of too many changes":         {func(r *authz.DifferenceRequest) { r.Limit = 11 }, "bound PageItems exceeded: got 11, expected at most 10"},
		"a context that is too large":        {func(r *authz.DifferenceRequest) { r.Context = map[string]any{"ip": strings.Repeat("x", 1<<20)} }, "bound ContextBytes exceeded: got 524289, expected at most 524288"},
		"an earlier revision that is later":  {func(r *authz.DifferenceRequest) { r.From, r.To = to, from }, "invalid request: the difference would go from revision 3 back to revision 1: expected the earlier revision first"},
		"an earlier time that is later": {func(r *authz.DifferenceRequest) {
			r.From, r.To = authz.AtTime(w.now), authz.AtTime(w.now.Add(-time.Second))
		},
			"invalid request: the difference would go from 2026-01-01T00:00:05Z back to 2026-01-01T00:00:04Z: expected the earlier time first"},
		"a malformed token":  {func(r *authz.DifferenceRequest) { r.From = authz.AtExactly("x") }, `invalid token "x": expected text that begins with "o1."`},
		"a malformed cursor": {func(r *authz.DifferenceRequest) { r.Cursor = "x" }, `invalid cursor: expected text that begins with "c1."`},
	} {
		t.Run(name, func(t *testing.T) {
			r := with(c.change)
			_, err := w.comparer.Difference(t.Context(), &r)
			wantRefusal(t, err, "difference", c.want)
		})
	}
}

// TestCursorOfAnotherRequest uses the cursor of a page with each part of the request changed.
// A cursor continues only the request that it comes from. Limit, From and To are no part of it.
func TestCursorOfAnotherRequest(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t, authz.Bounds{})
	request := func() authz.DifferenceRequest {
		return authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "doc", Relation: "viewer", SubjectType: "group", SubjectRelation: "member"}, From: authz.AtRevision(1), Limit: 1}
	}
	w.write(authz.WriteRequest{Add: tuples(t, "doc:1#viewer@group:1#member", "doc:2#viewer@group:2#member")})
	r := request()
	page := must(w.comparer.Difference(t.Context(), &r))(t)
	if page.Next == "" || len(page.Changes) != 1 {
		t.Fatalf("got %+v, expected one change and a cursor", page)
	}
	for name, change := range map[string]func(r *authz.DifferenceRequest){
		"type":                    func(r *authz.DifferenceRequest) { r.ObjectType = "folder" },
		"relation":                func(r *authz.DifferenceRequest) { r.Relation = "reader" },
		"type of the subject":     func(r *authz.DifferenceRequest) { r.SubjectType, r.SubjectRelation = "user", "" },
		"relation of the subject": func(r *authz.DifferenceRequest) { r.SubjectRelation = "" },
		"no objects":              func(r *authz.DifferenceRequest) { r.Objects = []string{} },
		"objects":                 func(r *authz.DifferenceRequest) { r.Objects = []string{"1", "2"} },
		"no subjects":             func(r *authz.DifferenceRequest) { r.Subjects = []string{} },
		"subjects":                func(r *authz.DifferenceRequest) { r.Subjects = []string{"1", "2"} },
		"schema":                  func(r *authz.DifferenceRequest) { r.SchemaID = w.schemaID() },
		"context":                 func(r *authz.DifferenceRequest) { r.Context = map[string]any{"ip": "home"} },
		"bounds":                  func(r *authz.DifferenceRequest) { r.Bounds.Nodes = 10 },
	} {
		r := request()
		r.Cursor = page.Next
		change(&r)
		if _, err := w.comparer.Difference(t.Context(), &r); !errors.Is(err, authz.ErrCursor) {
			t.Errorf("%s: got error %v, expected %v", name, err, authz.ErrCursor)
		}
	}
	r = request()
	r.Cursor, r.Limit, r.From, r.To = page.Next, 5, authz.AtRevision(2), authz.AtRevision(1)
	if next := must(w.comparer.Difference(t.Context(), &r))(t); len(next.Changes) != 1 || next.Changes[0].Object.ID != "1" || next.From != page.From || next.To != page.To {
		t.Errorf("got %+v, expected the rest of %+v", next, page)
	}
	if err := w.timeline.Trim(t.Context(), 3, 3); err != nil {
		t.Fatal(err)
	}
	w.timeline.ClearPast()
	_, err := w.comparer.Difference(t.Context(), &r)
	if !errors.Is(err, authz.ErrTooOld) {
		t.Errorf("got error %v after the past was dropped, expected %v", err, authz.ErrTooOld)
	}
	r = request()
	r.From, r.To = authz.AtRevision(3), authz.AtRevision(4)
	must(w.comparer.Difference(t.Context(), &r))(t)
}

// TestEntitlementsRefused asks about objects that cannot be asked about. The others are answered.
func TestEntitlementsRefused(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t, authz.Bounds{BatchItems: 14, ContextTuples: 2})
	objects := func(texts ...string) (all []rel.Object) {
		for _, text := range texts {
			typ, id, _ := strings.Cut(text, ":")
			all = append(all, rel.Object{Type: typ, ID: id})
		}
		return all
	}
	anne := rel.Subject{Type: "user", ID: "u1"}
	for name, c := range map[string]struct {
		request authz.EntitlementsRequest
		// want has a line for each object: its relations, or its error.
		want []string
	}{
		"all relations":           {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1", "doc:2")}, []string{"owner viewer reader editor", ""}},
		"permissions":             {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1", "group:1"), Permissions: true}, []string{"reader editor", ""}},
		"an unknown type":         {authz.EntitlementsRequest{Subject: anne, Objects: objects("dock:1", "doc:1", "dock:2")}, []string{`type not in the schema: dock (did you mean "doc"?)`, "owner viewer reader editor", `type not in the schema: dock (did you mean "doc"?)`}},
		"an unknown relation":     {authz.EntitlementsRequest{Subject: anne, Relations: []string{"owner", "editr"}, Objects: objects("doc:1", "group:1")}, []string{`relation not in the schema: doc#editr (did you mean "editor"?)`, `relation not in the schema: group#owner`}},
		"a malformed id":          {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:", "doc:1")}, []string{"invalid name: empty id", "owner viewer reader editor"}},
		"a malformed subject":     {authz.EntitlementsRequest{Subject: rel.Subject{Type: "user"}, Objects: objects("doc:1")}, []string{"invalid name: empty id"}},
		"an unknown schema":       {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1"), QueryOptions: authz.QueryOptions{SchemaID: "none"}}, []string{`no such schema: "none"`}},
		"a tuple that is refused": {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1", "doc:2"), QueryOptions: authz.QueryOptions{Tuples: tuples(t, "doc:1#reader@user:u1")}}, []string{"not admitted by the schema: doc:1#reader@user:u1: reader is computed; write one of parent, owner, blocked, viewer", "not admitted by the schema: doc:1#reader@user:u1: reader is computed; write one of parent, owner, blocked, viewer"}},
		"too many tuples":         {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1"), QueryOptions: authz.QueryOptions{Tuples: tuples(t, "doc:1#owner@user:a", "doc:1#owner@user:b", "doc:1#owner@user:c")}}, []string{"bound ContextTuples exceeded: got 3, expected at most 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.Context = map[string]any{"ip": "home"}
			got, err := w.comparer.Entitlements(t.Context(), &c.request)
			if err != nil || got.Revision != 3 || got.Token != w.timeline.Token(w.timeline.Loaded().Head) || len(got.Objects) != len(c.want) {
				t.Fatalf("got %+v, error %v", got, err)
			}
			for i, o := range got.Objects {
				text := strings.Join(o.Relations, " ")
				if o.Err != nil {
					_, text, _ = strings.Cut(strings.TrimPrefix(o.Err.Error(), "ostiary: check in store "), ": ")
				}
				if text != c.want[i] || o.Object != c.request.Objects[i] {
					t.Errorf("%s: got %q, expected %q", o.Object, text, c.want[i])
				}
			}
		})
	}
	for name, c := range map[string]struct {
		request authz.EntitlementsRequest
		want    string
	}{
		"too many objects":   {authz.EntitlementsRequest{Subject: anne, Objects: objects(strings.Fields("doc:1 doc:2 group:1")...)}, "bound BatchItems exceeded: got 15, expected at most 14"},
		"too many questions": {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1", "doc:2"), Relations: make([]string, 8)}, "bound BatchItems exceeded: got 16, expected at most 14"},
		"a malformed token":  {authz.EntitlementsRequest{Subject: anne, Objects: objects("doc:1"), QueryOptions: authz.QueryOptions{Consistency: authz.AtExactly("x")}}, `invalid token "x": expected text that begins with "o1."`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.comparer.Entitlements(t.Context(), &c.request)
			wantRefusal(t, err, "entitlements", c.want)
		})
	}
}

// TestDifferenceBounds compares revisions between which as many tuples and attributes changed
// as the bound allows, and one more.
func TestDifferenceBounds(t *testing.T) {
	t.Parallel()
	for most, want := range map[int]string{3: "", 2: "bound DifferenceChanges exceeded: got 3, expected at most 2"} {
		w := newWorld(t, 1, authz.Bounds{DifferenceChanges: most})
		w.write(authz.WriteRequest{Add: tuples(t, "doc:1#owner@user:u1", "doc:2#owner@user:u1"),
			SetAttributes: []rel.Attribute{{Object: rel.Object{Type: "doc", ID: "1"}, Name: "open", Value: "false"}}})
		_, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: first, From: authz.AtRevision(1), To: authz.AtRevision(2)})
		if want == "" && err != nil {
			t.Error(err)
		} else if want != "" {
			wantRefusal(t, err, "difference", want)
		}
	}
}

// TestDifferenceOfTimes compares two times of one revision, between which a tuple expires.
func TestDifferenceOfTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, authz.Bounds{})
	expiring := tuples(t, "doc:1#owner@user:u1")
	expiring[0].Expires = rel.TimeOf(w.now.Add(5 * time.Second))
	w.write(authz.WriteRequest{Add: expiring})
	start := w.now
	w.setNow(w.now.Add(time.Minute))
	for _, c := range []struct {
		from, to time.Duration
		want     string
	}{{0, 3 * time.Second, "map[]"}, {3 * time.Second, 4 * time.Second, "map[doc:1 user:u1:true false]"}, {4 * time.Second, 9 * time.Second, "map[]"}, {9 * time.Second, 9 * time.Second, "map[]"}} {
		p := authz.PermissionSelector{ObjectType: "doc", Relation: "owner", SubjectType: "user"}
		got, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: p, From: authz.AtTime(start.Add(c.from)), To: authz.AtTime(start.Add(c.to))})
		if text := fmt.Sprint(outcomes(&p, got.Changes)); err != nil || text != c.want || got.From != got.To {
			t.Errorf("from %s to %s: got %s, error %v, expected %s", c.from, c.to, text, err, c.want)
		}
		if c.from == c.to && got.Checked != 0 {
			t.Errorf("the same time took %d checks, expected none", got.Checked)
		}
	}
}

// TestManyExceptions makes a permission public that many subjects had before. The change
// names 100 of them and counts all.
func TestManyExceptions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{99, 100, 101, 102} {
		w := newWorld(t, 1, authz.Bounds{})
		var r authz.WriteRequest
		for i := range n {
			r.Add = append(r.Add, tuples(t, fmt.Sprintf("doc:1#blocked@user:x%d", i))...)
		}
		w.write(r)
		w.write(authz.WriteRequest{Add: tuples(t, "doc:1#blocked@user:*")})
		got, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "doc", Relation: "blocked", SubjectType: "user"}, From: authz.AtRevision(2)})
		if err != nil || len(got.Changes) != 1 || !got.Changes[0].AllOthers || got.Changes[0].ExceptCount != n || len(got.Changes[0].Except) != min(n, 100) {
			t.Errorf("%d subjects: got %+v, error %v", n, got, err)
		}
	}
}

// TestProposalEndsEarly asks questions until a bound is reached or the context ends. The items
// are those of the first questions.
func TestProposalEndsEarly(t *testing.T) {
	t.Parallel()
	request := func() (r authz.WhatIfRequest) {
		for range 5 {
			r.Questions = append(r.Questions, authz.CheckRequest{Object: rel.Object{Type: "doc", ID: "1"}, Relation: "owner", Subject: rel.Subject{Type: "user", ID: "u1"}})
		}
		return r
	}
	w := refusedWorld(t, authz.Bounds{})
	r := request()
	all := must(w.comparer.WhatIf(t.Context(), &r))(t)
	cost := all.Items[0].Before.Stats.Nodes + all.Items[0].After.Stats.Nodes + 1
	if len(all.Items) != 5 || all.Partial != "" || all.Revision != 3 || all.Token != w.timeline.Token(w.timeline.Loaded().Head) || all.Items[4].Before.Revision != 3 {
		t.Errorf("got %+v, expected five items at revision 3", all)
	}
	for nodes, items := range map[int]int{1: 1, cost: 1, cost + 1: 2, 2 * cost: 2, 2*cost + 1: 3, 5 * cost: 5} {
		w := refusedWorld(t, authz.Bounds{WhatIfNodes: nodes})
		r := request()
		got := must(w.comparer.WhatIf(t.Context(), &r))(t)
		if len(got.Items) != items || (got.Partial == "WhatIfNodes") != (items < 5) {
			t.Errorf("%d nodes: got %d items, partial %q, expected %d", nodes, len(got.Items), got.Partial, items)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := w.comparer.WhatIf(ended, &r); err != nil || got.Partial != authz.BoundTime || len(got.Items) != 0 {
		t.Errorf("the context has ended: got %+v, error %v", got, err)
	}
	r.Questions[0].Consistency = authz.AtRevision(1)
	r.Questions[1].Relation = "ower"
	r.Questions[2].Object.ID = ""
	r.Questions[3].SchemaID = "none"
	got := must(w.comparer.WhatIf(t.Context(), &r))(t)
	for i, want := range []string{"invalid request: a question of a what-if sets Consistency, expected it only for the whole request", `relation not in the schema: doc#ower (did you mean "owner"?)`,
		"invalid name: empty id", `no such schema: "none"`} {
		for _, answer := range []authz.CheckResult{got.Items[i].Before, got.Items[i].After} {
			wantRefusal(t, answer.Err, "check", want)
			if answer.Decision != expr.False {
				t.Errorf("question %d: decision %v, expected false", i, answer.Decision)
			}
		}
	}
}

// TestEntitlementsCost checks that no check is made for what follows from the schema: a
// subject whose type no tuple of the relation can name, and a union with a relation that
// the subject has.
func TestEntitlementsCost(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t, authz.Bounds{})
	ask := func(subject rel.Subject, relations ...string) authz.EntitlementsResult {
		r := authz.EntitlementsRequest{Subject: subject, Relations: relations, Objects: []rel.Object{{Type: "doc", ID: "1"}, {Type: "doc", ID: "2"}}}
		return must(w.comparer.Entitlements(t.Context(), &r))(t)
	}
	if got := ask(rel.Subject{Type: "folder", ID: "1"}, "owner", "blocked"); got.Stats != (authz.Stats{}) || len(got.Objects[0].Relations) != 0 {
		t.Errorf("a subject that no tuple can name took %+v", got.Stats)
	}
	owner := rel.Subject{Type: "user", ID: "u1"}
	alone, both := ask(owner, "owner").Objects[0], ask(owner, "viewer", "owner").Objects[0]
	if len(alone.Relations) != 1 || fmt.Sprint(both.Relations) != "[viewer owner]" {
		t.Errorf("got %v and %v", alone, both)
	}
	first := func(relations ...string) authz.Stats {
		r := authz.EntitlementsRequest{Subject: owner, Relations: relations, Objects: []rel.Object{{Type: "doc", ID: "1"}}}
		return must(w.comparer.Entitlements(t.Context(), &r))(t).Stats
	}
	if one, two := first("owner"), first("viewer", "owner"); one != two || one.Nodes == 0 {
		t.Errorf("the owner took %+v, with the viewer %+v; expected the same", one, two)
	}
}

// TestEntitlementsWalk asks about a subject that few objects concern. After some checks it
// is looked for from the other end, once for each type of objects, so that more objects take
// no more work.
func TestEntitlementsWalk(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t, authz.Bounds{})
	var r authz.WriteRequest
	for i := range 200 {
		r.Add = append(r.Add, tuples(t, fmt.Sprintf("doc:d%d#owner@user:u2", i), fmt.Sprintf("doc:d%d#blocked@user:u2", i), fmt.Sprintf("folder:f%d#viewer@user:u2", i))...)
	}
	for i := range 75 { // the walk finds 150 usersets
		r.Add = append(r.Add, tuples(t, fmt.Sprintf("doc:other%d#blocked@user:u1", i))...)
	}
	w.write(r)
	cost := func(docs, folders int, relations ...string) authz.Stats {
		r := authz.EntitlementsRequest{Subject: rel.Subject{Type: "user", ID: "u1"}, Relations: relations}
		for i := range docs {
			r.Objects = append(r.Objects, rel.Object{Type: "doc", ID: fmt.Sprint("d", i)})
		}
		for i := range folders {
			r.Objects = append(r.Objects, rel.Object{Type: "folder", ID: fmt.Sprint("f", i)})
		}
		return must(w.comparer.Entitlements(t.Context(), &r))(t).Stats
	}
	for name, c := range map[string]struct{ less, more authz.Stats }{
		"documents":               {cost(100, 0, "owner", "blocked"), cost(200, 0, "owner", "blocked")},
		"folders":                 {cost(0, 160, "viewer"), cost(0, 200, "viewer")},
		"folders after documents": {cost(20, 160, "viewer"), cost(20, 200, "viewer")},
	} {
		if c.less != c.more || c.less.Nodes == 0 {
			t.Errorf("%s: few objects took %+v, many %+v, expected the same", name, c.less, c.more)
		}
	}
	if few, many := cost(2, 0, "owner"), cost(10, 0, "owner"); few.Nodes >= many.Nodes {
		t.Errorf("2 objects took %+v, 10 took %+v, expected more", few, many)
	}
}

// TestRelationIsGone changes tuples whose relation the schema of both revisions lacks. They
// change no permission, and hide no other change.
func TestRelationIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, authz.Bounds{})
	var old, added authz.WriteRequest
	for i := range 8 {
		old.Add = append(old.Add, tuples(t, fmt.Sprintf("doc:%d#blocked@user:u1", i))...)
		old.Add = append(old.Add, tuples(t, fmt.Sprintf("folder:%d#viewer@user:u1", i))...)
		added.Add = append(added.Add, tuples(t, fmt.Sprintf("doc:%d#owner@user:u1", i))...)
	}
	w.write(old)
	for _, x := range old.Add {
		added.Remove = append(added.Remove, x.Key())
	}
	w.writeSchema(&schema.Model{Types: []schema.TypeDef{{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{
		{Name: "owner", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}}})
	w.write(added)
	p := authz.PermissionSelector{ObjectType: "doc", Relation: "owner", SubjectType: "user"}
	got, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: p, From: authz.AtRevision(3), To: authz.AtRevision(4)})
	if err != nil || len(got.Changes) != 8 {
		t.Errorf("got %d changes, error %v, expected 8", len(got.Changes), err)
	}
}

// TestListCut compares revisions for which all subjects have to be listed, with a bound that
// cuts the list. The result is an error.
func TestListCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, authz.Bounds{Nodes: 5})
	var r authz.WriteRequest
	for i := range 20 {
		r.Add = append(r.Add, tuples(t, fmt.Sprintf("group:1#member@user:x%d", i), fmt.Sprintf("doc:1#viewer@group:%d#member", i))...)
	}
	w.write(r)
	w.write(authz.WriteRequest{SetAttributes: []rel.Attribute{{Object: rel.Object{Type: "doc", ID: "1"}, Name: "open", Value: "true"}}})
	_, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: authz.PermissionSelector{ObjectType: "doc", Relation: "viewer", SubjectType: "user"}, From: authz.AtRevision(2), To: authz.AtRevision(3)})
	wantRefusal(t, err, "difference", "bound nodes exceeded: got 6, expected at most 5")
}

// TestRelationIsNew compares a schema that lacks the relation, or its type, with a later one,
// for named subjects and for all. Nothing holds in the earlier one.
func TestRelationIsNew(t *testing.T) {
	t.Parallel()
	for name, types := range map[string][]schema.TypeDef{
		"the relation": {{Name: "user"}, {Name: "doc", Relations: []schema.RelationDef{{Name: "owner", Rewrite: schema.Direct(), Subjects: []schema.SubjectType{{Type: "user"}}}}}},
		"the type":     {{Name: "user"}},
	} {
		for _, subjects := range [][]string{nil, {"u1"}} {
			w := newWorld(t, 1, authz.Bounds{})
			w.writeSchema(&schema.Model{Types: types})
			w.writeSchema(model())
			w.write(authz.WriteRequest{Add: tuples(t, "doc:1#blocked@user:u1")})
			p := authz.PermissionSelector{ObjectType: "doc", Relation: "blocked", SubjectType: "user", Subjects: subjects}
			got, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: p, From: authz.AtRevision(2), To: authz.AtRevision(4)})
			if text := fmt.Sprint(outcomes(&p, got.Changes)); err != nil || text != "map[doc:1 user:u1:false true]" {
				t.Errorf("%s is new, subjects %v: got %s, error %v", name, subjects, text, err)
			}
		}
	}
}

// TestOnlyAttributes compares revisions with a change of the schema between them, for an
// object that no tuple names. It has an attribute at both revisions, or at one of them.
func TestOnlyAttributes(t *testing.T) {
	t.Parallel()
	open := rel.Attribute{Object: rel.Object{Type: "doc", ID: "1"}, Name: "open", Value: "true"}
	without := model()
	without.Types[3].Relations[3].Rewrite = schema.Direct() // viewer ignores the attribute
	for name, c := range map[string]struct {
		before, after bool
		want          string
	}{
		"at both":    {true, true, "map[doc:1 user:u1:true false]"},
		"at first":   {true, false, "map[doc:1 user:u1:true false]"},
		"at last":    {false, true, "map[doc:1 user:u1:unknown false]"},
		"at neither": {false, false, "map[]"},
	} {
		for _, subjects := range [][]string{nil, {"u1"}} {
			w := newWorld(t, 1, authz.Bounds{})
			w.write(authz.WriteRequest{Add: tuples(t, "doc:2#blocked@user:u1")})
			if c.before {
				w.write(authz.WriteRequest{SetAttributes: []rel.Attribute{open}})
			}
			from := w.head
			w.writeSchema(without)
			if c.before && !c.after {
				w.write(authz.WriteRequest{RemoveAttributes: []rel.Attribute{open}})
			}
			if !c.before && c.after {
				w.write(authz.WriteRequest{SetAttributes: []rel.Attribute{open}})
			}
			p := authz.PermissionSelector{ObjectType: "doc", Relation: "viewer", SubjectType: "user", Objects: []string{"1"}, Subjects: subjects}
			got, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: p, From: authz.AtRevision(from)})
			if err != nil {
				t.Fatal(err)
			}
			out := outcomes(&p, got.Changes)
			for pair := range out {
				if pair != "doc:1 user:u1" {
					delete(out, pair)
				}
			}
			if fmt.Sprint(out) != c.want {
				t.Errorf("an attribute %s, subjects %v: got %v, expected %s", name, subjects, out, c.want)
			}
		}
	}
}

// TestHubStartsLater starts permission watches while the store cannot be loaded, and again
// when it can.
func TestHubStartsLater(t *testing.T) {
	t.Parallel()
	d := failing.New(memory.New())
	w := newWorldOn(t, d, 1, authz.Bounds{})
	w.runtime.DropIdle()
	w.runtime.DropIdle()
	h := &hub{timeline: w.timeline}
	d.Break(failing.Fault{Number: 1, Lasting: true, Only: []failing.Operation{failing.Load}})
	for range 2 {
		if err := h.join(t.Context()); !errors.Is(err, failing.ErrInjected) {
			t.Errorf("the store cannot be loaded: got error %v, expected %v", err, failing.ErrInjected)
		}
	}
	d.Mend()
	if err := h.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, _ := h.current(); s == nil {
		t.Error("the hub has no view")
	}
	h.leave()
}

// TestNamedSubjects compares revisions between which several subjects got a permission, for
// some of them.
func TestNamedSubjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, authz.Bounds{})
	w.write(authz.WriteRequest{Add: tuples(t, "doc:1#blocked@user:u1", "doc:1#blocked@user:u2", "doc:1#blocked@group:1#member", "group:1#member@user:u0")})
	p := authz.PermissionSelector{ObjectType: "doc", Relation: "blocked", SubjectType: "user", Subjects: []string{"u2", "nobody"}}
	got, err := w.comparer.Difference(t.Context(), &authz.DifferenceRequest{PermissionSelector: p, From: authz.AtRevision(1), To: authz.AtRevision(2)})
	if err != nil || len(got.Changes) != 1 || got.Changes[0].Subject != (rel.Subject{Type: "user", ID: "u2"}) {
		t.Errorf("got %+v, error %v, expected a change of u2 only", got.Changes, err)
	}
}
