package identity_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/password"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// TestLoad loads records that refer to one another, of which some are refused.
func TestLoad(t *testing.T) {
	t.Parallel()
	d := empty(t)
	ctx := t.Context()
	if ok, err := d.Empty(ctx); !ok || err != nil {
		t.Fatal(ok, err)
	}
	hash, err := password.Hash("pass", 4)
	if err != nil {
		t.Fatal(err)
	}
	domain := identity.Loaded{Record: identity.Record{Kind: identity.Project, ID: "d", Name: "domain", IsDomain: true}}
	user := func(id, name string) identity.Loaded {
		return identity.Loaded{Record: identity.Record{Kind: identity.User, ID: id, Name: name, Domain: "d", Password: &identity.Password{}}, Secret: hash}
	}
	role := func(id string) identity.Loaded {
		return identity.Loaded{Record: identity.Record{Kind: identity.Role, ID: id, Name: id}}
	}
	application := identity.Record{Kind: identity.ApplicationCredential, ID: "a", Name: "robot", Owner: "u", Delegation: &identity.Delegation{ProjectID: "p", RoleIDs: []string{"r"}}}
	astray := application
	astray.ID, astray.Owner = "b", "none"
	refused, err := d.LoadRecords(ctx, []identity.Loaded{domain, user("u", "one"), user("v", "one"), user("u", "two"), user("~w", "three"), user("", "four"),
		{Record: identity.Record{Kind: identity.Project, ID: "p", Name: "top", Domain: "d", Parent: "d"}},
		{Record: identity.Record{Kind: identity.Project, ID: "q", Name: "astray", Domain: "d", Parent: "none"}},
		{Record: identity.Record{Kind: identity.Group, ID: "g", Name: "crew", Domain: "d"}}, role("r"), role("s"),
		{Record: application, Secret: hash}, {Record: astray, Secret: hash}})
	expectRefused(t, refused, err, map[int]identity.Reason{2: identity.Conflict, 3: identity.Conflict, 4: identity.Invalid, 5: identity.Invalid, 7: identity.NotFound, 12: identity.NotFound})
	if ok, err := d.Empty(ctx); ok || err != nil {
		t.Fatal(ok, err)
	}

	refused, err = d.LoadImplications(ctx, []identity.Implication{{PriorID: "r", ImpliedID: "s"}, {PriorID: "r", ImpliedID: "none"}})
	expectRefused(t, refused, err, map[int]identity.Reason{1: identity.NotFound})
	refused, err = d.LoadMembers(ctx, []identity.Membership{{GroupID: "g", UserID: "none"}, {GroupID: "none", UserID: "u"}, {GroupID: "g", UserID: "u"}, {GroupID: "g", UserID: "u"}})
	expectRefused(t, refused, err, map[int]identity.Reason{0: identity.NotFound, 1: identity.NotFound})
	refused, err = d.LoadGrants(ctx, []identity.Grant{{GroupID: "g", RoleID: "r", Target: "d", Inherited: true}, {UserID: "u", RoleID: "none", Target: "p"}, {UserID: "u", RoleID: "r", Target: identity.System}})
	expectRefused(t, refused, err, map[int]identity.Reason{1: identity.NotFound})

	for target, want := range map[string]int{"p": 2, "d": 0, identity.System: 2} {
		if roles, err := d.EffectiveRoles(ctx, "u", target); err != nil || len(roles) != want {
			t.Errorf("roles on %s: %v %v, want %d", target, roles, err, want)
		}
	}
	if _, err := d.Login(ctx, "u", "", "", "pass"); err != nil {
		t.Error(err)
	}
	if _, _, err := d.LoginByApplicationCredential(ctx, "a", "pass"); err != nil {
		t.Error(err)
	}
}

// TestLoadOfRevocations checks that a loaded event makes older tokens invalid.
func TestLoadOfRevocations(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	admin := d.find(identity.User, "admin")
	token, err := d.Issue(t.Context(), admin.ID, identity.Scope{}, []string{identity.MethodPassword}, nil)
	if err != nil {
		t.Fatal(err)
	}
	validate := func() error {
		_, err := d.Validate(t.Context(), token.Payload, token.Issued, 0)
		return err
	}
	if err := validate(); err != nil {
		t.Fatal(err)
	}
	event := identity.Revocation{AuditID: token.Payload.AuditIDs[0], IssuedBefore: token.Issued, RevokedAt: token.Issued}
	if err := d.LoadRevocations(t.Context(), []identity.Revocation{event}); err != nil {
		t.Fatal(err)
	}
	if err := validate(); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
		t.Fatal(err)
	}
}

// TestLoadBounds loads as much as one call may, and one element more.
func TestLoadBounds(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	var records []identity.Loaded
	for i := range identity.LoadRecordsMax + 1 {
		records = append(records, identity.Loaded{Secret: "hash", Record: identity.Record{Kind: identity.User, ID: fmt.Sprint("u", i), Name: fmt.Sprint("u", i), Password: &identity.Password{}}})
	}
	var grants []identity.Grant
	project, member := d.find(identity.Project, "admin").ID, d.find(identity.Role, "member").ID
	for i := range identity.LoadLinksMax + 1 {
		grants = append(grants, identity.Grant{UserID: fmt.Sprint("u", i%identity.LoadRecordsMax), RoleID: member, Target: project, Inherited: i%2 == 0})
	}
	for _, call := range []struct {
		name string
		max  int
		load func(n int) ([]identity.Refusal, error)
	}{
		{"records", identity.LoadRecordsMax, func(n int) ([]identity.Refusal, error) { return d.LoadRecords(t.Context(), records[:n]) }},
		{"grants", identity.LoadLinksMax, func(n int) ([]identity.Refusal, error) { return d.LoadGrants(t.Context(), grants[:n]) }},
		{"members", identity.LoadLinksMax, func(n int) ([]identity.Refusal, error) {
			return d.LoadMembers(t.Context(), make([]identity.Membership, n))
		}},
		{"events", identity.LoadRecordsMax, func(n int) ([]identity.Refusal, error) {
			return nil, d.LoadRevocations(t.Context(), make([]identity.Revocation, n))
		}},
	} {
		if _, err := call.load(call.max + 1); !errors.Is(err, &identity.Error{Reason: identity.Invalid}) {
			t.Errorf("%s above the bound: %v", call.name, err)
		}
		if _, err := call.load(call.max); err != nil {
			t.Errorf("%s at the bound: %v", call.name, err)
		}
	}
}

func expectRefused(t *testing.T, refused []identity.Refusal, err error, want map[int]identity.Reason) {
	t.Helper()
	if err != nil || len(refused) != len(want) {
		t.Errorf("got %v and error %v, want %v", refused, err, want)
	}
	for _, r := range refused {
		if !errors.Is(r.Err, &identity.Error{Reason: want[r.Index]}) {
			t.Errorf("element %d: %v, want reason %d", r.Index, r.Err, want[r.Index])
		}
	}
}

// empty returns a service without records.
func empty(t *testing.T) *identity.Service {
	t.Helper()
	e, err := ostiary.Open(context.Background(), ostiary.Options{SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "keystone"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLoadLimits loads the limit of a project, which belongs to the domain of the
// project, and ends with the project.
func TestLoadLimits(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	of := identity.Members{}.With("resource_name", "cores")
	refused, err := d.LoadRecords(ctx, []identity.Loaded{
		{Record: identity.Record{Kind: identity.Project, ID: "d", Name: "domain", IsDomain: true}},
		{Record: identity.Record{Kind: identity.Project, ID: "p", Name: "top", Domain: "d", Parent: "d"}},
		{Record: identity.Record{Kind: identity.CatalogService, ID: "s", Name: "nova", Members: identity.Members{}.With("type", "compute")}},
		{Record: identity.Record{Kind: identity.RegisteredLimit, ID: "r", Parent: "s", Members: of.With("default_limit", 10)}},
		{Record: identity.Record{Kind: identity.Limit, ID: "l", Parent: "s", Members: of.With("resource_limit", 5).With("project_id", "p")}},
	})
	expectRefused(t, refused, err, nil)
	if l, err := d.Get(ctx, identity.Limit, "l"); err != nil || l.Domain != "d" {
		t.Errorf("the limit of a project belongs to domain %q, %v", l.Domain, err)
	}
	if err := d.Delete(ctx, identity.Project, "p"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Get(ctx, identity.Limit, "l"); err == nil {
		t.Error("the limit of a deleted project is still there")
	}
}
