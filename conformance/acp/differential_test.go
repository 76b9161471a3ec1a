package acp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sourcenetwork/acp_core/pkg/types"

	"github.com/ostiary/ostiary/acp"
	"github.com/ostiary/ostiary/schema"
)

func setting(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestDifferential asks both the same in random worlds: policies, their ids,
// registrations, relationships, transfers, archives, and then every permission
// of every object for every actor. OSTIARY_WORLDS (default 300) is the number of
// worlds, OSTIARY_SEED (1) the seed of the first. Each difference must belong to a
// known class, whose reason the test finds in the world.
func TestDifferential(t *testing.T) {
	classes := map[string]int{}
	asked := 0
	worlds, seed := setting("OSTIARY_WORLDS", 300), setting("OSTIARY_SEED", 1)
	for i := range worlds {
		d := play(t, uint64(seed+i))
		asked += d.asked
		for c, n := range d.classes {
			classes[c] += n
		}
		if t.Failed() {
			t.Fatalf("OSTIARY_SEED=%d OSTIARY_WORLDS=1\n%s", seed+i, d.text)
		}
	}
	t.Logf("%d worlds, %d questions and changes compared", worlds, asked)
	for c, n := range classes {
		t.Logf("differs: %s: %d", c, n)
	}
	if classes["same"] == 0 || asked < 100*worlds/10 {
		t.Error("nothing was compared")
	}
}

// duel is one world under way.
type duel struct {
	t       *testing.T
	w       *world
	ours    *acp.Engine
	theirs  *original
	policy  string
	text    string
	model   *acp.Policy
	schema  *schema.Schema
	classes map[string]int
	asked   int
	// everybody: the relations, by resource, that hold all actors somewhere.
	everybody map[string]bool
	// over: they could not do what we did.
	over bool
}

func play(t *testing.T, seed uint64) *duel {
	t.Helper()
	ctx := context.Background()
	theirs, err := newOriginal()
	if err != nil {
		t.Fatal(err)
	}
	ours, err := acp.Open(ctx, acp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	d := &duel{t: t, w: &world{rnd: rand.New(rand.NewPCG(seed, 7))}, ours: ours, theirs: theirs, classes: map[string]int{}, everybody: map[string]bool{}}
	for range d.w.rnd.IntN(3) { // failed creations count
		theirs.create("", "name: x")
		ours.CreatePolicy(ctx, "", acp.PolicySource{Text: "name: x"})
	}
	d.text = d.w.policy()
	id, err := ours.AddPolicy(ctx, actors[0], d.text)
	theirID, err2 := theirs.create(actors[0], d.text)
	if id != theirID || (err == nil) != (err2 == nil) {
		t.Errorf("seed %d: policy %s %v, theirs %s %v", seed, id, err, theirID, err2)
		return d
	}
	if err != nil {
		d.classes["policy refused by both"]++
		return d
	}
	d.policy = id
	rec, err := ours.Policy(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	d.model = &rec.Policy
	store, err := ours.Store()
	if err != nil {
		t.Fatal(err)
	}
	info, err := store.CurrentSchema(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := store.Schema(ctx, info.ID)
	if err != nil {
		t.Fatal(err)
	}
	d.schema = compiled.Compiled
	for range 60 {
		if d.step(); d.over {
			d.classes["a world ends: they could not decide who may"]++
			return d
		}
	}
	d.questions()
	return d
}

// same compares an outcome: both did it with the same result, or both refused
// it with a kind in common. The original loses kinds on the way ("UNKNOWN").
func (d *duel) same(what string, ours, theirs any, err, err2 error) {
	d.t.Helper()
	d.asked++
	kind := theirKind(err2)
	switch {
	case err == nil && err2 == nil && ours == theirs:
		d.classes["same"]++
	case err != nil && err2 != nil && slices.Contains(ourKinds(err), kind):
		d.classes["same"]++
	case err != nil && err2 != nil && kind == "UNKNOWN":
		d.classes["their error has lost its kind"]++
	default:
		d.t.Errorf("%s: ours %v %v, theirs %v %s (%v)", what, ours, err, theirs, kind, err2)
	}
}

// step makes one random change in both.
func (d *duel) step() {
	ctx, actor := context.Background(), pick(d.w, actors)
	o, _ := d.w.object(d.policy)
	if !d.w.one(6) { // mostly the owner asks
		if owner, ok, _ := d.ours.Owner(ctx, o); ok {
			actor = owner
		}
	}
	asThem, err := as(actor)
	if err != nil {
		d.t.Fatal(err)
	}
	reg, _ := d.ours.Registration(ctx, o)
	switch n := d.w.rnd.IntN(20); {
	case n < 5:
		err := d.ours.Register(ctx, actor, o)
		_, err2 := d.theirs.e.RegisterObject(asThem, &types.RegisterObjectRequest{PolicyId: d.policy, Object: object(o)})
		d.same("register "+o.String(), true, true, err, err2)
	case n < 14:
		d.relate(actor)
	case n < 16:
		d.unrelate(actor)
	case n < 17:
		to := pick(d.w, actors)
		if to == actor && reg.Owner == actor {
			return // the original writes, we need not
		}
		err := d.ours.Transfer(ctx, actor, o, to)
		_, err2 := d.theirs.e.TransferObject(asThem, &types.TransferObjectRequest{PolicyId: d.policy, Object: object(o), NewOwner: &types.Actor{Id: to}})
		d.same("transfer "+o.String(), true, true, err, err2)
	case n < 19:
		if reg.Archived && reg.Owner != actor {
			d.classes["not asked: a stranger archives what is archived"]++
			return
		}
		removed, err := d.ours.Archive(ctx, actor, o)
		r, err2 := d.theirs.e.ArchiveObject(asThem, &types.ArchiveObjectRequest{PolicyId: d.policy, Object: object(o)})
		d.same("archive "+o.String(), uint64(removed), r.GetRelationshipsRemoved(), err, err2)
	default:
		modified, err := d.ours.Unarchive(ctx, actor, o)
		r, err2 := d.theirs.e.UnarchiveObject(asThem, &types.UnarchiveObjectRequest{PolicyId: d.policy, Object: object(o)})
		d.same("unarchive "+o.String(), modified, r.GetRecordModified(), err, err2)
	}
}

// requester is mostly who may.
func (d *duel) requester(actor string, o acp.Object) string {
	if owner, ok, _ := d.ours.Owner(context.Background(), o); ok && !d.w.one(4) {
		return owner
	}
	return actor
}

func (d *duel) relate(actor string) {
	ctx, x := context.Background(), d.w.relationship(d.policy)
	actor = d.requester(actor, x.Object)
	asThem, _ := as(actor)
	reg, _ := d.ours.Registration(ctx, x.Object)
	if reg.Archived {
		d.classes["not asked: sharing what is archived"]++
		return
	}
	if x.Subject.Relation == x.Relation && x.Subject.ID == x.Object.ID && x.Subject.Resource == x.Object.Resource {
		d.classes["not asked: a set in itself"]++
		return
	}
	existed, err := d.ours.SetRelationship(ctx, actor, x)
	r, err2 := d.theirs.e.SetRelationship(asThem, &types.SetRelationshipRequest{PolicyId: d.policy, Relationship: relationship(x)})
	d.over = !d.manage("set "+x.String()+" by "+actor, x.Relation, x.Object, existed, r.GetRecordExisted(), err, err2)
	if err == nil && x.Subject.Actor == acp.AllActors {
		d.everybody[x.Object.Resource+" "+x.Relation] = true
	}
}

func (d *duel) unrelate(actor string) {
	ctx, x := context.Background(), d.w.relationship(d.policy)
	actor = d.requester(actor, x.Object)
	asThem, _ := as(actor)
	if x.Subject.Relation == x.Relation && x.Subject.ID == x.Object.ID && x.Subject.Resource == x.Object.Resource {
		return
	}
	found, err := d.ours.DeleteRelationship(ctx, actor, x)
	r, err2 := d.theirs.e.DeleteRelationship(asThem, &types.DeleteRelationshipRequest{PolicyId: d.policy, Relationship: relationship(x)})
	if err != nil && err2 == nil && !r.GetRecordFound() {
		d.asked++
		d.classes["deleting what could not be there: they find nothing, ours is an error with the reason"]++
		return
	}
	d.over = !d.manage("delete "+x.String()+" by "+actor, x.Relation, x.Object, found, r.GetRecordFound(), err, err2)
}

// questions asks everything.
func (d *duel) questions() {
	ctx := context.Background()
	d.catalogue()
	for i := range d.w.resources {
		r := &d.w.resources[i]
		for id := 1; id <= 3; id++ {
			o := acp.Object{Policy: d.policy, Resource: r.name, ID: fmt.Sprint(id)}
			owner, _, err := d.ours.Owner(ctx, o)
			theirOwner, err2 := d.theirs.owner(o)
			d.same("owner of "+o.String(), owner, theirOwner, err, err2)
			for _, actor := range append([]string{""}, actors...) {
				for _, x := range r.relations {
					d.check(actor, x.name, o)
					if actor != "" {
						ours, err := d.ours.MayManage(ctx, actor, x.name, o)
						theirs, err2 := d.theirs.manage(actor, x.name, o)
						d.manage("manage "+x.name+" of "+o.String()+" by "+actor, x.name, o, ours, theirs, err, err2)
					}
				}
				for _, p := range append([]string{"owner", "unknown"}, r.permissions...) {
					d.check(actor, p, o)
				}
			}
		}
	}
}

// catalogue compares the names, objects and actors of the policy.
func (d *duel) catalogue() {
	d.t.Helper()
	ours, err := d.ours.Catalogue(context.Background(), d.policy)
	r, err2 := d.theirs.e.GetPolicyCatalogue(context.Background(), &types.GetPolicyCatalogueRequest{PolicyId: d.policy})
	if err != nil || err2 != nil {
		d.t.Errorf("catalogue: ours %v, theirs %v", err, err2)
		return
	}
	sorted := func(list []string) string { return fmt.Sprint(slices.Sorted(slices.Values(list))) }
	d.same("actors", ours.ActorResource+sorted(ours.Actors), r.Catalogue.ActorResourceName+sorted(r.Catalogue.Actors), nil, nil)
	for name, theirs := range r.Catalogue.ResourceCatalogue {
		x := ours.Resources[name]
		d.same("catalogue of "+name, sorted(x.Permissions)+sorted(x.Relations)+sorted(x.Objects),
			sorted(theirs.Permissions)+sorted(theirs.Relations)+sorted(theirs.ObjectIds), nil, nil)
	}
}

// manage compares an answer, or a change, that rests on the authority over a
// relation. It reports whether the two still hold the same.
func (d *duel) manage(what, relation string, o acp.Object, ours, theirs bool, err, err2 error) bool {
	d.t.Helper()
	if kind := theirKind(err2); err2 != nil && kind != "ok" {
		if x, ok := d.schema.Relation(o.Policy+"/"+o.Resource, "~"+relation); ok {
			if class := d.explain(x, ours, theirs, kind); class != "" {
				d.asked++
				d.classes[class]++
				return err != nil
			}
		}
	}
	d.same(what, ours, theirs, err, err2)
	return true
}

func (d *duel) check(actor, permission string, o acp.Object) {
	d.t.Helper()
	ours, err := d.ours.Check(context.Background(), actor, permission, o)
	theirs, err2 := d.theirs.check(actor, permission, o)
	kind := theirKind(err2)
	if err == nil && (err2 != nil || ours != theirs) {
		x, _ := d.schema.Relation(o.Policy+"/"+o.Resource, permission)
		if class := d.explain(x, ours, theirs, kind); class != "" {
			d.asked++
			d.classes[class]++
			return
		}
	}
	d.same(fmt.Sprintf("check %s %s %s", actor, permission, o), ours, theirs, err, err2)
}

// explain finds the reason of a difference in the world.
func (d *duel) explain(x *schema.Relation, ours, theirs bool, kind string) string {
	reached := d.reached(x)
	switch {
	case kind == "INTERNAL" && slices.ContainsFunc(reached, d.underArrow):
		return "they crash: all actors under an arrow"
	case kind != "ok" && slices.ContainsFunc(reached, d.arrowToNothing):
		return "they fail: an arrow leads to what lacks its target"
	case kind == "ok" && slices.ContainsFunc(reached, func(r *schema.Relation) bool { return r.Cycle == schema.CycleNegative }):
		return "a cycle through an exclusion"
	}
	return ""
}

// reached are the relations that one depends on.
func (d *duel) reached(x *schema.Relation) []*schema.Relation {
	var out []*schema.Relation
	seen := map[schema.RelationID]bool{}
	var visit func(id schema.RelationID)
	var walk func(e *schema.Expr)
	visit = func(id schema.RelationID) {
		if id == schema.None || seen[id] {
			return
		}
		seen[id] = true
		r := &d.schema.Relations[id]
		out = append(out, r)
		walk(r.Expr)
	}
	walk = func(e *schema.Expr) {
		for i := range e.Direct {
			visit(e.Direct[i].Relation)
		}
		if e.Op != schema.OpDirect {
			visit(e.Relation)
		}
		for i := range e.Via {
			visit(e.Via[i].Target)
		}
		for _, c := range e.Children {
			walk(c)
		}
	}
	visit(x.ID)
	return out
}

// arrows calls f for each arrow of a permission, with its two names.
func (d *duel) arrows(r *schema.Relation, f func(left, right string) bool) bool {
	typ := strings.TrimPrefix(d.schema.Types[r.Type].Name, d.policy+"/")
	for _, res := range d.model.Resources {
		if res.Name != typ {
			continue
		}
		for _, p := range res.Permissions {
			if p.Name != r.Name {
				continue
			}
			for _, word := range strings.FieldsFunc(p.Expression, func(c rune) bool { return strings.ContainsRune(" ()+&", c) }) {
				if left, right, ok := strings.Cut(word, "->"); ok && f(left, right) {
					return true
				}
			}
		}
	}
	return false
}

func (d *duel) underArrow(r *schema.Relation) bool {
	typ := strings.TrimPrefix(d.schema.Types[r.Type].Name, d.policy+"/")
	return d.arrows(r, func(left, _ string) bool { return d.everybody[typ+" "+left] })
}

// arrowToNothing reports whether an arrow's left side admits something that has
// not its target (actors among them).
func (d *duel) arrowToNothing(r *schema.Relation) bool {
	typ := strings.TrimPrefix(d.schema.Types[r.Type].Name, d.policy+"/")
	return d.arrows(r, func(left, right string) bool {
		x, ok := d.schema.Relation(d.policy+"/"+typ, left)
		if !ok {
			return false
		}
		return slices.ContainsFunc(x.Restrictions, func(s schema.Restriction) bool {
			_, has := d.schema.Relation(d.schema.Kinds[s.Kind].Type, right)
			return !has
		})
	})
}
