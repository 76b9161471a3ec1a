package identity_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

var shrinkSeed = flag.Uint64("shrinkseed", 0, "seed of TestDelegationsShrink; 0 chooses one")

// delegated is a token with what it was made from.
type delegated struct {
	*identity.Token
	from *identity.Token // token that made the delegation, or that the token was made from; nil for a login by password
}

// TestDelegationsShrink makes tokens, application credentials and trusts from each
// other at random, while grants come and go. No token has more roles, another
// project or a longer life than the token that its delegation was made with, or
// more roles than the user who delegated at first.
func TestDelegationsShrink(t *testing.T) {
	seed := *shrinkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	w := &shrinking{deployment: deploy(t), rand: rand.New(rand.NewPCG(seed, 1)), seed: seed}
	for _, name := range []string{"p", "q"} {
		w.projects = append(w.projects, w.make(identity.Record{Kind: identity.Project, Name: name}).ID)
	}
	for _, name := range []string{"anne", "bob", "carl"} {
		w.users = append(w.users, w.make(identity.Record{Kind: identity.User, Name: name}).ID)
	}
	for _, name := range []string{"admin", "manager", "member", "reader", "service"} {
		w.roleIDs = append(w.roleIDs, w.find(identity.Role, name).ID)
	}
	few := func() bool { return w.byTrust < 5 || w.byCredential < 5 || w.deep < 5 }
	for i := 0; i < 1500 || few() && i < 30_000; i++ {
		w.step()
	}
	if few() {
		t.Errorf("seed %d: only %d tokens of trusts, %d of application credentials, %d of delegations of delegations", seed, w.byTrust, w.byCredential, w.deep)
	}
}

// shrinking is a deployment in a random state.
type shrinking struct {
	*deployment
	rand                        *rand.Rand
	seed                        uint64
	users, projects, roleIDs    []string
	tokens                      []delegated
	makers                      map[string]*identity.Token // tokens that made trusts and application credentials, by their ids
	made                        []*identity.Record
	byTrust, byCredential, deep int
}

func pick[T any](w *shrinking, all []T) T { return all[w.rand.IntN(len(all))] }

func (w *shrinking) step() {
	ctx := w.t.Context()
	w.clock.move(time.Duration(w.rand.IntN(20)) * time.Second)
	g := identity.Grant{UserID: pick(w, w.users), Target: pick(w, w.projects), RoleID: pick(w, w.roleIDs)}
	switch w.rand.IntN(10) {
	case 0, 1, 2:
		w.ok(w.Grant(ctx, g))
	case 3:
		_ = w.Revoke(ctx, g) // the grant may not exist
	case 4:
		w.issue(g.UserID, identity.Scope{ProjectID: g.Target}, []string{"password"}, nil)
	case 5:
		if len(w.tokens) > 0 {
			if from := pick(w, w.tokens); !from.Delegated() {
				w.issue(from.Payload.UserID, identity.Scope{ProjectID: g.Target}, []string{"token"}, from.Token)
			}
		}
	case 6, 7:
		w.delegate(g)
	default:
		if len(w.made) > 0 {
			w.useDelegation(pick(w, w.made))
		}
	}
}

// issue makes a token if it can, and checks it.
func (w *shrinking) issue(user string, s identity.Scope, methods []string, from *identity.Token) {
	var tokenFrom *identity.Token
	if methods[0] == "token" {
		tokenFrom = from
	}
	t, err := w.Issue(w.t.Context(), user, s, methods, tokenFrom)
	if err != nil {
		return
	}
	w.check(delegated{t, from})
	w.tokens = append(w.tokens, delegated{t, from})
}

// delegate makes an application credential or a trust with a random token, and
// asks for as much as it can.
func (w *shrinking) delegate(g identity.Grant) {
	if len(w.tokens) == 0 {
		return
	}
	by := pick(w, w.tokens)
	var expires *time.Time
	if w.rand.IntN(2) == 0 {
		end := w.clock.read().Add(time.Duration(w.rand.IntN(100)+1) * time.Minute)
		expires = &end
	}
	roles := []string{pick(w, w.roleIDs), pick(w, w.roleIDs)}[:w.rand.IntN(3)]
	var x *identity.Record
	var err error
	if yes := true; w.rand.IntN(2) == 0 {
		w.clock.move(time.Microsecond)
		x, _, err = w.CreateApplicationCredential(w.t.Context(), identity.NewApplicationCredential{By: by.Token, Name: w.clock.read().String(), RoleIDs: roles,
			Expires: expires, Unrestricted: &yes})
	} else {
		if len(roles) == 0 && len(by.Roles) > 0 {
			roles = []string{by.Roles[w.rand.IntN(len(by.Roles))].ID}
		}
		project := by.Scope.ProjectID
		if w.rand.IntN(4) == 0 {
			project = g.Target
		}
		x, err = w.CreateTrust(w.t.Context(), identity.NewTrust{By: by.Token, TrustorID: by.User.ID, TrusteeID: g.UserID, ProjectID: project, RoleIDs: roles,
			Expires: expires, Impersonation: w.rand.IntN(3) > 0, Redelegation: true})
	}
	if err != nil {
		return
	}
	if w.makers == nil {
		w.makers = map[string]*identity.Token{}
	}
	w.makers[x.ID] = by.Token
	w.made = append(w.made, x)
}

func (w *shrinking) useDelegation(x *identity.Record) {
	by := w.makers[x.ID]
	before := len(w.tokens)
	if x.Kind == identity.Trust {
		w.issue(x.Delegation.TrusteeID, identity.Scope{TrustID: x.ID}, []string{"password"}, by)
	} else {
		w.issue(x.Owner, identity.Scope{ApplicationCredentialID: x.ID}, []string{identity.MethodApplicationCredential}, by)
	}
	if len(w.tokens) == before {
		return
	}
	if x.Kind == identity.Trust {
		w.byTrust++
	} else {
		w.byCredential++
	}
	if by.Delegated() {
		w.deep++
	}
}

// check compares a new token with where its rights come from.
func (w *shrinking) check(x delegated) {
	w.t.Helper()
	bad := func(text string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s (repeat with -run TestDelegationsShrink -shrinkseed %d)", fmt.Sprintf(text, args...), w.seed)
	}
	held := map[string][]string{}
	for _, user := range w.users {
		ids, err := w.EffectiveRoles(w.t.Context(), user, x.Scope.ProjectID)
		w.ok(err)
		held[user] = ids
	}
	root := x.User.ID
	if x.Trust != nil {
		root = x.Trust.Owner
	}
	for _, r := range x.Roles {
		if !slices.Contains(held[root], r.ID) {
			bad("a token has role %s, which user %s does not have", r.Name, root)
		}
	}
	if x.from == nil {
		return
	}
	for _, d := range []*identity.Record{x.from.Trust, x.from.ApplicationCredential} {
		if d == nil {
			continue
		}
		if x.Scope.ProjectID != d.Delegation.ProjectID {
			bad("a token is for project %s, and was made with a delegation for %s", x.Scope.ProjectID, d.Delegation.ProjectID)
		}
		if end := d.Delegation.Expires; end != nil && x.Payload.Expires.After(*end) {
			bad("a token expires at %v, and was made with a delegation until %v", x.Payload.Expires, end)
		}
		allowed := names(x.from)
		for _, name := range names(x.Token) {
			if !slices.Contains(allowed, name) {
				bad("a token has role %s, and was made with a token that has %v", name, allowed)
			}
		}
	}
	if x.Payload.Methods[0] == "token" && x.Payload.Expires.After(x.from.Payload.Expires) {
		bad("a token expires at %v, after the one that it was made from", x.Payload.Expires)
	}
}
