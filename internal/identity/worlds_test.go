package identity_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
)

// world is a random deployment, kept once more as plain lists.
type world struct {
	parent  map[string]string   // project to parent
	members map[string][]string // group to users
	implies map[string][]string // role to roles
	grants  []identity.Grant
}

// roles computes the effective roles from the lists, in the simplest way.
func (w *world) roles(user, target string, ofDomain map[string]bool) []string {
	found := map[string]bool{}
	var add func(role string)
	add = func(role string) {
		if !found[role] {
			found[role] = true
			for _, i := range w.implies[role] {
				add(i)
			}
		}
	}
	for _, g := range w.grants {
		if g.UserID != user && !slices.Contains(w.members[g.GroupID], user) {
			continue
		}
		if !g.Inherited && g.Target == target {
			add(g.RoleID)
		}
		for p := w.parent[target]; g.Inherited && p != ""; p = w.parent[p] {
			if p == g.Target {
				add(g.RoleID)
			}
		}
	}
	var names []string
	for r := range found {
		if !ofDomain[r] {
			names = append(names, r)
		}
	}
	slices.Sort(names)
	return names
}

// TestRandomAssignments compares the effective roles of all users on all targets
// with those of the lists, while grants are added and removed.
func TestRandomAssignments(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("OSTIARY_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("OSTIARY_SEED=%d go test ./identity -run TestRandomAssignments", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	d := deploy(t)
	ctx := t.Context()
	w := &world{parent: map[string]string{}, members: map[string][]string{}, implies: map[string][]string{}}
	domain := d.make(identity.Record{Kind: identity.Project, Name: "d", IsDomain: true}).ID
	targets := []string{domain}
	for i := range 8 {
		parent := targets[r.IntN(len(targets))]
		x, err := d.Create(ctx, identity.Record{Kind: identity.Project, Name: fmt.Sprint("p", i), Domain: domain, Parent: parent}, nil)
		if err != nil {
			continue // too deep
		}
		w.parent[x.ID] = parent
		targets = append(targets, x.ID)
	}
	var users, groups, roles []string
	ofDomain := map[string]bool{}
	for i := range 4 {
		users = append(users, d.make(identity.Record{Kind: identity.User, Name: fmt.Sprint("u", i)}).ID)
		groups = append(groups, d.make(identity.Record{Kind: identity.Group, Name: fmt.Sprint("g", i)}).ID)
	}
	for i := range 6 {
		x := identity.Record{Kind: identity.Role, Name: fmt.Sprint("r", i)}
		if i == 0 {
			x.Domain = domain
		}
		roles = append(roles, d.make(x).ID)
		ofDomain[roles[i]] = i == 0
	}
	for range 8 { // cycles are allowed
		a, b := roles[r.IntN(6)], roles[1+r.IntN(5)]
		if d.Imply(ctx, a, b) == nil {
			w.implies[a] = append(w.implies[a], b)
		}
	}
	compare := func() {
		for _, u := range users {
			var reachable []string
			for _, target := range targets {
				want := w.roles(u, target, ofDomain)
				got, err := d.EffectiveRoles(ctx, u, target)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("roles of %s on %s: %v, want %v: %v", u, target, got, want, err)
				}
				if len(w.roles(u, target, nil)) > 0 {
					reachable = append(reachable, target)
				}
			}
			slices.Sort(reachable)
			got, err := d.Targets(ctx, u)
			if err != nil || !slices.Equal(got, reachable) {
				t.Fatalf("targets of %s: %v, want %v: %v", u, got, reachable, err)
			}
		}
	}
	for range 60 {
		g := identity.Grant{Target: targets[r.IntN(len(targets))], RoleID: roles[r.IntN(6)], Inherited: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			g.UserID = users[r.IntN(4)]
		} else {
			g.GroupID = groups[r.IntN(4)]
		}
		switch i := slices.Index(w.grants, g); {
		case i < 0:
			d.ok(d.Grant(ctx, g))
			w.grants = append(w.grants, g)
		default:
			d.ok(d.Revoke(ctx, g))
			w.grants = slices.Delete(w.grants, i, i+1)
		}
		u, group := users[r.IntN(4)], groups[r.IntN(4)]
		if i := slices.Index(w.members[group], u); i < 0 {
			d.ok(d.AddMember(ctx, group, u))
			w.members[group] = append(w.members[group], u)
		} else {
			d.ok(d.RemoveMember(ctx, group, u))
			w.members[group] = slices.Delete(w.members[group], i, i+1)
		}
		compare()
	}
}
