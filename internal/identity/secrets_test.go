package identity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/storage"
)

// keptSecret is a secret of a deployment.
type keptSecret struct {
	name string
	// make makes a secret of a user and a project, and returns its text and the
	// record that it belongs to.
	make func(d *deployment, user, project string) (text string, r *identity.Record)
}

// keptSecrets are all kinds of secrets.
var keptSecrets = []keptSecret{
	{"password", func(d *deployment, user, _ string) (string, *identity.Record) {
		r, err := d.Update(d.t.Context(), identity.User, user, ref("open sesame"), false, func(*identity.Record) error { return nil })
		d.ok(err)
		return "open sesame", r
	}},
	{"EC2 credential", func(d *deployment, user, project string) (string, *identity.Record) {
		r, b, err := d.CreateEC2(d.t.Context(), user, project)
		d.ok(err)
		return b.Secret, r
	}},
	{"seed", func(d *deployment, user, _ string) (string, *identity.Record) {
		r, seed := d.seed(user, seedA)
		_, err := d.LoginTOTP(d.t.Context(), user, d.passcode(seed))
		d.ok(err)
		return seedA, r
	}},
	{"application credential", func(d *deployment, user, project string) (string, *identity.Record) {
		d.ok(d.Grant(d.t.Context(), identity.Grant{UserID: user, Target: project, RoleID: d.find(identity.Role, "member").ID}))
		by, err := d.Issue(d.t.Context(), user, identity.Scope{ProjectID: project}, []string{"password"}, nil)
		d.ok(err)
		r, secret, err := d.CreateApplicationCredential(d.t.Context(), identity.NewApplicationCredential{By: by, Name: "a"})
		d.ok(err)
		return secret, r
	}},
	{"consumer", func(d *deployment, _, _ string) (string, *identity.Record) {
		r, secret := d.consumer()
		return secret, r
	}},
	{"request token", func(d *deployment, user, project string) (string, *identity.Record) {
		c, secret := d.consumer()
		r, requested := d.requestToken(c, secret, project)
		return requested, r
	}},
	{"access token", func(d *deployment, user, project string) (string, *identity.Record) {
		r, secret := d.accessToken(user, project)
		return secret, r
	}},
	{"credential", func(d *deployment, user, _ string) (string, *identity.Record) {
		r, err := d.CreateCredential(d.t.Context(), identity.Record{Owner: user, Members: identity.Members{}.With("type", "cert")}, "first certificate")
		d.ok(err)
		r, err = d.UpdateCredential(d.t.Context(), r.ID, "second certificate")
		d.ok(err)
		return "certificate", r
	}},
}

// shown returns everything about the store that a caller of the engine or a
// reader of its files sees without the key of secrets.
func (d *deployment) shown() string {
	d.t.Helper()
	var b strings.Builder
	for r := (authz.ChangesRequest{Limit: 1000}); ; {
		page, err := d.store.Changes(d.t.Context(), r)
		d.ok(err)
		for _, e := range page.Entries {
			for _, c := range e.Changes {
				fmt.Fprintf(&b, "%+v %s\n", c, c.Document.Body)
				if c.Kind == storage.SecretPut || c.Kind == storage.SecretRemove {
					d.t.Error("the changes contain a secret")
				}
			}
		}
		if r.After = page.Next; !page.More {
			break
		}
	}
	for tuple, err := range d.store.Export(d.t.Context(), authz.Consistency{}) {
		d.ok(err)
		fmt.Fprintln(&b, tuple)
	}
	for e, err := range d.driver.Entries(d.t.Context(), d.store.ID(), 1) {
		d.ok(err)
		for _, c := range e.Changes {
			fmt.Fprintf(&b, "%+v %s\n", c, c.Document.Body)
			if c.Kind == storage.SecretPut {
				if s, err := d.driver.Secret(d.t.Context(), d.store.ID(), c.Document.Kind, c.Document.Key); err == nil {
					fmt.Fprintf(&b, "%s\n", s.Body)
				}
			}
		}
	}
	return b.String()
}

// secrets returns the number of secrets that the store holds.
func (d *deployment) secrets() int {
	held := map[string]bool{}
	for e, err := range d.driver.Entries(d.t.Context(), d.store.ID(), 1) {
		d.ok(err)
		for _, c := range e.Changes {
			if c.Kind != storage.SecretPut {
				continue
			}
			_, err := d.driver.Secret(d.t.Context(), d.store.ID(), c.Document.Kind, c.Document.Key)
			if err != nil && !errors.Is(err, storage.ErrNoDocument) {
				d.t.Fatal(err)
			}
			if err == nil {
				held[c.Document.Kind+"/"+c.Document.Key] = true
			}
		}
	}
	return len(held)
}

// TestSecretsStayHidden makes a secret of each kind. Its text is in no change, no
// export and no file, and is destroyed with its record, its owner or its project
// (class S).
func TestSecretsStayHidden(t *testing.T) {
	for _, s := range keptSecrets {
		for _, end := range []string{"record", "owner", "project"} {
			d := deploy(t)
			before := d.secrets()
			user := d.make(identity.Record{Kind: identity.User, Name: "u"})
			project := d.make(identity.Record{Kind: identity.Project, Name: "p"})
			text, r := s.make(d, user.ID, project.ID)
			made := d.secrets()
			if made <= before {
				t.Fatalf("%s: %d secrets, want more than %d", s.name, made, before)
			}
			if strings.Contains(d.shown(), text) {
				t.Errorf("%s: the text of the secret can be read", s.name)
			}
			if body := fmt.Sprintf("%+v %s", r, r.Members); strings.Contains(body, text) {
				t.Errorf("%s: the record contains the secret", s.name)
			}
			delegated := r.Delegation != nil
			switch {
			case end == "owner" && r.Owner != "" || r.Kind == identity.User:
				d.ok(d.Delete(t.Context(), identity.User, user.ID))
			case end == "project" && (r.Members.Text("project_id") != "" || delegated):
				d.ok(d.Delete(t.Context(), identity.Project, project.ID))
			default:
				d.ok(d.Delete(t.Context(), r.Kind, r.ID))
			}
			if got := d.secrets(); got != made-1 {
				t.Errorf("%s: %d secrets after its %s was deleted, want %d", s.name, got, end, made-1)
			}
			if _, err := d.Get(t.Context(), r.Kind, r.ID); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
				t.Errorf("%s: the record is left after its %s was deleted: %v", s.name, end, err)
			}
		}
	}
}

// TestDomainWithCredentials deletes a domain with users and projects whose
// credentials belong to both.
func TestDomainWithCredentials(t *testing.T) {
	d := deploy(t)
	before := d.secrets()
	domain := d.make(identity.Record{Kind: identity.Project, Name: "d", IsDomain: true, Disabled: true})
	user := d.make(identity.Record{Kind: identity.User, Name: "u", Domain: domain.ID})
	project := d.make(identity.Record{Kind: identity.Project, Name: "p", Domain: domain.ID})
	for range 3 {
		_, _, err := d.CreateEC2(t.Context(), user.ID, project.ID)
		d.ok(err)
	}
	d.ok(d.Delete(t.Context(), identity.Project, domain.ID))
	if got := d.secrets(); got != before {
		t.Errorf("%d secrets are left, want %d", got, before)
	}
}

// TestCredentialsMax creates the largest number of credentials of a user, and one
// more.
func TestCredentialsMax(t *testing.T) {
	d := deploy(t)
	user := d.make(identity.Record{Kind: identity.User, Name: "u"})
	for i := range 1001 {
		_, err := d.CreateCredential(t.Context(), identity.Record{Owner: user.ID, Members: identity.Members{}.With("type", "cert")}, "x")
		if i < 1000 {
			d.ok(err)
		} else {
			d.fails(err, identity.Forbidden, "maximum of 1000")
		}
	}
}
