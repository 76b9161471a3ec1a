package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/engine/commit"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/query"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// world is a store that random writes change, and the parts that read it.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time // guarded by clockMu against the hub of watches
	clockMu  sync.Mutex
	runtime  *snapshot.Runtime
	timeline *snapshot.Timeline
	queue    *commit.Queue
	answerer *query.Answerer
	comparer *Comparer
	head     storage.Revision
}

// model has each operator, wildcards, usersets in usersets, arrows, attributes, expiries,
// conditions and relations that are a part of a rewrite only.
func model() *schema.Model {
	near := schema.SubjectType{Type: "user", Condition: "near"}
	user, member, all := schema.SubjectType{Type: "user"}, schema.SubjectType{Type: "group", Relation: "member"}, schema.SubjectType{Type: "user", Wildcard: true}
	def := func(name string, r schema.Rewrite, subjects ...schema.SubjectType) schema.RelationDef {
		return schema.RelationDef{Name: name, Rewrite: r, Subjects: subjects}
	}
	direct := schema.Direct()
	condition := expr.Definition{Name: "near", Params: []expr.Param{{Name: "ip", Type: expr.Type{Kind: expr.String}}}, Source: `ip == "home"`}
	return &schema.Model{Conditions: []expr.Definition{condition}, Types: []schema.TypeDef{
		{Name: "user"},
		{Name: "group", Relations: []schema.RelationDef{def("member", direct, user, member, all, near)}},
		{Name: "folder", Relations: []schema.RelationDef{def("parent", direct, schema.SubjectType{Type: "folder"}), def("viewer", schema.Union(direct, schema.Arrow("parent", "viewer")), user, member)}},
		{Name: "doc", Attributes: []schema.AttributeDef{{Name: "open", Type: expr.Type{Kind: expr.Bool}}}, Relations: []schema.RelationDef{
			def("parent", direct, schema.SubjectType{Type: "folder"}, member),
			def("owner", direct, user, member),
			def("blocked", direct, user, all, member),
			def("viewer", schema.Union(direct, schema.Computed("owner"), schema.Arrow("parent", "viewer"), schema.Rewrite{Op: schema.OpAttribute, Attribute: "open"}), user, all, member, near),
			def("reader", schema.Exclusion(schema.Computed("viewer"), schema.Computed("blocked"))),
			def("editor", schema.Intersection(schema.Computed("viewer"), schema.Union(schema.Computed("owner"), schema.Arrow("parent", "parent")))),
			def("staff", schema.Arrow("parent", "member")),
		}},
	}}
}

// clock is the clock of the store.
func (w *world) clock() time.Time {
	w.clockMu.Lock()
	defer w.clockMu.Unlock()
	return w.now
}

// setNow sets the clock of the store.
func (w *world) setNow(now time.Time) {
	w.clockMu.Lock()
	defer w.clockMu.Unlock()
	w.now = now
}

// newWorld returns a world with the model, at revision 1.
func newWorld(t *testing.T, seed uint64, b authz.Bounds) *world {
	t.Helper()
	return newWorldOn(t, memory.New(), seed, b)
}

// newWorldOn is newWorld with the driver that keeps the store.
func newWorldOn(t *testing.T, driver storage.Driver, seed uint64, b authz.Bounds) *world {
	t.Helper()
	ctx := t.Context()
	info := storage.StoreInfo{ID: storage.NewID(1), Incarnation: storage.NewIncarnation(), Created: 1}
	if err := driver.CreateStore(ctx, info); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.open(driver, info, b)
	w.writeSchema(model())
	return w
}

// open makes the parts that read the store, with nothing in memory.
func (w *world) open(driver storage.Driver, info storage.StoreInfo, b authz.Bounds) {
	w.runtime = snapshot.NewRuntime(snapshot.Config{Driver: driver, Bounds: errs.WithDefaults(b), Conditions: cel.New(cel.Options{}), Clock: w.clock})
	w.t.Cleanup(func() { w.runtime.Close(); driver.Close() })
	w.timeline = snapshot.NewTimeline(w.runtime, info)
	w.queue = commit.NewQueue(commit.NewShared(w.runtime, nil), w.timeline)
	w.answerer = query.NewAnswerer(query.NewShared(w.runtime, authz.RecordingOptions{}), w.timeline)
	w.comparer = New(w.timeline)
}

// writeSchema writes a schema, a second after the entry before.
func (w *world) writeSchema(m *schema.Model) authz.SchemaInfo {
	w.t.Helper()
	w.setNow(w.now.Add(time.Second))
	info, _, err := w.queue.WriteSchema(w.t.Context(), &authz.SchemaSource{Model: m})
	if err != nil {
		w.t.Fatal(err)
	}
	w.head++
	return info
}

// users are all subjects of questions. No tuple names the last one.
var users = []string{"u0", "u1", "u2", "nobody"}

func (w *world) pick(from ...string) string { return from[w.rng.IntN(len(from))] }

// tuple returns a random tuple, which the model admits.
func (w *world) tuple() rel.Tuple {
	relation := w.pick("group#member", "folder#parent", "folder#viewer", "doc#parent", "doc#owner", "doc#blocked", "doc#viewer")
	id := func() string { return fmt.Sprint(w.rng.IntN(3)) }
	var text string
	subject := w.pick("user:u"+id(), "user:u"+id(), "group:"+id()+"#member", "user:*")
	switch relation {
	case "folder#parent":
		subject = "folder:" + id()
	case "doc#parent":
		subject = w.pick("folder:"+id(), "group:"+id()+"#member")
	case "folder#viewer", "doc#owner":
		subject = w.pick("user:u"+id(), "group:"+id()+"#member")
	}
	typ, name := relation[:slices.Index([]byte(relation), '#')], relation[slices.Index([]byte(relation), '#'):]
	text = typ + ":" + id() + name + "@" + subject
	tuple, err := rel.Parse(text)
	if err != nil {
		w.t.Fatal(err)
	}
	if tuple.Subject.ID == tuple.Object.ID && tuple.Subject.Type == tuple.Object.Type {
		return w.tuple() // the model does not admit it
	}
	if (relation == "doc#viewer" || relation == "group#member") && tuple.Subject.Type == "user" && !tuple.Subject.IsWildcard() && w.rng.IntN(3) == 0 {
		tuple.Condition = "near"
	}
	if w.rng.IntN(6) == 0 {
		tuple.Expires = rel.TimeOf(w.now.Add(time.Duration(1+w.rng.IntN(5)) * time.Second))
	}
	return tuple
}

// change returns a random write.
func (w *world) change() authz.WriteRequest {
	r := authz.WriteRequest{OnDuplicate: authz.Replace, OnMissing: authz.Ignore}
	seen := map[rel.Key]bool{}
	for range 1 + w.rng.IntN(4) {
		if t := w.tuple(); !seen[t.Key()] {
			seen[t.Key()] = true
			if w.rng.IntN(3) == 0 {
				r.Remove = append(r.Remove, t.Key())
			} else {
				r.Add = append(r.Add, t)
			}
		}
	}
	open := rel.Attribute{Object: rel.Object{Type: "doc", ID: fmt.Sprint(w.rng.IntN(3))}, Name: "open"}
	switch w.rng.IntN(8) {
	case 0:
		open.Value = w.pick("true", "false")
		r.SetAttributes = []rel.Attribute{open}
	case 1:
		r.RemoveAttributes = []rel.Attribute{open}
	case 2:
		r.RemoveMatching = []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{ObjectType: w.pick("doc", "group"), ObjectID: fmt.Sprint(w.rng.IntN(3))}}}
	case 3:
		r.RemoveMatching = []storage.Filter{{Target: storage.FilterAttributes, ObjectType: "doc", ObjectID: open.Object.ID}}
	}
	return r
}

// write writes a change, a second after the one before.
func (w *world) write(r authz.WriteRequest) {
	w.t.Helper()
	w.setNow(w.now.Add(time.Second))
	if _, err := w.queue.Write(w.t.Context(), &r); err != nil {
		w.t.Fatal(err)
	}
	w.head = w.timeline.Loaded().Head.Revision
}

// subjects are the subjects of a kind that questions name.
func subjects(p *authz.PermissionSelector) []rel.Subject {
	var all []rel.Subject
	ids := users
	if p.SubjectType == "group" {
		ids = []string{"0", "1", "2"}
	}
	for _, id := range ids {
		if p.Subjects == nil || slices.Contains(p.Subjects, id) {
			all = append(all, rel.Subject{Type: p.SubjectType, ID: id, Relation: p.SubjectRelation})
		}
	}
	return all
}

func (w *world) check(q authz.CheckRequest) expr.Tristate {
	w.t.Helper()
	r, err := w.answerer.Check(context.Background(), &q)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Decision
}

// context returns random parameters of the condition, or none.
func (w *world) context() expr.Values {
	if ip := w.pick("home", "away", ""); ip != "" {
		return expr.Values{"ip": ip}
	}
	return nil
}

// expected returns the changes of a permission between two revisions, by checks of all
// pairs, and how many pairs are unknown at both.
func (w *world) expected(p *authz.PermissionSelector, from, to authz.Consistency, context expr.Values) (out map[string]string, unknown int) {
	out = map[string]string{}
	for i := range 3 {
		o := rel.Object{Type: p.ObjectType, ID: fmt.Sprint(i)}
		if p.Objects != nil && !slices.Contains(p.Objects, o.ID) {
			continue
		}
		for _, s := range subjects(p) {
			q := authz.CheckRequest{Object: o, Relation: p.Relation, Subject: s}
			q.Context, q.Consistency = context, from
			before := w.check(q)
			q.Consistency = to
			if after := w.check(q); before != after {
				out[fmt.Sprint(o, s)] = fmt.Sprint(before, after)
			} else if after == expr.Unknown {
				unknown++
			}
		}
	}
	return out, unknown
}

// outcomes returns the results before and after, by changes, of the pairs that
// expected checks.
func outcomes(p *authz.PermissionSelector, changes []authz.PermissionChange) map[string]string {
	out := map[string]string{}
	for i := range changes {
		if c := &changes[i]; c.AllOthers {
			for _, s := range subjects(p) {
				if !slices.Contains(c.Except, s.ID) {
					out[fmt.Sprint(c.Object, s)] = fmt.Sprint(c.Before, c.After)
				}
			}
		}
	}
	for i := range changes {
		if c := &changes[i]; !c.AllOthers {
			out[fmt.Sprint(c.Object, c.Subject)] = fmt.Sprint(c.Before, c.After)
		}
	}
	return out
}

// selector returns a random permission, for all or for some objects and subjects.
func (w *world) selector(named bool) authz.PermissionSelector {
	p := authz.PermissionSelector{ObjectType: "doc", Relation: w.pick("parent", "owner", "blocked", "viewer", "reader", "editor", "staff"), SubjectType: "user"}
	switch w.rng.IntN(4) {
	case 0:
		p.ObjectType, p.Relation = w.pick("group", "folder"), ""
		if p.Relation = "viewer"; p.ObjectType == "group" {
			p.Relation = "member"
		}
	case 1:
		p.SubjectType, p.SubjectRelation = "group", "member"
	}
	if named || w.rng.IntN(3) == 0 {
		p.Objects = []string{"0", "2"}
	}
	if w.rng.IntN(3) == 0 {
		p.Subjects = []string{subjects(&authz.PermissionSelector{SubjectType: p.SubjectType})[1].ID, subjects(&authz.PermissionSelector{SubjectType: p.SubjectType})[2].ID}
	}
	return p
}

// TestDifferences compares random differences, in pages of any length, with the checks of all
// pairs at both revisions.
func TestDifferences(t *testing.T) {
	t.Parallel()
	changed, others, unknowns := 0, 0, 0
	for seed := range uint64(8) {
		w := newWorld(t, seed, authz.Bounds{DifferenceChecks: 1 + int(seed)*3})
		for range 40 {
			w.write(w.change())
			if w.rng.IntN(5) == 0 {
				w.setNow(w.now.Add(3 * time.Second))
			}
			p := w.selector(false)
			later := 1 + w.rng.IntN(int(w.head))
			r := authz.DifferenceRequest{PermissionSelector: p, From: authz.AtRevision(storage.Revision(max(1, later-1-w.rng.IntN(3)))), To: authz.AtRevision(storage.Revision(later)), Limit: 1 + w.rng.IntN(3), Context: w.context()}
			if w.rng.IntN(2) == 0 {
				r.From, r.To = authz.AtRevision(w.head-storage.Revision(w.rng.IntN(int(w.head)))), authz.Consistency{}
			}
			var all []authz.PermissionChange
			last, unknown := "", 0
			for {
				page, err := w.comparer.Difference(t.Context(), &r)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Changes) > r.Limit+1 || page.Next != "" && page.Checked == 0 && len(page.Changes) == 0 {
					t.Errorf("seed %d: a page of %d changes after %d checks, limit %d", seed, len(page.Changes), page.Checked, r.Limit)
				}
				all = append(all, page.Changes...)
				unknown += page.UnknownCount
				if page.Next != "" && page.Next == last {
					t.Fatal("the same page again")
				}
				if r.Cursor, last = page.Next, page.Next; page.Next == "" {
					break
				}
			}
			if !slices.IsSortedFunc(all, func(a, b authz.PermissionChange) int {
				if c := compareIDs(a.Object.ID, b.Object.ID); c != 0 || a.AllOthers {
					return c
				}
				return compareIDs(a.Subject.ID, b.Subject.ID)
			}) && !slices.ContainsFunc(all, func(c authz.PermissionChange) bool { return c.AllOthers }) {
				t.Errorf("seed %d: %v is not sorted", seed, all)
			}
			got := outcomes(&p, all)
			want, unknownMax := w.expected(&p, r.From, r.To, r.Context)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, %+v from %v to %v:\ngot  %v\nwant %v", seed, p, r.From, r.To, got, want)
			}
			if unknown > unknownMax {
				t.Errorf("seed %d, %+v from %v to %v: %d unknown pairs, expected at most %d", seed, p, r.From, r.To, unknown, unknownMax)
			}
			changed, unknowns = changed+len(want), unknowns+unknown
			for i := range all {
				if all[i].AllOthers {
					others++
				}
				if s := all[i].Subject; s.Type != p.SubjectType || s.Relation != p.SubjectRelation || all[i].AllOthers != (s.ID == rel.Wildcard) {
					t.Errorf("seed %d: the subject of %+v is not one of %+v", seed, all[i], p)
				}
				if open := all[i].Before == expr.Unknown || all[i].After == expr.Unknown; open != (all[i].Reasons != nil) {
					t.Errorf("seed %d: the reasons of %+v are %v, expected some if a decision is unknown", seed, all[i], all[i].Reasons)
				}
			}
		}
	}
	if changed < 100 || others < 5 || unknowns < 5 {
		t.Errorf("%d pairs and %d wildcards changed, %d stayed unknown, expected more", changed, others, unknowns)
	}
}

// TestEntitled compares random entitlements with checks.
func TestEntitled(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		w := newWorld(t, 100+seed, authz.Bounds{})
		if seed >= 6 {
			m := model()
			m.Options.StarIsOrdinary = true
			w.writeSchema(m)
		}
		for range 40 {
			w.write(w.change())
			r := authz.EntitlementsRequest{Subject: rel.Subject{Type: "user", ID: w.pick(users...)}, Permissions: w.rng.IntN(2) == 0}
			switch w.rng.IntN(6) {
			case 0:
				r.Subject = rel.Subject{Type: "group", ID: "1", Relation: "member"}
			case 1:
				r.Subject.ID = rel.Wildcard
			}
			for range 1 + w.rng.IntN(12) {
				r.Objects = append(r.Objects, rel.Object{Type: w.pick("doc", "doc", "doc", "folder", "group"), ID: fmt.Sprint(w.rng.IntN(4))})
			}
			r.Context = w.context()
			if w.rng.IntN(3) == 0 {
				r.Tuples = []rel.Tuple{w.tuple()}
			}
			if w.rng.IntN(3) == 0 {
				r.Consistency = authz.AtRevision(1 + storage.Revision(w.rng.IntN(int(w.head))))
			}
			if w.rng.IntN(4) == 0 {
				r.Attributes = []rel.Attribute{{Object: rel.Object{Type: "doc", ID: "1"}, Name: "open", Value: "true"}}
			}
			got, err := w.comparer.Entitlements(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			s := must(w.timeline.Schema(t.Context(), w.timeline.Loaded(), "doc", ""))(t).Schema
			var stats authz.Stats
			for i, o := range r.Objects {
				typ, _ := s.Type(o.Type)
				var want, unknown, gotUnknown []string
				for _, name := range relationNames(s, typ, r.Permissions) {
					q := authz.CheckRequest{Object: o, Relation: name, Subject: r.Subject, QueryOptions: r.QueryOptions}
					answer := must(w.answerer.Check(t.Context(), &q))(t)
					stats.Nodes, stats.Probes, stats.Conditions = stats.Nodes+answer.Stats.Nodes, stats.Probes+answer.Stats.Probes, stats.Conditions+answer.Stats.Conditions
					switch answer.Decision {
					case expr.True:
						want = append(want, name)
					case expr.Unknown:
						unknown = append(unknown, name)
					}
				}
				for _, u := range got.Objects[i].Unknown {
					if gotUnknown = append(gotUnknown, u.Relation); u.Reasons == nil {
						t.Errorf("seed %d, %+v: unknown without reasons", seed, r)
					}
				}
				if !slices.Equal(got.Objects[i].Relations, want) || !slices.Equal(gotUnknown, unknown) || got.Objects[i].Err != nil || got.Objects[i].Object != o {
					t.Fatalf("seed %d, %+v: %v has %v, expected %v and unknown %v", seed, r, o, got.Objects[i], want, unknown)
				}
			}
			// With contextual data, each combination takes a check.
			if len(r.Tuples)+len(r.Attributes) > 0 && got.Stats != stats || got.Stats.Nodes > stats.Nodes || got.Stats.Probes > stats.Probes || got.Stats.Conditions > stats.Conditions {
				t.Errorf("seed %d, %+v: the work was %+v, that of the checks %+v", seed, r, got.Stats, stats)
			}
		}
	}
}

// TestProposals compares the answers after random proposals with those after the same writes.
func TestProposals(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		w := newWorld(t, 200+seed, authz.Bounds{})
		for range 40 {
			var r authz.WhatIfRequest
			for range 12 {
				q := authz.CheckRequest{Object: rel.Object{Type: "doc", ID: fmt.Sprint(w.rng.IntN(3))}, Relation: w.pick("viewer", "reader", "editor", "staff"), Subject: rel.Subject{Type: "user", ID: w.pick(users...)}}
				q.Context = w.context()
				if w.rng.IntN(4) == 0 {
					q.Tuples = []rel.Tuple{w.tuple()}
					q.Tuples[0].Expires = 0
				}
				if w.rng.IntN(8) == 0 {
					q.Attributes = []rel.Attribute{{Object: rel.Object{Type: "doc", ID: "1"}, Name: "open", Value: w.pick("true", "false")}}
				}
				r.Questions = append(r.Questions, q)
			}
			r.Changes = w.change()
			// The write comes a second later, at which nothing more must have expired.
			for i := range r.Changes.Add {
				r.Changes.Add[i].Expires = 0
			}
			w.setNow(w.now.Add(time.Second))
			before := make([]expr.Tristate, len(r.Questions))
			for i := range r.Questions {
				before[i] = w.check(r.Questions[i])
			}
			got, err := w.comparer.WhatIf(t.Context(), &r)
			if err != nil {
				t.Fatal(err)
			}
			w.setNow(w.now.Add(-time.Second))
			w.write(r.Changes)
			gained, lost, other := 0, 0, 0
			for i := range r.Questions {
				after := w.check(r.Questions[i])
				if item := got.Items[i]; item.Before.Decision != before[i] || item.After.Decision != after || item.Before.Err != nil || item.After.Err != nil {
					t.Fatalf("seed %d, %+v after %+v: got %v and %v, expected %v and %v", seed, r.Questions[i], r.Changes, item.Before.Decision, item.After.Decision, before[i], after)
				}
				switch {
				case before[i] == after:
				case after == expr.True:
					gained++
				case before[i] == expr.True:
					lost++
				default:
					other++
				}
			}
			if got.Gained != gained || got.Lost != lost || got.Other != other || got.Partial != "" {
				t.Errorf("seed %d: gained %d, lost %d, other %d, expected %d, %d and %d", seed, got.Gained, got.Lost, got.Other, gained, lost, other)
			}
		}
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
