package keystone

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// roleReference names a role by its id or by its name.
type roleReference struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// roleIDs reads a list of roles, in which each is named by its id or its name. An
// absent list is empty.
func (c *call) roleIDs(m identity.Members) (ids []string, err error) {
	value, given := m.Get("roles")
	if !given {
		return nil, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return nil, invalidField("roles", string(value), shorten(string(value))+" is not of type 'array'")
	}
	for _, item := range list {
		id, err := c.roleID(item)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (c *call) roleID(text json.RawMessage) (string, error) {
	given, err := identity.ParseMembers(text)
	var r roleReference
	if err == nil {
		err = jsonread.Unmarshal(text, &r)
	}
	if err != nil || len(given) == 0 || len(given.Without("id", "name")) > 0 {
		return "", invalidField("roles", string(text), "expected objects with an id or a name")
	}
	if r.ID != "" {
		return r.ID, nil
	}
	role, err := c.id.Find(c.Context(), identity.Role, "", r.Name)
	if errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
		err = &identity.Error{Reason: identity.NotFound, Text: "Role " + shorten(r.Name) + " is not defined"}
	}
	if err != nil {
		return "", err
	}
	return role.ID, nil
}

// expiry reads the member expires_at; nil if it is absent or null. A time without a
// zone is in UTC.
func expiry(m identity.Members) (*time.Time, error) {
	value, given := m.Get("expires_at")
	if !given || string(value) == "null" {
		return nil, nil
	}
	text := m.Text("expires_at")
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			t = t.UTC().Truncate(time.Microsecond)
			return &t, nil
		}
	}
	return nil, invalidField("expires_at", string(value), "expected RFC 3339, for example 2026-01-02T15:04:05Z")
}

// rolesOf returns the roles of a delegation that exist.
func (c *call) rolesOf(r *identity.Record) ([]*identity.Record, error) {
	return c.lookupAll(identity.Role, r.Delegation.RoleIDs)
}

// sendDelegatedRole answers with one of the roles of a delegation. It fails with 404
// if the delegation lacks the role or the role does not exist.
func (c *call) sendDelegatedRole(r *identity.Record, id string) error {
	delegated, err := c.rolesOf(r)
	if err != nil {
		return err
	}
	for _, role := range delegated {
		if role.ID == id {
			return c.send(http.StatusOK, roles, role)
		}
	}
	return &statusError{http.StatusNotFound, "Could not find role: " + shorten(id) + "."}
}

// showRoles appends roles with all members. links adds the link of each.
func (c *call) showRoles(o *object, all []*identity.Record, links bool) {
	list(o, "roles", all, func(o *object, r *identity.Record) {
		roles.show(o, r)
		if links {
			o.links(c.link("roles", r.ID))
		}
	})
}

// timeOrNull appends a time in UTC in a form, or null.
func (o *object) timeOrNull(name string, t *time.Time, form string) {
	text := ""
	if t != nil {
		text = t.UTC().Format(form)
	}
	o.textOrNull(name, text)
}

// showTrustOfToken appends the trust that a token was made with.
func showTrustOfToken(o *object, r *identity.Record) {
	o.begin("OS-TRUST:trust")
	o.text("id", r.ID)
	o.begin("trustor_user")
	o.text("id", r.Owner)
	o.end()
	o.begin("trustee_user")
	o.text("id", r.Delegation.TrusteeID)
	o.end()
	o.boolean("impersonation", r.Delegation.Impersonation)
	o.end()
}

// showApplicationOfToken appends the application credential that a token was made
// with, if there is one.
func showApplicationOfToken(o *object, t *identity.Token) {
	r := t.ApplicationCredential
	if r == nil {
		return
	}
	o.begin("application_credential")
	o.text("id", r.ID)
	o.text("name", r.Name)
	o.boolean("restricted", r.Delegation.Unrestricted == nil || !*r.Delegation.Unrestricted)
	if len(t.AccessRules) > 0 {
		list(o, "access_rules", t.AccessRules, accessRules.show)
	}
	o.end()
}
