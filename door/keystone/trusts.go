package keystone

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/ostiary/ostiary/internal/identity"
)

// trustRoutes are the routes of trusts.
var trustRoutes = []route{
	{method: http.MethodGet, path: "/OS-TRUST/trusts", name: "ListTrusts", serve: (*call).listTrusts},
	{method: http.MethodPost, path: "/OS-TRUST/trusts", name: "CreateTrust", serve: (*call).createTrust},
	{method: http.MethodGet, path: "/OS-TRUST/trusts/{id}", name: "GetTrust", serve: (*call).getTrust},
	{method: http.MethodDelete, path: "/OS-TRUST/trusts/{id}", name: "DeleteTrust", serve: (*call).deleteTrust},
	{method: http.MethodGet, path: "/OS-TRUST/trusts/{id}/roles", name: "ListRolesOfTrust", serve: (*call).listTrustRoles},
	{method: http.MethodGet, path: "/OS-TRUST/trusts/{id}/roles/{role}", name: "GetRoleOfTrust", serve: (*call).getTrustRole},
}

// trusts describes trusts and their bodies.
var trusts = &resource{
	kind: identity.Trust, singular: "trust", plural: "trusts",
	fields: []field{
		{name: "trustor_user_id", required: true}, {name: "trustee_user_id", required: true},
		{name: "impersonation", form: formBoolean, required: true}, {name: "project_id", null: true},
		{name: "expires_at", null: true}, {name: "allow_redelegation", form: formBoolean, null: true},
		{name: "redelegated_trust_id", null: true}, {name: "deleted_at", null: true},
		// These are read apart.
		{name: "roles", form: formAny}, {name: "remaining_uses", form: formAny}, {name: "redelegation_count", form: formAny},
	},
	target: func(t target, r *identity.Record) {
		t["target.trust.trustor_user_id"], t["target.trust.trustee_user_id"] = r.Owner, r.Delegation.TrusteeID
	},
}

// createTrust answers POST /v3/OS-TRUST/trusts.
func (c *call) createTrust() error {
	m, err := c.read(trusts, true)
	if err != nil {
		return err
	}
	if err := c.may("create_trust", trusts.targetOfNew(&identity.Record{Owner: m.Text("trustor_user_id"), Delegation: &identity.Delegation{TrusteeID: m.Text("trustee_user_id")}}, m)); err != nil {
		return err
	}
	n, err := c.newTrust(m)
	if err != nil {
		return err
	}
	made, err := c.id.CreateTrust(c.Context(), n)
	if err != nil {
		return err
	}
	return c.sendTrust(http.StatusCreated, made)
}

// newTrust reads the body of a new trust. The trust that it redelegates follows
// from the token, never from the body.
func (c *call) newTrust(m identity.Members) (n identity.NewTrust, err error) {
	n = identity.NewTrust{By: c.caller, TrustorID: m.Text("trustor_user_id"), TrusteeID: m.Text("trustee_user_id"), ProjectID: m.Text("project_id"),
		Impersonation: m.Bool("impersonation", false), Redelegation: m.Bool("allow_redelegation", false)}
	if source := m.Text("redelegated_trust_id"); source != "" && source != c.caller.Payload.TrustID {
		return n, invalidField("redelegated_trust_id", source, "a trust redelegates the trust of the token")
	}
	if n.RoleIDs, err = c.roleIDs(m); err != nil {
		return n, err
	}
	if n.Expires, err = expiry(m); err != nil {
		return n, err
	}
	if n.Uses, err = countOf(m, "remaining_uses", 1); err != nil {
		return n, err
	}
	if n.Redelegations, err = countOf(m, "redelegation_count", 0); err != nil {
		return n, err
	}
	for i := range trusts.fields {
		m = m.Without(trusts.fields[i].name)
	}
	n.Members = m.Without("id", "links", "roles_links")
	return n, nil
}

// countOf returns a member that is a number of at least least; nil if it is absent
// or null.
func countOf(m identity.Members, name string, least int) (*int, error) {
	value, given := m.Get(name)
	if !given || string(value) == "null" {
		return nil, nil
	}
	var n int32
	switch text := string(value); {
	case json.Unmarshal(value, &n) != nil:
		return nil, invalidField(name, text, shorten(text)+" is not of type 'integer', 'null'")
	case int(n) < least:
		return nil, invalidField(name, text, text+" is less than the smallest allowed number")
	}
	count := int(n)
	return &count, nil
}

// showTrust appends the members of a trust, without its roles.
func showTrust(o *object, r *identity.Record) {
	d := r.Delegation
	o.text("id", r.ID)
	o.text("trustor_user_id", r.Owner)
	o.text("trustee_user_id", d.TrusteeID)
	o.text("project_id", d.ProjectID)
	o.boolean("impersonation", d.Impersonation)
	o.timeOrNull("expires_at", d.Expires, timeForm)
	if d.Uses != nil {
		o.number("remaining_uses", *d.Uses)
	} else {
		o.raw("remaining_uses", []byte("null"))
	}
	o.raw("deleted_at", []byte("null"))
	o.textOrNull("redelegated_trust_id", d.SourceID)
	o.number("redelegation_count", d.Redelegations)
	o.members(r.Members)
}

func (c *call) trustLink(r *identity.Record, more ...string) string {
	return c.link(append([]string{"OS-TRUST", "trusts", r.ID}, more...)...)
}

// sendTrust answers with a trust and its roles.
func (c *call) sendTrust(status int, r *identity.Record) error {
	c.shown = r.ID
	delegated, err := c.rolesOf(r)
	if err != nil {
		return err
	}
	var o object
	o.begin("trust")
	c.showRoles(&o, delegated, true)
	showTrust(&o, r)
	c.rolesLinks(&o, "roles_links", r)
	o.links(c.trustLink(r))
	o.end()
	return c.write(status, &o)
}

// rolesLinks appends the links of the list of a trust's roles.
func (c *call) rolesLinks(o *object, member string, r *identity.Record) {
	o.begin(member)
	o.text("self", c.trustLink(r, "roles"))
	o.raw("next", []byte("null"))
	o.raw("previous", []byte("null"))
	o.end()
}

// listTrusts answers GET /v3/OS-TRUST/trusts. If the query has both users, only the
// trustor has a rule, as in Keystone, and the list has the trusts of both.
func (c *call) listTrusts() error {
	trustor, trustee := c.query.Get("trustor_user_id"), c.query.Get("trustee_user_id")
	switch {
	case trustor != "":
		if err := c.may("list_trusts_for_trustor", target{"target.trust.trustor_user_id": trustor}); err != nil {
			return err
		}
	case trustee != "":
		if err := c.may("list_trusts_for_trustee", target{"target.trust.trustee_user_id": trustee}); err != nil {
			return err
		}
	default:
		if err := c.may("list_trusts", nil); err != nil {
			return err
		}
	}
	if err := c.managesTrusts(); err != nil {
		return err
	}
	view, err := c.id.View(c.Context())
	if err != nil {
		return err
	}
	o := c.long()
	o.beginList(trusts.plural)
	for r, err := range view.Trusts(lasting{c.Context(), c}, trustor, trustee) {
		if err != nil {
			return err
		}
		o.beginElement()
		showTrust(o, r)
		o.links(c.trustLink(r))
		o.endElement()
	}
	o.endList()
	c.listLinks(o, "")
	return c.write(http.StatusOK, o)
}

// managesTrusts fails with 403 for a token of a delegation other than a trust.
func (c *call) managesTrusts() error {
	if c.caller.DelegatedMethod() {
		return forbidden("Delegated tokens cannot manage trusts")
	}
	return nil
}

// trust returns the trust in the path, if the caller may call the operation on it.
// A trust that does not exist is not found, also by a caller who may not call the
// operation. spent admits a trust that has no uses left or has expired.
func (c *call) trust(operation string, spent bool) (*identity.Record, error) {
	find := c.id.TrustOf
	if spent {
		find = func(ctx context.Context, id string) (*identity.Record, error) {
			return c.id.Get(ctx, identity.Trust, id)
		}
	}
	r, err := find(c.Context(), c.Params.At(0))
	if err != nil {
		return nil, err
	}
	t := trusts.targetOf(r)
	t["target.trust"] = func() json.RawMessage {
		var o object
		showTrust(&o, r)
		return o.bytes()
	}
	if err := c.may(operation, t); err != nil {
		return nil, err
	}
	return r, c.managesTrusts()
}

// getTrust answers GET /v3/OS-TRUST/trusts/{id}.
func (c *call) getTrust() error {
	r, err := c.trust("get_trust", false)
	if err != nil {
		return err
	}
	return c.sendTrust(http.StatusOK, r)
}

// deleteTrust answers DELETE /v3/OS-TRUST/trusts/{id}.
func (c *call) deleteTrust() error {
	r, err := c.trust("delete_trust", true)
	if err != nil {
		return err
	}
	if err := c.id.DeleteTrust(c.Context(), c.caller, r.ID); err != nil {
		return err
	}
	return c.done()
}

// listTrustRoles answers GET /v3/OS-TRUST/trusts/{id}/roles.
func (c *call) listTrustRoles() error {
	r, err := c.trust("list_roles_for_trust", false)
	if err != nil {
		return err
	}
	delegated, err := c.rolesOf(r)
	if err != nil {
		return err
	}
	var o object
	c.showRoles(&o, delegated, true)
	c.rolesLinks(&o, "links", r)
	return c.write(http.StatusOK, &o)
}

// getTrustRole answers GET /v3/OS-TRUST/trusts/{id}/roles/{role}.
func (c *call) getTrustRole() error {
	r, err := c.trust("get_role_for_trust", false)
	if err != nil {
		return err
	}
	return c.sendDelegatedRole(r, c.Params.At(1))
}
