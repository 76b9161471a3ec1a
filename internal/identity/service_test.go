package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/storage"
	"github.com/ostiary/ostiary/storage/memory"
)

// deployment is a bootstrapped service with a clock that the test moves.
type deployment struct {
	*identity.Service
	t      *testing.T
	driver storage.Driver
	store  *ostiary.Store
	clock  *clock
	signed int // signed requests so far
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time       { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) move(by time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(by) }

func deploy(t *testing.T) *deployment {
	t.Helper()
	driver := memory.New()
	t.Cleanup(func() { driver.Close() })
	return deployOn(t, driver)
}

// deployOn is like deploy, with the data in a driver.
func deployOn(t *testing.T, driver storage.Driver) *deployment {
	t.Helper()
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "keystone"})
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{t: t, driver: driver, store: store, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	d.Service = d.open()
	if err := d.Bootstrap(t.Context(), identity.BootstrapOptions{Password: "secret", Region: "RegionOne", PublicURL: "http://localhost:5000/v3"}); err != nil {
		t.Fatal(err)
	}
	return d
}

// open opens a further service of the same store, as another process would.
func (d *deployment) open() *identity.Service {
	d.t.Helper()
	s, err := identity.Open(d.t.Context(), d.store, settings.Deployment{Clock: d.clock.read, Rounds: 4})
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *deployment) make(r identity.Record) *identity.Record {
	d.t.Helper()
	x, err := d.Create(d.t.Context(), r, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return x
}

func (d *deployment) find(k identity.Kind, name string) *identity.Record {
	d.t.Helper()
	domain := identity.DefaultDomain
	if k == identity.Role {
		domain = ""
	}
	x, err := d.Find(d.t.Context(), k, domain, name)
	if err != nil {
		d.t.Fatal(err)
	}
	return x
}

func (d *deployment) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// fails requires an error with a reason and a text.
func (d *deployment) fails(err error, r identity.Reason, text string) {
	d.t.Helper()
	if !errors.Is(err, &identity.Error{Reason: r}) || !strings.Contains(err.Error(), text) {
		d.t.Errorf("got %v, want reason %d with %q", err, r, text)
	}
}

// roles returns the names of the effective roles.
func (d *deployment) roles(user, target string) (names []string) {
	d.t.Helper()
	ids, err := d.EffectiveRoles(d.t.Context(), user, target)
	d.ok(err)
	for _, id := range ids {
		r, err := d.Get(d.t.Context(), identity.Role, id)
		d.ok(err)
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

func TestBootstrap(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	user, err := d.Login(ctx, "", identity.DefaultDomain, "admin", "secret")
	d.ok(err)
	project := d.find(identity.Project, "admin")
	for _, target := range []string{project.ID, identity.System} {
		if got := d.roles(user.ID, target); !slices.Equal(got, []string{"admin", "manager", "member", "reader"}) {
			t.Errorf("roles on %s: %v", target, got)
		}
	}
	// A second bootstrap repairs and sets the password, and makes nothing twice.
	head, err := d.store.Head(ctx)
	d.ok(err)
	d.clock.move(2 * time.Second)
	d.ok(d.Bootstrap(ctx, identity.BootstrapOptions{Password: "other", Region: "RegionOne", PublicURL: "http://localhost:5000/v3"}))
	if _, err := d.Login(ctx, user.ID, "", "", "secret"); !errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
		t.Error("the old password:", err)
	}
	if _, err := d.Login(ctx, user.ID, "", "", "other"); err != nil {
		t.Error(err)
	}
	for _, k := range []identity.Kind{identity.User, identity.Role, identity.Project, identity.CatalogService, identity.Endpoint, identity.Region} {
		all, _, err := d.List(ctx, identity.ListRequest{Kind: k})
		want := map[identity.Kind]int{identity.User: 1, identity.Role: 5, identity.Project: 2, identity.CatalogService: 1, identity.Endpoint: 1, identity.Region: 1}[k]
		if err != nil || len(all) != want {
			t.Errorf("%d records of kind %s, want %d: %v", len(all), k, want, err)
		}
	}
	if again, _ := d.store.Head(ctx); again == head {
		t.Error("the second bootstrap wrote nothing")
	}
}

func TestLogin(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	admin := d.find(identity.User, "admin")
	bare := d.make(identity.Record{Kind: identity.User, Name: "bare"})
	for name, login := range map[string][3]string{
		"wrong password":   {admin.ID, "", "wrong"},
		"no such id":       {"nope", "", "secret"},
		"no such name":     {"", "nope", "secret"},
		"no password":      {bare.ID, "", ""},
		"empty password":   {admin.ID, "", ""},
		"nothing":          {"", "", ""},
		"another's domain": {"", "admin\x00", "secret"},
	} {
		if _, err := d.Login(ctx, login[0], identity.DefaultDomain, login[1], login[2]); !errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password: %v", name, err)
		}
	}
	_, err := d.Update(ctx, identity.User, admin.ID, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
	d.ok(err)
	_, err = d.Login(ctx, admin.ID, "", "", "secret")
	d.fails(err, identity.Unauthorized, "disabled")
	if _, err := d.Create(ctx, identity.Record{Kind: identity.User, Name: "long"}, ref(strings.Repeat("x", 73))); !errors.Is(err, &identity.Error{Reason: identity.Invalid}) {
		t.Error("a password of 73 bytes:", err)
	}
}

func ref(s string) *string { return &s }

func TestTokens(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	admin, project := d.find(identity.User, "admin"), d.find(identity.Project, "admin")
	scope := identity.Scope{ProjectID: project.ID}
	issue := func(s identity.Scope, from *identity.Token) *identity.Token {
		t.Helper()
		x, err := d.Issue(ctx, admin.ID, s, []string{"password"}, from)
		d.ok(err)
		return x
	}
	valid := func(x *identity.Token) error {
		_, err := d.Validate(ctx, x.Payload, x.Issued, 0)
		return err
	}
	first := issue(scope, nil)
	if first.Target.ID != project.ID || len(first.Roles) != 4 || first.TargetDomain.ID != identity.DefaultDomain {
		t.Errorf("%+v", first)
	}
	d.clock.move(30 * time.Minute)
	second := issue(identity.Scope{System: true}, first)
	if !second.Payload.Expires.Equal(first.Payload.Expires) || !slices.Equal(second.Payload.Methods, []string{"token", "password"}) ||
		len(second.Payload.AuditIDs) != 2 || second.Payload.AuditIDs[1] != first.Payload.AuditIDs[0] {
		t.Errorf("a token from a token: %+v", second.Payload)
	}
	unscoped := issue(identity.Scope{}, nil)
	if unscoped.Roles != nil || unscoped.Target != nil {
		t.Errorf("unscoped: %+v", unscoped)
	}
	_, err := d.Issue(ctx, admin.ID, identity.Scope{ProjectID: "nope"}, nil, nil)
	d.fails(err, identity.Unauthorized, "")
	_, err = d.Issue(ctx, admin.ID, identity.Scope{DomainID: identity.DefaultDomain}, nil, nil)
	d.fails(err, identity.Unauthorized, "no role")
	_, err = d.Issue(ctx, admin.ID, identity.Scope{DomainID: project.ID}, nil, nil)
	d.fails(err, identity.Unauthorized, "")

	// Revoking a child leaves the parent; revoking the parent ends both.
	third := issue(scope, first)
	d.ok(d.RevokeToken(ctx, third))
	d.fails(valid(third), identity.NotFound, "Failed to validate")
	d.ok(errors.Join(valid(first), valid(second)))
	d.ok(d.RevokeToken(ctx, first))
	d.fails(valid(first), identity.NotFound, "Failed to validate")
	d.fails(valid(second), identity.NotFound, "Failed to validate")
	d.ok(valid(unscoped))

	// A new password ends all earlier tokens, and no later one.
	d.clock.move(time.Second)
	_, err = d.Update(ctx, identity.User, admin.ID, ref("new"), true, func(*identity.Record) error { return nil })
	d.ok(err)
	last := issue(scope, nil) // in the same second
	d.fails(valid(unscoped), identity.NotFound, "Failed to validate")
	d.ok(valid(last))
	d.clock.move(time.Hour)
	d.fails(valid(last), identity.NotFound, "Failed to validate")
	if _, err := d.Validate(ctx, last.Payload, last.Issued, time.Hour); err != nil {
		t.Error("an expired token within the window:", err)
	}
}

// TestRevocationsEnd checks that events are removed when no token can match them.
func TestRevocationsEnd(t *testing.T) {
	d := deploy(t)
	admin := d.find(identity.User, "admin")
	for range 5 {
		x, err := d.Issue(t.Context(), admin.ID, identity.Scope{}, nil, nil)
		d.ok(err)
		d.ok(d.RevokeToken(t.Context(), x))
		d.clock.move(50 * time.Hour)
	}
	events, err := d.Revocations(t.Context(), time.Time{})
	if err != nil || len(events) != 1 {
		t.Errorf("%d events, want 1: %v", len(events), err)
	}
}

func TestScopeThatIsDisabled(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	admin, project := d.find(identity.User, "admin"), d.find(identity.Project, "admin")
	x, err := d.Issue(ctx, admin.ID, identity.Scope{ProjectID: project.ID}, nil, nil)
	d.ok(err)
	for _, id := range []string{project.ID, identity.DefaultDomain} {
		for _, disabled := range []bool{true, false} {
			_, err := d.Update(ctx, identity.Project, id, nil, false, func(r *identity.Record) error { r.Disabled = disabled; return nil })
			d.ok(err)
			_, err = d.Validate(ctx, x.Payload, x.Issued, 0)
			if disabled {
				d.fails(err, identity.NotFound, "disabled")
			} else {
				d.ok(err)
			}
		}
	}
	d.ok(d.Revoke(ctx, identity.Grant{UserID: admin.ID, Target: project.ID, RoleID: d.find(identity.Role, "admin").ID}))
	_, err = d.Validate(ctx, x.Payload, x.Issued, 0)
	d.fails(err, identity.NotFound, "no role")
}

func TestHierarchy(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	domain := d.make(identity.Record{Kind: identity.Project, Name: "d", IsDomain: true})
	parent := domain
	for i := range 5 {
		parent = d.make(identity.Record{Kind: identity.Project, Name: "p" + string(rune('0'+i)), Domain: domain.ID, Parent: parent.ID})
	}
	_, err := d.Create(ctx, identity.Record{Kind: identity.Project, Name: "deep", Domain: domain.ID, Parent: parent.ID}, nil)
	d.fails(err, identity.Forbidden, "Max hierarchy depth")
	_, err = d.Create(ctx, identity.Record{Kind: identity.Project, Name: "x", Parent: parent.ID}, nil)
	d.fails(err, identity.Invalid, "another domain")
	top, err := d.Find(ctx, identity.Project, domain.ID, "p0")
	d.ok(err)
	_, err = d.Update(ctx, identity.Project, top.ID, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
	d.fails(err, identity.Forbidden, "enabled projects")
	d.fails(d.Delete(ctx, identity.Project, top.ID), identity.Forbidden, "not a leaf")
	d.fails(d.Delete(ctx, identity.Project, domain.ID), identity.Forbidden, "disable it first")

	// An inherited grant holds below, not on the domain itself.
	user := d.make(identity.Record{Kind: identity.User, Name: "u", Domain: domain.ID})
	group := d.make(identity.Record{Kind: identity.Group, Name: "g", Domain: domain.ID})
	d.ok(d.AddMember(ctx, group.ID, user.ID))
	d.ok(d.Grant(ctx, identity.Grant{GroupID: group.ID, Target: domain.ID, RoleID: d.find(identity.Role, "member").ID, Inherited: true}))
	if got := d.roles(user.ID, parent.ID); !slices.Equal(got, []string{"member", "reader"}) {
		t.Errorf("inherited roles: %v", got)
	}
	if got := d.roles(user.ID, domain.ID); got != nil {
		t.Errorf("roles on the domain: %v", got)
	}
	targets, err := d.Targets(ctx, user.ID)
	if err != nil || len(targets) != 5 {
		t.Errorf("targets %v, %v", targets, err)
	}
	d.ok(d.RemoveMember(ctx, group.ID, user.ID))
	if got := d.roles(user.ID, parent.ID); got != nil {
		t.Errorf("roles after leaving: %v", got)
	}
	d.fails(d.RemoveMember(ctx, group.ID, user.ID), identity.NotFound, "user")

	// The domain takes everything with it.
	_, err = d.Update(ctx, identity.Project, domain.ID, nil, false, func(r *identity.Record) error { r.Disabled = true; return nil })
	d.ok(err)
	d.ok(d.Delete(ctx, identity.Project, domain.ID))
	for _, r := range []*identity.Record{domain, top, parent, user, group} {
		_, err := d.Get(ctx, r.Kind, r.ID)
		d.fails(err, identity.NotFound, r.ID)
	}
	grants, err := d.Grants(ctx, "", "", domain.ID, "")
	if err != nil || len(grants) != 0 {
		t.Errorf("grants of a deleted domain: %v, %v", grants, err)
	}
}

func TestNames(t *testing.T) {
	d := deploy(t)
	ctx := t.Context()
	d.make(identity.Record{Kind: identity.User, Name: " u "})
	d.find(identity.User, "u")
	_, err := d.Create(ctx, identity.Record{Kind: identity.User, Name: "u"}, nil)
	d.fails(err, identity.Conflict, "Duplicate entry found with name u at domain ID default")
	other := d.make(identity.Record{Kind: identity.Project, Name: "d", IsDomain: true})
	d.make(identity.Record{Kind: identity.User, Name: "u", Domain: other.ID})
	d.make(identity.Record{Kind: identity.Role, Name: "admin", Domain: other.ID})
	_, err = d.Create(ctx, identity.Record{Kind: identity.User, Name: "v", Domain: "nope"}, nil)
	d.fails(err, identity.NotFound, "Could not find domain: nope")
	for k, longest := range map[identity.Kind]int{identity.User: 255, identity.Group: 64, identity.Project: 64, identity.Role: 255} {
		d.make(identity.Record{Kind: k, Name: strings.Repeat("é", longest)})
		for _, name := range []string{"", "  ", strings.Repeat("é", longest+1)} {
			_, err := d.Create(ctx, identity.Record{Kind: k, Name: name}, nil)
			d.fails(err, identity.Invalid, "characters")
		}
	}
	admin := d.find(identity.Role, "admin")
	d.fails(d.Delete(ctx, identity.Role, admin.ID), identity.Forbidden, "immutable")
	_, err = d.Update(ctx, identity.Role, admin.ID, nil, false, func(r *identity.Record) error { r.Name = "x"; return nil })
	d.fails(err, identity.Forbidden, "immutable")
	free := identity.Members{}.With("options", map[string]bool{"immutable": false})
	_, err = d.Update(ctx, identity.Role, admin.ID, nil, false, func(r *identity.Record) error { r.Name, r.Members = "x", free; return nil })
	d.fails(err, identity.Forbidden, "immutable")
	_, err = d.Update(ctx, identity.Role, admin.ID, nil, false, func(r *identity.Record) error { r.Members = free; return nil })
	d.ok(err)
	d.ok(d.Delete(ctx, identity.Role, admin.ID))
	if got := d.roles(d.find(identity.User, "admin").ID, identity.System); got != nil {
		t.Errorf("roles after the role is deleted: %v", got)
	}
}

// TestOneNameManyWriters lets two services on one store create the same name at
// once. Exactly one succeeds, and both see it.
func TestOneNameManyWriters(t *testing.T) {
	d := deploy(t)
	other := d.open()
	for round := range 20 {
		name := "same" + string(rune('a'+round))
		var wg sync.WaitGroup
		results := make([]error, 8)
		for i := range results {
			s := d.Service
			if i%2 == 1 {
				s = other
			}
			wg.Go(func() {
				_, results[i] = s.Create(context.Background(), identity.Record{Kind: identity.User, Name: name}, nil)
			})
		}
		wg.Wait()
		made := 0
		for _, err := range results {
			if err == nil {
				made++
			} else {
				d.fails(err, identity.Conflict, name)
			}
		}
		a, err1 := d.Find(t.Context(), identity.User, identity.DefaultDomain, name)
		b, err2 := other.Find(t.Context(), identity.User, identity.DefaultDomain, name)
		if made != 1 || err1 != nil || err2 != nil || a.ID != b.ID {
			t.Fatalf("%d created: %v, %v", made, err1, err2)
		}
	}
	third := d.open()
	all, _, err := third.List(t.Context(), identity.ListRequest{Kind: identity.User})
	if err != nil || len(all) != 21 {
		t.Errorf("a service that loads finds %d users, want 21: %v", len(all), err)
	}
}

// TestDelegatedTokens checks that a token whose roles depend on records that the
// service does not have is refused. Keystone makes such tokens with shared keys.
func TestDelegatedTokens(t *testing.T) {
	d := deploy(t)
	admin, project := d.find(identity.User, "admin"), d.find(identity.Project, "admin")
	x, err := d.Issue(t.Context(), admin.ID, identity.Scope{ProjectID: project.ID}, []string{"password"}, nil)
	d.ok(err)
	for name, change := range map[string]func(*token.Payload){
		"trust":                  func(p *token.Payload) { p.TrustID = "t" },
		"application credential": func(p *token.Payload) { p.ApplicationCredentialID = "c" },
		"access token":           func(p *token.Payload) { p.AccessTokenID = "a" },
		"certificate":            func(p *token.Payload) { p.Thumbprint = "x" },
		"federated":              func(p *token.Payload) { p.IdentityProvider = "idp" },
		"federated groups":       func(p *token.Payload) { p.GroupIDs = []string{"g"} },
		"no audit id":            func(p *token.Payload) { p.AuditIDs = nil },
	} {
		p := *x.Payload
		change(&p)
		if _, err := d.Validate(t.Context(), &p, x.Issued, 0); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
			t.Errorf("%s: got %v, want NotFound", name, err)
		}
	}
	_, err = d.Validate(t.Context(), x.Payload, x.Issued, 0)
	d.ok(err)
}

// TestRevocationsInOneSecond alternates revocations of a user's tokens with
// logins at one time of the clock. Each revocation ends all earlier tokens.
func TestRevocationsInOneSecond(t *testing.T) {
	d := deploy(t)
	admin := d.find(identity.User, "admin")
	var earlier []*identity.Token
	for round := range 4 {
		_, err := d.Update(t.Context(), identity.User, admin.ID, ref("new"), false, func(*identity.Record) error { return nil })
		d.ok(err)
		for i, x := range earlier {
			if _, err := d.Validate(t.Context(), x.Payload, x.Issued, 0); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
				t.Errorf("round %d: token %d is valid after a revocation: %v", round, i, err)
			}
		}
		x, err := d.Issue(t.Context(), admin.ID, identity.Scope{}, []string{"password"}, nil)
		d.ok(err)
		_, err = d.Validate(t.Context(), x.Payload, x.Issued, 0)
		d.ok(err)
		earlier = append(earlier, x)
	}
}

// TestFactors checks which logins satisfy a user's rules for several factors.
func TestFactors(t *testing.T) {
	d := deploy(t)
	admin := d.find(identity.User, "admin")
	for _, x := range []struct {
		options string
		methods []string
		enough  bool
	}{
		{`{}`, []string{"password"}, true},
		{`{"multi_factor_auth_rules":[]}`, []string{"password"}, true},
		{`{"multi_factor_auth_rules":[["password","totp"]]}`, []string{"password"}, false},
		{`{"multi_factor_auth_rules":[["password","totp"],["password"]]}`, []string{"password"}, true},
		{`{"multi_factor_auth_rules":[["password","token"]]}`, []string{"password", "token"}, true},
		{`{"multi_factor_auth_rules":[["password","totp"]],"multi_factor_auth_enabled":true}`, []string{"password"}, false},
		{`{"multi_factor_auth_rules":[["password","totp"]],"multi_factor_auth_enabled":false}`, []string{"password"}, true},
		{`{"multi_factor_auth_rules":"password"}`, []string{"password"}, false},
		{`{"multi_factor_auth_rules":[[]]}`, []string{"password"}, false},
		{`{"multi_factor_auth_rules":[["password","totp"],[]]}`, []string{"password"}, false},
		{`{"multi_factor_auth_rules":[["password","totp"],null]}`, []string{"password"}, false},
	} {
		_, err := d.Update(t.Context(), identity.User, admin.ID, nil, false, func(r *identity.Record) error {
			r.Members = r.Members.With("options", json.RawMessage(x.options))
			return nil
		})
		d.ok(err)
		_, err = d.Issue(t.Context(), admin.ID, identity.Scope{}, x.methods, nil)
		if x.enough && err != nil || !x.enough && !errors.Is(err, &identity.Error{Reason: identity.MoreFactors}) {
			t.Errorf("options %s, methods %v: %v, want success: %t", x.options, x.methods, err, x.enough)
		}
	}
}

// TestIDsWithSeparator checks that no record can have the id of the system, or
// one that changes the meaning of a binding's id.
func TestIDsWithSeparator(t *testing.T) {
	d := deploy(t)
	for _, id := range []string{identity.System, "a~b", "a~inherited"} {
		_, err := d.Create(t.Context(), identity.Record{Kind: identity.Project, ID: id, Name: "x", IsDomain: true}, nil)
		d.fails(err, identity.Invalid, "must not contain ~")
	}
}

// everything returns the entries of the store's log and all its documents, as
// texts.
func (d *deployment) everything() (all []string) {
	d.t.Helper()
	for after := authz.Token(""); ; {
		page, err := d.store.Changes(d.t.Context(), authz.ChangesRequest{After: after, Limit: 1000})
		d.ok(err)
		for _, e := range page.Entries {
			for _, c := range e.Changes {
				text, err := json.Marshal(c)
				d.ok(err)
				all = append(all, string(text), string(c.Document.Body))
			}
			after = e.Token
		}
		if !page.More {
			return all
		}
	}
}

func (d *deployment) domainOf(user string) string {
	d.t.Helper()
	u, err := d.Get(d.t.Context(), identity.User, user)
	d.ok(err)
	return u.Domain
}
